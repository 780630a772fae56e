//! State of the applications at both ends of a flow.

use knee_queue::time::Time;
use knee_run::spec::Flow;

/// State of the applications at both ends of a flow.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct App {
    /// Server: bytes of the request, or of the whole transfer, that it still expects.
    pub(crate) request_left: u64,
    /// Client: bytes of the response that it still expects.
    pub(crate) response_left: u64,
    /// Server: it reads when this much is there, or what remains.
    pub(crate) read_at_bytes: u32,
    /// Client: start of the present request.
    pub(crate) request_started: Time,
    /// Client: its timeouts before the request.
    pub(crate) timeouts_before: u64,
    /// Client: index of the record of the last exchange.
    pub(crate) last_exchange: Option<usize>,
    /// Client: number of completed exchanges.
    pub(crate) requests_done: u64,
    /// Client.
    pub(crate) writing_begun: bool,
    /// Client.
    pub(crate) connected_at: Option<Time>,
    /// Server of a transfer, client of exchanges.
    pub(crate) done_at: Option<Time>,
    /// Client.
    pub(crate) stopped_at: Option<Time>,
    /// Server: bytes at the last goodput sample.
    pub(crate) sampled_bytes: u64,
}

impl App {
    pub(crate) fn new(flow: &Flow) -> App {
        App {
            request_left: flow.traffic.request_bytes(),
            response_left: 0,
            read_at_bytes: flow.read_at_bytes,
            request_started: Time::ZERO,
            timeouts_before: 0,
            last_exchange: None,
            requests_done: 0,
            writing_begun: false,
            connected_at: None,
            done_at: None,
            stopped_at: None,
            sampled_bytes: 0,
        }
    }
}
