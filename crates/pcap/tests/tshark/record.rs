//! What simulated hosts did, packet by packet: captures of them, and beside each packet the truth about it.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use knee_capture::frame::Frames;
use knee_capture::host::SNAP_BYTES;
use knee_capture::{Interface, Record, Writer, link};
use knee_exp::{Experiment, Overrides};
use knee_queue::time::{Duration, Time};
use knee_sim::endpoint::Segment;
use knee_sim::outcome::FlowSample;
use knee_sim::spec::{Run, Traffic};
use knee_sim::tap::Side;
use knee_sim::tap::hosts::{Content, Place, Sighting};
use knee_sim::{Outcome, simulate_captured};

/// How often the state of senders is looked at: well below the distance of two ACKs at 1 Gbps.
const SAMPLE: Duration = Duration::from_us(10);
/// States of a sender, as samples have them.
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;

/// Why a host sent a packet with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// None of its bytes had been sent.
    New,
    /// In Recovery.
    Fast,
    /// The retransmission timer had run out.
    Timeout,
    /// In Loss, behind such a one.
    Behind,
    /// In no such state: a tail loss probe.
    Probe,
    /// To keep the connection alive, or to ask for a window.
    Probing,
}

/// What is true of a packet at a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth {
    pub(crate) cause: Cause,
    /// Sent again although the other host has got what was sent before.
    pub(crate) is_needless: bool,
    /// The other host had its bytes of it first.
    pub(crate) has_brought: bool,
    /// Later ones of its side have come here before it.
    pub(crate) is_late: bool,
    /// Of an ACK: as it came, its receiver had sent more than it acknowledged.
    pub(crate) is_outstanding: bool,
    /// Its capture has packets at two places.
    pub(crate) is_two_points: bool,
}

impl Truth {
    pub(crate) const NEW: Truth = Truth {
        cause: Cause::New,
        is_needless: false,
        has_brought: true,
        is_late: false,
        is_outstanding: false,
        is_two_points: false,
    };
}

/// A packet that a host sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) flow: usize,
    pub(crate) side: Side,
    pub(crate) at: Time,
    pub(crate) segment: Segment,
    pub(crate) cause: Cause,
    /// When the other host had it; nothing if it was lost, or was still on its way when the run ended.
    pub(crate) arrived: Option<Time>,
    /// Of one that was sent again: the other host has got one that was sent before, and this was not needed.
    pub(crate) is_needless: bool,
    /// Of an ACK: as it came, its receiver had sent more than it acknowledged.
    pub(crate) is_outstanding: bool,
}

/// A capture, and the truth about each of its packets.
pub(crate) struct View {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) truth: Vec<Truth>,
}

/// An experiment that was run.
pub(crate) struct Recorded {
    pub(crate) run: Run,
    pub(crate) outcome: Outcome,
    /// In the order of sending.
    pub(crate) sent: Vec<Sent>,
    sightings: Vec<Sighting>,
    /// Of each sighting, which packet it is.
    which: Vec<usize>,
}

/// Runs `tests/pcap/NAME.toml` once.
pub(crate) fn simulate(name: &str, set: &[&str]) -> Recorded {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/pcap/{name}.toml"));
    let set = set.iter().map(|&set| set.to_owned()).collect();
    let overrides = Overrides { set, ..Overrides::default() };
    let experiment = Experiment::load(&path, &overrides).unwrap_or_else(|why| panic!("{why}"));
    let mut run = experiment.run(experiment.run_id(0)).unwrap();
    run.sampling.flows = Some(SAMPLE);
    for flow in &mut run.flows {
        flow.sampled = sends_from_connecting_side(&flow.traffic);
    }
    let seen: Rc<RefCell<Vec<Sighting>>> = Rc::default();
    let sink = Rc::clone(&seen);
    let outcome = simulate_captured(&run, move |sighting| sink.borrow_mut().push(sighting));
    let sightings = seen.take();
    let mut recorded = Recorded {
        run,
        outcome: outcome.unwrap_or_else(|why| panic!("{}", why.0)),
        sent: Vec::new(),
        which: Vec::new(),
        sightings,
    };
    recorded.follow();
    recorded.explain();
    recorded.note_outstanding();
    recorded.check();
    recorded
}

fn sends_from_connecting_side(traffic: &Traffic) -> bool {
    match traffic {
        Traffic::Rpc { request_bytes, response_bytes, .. } => request_bytes >= response_bytes,
        _ => true,
    }
}

/// What two sightings of one packet have in common: all but its ECN field, which a queue may change.
type Key = (usize, bool, u32, u32, u32, u16, Option<(u32, u32)>, Vec<(u32, u32)>);

fn key(sighting: &Sighting) -> Option<Key> {
    let Content::Tcp { flow, side, segment, .. } = &sighting.packet.content else { return None };
    let is_connecting = *side == Side::Connecting;
    let Segment { seq, len, ack, flags, timestamps, .. } = *segment;
    Some((*flow, is_connecting, seq, len, ack, flags, timestamps, segment.sacks.clone()))
}

impl Recorded {
    /// Which packet each sighting is of. Copies that look alike are taken in the order in which they were sent, as far as what
    /// came before and behind them allows it.
    fn follow(&mut self) {
        let mut copies: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for sighting in &self.sightings {
            let Some(key) = key(sighting) else { continue };
            if sighting.place != Place::Host || !sighting.is_out {
                continue;
            }
            let Content::Tcp { flow, side, segment, .. } = &sighting.packet.content else {
                continue;
            };
            copies.entry(key).or_default().push(self.sent.len());
            self.sent.push(Sent {
                flow: *flow,
                side: *side,
                at: sighting.at,
                segment: segment.clone(),
                cause: Cause::New,
                arrived: None,
                is_needless: false,
                is_outstanding: false,
            });
        }
        // Of each place and direction of a flow, what was seen last, and what is still to come of packets that are alike.
        type Passed = (u32, Place, bool, usize, bool);
        let passed = |sighting: &Sighting, key: &Key| -> Passed {
            (sighting.host, sighting.place, sighting.is_out, key.0, key.1)
        };
        let mut left: BTreeMap<(Passed, Key), VecDeque<usize>> = BTreeMap::new();
        let mut which = vec![usize::MAX; self.sightings.len()];
        let mut following: BTreeMap<Passed, usize> = BTreeMap::new();
        let mut bound = vec![usize::MAX; self.sightings.len()];
        for (at, sighting) in self.sightings.iter().enumerate().rev() {
            let Some(key) = key(sighting) else { continue };
            let place = passed(sighting, &key);
            bound[at] = following.get(&place).copied().unwrap_or(usize::MAX);
            if let [only] = copies[&key][..] {
                following.insert(place, only);
            }
        }
        let mut before: BTreeMap<Passed, usize> = BTreeMap::new();
        for (at, sighting) in self.sightings.iter().enumerate() {
            let Some(key) = key(sighting) else { continue };
            let place = passed(sighting, &key);
            let list =
                left.entry((place, key.clone())).or_insert_with(|| copies[&key].clone().into());
            let last = before.get(&place).copied().unwrap_or(0);
            let fits = |id: &usize| *id >= last && *id <= bound[at];
            let chosen = list.iter().position(fits).unwrap_or(0);
            let id = list[chosen];
            list.drain(..=chosen);
            which[at] = id;
            before.insert(place, id);
            if sighting.place == Place::Host && !sighting.is_out {
                self.sent[id].arrived = Some(sighting.at);
            }
        }
        self.which = which;
    }

    /// Why packets were sent again, and whether they had to be.
    fn explain(&mut self) {
        let mut samples: BTreeMap<usize, Vec<&FlowSample>> = BTreeMap::new();
        for sample in &self.outcome.flow_samples {
            samples.entry(sample.flow as usize).or_default().push(sample);
        }
        let mut next: BTreeMap<(usize, bool), u32> = BTreeMap::new();
        let mut timeouts: BTreeMap<usize, Time> = BTreeMap::new();
        for id in 0..self.sent.len() {
            let sent = &self.sent[id];
            let (start, len) = (sent.segment.seq, sent.segment.len);
            if len == 0 {
                continue;
            }
            let is_connecting = sent.side == Side::Connecting;
            let next = next.entry((sent.flow, is_connecting)).or_default();
            let is_again = start < *next;
            *next = (*next).max(start + len);
            if !is_again {
                continue;
            }
            let of = samples.get(&sent.flow).map_or(&[][..], Vec::as_slice);
            assert!(is_connecting && !of.is_empty(), "the record does not say why: {sent:?}");
            let cause = cause(of, sent.at, timeouts.get(&sent.flow).copied());
            if cause == Cause::Timeout {
                timeouts.insert(sent.flow, sent.at);
            }
            let is_copy = |other: &&Sent| {
                let segment = &other.segment;
                (other.flow, other.side) == (sent.flow, sent.side)
                    && segment.len > 0
                    && segment.seq < start + len
                    && start < segment.seq + segment.len
            };
            let is_needless =
                self.sent[..id].iter().rev().filter(is_copy).any(|copy| copy.arrived.is_some());
            self.sent[id].cause = cause;
            self.sent[id].is_needless = is_needless;
        }
    }

    /// What was on its way for whoever got an ACK.
    fn note_outstanding(&mut self) {
        let mut ends: BTreeMap<(usize, bool), Vec<(Time, u32)>> = BTreeMap::new();
        for sent in &self.sent {
            let of = ends.entry((sent.flow, sent.side == Side::Connecting)).or_default();
            let end = sent.segment.seq + sent.segment.len;
            of.push((sent.at, of.last().map_or(end, |(_, last)| end.max(*last))));
        }
        for sent in &mut self.sent {
            let Some(of) = ends.get(&(sent.flow, sent.side != Side::Connecting)) else { continue };
            let came = sent.arrived.unwrap_or(sent.at);
            let at = of.partition_point(|(at, _)| *at <= came);
            sent.is_outstanding = at > 0 && of[at - 1].1 > sent.segment.ack;
        }
    }

    /// The record says as often why packets were sent again as the hosts have counted it.
    fn check(&self) {
        let count = |cause| self.sent.iter().filter(|sent| sent.cause == cause).count() as u64;
        let counters = self.outcome.flows.iter().map(|flow| flow.counters.complete().unwrap());
        let (mut timeouts, mut again, mut probes) = (0, 0, 0);
        for of in counters {
            timeouts += of.timeouts - of.syn_timeouts;
            again += of.retransmitted_segs - of.syn_timeouts;
            probes += of.tail_loss_probes;
        }
        let all = self.sent.len() as u64;
        let fresh = count(Cause::New);
        assert_eq!((all - fresh, count(Cause::Timeout)), (again, timeouts));
        assert!(count(Cause::Probe) <= probes);
    }

    /// The capture of a host, or of the other end of its link, or of both in one file.
    pub(crate) fn view(&self, dir: &Path, name: &str, host: &str, places: &[Place]) -> View {
        let node = self.run.network.nodes.iter().position(|node| node.name == host).unwrap();
        let file = dir.join(format!("{host}-{places:?}.pcapng"));
        let interface = |place: &Place| Interface {
            name: format!("{host} {place:?}"),
            link: link::ETHERNET,
            snaplen: SNAP_BYTES,
        };
        let interfaces: Vec<Interface> = places.iter().map(interface).collect();
        let out = BufWriter::new(fs::File::create(&file).unwrap());
        let mut writer = Writer::new(out, "x", &interfaces).unwrap();
        let mut truth = Vec::new();
        let (encoder, mut bytes) = (Frames::new(&self.run.network), Vec::new());
        let mut latest: BTreeMap<(Place, usize, bool), usize> = BTreeMap::new();
        for (sighting, &which) in self.sightings.iter().zip(&self.which) {
            let place = places.iter().position(|place| *place == sighting.place);
            let Some(interface) = place.filter(|_| sighting.host as usize == node) else {
                continue;
            };
            let original_len = encoder.encode(&sighting.packet, SNAP_BYTES, &mut bytes).unwrap();
            let at_ns = sighting.at.ns();
            let interface = interface as u32;
            let record =
                Record { interface, at_ns, original_len, data: &bytes, ..Record::default() };
            writer.write(&record).unwrap();
            let sent = &self.sent[which];
            let passed = (sighting.place, sent.flow, sent.side == Side::Connecting);
            let latest = latest.entry(passed).or_insert(which);
            truth.push(Truth {
                cause: sent.cause,
                is_needless: sent.is_needless,
                has_brought: sent.arrived.is_some() && !sent.is_needless,
                is_late: which < *latest,
                is_outstanding: sent.is_outstanding,
                is_two_points: places.len() > 1,
            });
            *latest = which.max(*latest);
        }
        writer.finish().unwrap();
        let places = places.iter().map(|place| match place {
            Place::Host => "at",
            Place::FarEnd => "next to",
        });
        let places: Vec<&str> = places.collect();
        View { name: format!("{name}, {} {host}", places.join(" and ")), file, truth }
    }
}

fn cause(of: &[&FlowSample], at: Time, last_timeout: Option<Time>) -> Cause {
    let behind = of.partition_point(|sample| sample.at <= at).min(of.len() - 1);
    let before = of.partition_point(|sample| sample.at < at).saturating_sub(1);
    let (before, after) = (of[before], of[behind]);
    match after.ca_state {
        // Nothing but the timer makes the timeout so much longer at once.
        LOSS if after.rto_us > before.rto_us / 2 * 3
            && last_timeout.is_none_or(|last| last < before.at) =>
        {
            Cause::Timeout
        }
        LOSS => Cause::Behind,
        RECOVERY => Cause::Fast,
        _ => Cause::Probe,
    }
}
