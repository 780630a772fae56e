//! Queue disciplines: netlink requests to the kernel, and the statistics it answers with.

use knee_netns::netlink::{
    self, Answer, Attributes, LinkStats, Message, Queue, QueueStats, add_discipline,
};
use knee_queue::time::{Duration, Rate};
use knee_queue::{
    CeThresholdFor, ClassConfig, ClassService, ClassesConfig, CodelParams, FqCodelConfig, Limit,
    MarkAt, NotEctAbove, PieConfig, PieDelay, QueueConfig, RedConfig, StepConfig, Threshold,
};

/// Handle of the token bucket and of its only class.
pub(super) const BUCKET: u32 = 1 << 16;
pub(super) const BELOW_BUCKET: u32 = BUCKET + 1;
/// Handle of a link's queue.
const QUEUE: u32 = 0x10 << 16;
/// Offset from RED's handle to that of the queue within it.
const TO_INNER: u32 = 0x10 << 16;
/// Handle of the first class's queue, and the offset from one class to the next.
const CLASS_QUEUE: u32 = 0x100 << 16;
const TO_NEXT_CLASS: u32 = 0x20 << 16;
/// Flags of RED: `TC_RED_ECN`, `TC_RED_HARDDROP`, `TC_RED_ADAPTATIVE`, `TC_RED_NODROP`.
const RED_ECN: u32 = 1;
const RED_HARDDROP: u32 = 2;
const RED_ADAPTIVE: u32 = 4;
const RED_NODROP: u32 = 8;
/// Largest entry of RED's idle decay table: a shift of the average by 31 bits, after which it is 0.
const NO_DECAY: u8 = 31;
/// Limit in packets of a queue that nothing limits.
const NO_LIMIT: u32 = 1 << 30;

/// The discipline of a queue, which gives its figures their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// A fifo. All drops are for lack of room.
    Fifo,
    /// RED as a step. It drops early only packets that are not ECN-capable.
    Step,
    Red,
    Pie,
    /// CoDel.
    Codel,
    /// FQ-CoDel.
    FqCodel,
    /// The pacing fq.
    Fq,
    /// The entry device above a queue. It loses packets at random and refuses those for which shared memory has no
    /// room.
    Entry,
}

/// A queue discipline at its place. A discipline below it comes later in the list.
pub(super) struct Added {
    /// Netlink requests in their order.
    pub(super) requests: Vec<Message>,
    /// Places whose statistics describe it: the queue itself, or those of its classes.
    pub(super) told_by: Vec<(Place, Discipline)>,
}

impl Added {
    fn new(place: Place, discipline: Discipline, requests: Vec<Message>) -> Added {
        Added { requests, told_by: vec![(place, discipline)] }
    }
}

/// Place of a discipline: its device, its parent, and its own handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    index: u32,
    parent: u32,
    handle: u32,
}

impl Place {
    /// Returns the place of a link's queue, at a device or below another discipline.
    pub(super) fn of_link(index: u32, parent: u32) -> Place {
        Place { index, parent, handle: QUEUE }
    }

    /// Returns the place of the queue of a band of `ets`, counted from 0.
    fn of_band(self, band: u32) -> Place {
        let handle = CLASS_QUEUE + band * TO_NEXT_CLASS;
        Place { parent: self.handle + band + 1, handle, ..self }
    }

    fn queue(self, queue: Queue) -> Message {
        netlink::add_queue(self.index, self.handle, self.parent, queue)
    }

    fn discipline(self, kind: &str, options: &Attributes) -> Message {
        add_discipline(self.index, self.handle, self.parent, kind, options)
    }

    /// Returns the request for the statistics of the queue at this place.
    pub(super) fn look(self) -> Message {
        netlink::ask_queue(self.index, self.handle, self.parent)
    }

    /// Returns the place of the inner queue, below the only class.
    fn inner(self) -> Place {
        Place { parent: self.handle + 1, handle: self.handle + TO_INNER, ..self }
    }
}

/// Returns an empty token bucket at a device. The queue below sets the limit.
pub(super) fn bucket(index: u32, (rate, burst_bytes, overhead_bytes): (Rate, u32, u32)) -> Message {
    let overhead_bytes = u16::try_from(overhead_bytes).unwrap_or(u16::MAX);
    let rate_bytes_per_sec = rate.bps() / 8;
    let bucket = Queue::Tbf { rate_bytes_per_sec, burst_bytes, overhead_bytes, limit_bytes: 0 };
    Place { index, parent: netlink::ROOT, handle: BUCKET }.queue(bucket)
}

/// Returns a host's pacing fq, with as much room as its link's queue. A limit in bytes becomes that many full
/// packets, at least one.
pub(super) fn fq(place: Place, limit: Limit, frame_bytes: u32) -> Added {
    let limit_pkts = match limit {
        Limit::Pkts(limit) => limit,
        Limit::Bytes(bytes) => {
            let full = (bytes / u64::from(frame_bytes)).max(1);
            u32::try_from(full).unwrap_or(NO_LIMIT).min(NO_LIMIT)
        }
    };
    Added::new(place, Discipline::Fq, vec![place.queue(Queue::Fq { limit_pkts })])
}

/// Returns the queue of a link, or `None` for what no discipline of the kernel does, which the table of support refuses
/// ([`knee_run::support`]).
pub(super) fn queue(place: Place, config: &QueueConfig, frame_bytes: u32) -> Option<Added> {
    let one = |kind, options: Attributes, discipline| {
        Some(Added::new(place, discipline, vec![place.discipline(kind, &options)]))
    };
    match config {
        QueueConfig::DropTail(tail) => {
            Some(Added::new(place, Discipline::Fifo, vec![fifo(place, tail.limit)]))
        }
        QueueConfig::Step(step) => self::step(place, step, frame_bytes),
        QueueConfig::Red(red) => self::red(place, red),
        QueueConfig::Pie(pie) => one("pie", self::pie(pie), Discipline::Pie),
        QueueConfig::Codel(codel) => {
            let limit = Attributes::default().with_u32(2, codel.limit_pkts);
            one("codel", self::codel(limit, [1, 3, 4, 5], &codel.codel, false), Discipline::Codel)
        }
        QueueConfig::FqCodel(fq) => one("fq_codel", fq_codel(fq), Discipline::FqCodel),
        QueueConfig::Classes(classes) => self::classes(place, classes, frame_bytes),
        QueueConfig::Share(_)
        | QueueConfig::DualPi2(_)
        | QueueConfig::TwoBuffers(_)
        | QueueConfig::Trim(_)
        | QueueConfig::Policer(_) => None,
    }
}

/// Returns the band of `ets` for each class. The kernel puts strict bands before all others.
fn bands(classes: &ClassesConfig) -> Vec<u32> {
    let is_strict = |class: &ClassConfig| class.service == ClassService::Strict;
    let strict = classes.classes.iter().filter(|class| is_strict(class)).count() as u32;
    let (mut next_strict, mut next) = (0, strict);
    let band = |class: &ClassConfig| {
        let of_kind = if is_strict(class) { &mut next_strict } else { &mut next };
        *of_kind += 1;
        *of_kind - 1
    };
    classes.classes.iter().map(band).collect()
}

/// Returns `ets` with a queue below each of its bands.
fn classes(place: Place, classes: &ClassesConfig, frame_bytes: u32) -> Option<Added> {
    let bands = bands(classes);
    let mut quanta: Vec<(u32, u32)> = Vec::new();
    for (class, band) in classes.classes.iter().zip(&bands) {
        if let ClassService::Weighted(weight) = class.service {
            let quantum = weight.checked_mul(classes.quantum_bytes);
            quanta.push((*band, quantum?));
        }
    }
    let strict = classes.classes.len() - quanta.len();
    // `TCA_ETS_NBANDS`, `TCA_ETS_NSTRICT`, and `TCA_ETS_QUANTA` with its `TCA_ETS_QUANTA_BAND` entries.
    let mut options =
        Attributes::default().with(1, &[classes.classes.len() as u8]).with(2, &[strict as u8]);
    if !quanta.is_empty() {
        // Bands are in the order of the classes.
        let all = quanta
            .iter()
            .fold(Attributes::default(), |all, (_, quantum)| all.with_u32(4, *quantum));
        options = options.with_nested(3, &all);
    }
    let mut added =
        Added { requests: vec![place.discipline("ets", &options)], told_by: Vec::new() };
    for (class, band) in classes.classes.iter().zip(bands) {
        let of_class = queue(place.of_band(band), &class.queue, frame_bytes)?;
        added.requests.extend(of_class.requests);
        added.told_by.extend(of_class.told_by);
    }
    Some(added)
}

/// Returns the classes' match conditions, in order: one `struct knee_class` of `kernel/knee_entry.c` each.
pub(super) fn conditions(classes: &ClassesConfig) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (class, band) in classes.classes.iter().zip(bands(classes)) {
        let condition = &class.condition;
        bytes.extend_from_slice(&condition.dscps.unwrap_or(u64::MAX).to_ne_bytes());
        let most = condition.up_to_bytes.unwrap_or(u32::MAX);
        for value in [condition.acks.into(), most, QUEUE + band + 1, 0] {
            bytes.extend_from_slice(&value.to_ne_bytes());
        }
    }
    bytes
}

fn fifo(place: Place, limit: Limit) -> Message {
    place.queue(match limit {
        Limit::Pkts(limit_pkts) => Queue::Pfifo { limit_pkts },
        Limit::Bytes(limit) => {
            Queue::Bfifo { limit_bytes: u32::try_from(limit).unwrap_or(u32::MAX) }
        }
    })
}

/// Parameters of RED besides its flags.
struct RedParameters {
    limit: Limit,
    min_bytes: u64,
    max_bytes: u64,
    max_p: u32,
    wlog: u8,
    scell_log: u8,
    idle: [u8; 256],
    flags: u32,
}

fn red_requests(place: Place, red: &RedParameters) -> Vec<Message> {
    let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let limit = match red.limit {
        Limit::Bytes(limit) => bytes(limit),
        Limit::Pkts(_) => NO_LIMIT,
    };
    // `struct tc_red_qopt`. Plog counts only if no maximum probability is given.
    let mut parameters = Vec::new();
    for value in [limit, bytes(red.min_bytes), bytes(red.max_bytes)] {
        parameters.extend_from_slice(&value.to_ne_bytes());
    }
    parameters.extend_from_slice(&[red.wlog, 1, red.scell_log, 0]);
    let known = RED_ECN | RED_HARDDROP | RED_ADAPTIVE | RED_NODROP;
    let flags = [red.flags.to_ne_bytes(), known.to_ne_bytes()].concat();
    let options = Attributes::default()
        .with(1, &parameters)
        .with(2, &red.idle)
        .with_u32(3, red.max_p)
        .with(4, &flags);
    let mut requests = vec![place.discipline("red", &options)];
    if let Limit::Pkts(_) = red.limit {
        requests.push(fifo(place.inner(), red.limit));
    }
    requests
}

/// Returns RED without an average. Its weight is 1, so it compares the current backlog, and the average is 0 at once
/// when idle.
fn step(place: Place, step: &StepConfig, frame_bytes: u32) -> Option<Added> {
    let k = match step.threshold {
        // RED counts bytes. Packets are full, except ACKs and the last of a transfer.
        Threshold::Pkts(k) => u64::from(k) * u64::from(frame_bytes),
        Threshold::Bytes(k) => k,
        Threshold::Sojourn(_) => return None,
    };
    let k = if step.mark_at == MarkAt::Above { k + 1 } else { k };
    let nodrop = if step.not_ect == NotEctAbove::Queue { RED_NODROP } else { 0 };
    let parameters = RedParameters {
        limit: step.limit,
        min_bytes: k,
        max_bytes: k,
        max_p: u32::MAX,
        wlog: 0,
        scell_log: 0,
        idle: [NO_DECAY; 256],
        flags: RED_ECN | nodrop,
    };
    Some(Added::new(place, Discipline::Step, red_requests(place, &parameters)))
}

fn red(place: Place, red: &RedConfig) -> Option<Added> {
    let adapts = if red.adapt_interval.is_some() { RED_ADAPTIVE } else { 0 };
    let nodrop = if red.not_ect == NotEctAbove::Queue { RED_NODROP } else { 0 };
    let (scell_log, idle) = idle_decay(red.wlog, red.packet_time);
    let parameters = RedParameters {
        limit: red.limit,
        min_bytes: red.min_bytes,
        max_bytes: red.max_bytes,
        max_p: (red.max_p * f64::from(u32::MAX)) as u32,
        wlog: red.wlog as u8,
        scell_log,
        idle,
        flags: adapts
            | if red.ecn { RED_ECN | nodrop } else { 0 }
            | if red.harddrop { RED_HARDDROP } else { 0 },
    };
    Some(Added::new(place, Discipline::Red, red_requests(place, &parameters)))
}

/// Returns `Scell_log` and RED's idle decay table. An entry is the number of halvings of the average after an idle
/// time, in 256 steps of `2^Scell_log` ticks of 64 ns. The factor of decay is `1 - 2^-wlog` per packet time.
fn idle_decay(wlog: u32, packet_time: Duration) -> (u8, [u8; 256]) {
    let packet_ticks = packet_time.ns() as f64 / 64.0;
    if packet_ticks == 0.0 || wlog == 0 {
        return (0, if wlog == 0 { [NO_DECAY; 256] } else { [0; 256] });
    }
    let shift_per_tick = -(1.0 - 0.5_f64.powi(wlog as i32)).log2() / packet_ticks;
    // The last step decays the average by 2^31.
    let scell_log =
        (f64::from(NO_DECAY) / shift_per_tick / 255.0).log2().ceil().clamp(0.0, 31.0) as u8;
    let mut table = [0; 256];
    for (step, shift) in table.iter_mut().enumerate() {
        let ticks = step as f64 * f64::from(1_u32 << scell_log);
        *shift = (ticks * shift_per_tick).round().min(f64::from(NO_DECAY)) as u8;
    }
    table[255] = NO_DECAY;
    (scell_log, table)
}

fn us(time: Duration) -> u32 {
    u32::try_from(time.us()).unwrap_or(u32::MAX)
}

fn pie(pie: &PieConfig) -> Attributes {
    let by_rate = pie.delay == PieDelay::DepartureRate;
    Attributes::default()
        .with_u32(1, us(pie.target))
        .with_u32(2, pie.limit_pkts)
        .with_u32(3, us(pie.update_interval))
        .with_u32(4, pie.alpha)
        .with_u32(5, pie.beta)
        .with_u32(6, pie.ecn.into())
        .with_u32(7, pie.byte_mode.into())
        .with_u32(8, by_rate.into())
}

/// Adds the attributes target, interval, ecn and threshold, in this order.
fn codel(
    attributes: Attributes,
    [target, interval, ecn, threshold]: [u16; 4],
    codel: &CodelParams,
    has_selector: bool,
) -> Attributes {
    let attributes = attributes
        .with_u32(target, us(codel.target))
        .with_u32(interval, us(codel.interval))
        .with_u32(ecn, codel.ecn.into());
    let Some(at) = codel.ce_threshold else { return attributes };
    let attributes = attributes.with_u32(threshold, us(at));
    match codel.ce_threshold_for {
        CeThresholdFor::Ect1 if has_selector => attributes.with(10, &[1]).with(11, &[3]),
        _ => attributes,
        // `TCA_FQ_CODEL_CE_THRESHOLD_SELECTOR` and `TCA_FQ_CODEL_CE_THRESHOLD_MASK`.
    }
}

fn fq_codel(fq: &FqCodelConfig) -> Attributes {
    let memory = u32::try_from(fq.memory_limit_bytes).unwrap_or(u32::MAX);
    let attributes = Attributes::default()
        .with_u32(2, fq.limit_pkts)
        .with_u32(5, fq.flows)
        .with_u32(6, fq.quantum_bytes)
        .with_u32(8, fq.drop_batch_pkts)
        .with_u32(9, memory);
    codel(attributes, [1, 3, 4, 7], &fq.codel, true)
}

/// The kernel's statistics of a queue. Those that its discipline lacks are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) sent_bytes: u64,
    pub(crate) sent_pkts: u64,
    pub(crate) len_pkts: u32,
    pub(crate) len_bytes: u32,
    pub(crate) dropped_pkts: u64,
    /// `None` means that the kernel does not count them.
    pub(crate) threshold_hits: Option<u64>,
    pub(crate) marked_pkts: u64,
    /// Dropped packets for which there was room.
    pub(crate) dropped_early_pkts: u64,
    pub(crate) drop_probability: Option<f64>,
    pub(crate) qdelay: Option<Duration>,
    pub(crate) lost_pkts: u64,
    /// Packets refused for lack of shared memory.
    pub(crate) refused_pkts: u64,
}

/// Parses `RTM_NEWQDISC` or `RTM_NEWLINK`. `None` means that the message is malformed.
pub(crate) fn figures(answer: &[u8], discipline: Discipline) -> Option<Figures> {
    let answer = Answer::all(answer)?.into_iter().next()?;
    if discipline == Discipline::Entry {
        let stats = LinkStats::read(&answer.body)?;
        return Some(Figures {
            lost_pkts: stats.tx_dropped_pkts,
            refused_pkts: stats.tx_fifo_errors,
            ..Figures::default()
        });
    }
    let stats = QueueStats::read(&answer.body)?;
    let mut figures = Figures {
        sent_bytes: stats.sent_bytes,
        sent_pkts: stats.sent_pkts,
        len_pkts: stats.backlog_pkts,
        len_bytes: stats.backlog_bytes,
        dropped_pkts: stats.dropped_pkts,
        ..Figures::default()
    };
    let own = &stats.own[..];
    if own.is_empty() {
        return Some(figures);
    }
    let own_at =
        |at: usize| Some(u64::from(u32::from_ne_bytes(*own.get(4 * at..)?.first_chunk()?)));
    match discipline {
        Discipline::Fifo | Discipline::Fq | Discipline::Entry => {}
        // `struct tc_red_xstats`
        Discipline::Step | Discipline::Red => {
            figures.threshold_hits = Some(stats.overlimits);
            figures.dropped_early_pkts = own_at(0)?;
            figures.marked_pkts = own_at(3)?;
        }
        // `struct tc_pie_xstats`
        Discipline::Pie => {
            let probability = u64::from_ne_bytes(*own.first_chunk()?);
            figures.drop_probability = Some(probability as f64 / u64::MAX as f64);
            figures.qdelay = Some(Duration::from_us(own_at(2)?));
            figures.dropped_early_pkts = own_at(6)?;
            figures.marked_pkts = own_at(9)?;
        }
        // `struct tc_codel_xstats`
        Discipline::Codel => {
            figures.qdelay = Some(Duration::from_us(own_at(3)?));
            figures.dropped_early_pkts = figures.dropped_pkts.saturating_sub(own_at(5)?);
            figures.marked_pkts = own_at(6)? + own_at(8)?;
        }
        // `struct tc_fq_codel_xstats`, after its type
        Discipline::FqCodel => {
            figures.dropped_early_pkts = figures
                .dropped_pkts
                .saturating_sub(own_at(2)?)
                .saturating_sub(own_at(9).unwrap_or(0));
            figures.marked_pkts = own_at(3)? + own_at(7)?;
        }
    }
    Some(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_of_red_decays_as_packets_of_its_time_would_make_it() {
        let (scell_log, table) = idle_decay(9, Duration::from_us(12));
        // The average halves in 512 * ln 2 packets of 12 us, that is in 355 times 187.5 ticks.
        let step = (1_u64 << scell_log) as f64;
        let halved = table.iter().position(|shift| *shift == 1).unwrap() as f64;
        assert!((halved - 0.5).abs() * step < 66_500.0 + step && table[255] == 31, "{table:?}");
        assert!(table.is_sorted());
        assert_eq!(idle_decay(0, Duration::from_us(12)), (0, [31; 256]), "no average");
        assert_eq!(idle_decay(9, Duration::ZERO), (0, [0; 256]), "it never learns that it is idle");
    }

    #[test]
    fn figures_of_red_are_found() {
        let mut own = Vec::new();
        for value in [3_u32, 4, 0, 5] {
            own.extend_from_slice(&value.to_ne_bytes());
        }
        let mut queue = Vec::new();
        for value in [7_u32, 10_598, 7, 0, 8] {
            queue.extend_from_slice(&value.to_ne_bytes());
        }
        let basic = [&15_140_u64.to_ne_bytes()[..], &10_u32.to_ne_bytes()].concat();
        let stats = Attributes::default().with(1, &basic).with(3, &queue).with(4, &own);
        let all = Attributes::default().with_name(1, "red").with_nested(7, &stats);
        let answer = Message::new(36, 0, &[0; 20], &all).into_bytes();
        let found = figures(&answer, Discipline::Step).unwrap();
        let wanted = Figures {
            sent_bytes: 15_140,
            sent_pkts: 10,
            len_pkts: 7,
            len_bytes: 10_598,
            dropped_pkts: 7,
            threshold_hits: Some(8),
            marked_pkts: 5,
            dropped_early_pkts: 3,
            ..Figures::default()
        };
        assert_eq!(found, wanted);
        assert_eq!(figures(&answer[..40], Discipline::Step), None);
    }
}
