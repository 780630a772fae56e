//! Makes the recorded calls on the native build and compares all effects.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ptr;

use knee_algo::module::LoadedModules;
use knee_algo::{
    Algorithm, AskedAck, Call, Field, FieldKind, Given, Host, Instance, Params, TcpSock, tcp_state,
};

use crate::record::{MAX_LARGE_WORDS, sock_fields};
use crate::{Error, Origin, Record};

/// The algorithm that a kernel falls back to when a Linux module gives a connection another of its
/// tables. The loader refuses such tables.
const RENO: &str = "reno";

/// A call with another result in the replay.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Number of the record, from 0, over all sockets.
    pub index: u64,
    /// The value that differs: a field of the socket, the return value, ...
    pub field: String,
    pub recorded: String,
    pub native: String,
    pub record: Box<Record>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { index, field, recorded, native, record } = self;
        let (flow, number, kind) = (record.flow, record.number, record.call.kind());
        write!(
            f,
            "callback {index} (socket {flow}, its call {number}), {kind}: {field} is {recorded} in \
             the recording and {native} natively"
        )
    }
}

/// The result of a replay.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Calls replayed, by [`Call::kind`].
    pub calls: BTreeMap<String, u64>,
    pub flows: u64,
    /// Parts of connections without a gap. Each part begins with the recorded state and then
    /// carries its own.
    pub stretches: u64,
    /// Parts that began in the middle of a connection because records were missing.
    pub gaps: u64,
    /// ACKs that the calls asked for.
    pub acks_asked: u64,
    /// Path changes that the calls asked for.
    pub rehashes: u64,
    /// Values that the host gave: readings of the clock, random numbers, results of kernel functions.
    pub given: u64,
    /// Calls that could not be compared, because the host gave more values than a record can hold.
    pub unchecked: u64,
    /// Calls with another result in the replay.
    pub differences: u64,
    pub first_difference: Option<Difference>,
}

impl Report {
    /// Returns the number of calls replayed.
    pub fn total(&self) -> u64 {
        self.calls.values().sum()
    }

    /// Reports whether every call that could be compared had the same result.
    pub fn is_equal(&self) -> bool {
        self.differences == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} callbacks of {} sockets in {} gap-free stretches, {} values given, {} ACKs asked \
             for, {} rehashes asked for, {} not comparable, {} differences",
            self.total(),
            self.flows,
            self.stretches,
            self.given,
            self.acks_asked,
            self.rehashes,
            self.unchecked,
            self.differences
        )?;
        for (kind, calls) in &self.calls {
            writeln!(f, "  {calls:9} {kind}")?;
        }
        self.first_difference.as_ref().map_or(Ok(()), |first| writeln!(f, "first: {first}"))
    }
}

/// A connection at some point of a replay.
#[derive(Debug)]
struct Flow {
    /// The connection's own instance, because a module may change to another of its tables.
    instance: Instance,
    next: u64,
    /// The private area before the next call; `None` if unknown.
    private: Option<[u64; 13]>,
}

/// Makes each recorded call on the native build of an algorithm and compares the effects. These are
/// the return value, the requested ACKs, every field of the socket, the private state, and each
/// kernel function's result and writes.
///
/// The socket's fields, the clock and the random numbers come from the records. The private state
/// is carried from call to call instead, so an error stays visible in all later calls of the
/// connection.
///
/// A recorded address would be invalid here. An algorithm that keeps addresses in its private state
/// therefore starts from its own state, at the first call or at `init`. Its other calls are not
/// made.
#[derive(Debug)]
pub struct Replay {
    algorithm: &'static Algorithm,
    params: Params,
    loaded: LoadedModules,
    hz: u32,
    origin: Origin,
    flows: HashMap<u64, Flow>,
    records: u64,
    report: Report,
}

impl Replay {
    /// Creates a replay on `algorithm` of calls recorded at `hz` ticks per second.
    ///
    /// # Errors
    /// [`Error::LargeState`]; [`Error::Header`] if the algorithm's file refuses these parameters.
    pub fn new(algorithm: &'static Algorithm, params: Params, hz: u32) -> Result<Replay, Error> {
        check_state(algorithm)?;
        let loaded = LoadedModules::default();
        let refused = |why: knee_algo::Error| Error::Header { what: why.to_string() };
        loaded.load(algorithm, &params).map_err(refused)?;
        let (flows, report) = (HashMap::new(), Report::default());
        let origin = Origin::Simulator;
        Ok(Replay { algorithm, params, loaded, hz, origin, flows, records: 0, report })
    }

    /// Sets the host that made the calls. If a Linux module gives a connection another of its
    /// tables, a kernel falls back to its own Reno. The simulator continues with that table.
    #[must_use]
    pub fn of(self, origin: Origin) -> Replay {
        Replay { origin, ..self }
    }

    /// Replays one call.
    pub fn step(&mut self, record: &Record) {
        let report = &mut self.report;
        let index = self.records;
        self.records += 1;
        *report.calls.entry(record.call.kind()).or_default() += 1;
        report.acks_asked += record.asked_acks.len() as u64;
        report.rehashes += u64::from(record.rehashes);
        report.given += u64::from(record.given.count);

        let next = record.number.wrapping_add(1);
        let is_new = !self.flows.contains_key(&record.flow);
        let flow = self.flows.entry(record.flow).or_insert_with(|| Flow {
            instance: self.algorithm.instance_on(self.params.clone(), &self.loaded),
            next: 0,
            private: None,
        });
        report.flows += u64::from(is_new);
        let carried = flow.private.filter(|_| !is_new && flow.next == record.number);
        // At `init` the private area holds what the calls before left, or zeroes.
        let is_carried = carried.is_some() && record.call != Call::Init;
        let recorded = record.before.icsk_ca_priv;
        let private = match (carried, self.algorithm.keeps_addresses()) {
            (Some(carried), true) => Some(carried),
            (None, true) => {
                let is_first = record.number == 0 || record.call == Call::Init;
                (is_first && recorded == [0; 13]).then_some(recorded)
            }
            (Some(carried), false) if is_carried => Some(carried),
            (_, false) => Some(recorded),
        };
        report.stretches += u64::from(carried.is_none() && private.is_some());
        report.gaps += u64::from(carried.is_none() && flow.next != record.number);
        flow.next = next;
        flow.private = None;
        let Some(private) = private.filter(|_| !record.given.overflowed()) else {
            report.unchecked += 1;
            return;
        };
        if !is_carried {
            flow.instance.set_large_state(&record.large_before);
        }
        let mut before = record.before.clone();
        before.icsk_ca_priv = private;
        let fields = self.algorithm.state_fields();
        let was = flow.instance.algorithm();
        if self.origin == Origin::Kernel && !ptr::eq(was, self.algorithm) {
            // The connection had another algorithm, and returns to this one.
            flow.instance = self.algorithm.instance_on(self.params.clone(), &self.loaded);
        }
        let hands_over = self.origin == Origin::Kernel;
        let instance = &mut flow.instance;
        let (private, found) = compare(instance, record, before, self.hz, (fields, hands_over));
        flow.private = Some(private);
        if let Some((field, recorded, native)) = found {
            report.differences += 1;
            let record = Box::new(record.clone());
            report.first_difference.get_or_insert(Difference {
                index,
                field,
                recorded,
                native,
                record,
            });
        }
    }

    /// Ends the replay and returns the report.
    pub fn finish(self) -> Report {
        self.report
    }
}

/// Refuses an algorithm whose state does not fit a record.
pub(crate) fn check_state(algorithm: &'static Algorithm) -> Result<(), Error> {
    let most = size_of::<[u64; MAX_LARGE_WORDS as usize]>();
    if algorithm.state_bytes() as usize > most {
        return Err(Error::LargeState { algorithm: algorithm.name() });
    }
    Ok(())
}

/// A field with its recorded and native values.
type Found = (String, String, String);

/// Makes one call. Returns the native private state after it, and the first difference.
fn compare(
    instance: &mut Instance,
    record: &Record,
    mut sock: TcpSock,
    hz: u32,
    (fields, hands_over): (&[Field], bool),
) -> ([u64; 13], Option<Found>) {
    let mut host = Host::new(hz, 0);
    host.jiffies = record.jiffies;
    // Recordings do not hold this field; algorithms are called once the connection is established.
    sock.sk_state = tcp_state::ESTABLISHED;
    let own = instance.algorithm();
    let (result, given) = instance.replay(&record.call, &mut sock, &mut host, &record.given);
    let acks: Vec<_> = host.take_asked_acks().collect();
    let rehashes = u32::from(host.take_asked_rehashes());
    let has_other_table = hands_over && !ptr::eq(own, instance.algorithm());
    let fallback = host.take_fallback().or_else(|| has_other_table.then(|| RENO.to_owned()));
    // The fields describe one of the two areas.
    let is_large = !instance.large_state().is_empty();
    let (of_area, of_storage) = if is_large { (&[][..], fields) } else { (fields, &[][..]) };
    // Once the call has asked for another algorithm, the socket belongs to that one.
    let found = if record.fallback.is_some() || fallback.is_some() {
        differs("fallback", &record.fallback, &fallback)
    } else {
        differs("the return value", &record.result, &result)
            .or_else(|| first_given(record.given.values(), given.values()))
            .or_else(|| differs("the ACKs asked for", &Acks(&record.asked_acks), &Acks(&acks)))
            .or_else(|| differs("the rehashes asked for", &record.rehashes, &rehashes))
            .or_else(|| first_field(&record.after, &sock))
            .or_else(|| {
                let recorded = without_addresses(&record.after.icsk_ca_priv, of_area);
                let native = without_addresses(&sock.icsk_ca_priv, of_area);
                first_state_word("private state", &recorded, &native, of_area)
            })
            .or_else(|| {
                let native = instance.large_state();
                first_state_word("state in storage", &record.large_after, native, of_storage)
            })
    };
    (sock.icsk_ca_priv, found)
}

fn differs<T: PartialEq + fmt::Debug>(field: &str, recorded: &T, native: &T) -> Option<Found> {
    (recorded != native).then(|| (field.to_owned(), format!("{recorded:?}"), format!("{native:?}")))
}

/// Formats requested ACKs for people.
#[derive(PartialEq)]
struct Acks<'a>(&'a [AskedAck]);

impl fmt::Debug for Acks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (i, ack) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}ACK {} with ecn_flags {}", ack.rcv_nxt, ack.ecn_flags)?;
        }
        Ok(())
    }
}

/// Finds the first given value that differs.
fn first_given(recorded: &[Given], native: &[Given]) -> Option<Found> {
    let show = |given: Option<&Given>| given.map_or("none".to_owned(), |g| g.to_string());
    let is_same = |recorded: &Given, native: &Given| match recorded.snd_cwnd {
        0 if recorded.is_from_outside() => {
            (recorded.kind, recorded.value) == (native.kind, native.value)
        }
        _ => recorded == native,
    };
    let both = |i: &usize| match (recorded.get(*i), native.get(*i)) {
        (Some(recorded), Some(native)) => is_same(recorded, native),
        _ => false,
    };
    (0..recorded.len().max(native.len())).find(|i| !both(i)).map(|i| {
        (format!("value {i} that the host gave"), show(recorded.get(i)), show(native.get(i)))
    })
}

/// Finds the first field that differs. No algorithm may write most fields; an unwritten field is
/// equal because both calls began with the same value.
fn first_field(recorded: &TcpSock, native: &TcpSock) -> Option<Found> {
    let both = sock_fields(recorded).into_iter().zip(sock_fields(native));
    both.into_iter().find_map(|((field, recorded), (_, native))| differs(field, &recorded, &native))
}

/// Replaces each address in a private state by whether it is set, because addresses differ between
/// processes.
fn without_addresses(state: &[u64; 13], fields: &[Field]) -> [u64; 13] {
    let mut state = *state;
    for field in fields.iter().filter(|field| *field.kind() == FieldKind::Pointer) {
        // The compiler aligns addresses to words.
        if let Some(word) = state.get_mut(field.bit_offset() as usize / 64) {
            *word = u64::from(*word != 0);
        }
    }
    state
}

/// Finds the first 32-bit word of a state that differs: the field there, or its offset in bytes.
/// Missing words are 0.
fn first_state_word(
    what: &str,
    recorded: &[u64],
    native: &[u64],
    fields: &[Field],
) -> Option<Found> {
    let half = |state: &[u64], i: usize| {
        let word = state.get(i / 2).copied().unwrap_or(0);
        (word >> (32 * (i % 2))) as u32
    };
    let i = (0..2 * recorded.len().max(native.len()))
        .find(|i| half(recorded, *i) != half(native, *i))?;
    let padded = |state: &[u64]| {
        let len = recorded.len().max(native.len());
        state.iter().copied().chain(std::iter::repeat(0)).take(len).collect::<Vec<u64>>()
    };
    let (recorded_all, native_all) = (padded(recorded), padded(native));
    let named = fields.iter().find_map(|field| {
        differs(
            &format!("{what} {}", field.name()),
            &field.read(&recorded_all)?,
            &field.read(&native_all)?,
        )
    });
    named.or_else(|| {
        differs(&format!("{what} at byte {}", i * 4), &half(recorded, i), &half(native, i))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_algo::{GivenLog, ack_pending, ca_event, ecn_flags};

    fn at(number: u64, call: Call, before: &TcpSock, after: &TcpSock, result: u32) -> Record {
        let mut record = Record { number, result, ..Record::new(call, before, after) };
        record.jiffies = 1000;
        record
    }

    fn given(kind: u32, value: u32, sock: &TcpSock) -> GivenLog {
        let mut log = GivenLog { count: 1, ..GivenLog::default() };
        log.given[0] =
            Given { kind, value, snd_cwnd: sock.snd_cwnd, snd_cwnd_cnt: sock.snd_cwnd_cnt };
        log
    }

    fn replay(name: &str, records: &[Record]) -> Report {
        let algorithm = Algorithm::by_name(name).unwrap();
        let mut replay = Replay::new(algorithm, algorithm.default_params(), 250).unwrap();
        records.iter().for_each(|record| replay.step(record));
        replay.finish()
    }

    /// Reno calls the kernel's function, whose result is in the record.
    fn reno_ssthresh(number: u64, sock: &TcpSock, result: u32) -> Record {
        Record { given: given(5, result, sock), ..at(number, Call::Ssthresh, sock, sock, result) }
    }

    #[test]
    fn a_wrong_return_value_is_told_with_its_place() {
        let sock = TcpSock { snd_cwnd: 10, ..TcpSock::default() };
        let report = replay("reno", &[reno_ssthresh(0, &sock, 5), reno_ssthresh(1, &sock, 6)]);
        assert_eq!((report.differences, report.stretches, report.given), (1, 1, 2));
        assert_eq!(
            report.first_difference.unwrap().to_string(),
            "callback 1 (socket 1, its call 1), ssthresh: the return value is 6 in the recording \
             and 5 natively"
        );
    }

    #[test]
    fn a_kernel_function_that_answers_otherwise_than_its_twin_is_found() {
        let sock = TcpSock { snd_cwnd: 10, ..TcpSock::default() };
        let record = Record { given: given(5, 6, &sock), ..reno_ssthresh(0, &sock, 5) };
        let first = replay("reno", &[record]).first_difference.unwrap();
        assert_eq!(first.recorded, "tcp_reno_ssthresh 6 (cwnd 10, cwnd_cnt 0)");
        assert_eq!(first.native, "tcp_reno_ssthresh 5 (cwnd 10, cwnd_cnt 0)");
    }

    #[test]
    fn private_state_is_carried_from_call_to_call_and_not_taken_from_the_record() {
        let dctcp = Algorithm::by_name("dctcp").unwrap();
        let sock = TcpSock { snd_cwnd: 10, ecn_flags: ecn_flags::OK, ..TcpSock::default() };
        let mut after = sock.clone();
        dctcp.instance(dctcp.default_params()).init(&mut after, &mut Host::new(250, 0));
        let init = at(0, Call::Init, &sock, &after, 0);
        // The recorded alpha is half of the value that init left, before and after this call.
        let mut wrong = after.clone();
        wrong.icsk_ca_priv[1] = 512 << 32;
        let mut cut = wrong.clone();
        cut.icsk_ca_priv[3] = 10;
        let report = replay("dctcp", &[init, at(1, Call::Ssthresh, &wrong, &cut, 8)]);
        assert_eq!(report.differences, 1);
        assert_eq!(report.first_difference.unwrap().field, "the return value");
    }

    #[test]
    fn a_stretch_behind_a_gap_begins_with_the_recorded_state() {
        let sock = TcpSock { snd_cwnd: 10, ..TcpSock::default() };
        let report = replay("reno", &[reno_ssthresh(0, &sock, 5), reno_ssthresh(7, &sock, 5)]);
        assert_eq!((report.stretches, report.gaps, report.differences), (2, 1, 0));
    }

    #[test]
    fn a_clock_that_ticks_during_a_call_reads_as_it_did() {
        let cubic = Algorithm::by_name("cubic").unwrap();
        let sock =
            TcpSock { snd_cwnd: 10, snd_ssthresh: 5, is_cwnd_limited: 1, ..TcpSock::default() };
        let call = Call::CongAvoid { ack: 0, acked: 1 };
        for (read, said, differences) in [(1000, 1000, 0), (1001, 1001, 0), (1002, 1001, 1)] {
            let mut after = sock.clone();
            let mut host = Host::new(250, 0);
            host.jiffies = read;
            let (_, mut given) = cubic.instance(cubic.default_params()).replay(
                &call,
                &mut after,
                &mut host,
                &GivenLog::default(),
            );
            assert_eq!((given.given[0].kind, given.given[0].value), (Given::JIFFIES, read));
            given.given[0].value = said;
            let record = Record { given, ..at(0, call, &sock, &after, 0) };
            assert_eq!(replay("cubic", &[record]).differences, differences);
        }
    }

    #[test]
    fn a_call_whose_values_found_no_room_is_not_compared_and_ends_the_stretch() {
        let sock = TcpSock { snd_cwnd: 10, ..TcpSock::default() };
        let mut full = reno_ssthresh(1, &sock, 77);
        full.given.count = 17;
        let report =
            replay("reno", &[reno_ssthresh(0, &sock, 5), full, reno_ssthresh(2, &sock, 5)]);
        assert_eq!((report.unchecked, report.differences), (1, 0));
        assert_eq!((report.stretches, report.gaps), (2, 0));
    }

    /// Seen with a 6.18 kernel: a segment out of order has CE while a delayed ACK is owed for one
    /// in order. The requested ACK then covers all data and ends the delayed ACK.
    #[test]
    fn an_ack_that_leaves_nothing_owed_ends_the_delayed_ack() {
        let mut before = TcpSock {
            snd_cwnd: 10,
            rcv_nxt: 1449,
            ecn_flags: ecn_flags::OK,
            icsk_ack_pending: ack_pending::SCHED | ack_pending::TIMER,
            ..TcpSock::default()
        };
        // prior_rcv_nxt is the third word.
        before.icsk_ca_priv[1] = 1449;
        let mut after = before.clone();
        after.ecn_flags |= ecn_flags::DEMAND_CWR;
        after.icsk_ack_pending = ack_pending::NOW;
        // ce_state is the byte after six words.
        after.icsk_ca_priv[3] = 1;
        let call = Call::CwndEvent { event: ca_event::ECN_IS_CE };
        let mut special = at(0, call, &before, &after, 0);
        special.asked_acks = vec![AskedAck { rcv_nxt: 1449, ecn_flags: ecn_flags::OK }];
        assert!(replay("dctcp", &[special]).is_equal());
    }
}
