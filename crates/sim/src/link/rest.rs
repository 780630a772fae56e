//! What few links need: the state of queues that decide at departure, and counts of what happens seldom.

use super::Dropped;
use crate::buffer::BufferShare;
use crate::pause::{LeftHost, LinkControl};
use crate::vary::Varying;
use knee_queue::time::{Rate, Time};
use knee_run::outcome::QueueOutcome;
use knee_run::spec::Link;

/// The rare part of a link. A link that decides at arrival gets one with its first lost packet, so that most links
/// of a large network have none.
pub(super) struct Rest {
    /// Packets offered, lost and dropped. All other counts are the queue's or the link's own.
    pub(super) counts: QueueOutcome,
    /// `None`: the link has no rate, or it decides at arrival.
    pub(super) rate: Option<Rate>,
    /// Extra bytes per frame that take time on the link.
    pub(super) overhead_bytes: u32,
    pub(super) dropped: Dropped,
    /// Whether the caller takes the dropped packets and frees them.
    pub(super) keeps_dropped: bool,
    /// Packets that left a discipline that decides at departure; `None` if nobody asks for them.
    pub(super) departed: Option<Vec<u32>>,
    /// The time of this link's scheduled event.
    pub(super) next_event: Time,
    /// The queue's share of a shared memory.
    pub(super) share: Option<BufferShare>,
    /// The link's part in flow control.
    pub(super) control: Option<Box<LinkControl>>,
    /// Segments that left the queue; `None` if the host's sockets do not ask for them.
    pub(super) left: Option<Vec<LeftHost>>,
    /// What changes during the run.
    pub(super) varying: Option<Box<Varying>>,
}

impl Rest {
    fn new(rate: Option<Rate>, overhead_bytes: u32) -> Box<Rest> {
        Box::new(Rest {
            counts: QueueOutcome { threshold_hits: Some(0), ..QueueOutcome::default() },
            rate,
            overhead_bytes,
            dropped: Dropped::default(),
            keeps_dropped: false,
            departed: None,
            next_event: Time::MAX,
            share: None,
            control: None,
            left: None,
            varying: None,
        })
    }

    /// Creates the rest of a link that decides at departure.
    pub(super) fn of_departures(link: &Link) -> Box<Rest> {
        Rest::new(link.rate, link.overhead_bytes)
    }

    /// Returns the counts of a link that decides at arrival.
    #[cold]
    pub(super) fn counts_of(rest: &mut Option<Box<Rest>>) -> &mut QueueOutcome {
        &mut rest.get_or_insert_with(|| Rest::new(None, 0)).counts
    }
}
