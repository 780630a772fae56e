//! Settings that all kinds with TCP connections have.

use std::sync::Arc;

use knee_file::keys::{Below, Key, Text};
use knee_file::units::Size;
use knee_file::{Error, Reader, keys};
use knee_queue::time::{Duration, Rate, Time};
use knee_run::spec::{Cc, Flow, Traffic};

use super::{COMMON, EntryReader, MAX_FLOWS, bulk};
use crate::cc::{PARAMS, read_cc};
use crate::classes::MAX_DSCP;

keys! {
    /// Connections that start when the file says.
    pub(super) static TIMED_CONNECTIONS: TimedConnectionKeys = "timed-connections" {
        /// Connections per pair.
        flows: Key<u64> = or(1).within(0, MAX_FLOWS),
        /// Random shift of the whole entry, plus or minus this.
        start_shift: Key<Duration> = or(Duration::ZERO),
        /// Time between starts.
        stagger: Key<Duration> = or(Duration::ZERO),
        /// Repeat the entry for each host of `from`.
        each: Key<bool> = or(false),
    }
}

keys! {
    /// TCP connections.
    pub(super) static CONNECTIONS: ConnectionKeys = "connections" {
        /// Algorithm.
        cc: Key<Text> = usually("the case's"),
        /// Its parameters.
        params: Below = table(&PARAMS),
        /// Algorithm of the listening side.
        peer_cc: Key<Text> = usually("`cc`"),
        /// Its parameters.
        peer_params: Below = table(&PARAMS),
        /// The receiver reads when this much waits; `1 B`: at each wake-up, as most programs do.
        read_at: Key<Size> = or(Size(1)),
        /// RTT without queues, for both ends.
        base_rtt: Key<Duration> = at_least("1 us").at_most("60000 ms").like("50 us").usually("as their hosts"),
        /// `SO_MAX_PACING_RATE` of both ends.
        max_pacing_rate: Key<Rate> = usually("no limit"),
        /// Include in `sample.flows`.
        sample: Key<bool> = or(true),
        /// DSCP of the listening side.
        peer_dscp: Key<u64> = or(0).within(0, MAX_DSCP),
    }
}

/// Settings of an entry's connections.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    pub(super) cc: Cc,
    pub(super) peer_cc: Option<Cc>,
    pub(super) start_shift: Duration,
    pub(super) stagger: Duration,
    pub(super) stop: Option<Duration>,
    pub(super) stop_stagger: Duration,
    pub(super) rounds: Rounds,
    /// Traffic per connection: connection i takes item i modulo the length. Empty: each draws its own, or sends nothing.
    pub(super) traffic: Arc<[Traffic]>,
    read_at_bytes: u32,
    pub(super) sampled: bool,
    base_rtt: Option<Duration>,
    dscp: u8,
    peer_dscp: u8,
    max_pacing_rate: Option<Rate>,
}

/// Rounds of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// From the start of one to the start of the next.
    pub(super) every: Duration,
    /// Whether a round begins when the previous one is done.
    pub(super) wait: bool,
    /// Whether each receiver has its own rounds.
    pub(super) are_per_target: bool,
}

impl Rounds {
    /// All connections at once.
    pub(super) const ONE: Rounds =
        Rounds { count: 1, every: Duration::ZERO, wait: false, are_per_target: false };
}

impl Connections {
    /// Reads the settings. `rounds` and `traffic` read the keys of the kind.
    pub(super) fn read(
        entry: &EntryReader<'_>,
        rounds: impl FnOnce(&Reader<'_>) -> Result<Rounds, Error>,
        traffic: impl FnOnce(&Reader<'_>) -> Result<Vec<Traffic>, Error>,
    ) -> Result<Connections, Error> {
        let (reader, given) = (entry.reader, entry.given);
        let own = read_cc(reader, (&CONNECTIONS.cc, &CONNECTIONS.params), given.modules)?;
        let cc = own.or_else(|| given.cc.cloned()).ok_or_else(|| {
            reader.error(
                &CONNECTIONS.cc,
                "missing: give it here, or give the file cases: cc = [\"cubic\", \"dctcp\"]",
            )
        })?;
        let read_at = reader.read(&CONNECTIONS.read_at)?;
        let stop = reader.get(&bulk::KEYS.stop)?;
        if stop.is_some() && reader.has(&bulk::KEYS.size) {
            return Err(reader.error(&bulk::KEYS.stop, "conflicts with \"size\": leave one out"));
        }
        let peer = (&CONNECTIONS.peer_cc, &CONNECTIONS.peer_params);
        Ok(Connections {
            cc,
            rounds: rounds(reader)?,
            peer_cc: read_cc(reader, peer, given.modules)?,
            start_shift: reader.read(&TIMED_CONNECTIONS.start_shift)?,
            stagger: reader.read(&TIMED_CONNECTIONS.stagger)?,
            stop,
            stop_stagger: reader.read(&bulk::KEYS.stop_stagger)?,
            traffic: traffic(reader)?.into(),
            read_at_bytes: u32::try_from(read_at.0).map_err(|_| {
                reader.error(&CONNECTIONS.read_at, "must be at most 4 GB, as in \"64 KiB\"")
            })?,
            sampled: reader.read(&CONNECTIONS.sample)?,
            base_rtt: reader.get(&CONNECTIONS.base_rtt)?,
            dscp: reader.read(&COMMON.dscp)? as u8,
            peer_dscp: reader.read(&CONNECTIONS.peer_dscp)? as u8,
            max_pacing_rate: reader.get(&CONNECTIONS.max_pacing_rate)?,
        })
    }

    /// As `read`, for connections without rounds that draw their traffic, or are given it later.
    pub(super) fn read_alone(entry: &EntryReader<'_>) -> Result<Connections, Error> {
        Connections::read(entry, |_| Ok(Rounds::ONE), |_| Ok(Vec::new()))
    }

    /// Returns whether connections exchange requests and answers.
    pub(super) fn have_answers(&self) -> bool {
        self.traffic.iter().any(Traffic::is_rpc)
    }

    /// Returns a flow with the entry's common settings. Hosts, sizes and times are still missing.
    pub(super) fn flow(&self, group: u32) -> Flow {
        Flow {
            group,
            from: 0,
            to: 0,
            cc: self.cc.clone(),
            peer_cc: self.peer_cc.clone(),
            start: Time::ZERO,
            first_write: None,
            stop: None,
            traffic: Traffic::Bulk { bytes: None },
            read_at_bytes: self.read_at_bytes,
            sampled: self.sampled,
            base_rtt: self.base_rtt,
            dscp: self.dscp,
            peer_dscp: self.peer_dscp,
            max_pacing_rate: self.max_pacing_rate,
        }
    }
}
