//! What of a simulation takes memory.

use crate::link::LinkState;
use crate::packet::Packet;
use crate::sim::Simulation;
use crate::tcp::Sock;
use knee_queue::time::Time;
use knee_run::Error;
use knee_run::outcome::{
    FlowSample, GoodputSample, LinkSample, PingRecord, QueueSample, RpcRecord,
};

/// A number of things, the bytes of each, their name, and the key that decides about them.
type Things = (usize, usize, &'static str, &'static str);

impl Simulation<'_> {
    /// Fails if nobody waits for the run, or if it takes too much memory.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.stop.check(self.soon(), || self.mostly())
    }

    /// Returns whether [`Simulation::check`] fails, and notes how far the run has come.
    #[cold]
    #[inline(never)]
    pub(crate) fn must_end(&self) -> bool {
        self.stop.note(self.net.now);
        self.stop.is_set() || self.stop.is_out_of_memory(self.soon())
    }

    /// Bytes that records take once more when they are sorted and joined.
    fn soon(&self) -> usize {
        self.records().map(|(things, bytes, ..)| things * bytes).iter().sum()
    }

    fn records(&self) -> [Things; 6] {
        let all = &self.outcome;
        let of_sample = size_of::<FlowSample>()
            + all.flow_samples.last().map_or(0, |sample| size_of_val(sample.diag.as_slice()));
        let of_exchange = size_of::<RpcRecord>() + size_of::<Time>();
        [
            (all.flow_samples.len(), of_sample, "samples of flows", "sample.flows"),
            (
                all.queue_samples.len(),
                size_of::<QueueSample>(),
                "samples of queues",
                "sample.queues",
            ),
            (
                all.goodput_samples.len(),
                size_of::<GoodputSample>(),
                "samples of goodput",
                "sample.goodput",
            ),
            (all.link_samples.len(), size_of::<LinkSample>(), "samples of links", "sample.links"),
            (all.rpcs.len(), of_exchange, "exchanges", "run.duration"),
            (
                all.pings.len(),
                size_of::<PingRecord>() + size_of::<u32>(),
                "pings and datagrams",
                "traffic.interval or traffic.rate",
            ),
        ]
    }

    /// Describes what takes most memory.
    fn mostly(&self) -> String {
        // The states below have lists of their own, besides these bytes.
        let (packets, links) = (self.net.packets.len(), self.net.links.len());
        let segments: usize = self.socks.iter().map(|sock| sock.tp.packets_out as usize).sum();
        let others = [
            (packets + segments, size_of::<Packet>(), "packets in flight", "hosts.rcvbuf_max"),
            (self.socks.len(), size_of::<Sock>(), "sockets", "traffic"),
            (links, 2 * size_of::<LinkState>(), "links and their queues", "network"),
        ];
        let all = self.records().into_iter().chain(others);
        let most = all.max_by_key(|(things, bytes, ..)| things * bytes);
        most.map_or(String::new(), |(things, _, name, key)| format!("{things} {name} ({key})"))
    }
}
