//! Asks what another algorithm would have done in the same place.

use std::collections::{BTreeMap, HashMap};

use knee_algo::{Algorithm, Call, Host, Instance, Params, TcpSock};

use crate::Record;

/// The effects of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The return value; `None` if the operation returns nothing.
    pub result: Option<u32>,
    /// cwnd after the call, packets.
    pub cwnd: u32,
    /// ssthresh after the call, packets.
    pub ssthresh: u32,
    /// The algorithm that the call asked to be replaced by.
    pub fallback: Option<String>,
}

impl Outcome {
    fn of(call: &Call, result: u32, sock: &TcpSock, fallback: Option<String>) -> Outcome {
        let result = call.returns().then_some(result);
        Outcome { result, cwnd: sock.snd_cwnd, ssthresh: sock.snd_ssthresh, fallback }
    }
}

/// One recorded call, with the outcome of the other algorithm.
#[derive(Clone, Debug)]
pub struct Row {
    /// Number of the record, from 0, over all sockets.
    pub index: u64,
    pub flow: u64,
    /// The operation, as [`Call::kind`] names it.
    pub kind: String,
    /// cwnd before the call, packets; the same for both algorithms.
    pub cwnd_before: u32,
    pub recorded: Outcome,
    /// The outcome of the other algorithm.
    pub other: Outcome,
}

/// Counts of calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub calls: u64,
    /// Calls with another outcome.
    pub otherwise: u64,
}

/// Runs another algorithm in place of the recorded one, call by call.
///
/// Each call begins with the recorded socket, including its cwnd. The other algorithm keeps its own
/// private state: its `init` creates the state, and each connection carries it along. The result
/// says "what would it have done here", not "how would the connection have gone". The simulator
/// answers the second question.
#[derive(Debug)]
pub struct OtherWay {
    instance: Instance,
    hz: u32,
    /// Private state of each socket.
    flows: HashMap<u64, ([u64; 13], Vec<u64>)>,
    records: u64,
    tallies: BTreeMap<String, Tally>,
}

impl OtherWay {
    /// Asks `algorithm`, with these parameters, about calls recorded at `hz` ticks per second.
    pub fn new(algorithm: &'static Algorithm, params: Params, hz: u32) -> OtherWay {
        let instance = algorithm.instance(params);
        let (flows, tallies) = (HashMap::new(), BTreeMap::new());
        OtherWay { instance, hz, flows, records: 0, tallies }
    }

    /// Makes one call with both algorithms.
    pub fn step(&mut self, record: &Record) -> Row {
        let index = self.records;
        self.records += 1;
        let mut host = Host::new(self.hz, index);
        host.jiffies = record.jiffies;
        let mut sock = record.before.clone();
        let (private, large) = self.state_before(record, &mut host);
        sock.icsk_ca_priv = private;
        self.instance.set_large_state(&large);
        let result = self.instance.replay(&record.call, &mut sock, &mut host, &record.given).0;
        let large = self.instance.large_state().to_vec();
        self.flows.insert(record.flow, (sock.icsk_ca_priv, large));
        let row = Row {
            index,
            flow: record.flow,
            kind: record.call.kind(),
            cwnd_before: record.before.snd_cwnd,
            recorded: Outcome::of(
                &record.call,
                record.result,
                &record.after,
                record.fallback.clone(),
            ),
            other: Outcome::of(&record.call, result, &sock, host.take_fallback()),
        };
        let tally = self.tallies.entry(row.kind.clone()).or_default();
        tally.calls += 1;
        tally.otherwise += u64::from(row.recorded != row.other);
        row
    }

    /// Returns the state before a call: zeroes before `init`, the result of `init` at a socket's
    /// first call, else the state after the call before.
    fn state_before(&mut self, record: &Record, host: &mut Host) -> ([u64; 13], Vec<u64>) {
        if record.call == Call::Init {
            return ([0; 13], Vec::new());
        }
        if let Some(state) = self.flows.get(&record.flow) {
            return state.clone();
        }
        let mut sock = record.before.clone();
        sock.icsk_ca_priv = [0; 13];
        self.instance.set_large_state(&[]);
        let _ = self.instance.replay(&Call::Init, &mut sock, host, &record.given);
        let _ = (host.take_fallback(), host.take_asked_acks());
        (sock.icsk_ca_priv, self.instance.large_state().to_vec())
    }

    /// Returns the counts of calls by kind.
    pub fn tallies(&self) -> &BTreeMap<String, Tally> {
        &self.tallies
    }

    /// Returns the operations of the other algorithm that the recorded algorithm lacks. The
    /// recording has no calls of them, so the other algorithm misses their input.
    pub fn unheard(&self, recorded: &Algorithm) -> Vec<&'static str> {
        let theirs = recorded.operations();
        let ours = self.instance.algorithm().operations().into_iter();
        ours.filter(|operation| !theirs.contains(operation)).collect()
    }
}
