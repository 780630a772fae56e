//! What a guest is told.

use std::net::Ipv4Addr;

/// "KEEPLAN3" in the order of bytes of the machine that wrote it.
const MAGIC: u64 = 0x334e_414c_5045_454b;
/// A time, count or size that there is not.
const NONE: u64 = u64::MAX;

/// Everything that a guest does, in this order: steps, then the run.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// The run ends here at the latest.
    pub end_ns: u64,
    /// And when every transfer that can is complete.
    pub until_done: bool,
    /// Period of the samples of `TCP_INFO`.
    pub sample_flows_ns: Option<u64>,
    pub sample_goodput_ns: Option<u64>,
    pub sample_queues_ns: Option<u64>,
    /// Beginning and end of the measured window.
    pub window_ns: Option<[u64; 2]>,
    /// Network namespaces; the first of them are hosts.
    pub namespaces: u32,
    pub hosts: u32,
    /// How the network is built.
    pub steps: Vec<Step>,
    /// Connections.
    pub flows: Vec<FlowOrder>,
    /// Echoes.
    pub pings: Vec<PingOrder>,
    /// Queues that are looked at.
    pub queues: Vec<QueueOrder>,
    /// Sets of flows that send their requests together.
    pub sets: u32,
    /// Flows that have their turn one after the other.
    pub lanes: Vec<LaneOrder>,
    /// Whether what went over cables is written down.
    pub captures: bool,
}

/// Something to be done in a namespace.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes a file of `/proc/sys`.
    Write {
        namespace: u32,
        /// The file.
        path: String,
        /// What it holds then.
        text: String,
    },
    /// Asks the kernel, which must agree.
    Netlink {
        namespace: u32,
        request: Vec<u8>,
        /// What is asked for, for the case that the kernel refuses.
        what: String,
    },
}

/// A connection.
#[derive(Clone, Debug)]
pub struct FlowOrder {
    /// When to call `connect()`.
    pub start_ns: u64,
    /// When to write first, once connected; `None`: at once.
    pub first_write_ns: Option<u64>,
    /// When to stop what has no end.
    pub stop_ns: Option<u64>,
    /// What is sent.
    pub traffic: Traffic,
    /// `SO_MAX_PACING_RATE` of both ends, bytes per second.
    pub max_pacing_rate: Option<u64>,
    /// Namespace of the connecting side.
    pub from: u32,
    /// Of the listening side.
    pub to: u32,
    /// Port of the connecting side.
    pub from_port: u16,
    /// Of the listening side.
    pub to_port: u16,
    /// The receiver is woken when this much is there, or what remains.
    pub read_at_bytes: u32,
    /// Whether `TCP_INFO` of the connecting side is sampled.
    pub is_sampled: bool,
    /// IP's type of service of the connecting side; the ECN bits are TCP's.
    pub tos: u8,
    /// Of the listening side.
    pub peer_tos: u8,
    /// The set of flows, counted from 0, that sends its requests together with this one.
    pub set: Option<u32>,
    /// RTT without queues that the connecting side's algorithm is told, us.
    pub base_rtt_us: Option<u32>,
    /// That the listening side's is told.
    pub peer_base_rtt_us: Option<u32>,
    /// Address of the connecting side.
    pub from_address: Ipv4Addr,
    /// Of the listening side.
    pub to_address: Ipv4Addr,
    /// Congestion control of the connecting side, as the kernel calls it.
    pub algorithm: String,
    /// Of the listening side.
    pub peer_algorithm: String,
}

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// One transfer; `None`: without end.
    Bulk {
        /// Size.
        bytes: Option<u64>,
    },
    /// Requests, each sent when the answer to the one before is there.
    Rpc {
        request_bytes: u64,
        /// Of an answer.
        response_bytes: u64,
        /// How many; `None`: without end.
        count: Option<u64>,
    },
}

/// Echoes at regular times.
#[derive(Clone, Debug)]
pub struct PingOrder {
    /// The first leaves one interval after this.
    pub start_ns: u64,
    /// Between two.
    pub interval_ns: u64,
    /// Namespace of the host that sends.
    pub from: u32,
    /// Length of the IP packet.
    pub ip_bytes: u32,
    /// IP's type of service, ECN bits included.
    pub tos: u8,
    /// Who answers.
    pub to_address: Ipv4Addr,
}

/// Flows that have their turn one after the other ([`knee_run::spec::Lane`]).
#[derive(Clone, Debug, Default)]
pub struct LaneOrder {
    /// Of which series, and in which of its rounds.
    pub series: u32,
    /// Counted from 0.
    pub round: u32,
    /// So many at once.
    pub parallel: u32,
    pub flows: Vec<u32>,
}

/// A queue or a device that is looked at.
#[derive(Clone, Debug)]
pub struct QueueOrder {
    pub namespace: u32,
    /// At the end of the run and at those of the measured window, and not at samples.
    pub only_counts: bool,
    /// The request that asks for it.
    pub request: Vec<u8>,
}

impl Orders {
    /// As the guest reads it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Bytes(Vec::new());
        for value in [
            MAGIC,
            self.end_ns,
            self.until_done.into(),
            self.sample_flows_ns.unwrap_or(0),
            self.sample_goodput_ns.unwrap_or(0),
            self.sample_queues_ns.unwrap_or(0),
            self.window_ns.map_or(NONE, |[from, _]| from),
            self.window_ns.map_or(NONE, |[_, until]| until),
        ] {
            out.u64(value);
        }
        let len = |len: usize| len as u32;
        for value in [
            self.namespaces,
            self.hosts,
            len(self.steps.len()),
            len(self.flows.len()),
            len(self.pings.len()),
            len(self.queues.len()),
            self.sets,
            len(self.lanes.len()),
            self.captures.into(),
            0,
        ] {
            out.u32(value);
        }
        self.steps.iter().for_each(|step| out.step(step));
        self.flows.iter().for_each(|flow| out.flow(flow));
        self.pings.iter().for_each(|ping| out.ping(ping));
        for queue in &self.queues {
            out.u32(queue.namespace);
            out.u32(len(queue.request.len()));
            out.u32(queue.only_counts.into());
            out.u32(0);
            out.filled(&queue.request);
        }
        self.lanes.iter().for_each(|lane| out.lane(lane));
        out.0
    }
}

struct Bytes(Vec<u8>);

impl Bytes {
    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn filled(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }

    /// With a zero byte at the end, as C's strings have it.
    fn ended(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        self.0.push(0);
        self.filled(&[]);
    }

    /// In a field of 16 bytes; the kernel's names of algorithms are shorter.
    fn name(&mut self, name: &str) {
        let mut field = [0; 16];
        let len = name.len().min(15);
        field[..len].copy_from_slice(&name.as_bytes()[..len]);
        self.0.extend_from_slice(&field);
    }

    fn step(&mut self, step: &Step) {
        let (kind, namespace, first, second) = match step {
            Step::Write { namespace, path, text } => (0, namespace, path.as_bytes(), text),
            Step::Netlink { namespace, request, what } => (1, namespace, &**request, what),
        };
        for value in [kind, *namespace, first.len() as u32, second.len() as u32] {
            self.u32(value);
        }
        self.ended(first);
        self.ended(second.as_bytes());
    }

    fn flow(&mut self, flow: &FlowOrder) {
        let (kind, request_bytes, response_bytes, count) = match flow.traffic {
            Traffic::Bulk { bytes } => (0, bytes.unwrap_or(NONE), 0, NONE),
            Traffic::Rpc { request_bytes, response_bytes, count } => {
                (1, request_bytes, response_bytes, count.unwrap_or(NONE))
            }
        };
        for value in [
            flow.start_ns,
            flow.first_write_ns.unwrap_or(NONE),
            flow.stop_ns.unwrap_or(NONE),
            request_bytes,
            response_bytes,
            count,
            flow.max_pacing_rate.unwrap_or(NONE),
        ] {
            self.u64(value);
        }
        for value in [
            kind,
            flow.from,
            flow.to,
            flow.from_port.into(),
            flow.to_port.into(),
            flow.read_at_bytes,
            flow.is_sampled.into(),
            flow.tos.into(),
            flow.peer_tos.into(),
            flow.set.map_or(0, |set| set + 1),
            flow.base_rtt_us.unwrap_or(0),
            flow.peer_base_rtt_us.unwrap_or(0),
        ] {
            self.u32(value);
        }
        self.0.extend_from_slice(&flow.from_address.octets());
        self.0.extend_from_slice(&flow.to_address.octets());
        self.name(&flow.algorithm);
        self.name(&flow.peer_algorithm);
    }

    fn lane(&mut self, lane: &LaneOrder) {
        for value in [lane.series, lane.round, lane.parallel, lane.flows.len() as u32] {
            self.u32(value);
        }
        lane.flows.iter().for_each(|flow| self.u32(*flow));
        self.filled(&[]);
    }

    fn ping(&mut self, ping: &PingOrder) {
        self.u64(ping.start_ns);
        self.u64(ping.interval_ns);
        for value in [ping.from, ping.ip_bytes, ping.tos.into()] {
            self.u32(value);
        }
        self.0.extend_from_slice(&ping.to_address.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_lengths_that_the_guest_expects() {
        let empty = Orders::default().to_bytes().len();
        assert_eq!(empty, 104);
        let write = Step::Write { namespace: 1, path: "1234567".into(), text: "12345678".into() };
        let flow = FlowOrder {
            start_ns: 1,
            first_write_ns: None,
            stop_ns: None,
            traffic: Traffic::Bulk { bytes: None },
            max_pacing_rate: None,
            from: 0,
            to: 1,
            from_port: 2,
            to_port: 3,
            read_at_bytes: 4,
            is_sampled: true,
            tos: 0,
            peer_tos: 0,
            set: None,
            base_rtt_us: None,
            peer_base_rtt_us: None,
            from_address: Ipv4Addr::LOCALHOST,
            to_address: Ipv4Addr::LOCALHOST,
            algorithm: "a_name_that_is_too_long".into(),
            peer_algorithm: "reno".into(),
        };
        let ping = PingOrder {
            start_ns: 0,
            interval_ns: 1,
            from: 0,
            ip_bytes: 64,
            tos: 0,
            to_address: Ipv4Addr::LOCALHOST,
        };
        let of = |orders: Orders| orders.to_bytes().len() - empty;
        // A path of 7 bytes fills 8 with its end, a text of 8 needs 16.
        assert_eq!(of(Orders { steps: vec![write], ..Orders::default() }), 16 + 8 + 16);
        assert_eq!(of(Orders { flows: vec![flow], ..Orders::default() }), 144);
        assert_eq!(of(Orders { pings: vec![ping], ..Orders::default() }), 32);
        let queue = QueueOrder { namespace: 0, only_counts: true, request: vec![0; 36] };
        assert_eq!(of(Orders { queues: vec![queue], ..Orders::default() }), 16 + 40);
        let lane = LaneOrder { flows: vec![1, 2, 3], ..LaneOrder::default() };
        assert_eq!(of(Orders { lanes: vec![lane], ..Orders::default() }), 16 + 16);
    }
}
