//! The network between the ports: frames go in with the time at which they came, and come out with the time at which they are due.
//! No clock and no socket is here.

use std::collections::{HashMap, VecDeque};

use knee_queue::Ecn;
use knee_queue::time::{Duration, Time};
use knee_run::outcome::{QueueOutcome, QueueSample};
use knee_run::spec::{LinkId, Network, NodeId};
use knee_sim::fabric::{Fabric, Fate, Frame, Offered, PathId};

use super::buffers::Buffers;
use super::frame::{self, Header};
use super::segment::{self, OFFLOAD_BYTES, Offload};
use super::{Port, SwitchConfig};
use crate::Error;
use crate::error::failed;

/// Paths of flows that are found again without a search; a power of two.
const KNOWN_PATHS: usize = 4096;

/// A frame that has come to the end of its path.
struct DueFrame {
    place: u32,
    at: Time,
}

/// Frames on their way and those that are through.
struct Frames {
    buffers: Buffers,
    due: VecDeque<DueFrame>,
}

impl Frames {
    fn settle(&mut self, place: u32, at: Time, fate: Fate) {
        match fate {
            Fate::Dropped => self.buffers.free(place),
            Fate::Arrived(ecn) => {
                let carried = self.buffers.get_mut(place);
                if let (Ecn::Ce, Some(version)) = (ecn, carried.version) {
                    frame::set_ce(&mut carried.bytes[OFFLOAD_BYTES..], version);
                }
                self.due.push_back(DueFrame { place, at });
            }
        }
    }
}

/// Times of the samples of queues.
struct Samples {
    period: Duration,
    next: Time,
    taken: Vec<QueueSample>,
}

/// A cached path, with its hosts and hash.
type CachedPath = Option<((NodeId, NodeId, u64), PathId)>;

/// Counts of frames, and of those that bypassed the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) frames: u64,
    pub(super) foreign: u64,
    pub(super) without_room: u64,
    pub(super) cut_off: u64,
}

/// Records of the forwarder.
pub(super) struct ForwarderReport {
    /// Figures of the sampled links.
    pub(super) queues: Vec<QueueOutcome>,
    pub(super) samples: Vec<QueueSample>,
    /// The figures at both ends of the measured window.
    pub(super) window: Option<[Vec<QueueOutcome>; 2]>,
    /// The decisions, whose times before time 0 are time 0.
    pub(super) log: Vec<Offered>,
}

/// The network, with the frames that are in it.
pub(super) struct Forwarder {
    fabric: Fabric,
    /// Hosts by address, and by the device that they are behind.
    by_mac: HashMap<[u8; 6], (NodeId, u32)>,
    by_device: HashMap<u32, NodeId>,
    known: Vec<CachedPath>,
    frames: Frames,
    frame_bytes: usize,
    advanced: Time,
    /// Time 0 of what is reported.
    zero: Time,
    sampled: Vec<LinkId>,
    samples: Option<Samples>,
    /// Ends of the measured window that are still to come, and what was counted at the others.
    window_ends: VecDeque<Time>,
    window: Vec<Vec<QueueOutcome>>,
    pub(super) counts: Counts,
}

impl Forwarder {
    /// An empty network. Its time begins when the switch does; `zero` of that is time 0 of samples and of the log.
    pub(super) fn new(
        network: &Network,
        ports: &[Port],
        config: &SwitchConfig,
        frame_bytes: usize,
        zero: Time,
    ) -> Result<Forwarder, Error> {
        let mut fabric =
            Fabric::new(network, config.seed).map_err(failed("the switch's network"))?;
        if config.log {
            fabric.keep_log();
        }
        let samples =
            config.sample.map(|period| Samples { period, next: zero + period, taken: Vec::new() });
        Ok(Forwarder {
            fabric,
            by_mac: ports.iter().map(|port| (port.mac, (port.node, port.device))).collect(),
            by_device: ports.iter().map(|port| (port.device, port.node)).collect(),
            known: vec![None; KNOWN_PATHS],
            frames: Frames { buffers: Buffers::new(frame_bytes), due: VecDeque::new() },
            frame_bytes,
            advanced: Time::ZERO,
            zero,
            sampled: config.sampled.clone(),
            samples: samples.filter(|samples| samples.period > Duration::ZERO),
            window_ends: config
                .window
                .iter()
                .flatten()
                .map(|at| zero + at.since(Time::ZERO))
                .collect(),
            window: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// A frame has come from `device` at `at`; what was advanced to is the earliest that counts.
    pub(super) fn take(&mut self, device: u32, offload: Offload, bytes: &[u8], at: Time) {
        self.counts.frames += 1;
        if self.offer(device, offload, bytes, at).is_none() {
            self.counts.foreign += 1;
        }
    }

    /// `None`: it is no packet from one host to another.
    fn offer(&mut self, device: u32, offload: Offload, bytes: &[u8], at: Time) -> Option<()> {
        let header = frame::parse(bytes)?;
        let from = *self.by_device.get(&device)?;
        let (to, out) = *self.by_mac.get(&header.mac)?;
        let path = if from == to { None } else { self.path(from, to, header.hash) }?;
        let one = offload.of_one_packet().to_bytes();
        if !offload.is_large() {
            let write = |to: &mut Vec<u8>| to.extend_from_slice(bytes);
            self.offer_packet(path, &header, (out, one), at, write);
            return Some(());
        }
        let cut = segment::cut(bytes, &header, offload)?;
        if cut.longest_bytes() + OFFLOAD_BYTES > self.frame_bytes {
            return None;
        }
        for number in 0..cut.packets() {
            let write = |to: &mut Vec<u8>| cut.write(number, to);
            self.offer_packet(path, &header, (out, one), at, write);
        }
        Some(())
    }

    fn offer_packet(
        &mut self,
        path: PathId,
        header: &Header,
        (device, offload): (u32, [u8; OFFLOAD_BYTES]),
        at: Time,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(place) = self.frames.buffers.take(self.frame_bytes) else {
            self.counts.without_room += 1;
            return;
        };
        let carried = self.frames.buffers.get_mut(place);
        carried.bytes.extend_from_slice(&offload);
        write(&mut carried.bytes);
        carried.device = device;
        carried.version = Some(header.version);
        carried.late = self.advanced.since(at);
        let len_bytes = (carried.bytes.len() - OFFLOAD_BYTES) as u32;
        self.sample_until(at);
        self.advanced = self.advanced.max(at);
        let Forwarder { fabric, frames, advanced, .. } = self;
        let mut report = |place, at, fate| frames.settle(place, at, fate);
        let frame = Frame {
            len_bytes,
            ecn: header.ecn,
            dscp: header.dscp,
            is_pure_ack: header.is_pure_ack,
        };
        fabric.offer(place, path, frame, *advanced, &mut report);
    }

    fn path(&mut self, from: NodeId, to: NodeId, hash: u64) -> Option<PathId> {
        let key = (from, to, hash);
        let place = (hash ^ u64::from(from) << 6 ^ u64::from(to)) as usize % KNOWN_PATHS;
        match self.known[place] {
            Some((known, path)) if known == key => Some(path),
            _ => {
                let path = self.fabric.path(from, to, hash).ok()?;
                self.known[place] = Some((key, path));
                Some(path)
            }
        }
    }

    /// Moves all frames to where they are at `until`.
    pub(super) fn advance(&mut self, until: Time) {
        self.sample_until(until);
        self.advanced = self.advanced.max(until);
        let Forwarder { fabric, frames, advanced, .. } = self;
        fabric.advance(*advanced, &mut |place, at, fate| frames.settle(place, at, fate));
    }

    /// Takes the samples that are due, and counts at the ends of the measured window, each at its time.
    fn sample_until(&mut self, until: Time) {
        loop {
            let sample_at = self.samples.as_ref().map(|samples| samples.next);
            let window_at = self.window_ends.front().copied();
            let next = sample_at.into_iter().chain(window_at).min();
            let Some(at) = next.filter(|at| *at <= until) else { return };
            let Forwarder { fabric, frames, advanced, zero, sampled, .. } = self;
            *advanced = (*advanced).max(at);
            fabric.advance(*advanced, &mut |place, at, fate| frames.settle(place, at, fate));
            if window_at == Some(at) {
                self.window_ends.pop_front();
                self.window.push(sampled.iter().flat_map(|link| fabric.outcomes(*link)).collect());
            }
            if let Some(samples) = self.samples.as_mut().filter(|samples| samples.next == at) {
                samples.next += samples.period;
                let shown = Time::from_ps(at.since(*zero).ps());
                let taken = sampled.iter().flat_map(|link| fabric.samples(*link));
                let taken = taken.map(|sample| QueueSample { at: shown, ..sample });
                samples.taken.extend(taken);
            }
        }
    }

    /// Ends the measured window at `at`, or now if that has passed, unless it ends earlier or begins later.
    pub(super) fn end_window(&mut self, at: Time) {
        match self.window_ends.make_contiguous() {
            [begin, _] if at < *begin => {}
            [.., end] => *end = at.min(*end),
            [] => {}
        }
    }

    /// When something happens next, if that is not after `until`.
    pub(super) fn next_event(&mut self, until: Time) -> Option<Time> {
        self.fabric.next_event(until)
    }

    /// The first `most` frames that are through: bytes, after those of their offloads, and device.
    pub(super) fn due(&self, most: usize) -> impl Iterator<Item = (&[u8], u32)> {
        self.frames.due.iter().take(most).map(|due| {
            let carried = self.frames.buffers.get(due.place);
            (&carried.bytes[..], carried.device)
        })
    }

    /// Whether frames are through and have not been taken away.
    pub(super) fn has_due(&self) -> bool {
        !self.frames.due.is_empty()
    }

    /// Takes away the first `count` that are through, and shows when each was due.
    pub(super) fn forget_due(&mut self, count: usize, mut show: impl FnMut(Time)) {
        for due in self.frames.due.drain(..count) {
            // It was due earlier than the network had it.
            show(due.at - self.frames.buffers.get(due.place).late);
            self.frames.buffers.free(due.place);
        }
    }

    /// Returns the records. A window that has begun and not ended ends here.
    pub(super) fn finish(mut self) -> ForwarderReport {
        let queues: Vec<QueueOutcome> =
            self.sampled.iter().flat_map(|link| self.fabric.outcomes(*link)).collect();
        if self.window.len() == 1 {
            self.window.push(queues.clone());
        }
        let samples = self.samples.map(|samples| samples.taken).unwrap_or_default();
        let mut log = self.fabric.take_log();
        for offered in &mut log {
            offered.at = Time::from_ps(offered.at.since(self.zero).ps());
        }
        ForwarderReport { queues, samples, window: self.window.try_into().ok(), log }
    }
}
