//! `queue` tables of cables: which discipline, and its settings.

use std::ops::RangeInclusive;

use knee_queue::time::{Duration, Rate};
use knee_queue::{
    CeThresholdFor, CodelConfig, CodelParams, ConfigError, DropTailConfig, DualPi2Config,
    FqCodelConfig, Limit, LowLatency, MarkAt, MarkShare, MarkWhen, NotEctAbove, PieConfig,
    PieDelay, QueueConfig, RedConfig, ShareConfig, StepConfig, StepThreshold, Threshold,
};

use crate::classes::{read_classes, read_two_buffers};
use crate::error::Error;
use crate::random::Random;
use crate::reader::Reader;
use crate::units::{Pkts, QueueLimit, Share, Size};

/// Where a queue is.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The longest packet, Ethernet header included.
    pub(crate) frame_bytes: u32,
    /// Of the link.
    pub(crate) rate: Rate,
    /// Whether a token bucket stands before it.
    pub(crate) has_burst: bool,
}

/// Gives a queue that draws its seed for one run.
pub(crate) fn seed_queue(queue: &mut QueueConfig, random: &mut Random) {
    match queue {
        QueueConfig::Pie(pie) => pie.seed = random.next(),
        QueueConfig::Share(share) => share.seed = random.next(),
        QueueConfig::Red(red) => red.seed = random.next(),
        QueueConfig::FqCodel(fq) => fq.seed = random.next(),
        QueueConfig::DualPi2(dual) => dual.seed = random.next(),
        QueueConfig::DropTail(_)
        | QueueConfig::Step(_)
        | QueueConfig::Codel(_)
        | QueueConfig::Classes(_)
        | QueueConfig::TwoBuffers(_) => {}
    }
}

#[derive(Clone, Copy)]
enum Discipline {
    DropTail,
    Step,
    Pie,
    Share,
    Red,
    Codel,
    FqCodel,
    DualPi2,
    Classes,
    TwoBuffers,
}

pub(crate) fn read_queue(reader: &Reader<'_>, place: Place) -> Result<QueueConfig, Error> {
    let frame_bytes = place.frame_bytes;
    let kinds = [
        ("droptail", Discipline::DropTail),
        ("step", Discipline::Step),
        ("pie", Discipline::Pie),
        ("share", Discipline::Share),
        ("red", Discipline::Red),
        ("codel", Discipline::Codel),
        ("fq-codel", Discipline::FqCodel),
        ("dualpi2", Discipline::DualPi2),
        ("classes", Discipline::Classes),
        ("two-buffers", Discipline::TwoBuffers),
    ];
    let below = |reader: &Reader<'_>| read_queue(reader, place);
    reader.need_text("kind", "droptail")?;
    let config = match reader.choice_or("kind", &kinds, "")? {
        Discipline::DropTail => {
            reader.check(&["kind", "limit"])?;
            QueueConfig::DropTail(DropTailConfig { limit: read_limit(reader, frame_bytes)? })
        }
        Discipline::Step => {
            reader.check(&["kind", "limit", "k", "mark_at", "mark_when", "not_ect"])?;
            let mark_at = [(">=", MarkAt::AtLeast), (">", MarkAt::Above)];
            let mark_when = [("enqueue", MarkWhen::Enqueue), ("dequeue", MarkWhen::Dequeue)];
            let not_ect = [("queue", NotEctAbove::Queue), ("drop", NotEctAbove::Drop)];
            QueueConfig::Step(StepConfig {
                limit: read_limit(reader, frame_bytes)?,
                threshold: reader.need("k", "65 pkts")?,
                mark_at: reader.choice_or("mark_at", &mark_at, ">=")?,
                when: reader.choice_or("mark_when", &mark_when, "enqueue")?,
                not_ect: reader.choice_or("not_ect", &not_ect, "queue")?,
            })
        }
        Discipline::Pie => QueueConfig::Pie(read_pie(reader, frame_bytes)?),
        Discipline::Share => QueueConfig::Share(read_share(reader, frame_bytes)?),
        Discipline::Red => QueueConfig::Red(read_red(reader, place)?),
        Discipline::Codel => QueueConfig::Codel(read_codel(reader, frame_bytes)?),
        Discipline::FqCodel => QueueConfig::FqCodel(read_fq_codel(reader, frame_bytes)?),
        Discipline::DualPi2 => QueueConfig::DualPi2(read_dualpi2(reader, frame_bytes)?),
        Discipline::Classes => QueueConfig::Classes(read_classes(reader, frame_bytes, &below)?),
        Discipline::TwoBuffers => QueueConfig::TwoBuffers(read_two_buffers(reader, &below)?),
    };
    config.validate().map_err(|why| {
        let key = match why {
            ConfigError::SojournAtEnqueue => "k",
            ConfigError::UpdateIntervalTooShort | ConfigError::UpdatesTooOften => "update_interval",
            ConfigError::RedThresholds => "max",
            ConfigError::RedProbability => "max_p",
            ConfigError::RedWeight => "wlog",
            ConfigError::CodelInterval => "interval",
            ConfigError::FqCodelFlows => "flows",
            ConfigError::ZeroQuantum => "quantum",
            ConfigError::Weight => "c_weight",
            ConfigError::ZeroCoupling => "coupling",
            ConfigError::NoLastClass | ConfigError::UnreachableClass => "class",
            ConfigError::NoTurn => "quantum",
            ConfigError::NoLimitPerPort => "limit_per",
            ConfigError::ZeroMtu | ConfigError::NoShare => "kind",
        };
        reader.error(key, why.to_string())
    })?;
    Ok(config)
}

fn read_limit(reader: &Reader<'_>, frame_bytes: u32) -> Result<Limit, Error> {
    let limit = reader.need::<QueueLimit>("limit", "500 pkts")?.0;
    match limit {
        Limit::Bytes(bytes) if bytes < u64::from(frame_bytes) => {
            Err(reader.error("limit", too_small(frame_bytes)))
        }
        _ => Ok(limit),
    }
}

fn too_small(frame_bytes: u32) -> String {
    format!("must hold one full packet ({frame_bytes} B), or none ever passes")
}

fn read_share(reader: &Reader<'_>, frame_bytes: u32) -> Result<ShareConfig, Error> {
    reader.check(&["kind", "limit", "mark", "every"])?;
    let mark: Option<Share> = reader.get("mark")?;
    let every = reader.integer("every", 1..=u64::from(u32::MAX))?;
    let mark = match (mark, every) {
        (Some(Share(share)), None) => MarkShare::Probability(share),
        (None, Some(every)) => MarkShare::Every(u32::try_from(every).unwrap_or(u32::MAX)),
        (Some(_), Some(_)) => {
            return Err(reader.error("every", "has no meaning beside \"mark\""));
        }
        (None, None) => {
            return Err(reader.error("mark", "missing, as in mark = \"10 %\", or every = 10"));
        }
    };
    Ok(ShareConfig { limit: read_limit(reader, frame_bytes)?, mark, seed: 0 })
}

fn read_pie(reader: &Reader<'_>, frame_bytes: u32) -> Result<PieConfig, Error> {
    reader.check(&[
        "kind",
        "limit",
        "target",
        "update_interval",
        "first_update",
        "alpha",
        "beta",
        "burst_allowance",
        "ecn",
        "byte_mode",
        "delay",
        "derandomise",
    ])?;
    let linux = PieConfig::default();
    let delays =
        [("timestamps", PieDelay::Timestamps), ("departure-rate", PieDelay::DepartureRate)];
    Ok(PieConfig {
        limit_pkts: reader.get_or("limit", Pkts(linux.limit_pkts))?.0,
        target: reader.get_or("target", linux.target)?,
        update_interval: reader.get_or("update_interval", linux.update_interval)?,
        first_update: reader.get_or("first_update", linux.first_update)?,
        alpha: reader.u32_or("alpha", 0..=32, linux.alpha)?,
        beta: reader.u32_or("beta", 0..=32, linux.beta)?,
        burst_allowance: reader.get_or("burst_allowance", linux.burst_allowance)?,
        ecn: reader.flag_or("ecn", linux.ecn)?,
        byte_mode: reader.flag_or("byte_mode", linux.byte_mode)?,
        mtu_bytes: frame_bytes,
        delay: reader.choice_or("delay", &delays, "timestamps")?,
        derandomise: reader.flag_or("derandomise", linux.derandomise)?,
        seed: 0,
    })
}

fn read_red(reader: &Reader<'_>, place: Place) -> Result<RedConfig, Error> {
    reader.check(&[
        "kind",
        "limit",
        "min",
        "max",
        "max_p",
        "wlog",
        "packet_time",
        "ecn",
        "not_ect",
        "harddrop",
        "gentle",
        "adaptive",
    ])?;
    // RED counts bytes: packets are full ones.
    let bytes = |key: &str, example: &str| match reader.need::<Threshold>(key, example)? {
        Threshold::Pkts(pkts) => Ok(u64::from(pkts) * u64::from(place.frame_bytes)),
        Threshold::Bytes(bytes) => Ok(bytes),
        Threshold::Sojourn(_) => {
            let allowed = format!("must be packets or a size, as in \"{example}\"");
            Err(reader.error(key, allowed))
        }
    };
    // Below a token bucket Linux's RED never learns that it is idle.
    let packet_time = match place.has_burst {
        true => Duration::ZERO,
        false => place.rate.time_of(place.frame_bytes),
    };
    let ecn = reader.flag_or("ecn", true)?;
    if !ecn {
        for key in ["not_ect", "harddrop"] {
            if reader.has(key) {
                return Err(reader.error(key, "has no meaning without ecn: then all are dropped"));
            }
        }
    }
    let not_ect = [("queue", NotEctAbove::Queue), ("drop", NotEctAbove::Drop)];
    Ok(RedConfig {
        limit: read_limit(reader, place.frame_bytes)?,
        min_bytes: bytes("min", "20 pkts")?,
        max_bytes: bytes("max", "60 pkts")?,
        max_p: reader.get_or("max_p", Share(0.1))?.0,
        wlog: reader.u32_or("wlog", 0..=31, 9)?,
        packet_time: reader.get_or("packet_time", packet_time)?,
        ecn,
        not_ect: reader.choice_or("not_ect", &not_ect, "drop")?,
        harddrop: reader.flag_or("harddrop", false)?,
        gentle: reader.flag_or("gentle", false)?,
        adapt_interval: reader.flag_or("adaptive", false)?.then_some(Duration::from_ms(500)),
        seed: 0,
    })
}

/// What a turn of FQ-CoDel may be, as in Linux.
const QUANTUM_BYTES: RangeInclusive<u32> = 256..=1 << 20;

const CODEL_KEYS: [&str; 5] = ["target", "interval", "ecn", "ce_threshold", "ce_threshold_for"];

fn read_codel_params(
    reader: &Reader<'_>,
    linux: CodelParams,
    frame_bytes: u32,
) -> Result<CodelParams, Error> {
    let ce_threshold = reader.get("ce_threshold")?;
    if ce_threshold.is_none() && reader.has("ce_threshold_for") {
        return Err(reader.error("ce_threshold_for", "has no meaning without ce_threshold"));
    }
    let packets = [("any-ect", CeThresholdFor::EctAny), ("ect1", CeThresholdFor::Ect1)];
    Ok(CodelParams {
        target: reader.get_or("target", linux.target)?,
        interval: reader.get_or("interval", linux.interval)?,
        ecn: reader.flag_or("ecn", linux.ecn)?,
        ce_threshold,
        ce_threshold_for: match ce_threshold {
            Some(_) => reader.choice_or("ce_threshold_for", &packets, "any-ect")?,
            None => linux.ce_threshold_for,
        },
        mtu_bytes: frame_bytes,
    })
}

fn read_codel(reader: &Reader<'_>, frame_bytes: u32) -> Result<CodelConfig, Error> {
    let keys: Vec<_> = ["kind", "limit"].into_iter().chain(CODEL_KEYS).collect();
    reader.check(&keys)?;
    let linux = CodelConfig::default();
    Ok(CodelConfig {
        limit_pkts: reader.get_or("limit", Pkts(linux.limit_pkts))?.0,
        codel: read_codel_params(reader, linux.codel, frame_bytes)?,
    })
}

fn read_fq_codel(reader: &Reader<'_>, frame_bytes: u32) -> Result<FqCodelConfig, Error> {
    let own = ["kind", "limit", "memory_limit", "flows", "quantum", "drop_batch"];
    let keys: Vec<_> = own.into_iter().chain(CODEL_KEYS).collect();
    reader.check(&keys)?;
    let linux = FqCodelConfig::default();
    let quantum = reader.get_or("quantum", Size(u64::from(frame_bytes)))?.0;
    let quantum_bytes = u32::try_from(quantum).unwrap_or(u32::MAX);
    if !QUANTUM_BYTES.contains(&quantum_bytes) {
        return Err(reader.error("quantum", "must be from 256 B to 1 MiB, as in \"1514 B\""));
    }
    let memory_limit = reader.get_or("memory_limit", Size(linux.memory_limit_bytes))?.0;
    if memory_limit < u64::from(frame_bytes) {
        return Err(reader.error("memory_limit", too_small(frame_bytes)));
    }
    Ok(FqCodelConfig {
        limit_pkts: reader.get_or("limit", Pkts(linux.limit_pkts))?.0,
        memory_limit_bytes: memory_limit,
        flows: reader.u32_or("flows", 1..=65_536, linux.flows)?,
        quantum_bytes,
        drop_batch_pkts: reader.get_or("drop_batch", Pkts(linux.drop_batch_pkts))?.0,
        codel: read_codel_params(reader, linux.codel, frame_bytes)?,
        seed: 0,
    })
}

fn read_dualpi2(reader: &Reader<'_>, frame_bytes: u32) -> Result<DualPi2Config, Error> {
    reader.check(&[
        "kind",
        "limit",
        "target",
        "update_interval",
        "alpha",
        "beta",
        "coupling",
        "step",
        "low_latency",
        "c_weight",
        "drop_on_overload",
        "drop_early",
    ])?;
    let linux = DualPi2Config::default();
    let step = match reader.get_or("step", Threshold::Sojourn(Duration::from_ms(1)))? {
        Threshold::Sojourn(sojourn) => StepThreshold::Sojourn(sojourn),
        Threshold::Pkts(pkts) => StepThreshold::Pkts(pkts),
        Threshold::Bytes(_) => {
            let allowed = "must be a waiting time or packets, as in \"1 ms\" or \"5 pkts\"";
            return Err(reader.error("step", allowed));
        }
    };
    // In millionths per second: Linux's 0.16 is 160000. `tc` takes up to 32.
    let gain = |key: &str, default: u32| reader.u32_or(key, 0..=32_000_000, default);
    let packets = [("ect1", LowLatency::Ect1), ("any-ect", LowLatency::EctAny)];
    let Share(c_weight) =
        reader.get_or("c_weight", Share(f64::from(linux.c_weight_pct) / 100.0))?;
    let c_weight_pct = (c_weight * 100.0).round();
    if (c_weight * 100.0 - c_weight_pct).abs() > 1e-6 {
        return Err(reader.error("c_weight", "must be a whole number of percent, as in \"10 %\""));
    }
    Ok(DualPi2Config {
        limit_pkts: reader.get_or("limit", Pkts(linux.limit_pkts))?.0,
        target: reader.get_or("target", linux.target)?,
        update_interval: reader.get_or("update_interval", linux.update_interval)?,
        alpha_ppm: gain("alpha", linux.alpha_ppm)?,
        beta_ppm: gain("beta", linux.beta_ppm)?,
        coupling_factor: reader.u32_or("coupling", 1..=255, linux.coupling_factor)?,
        step,
        low_latency: reader.choice_or("low_latency", &packets, "ect1")?,
        c_weight_pct: c_weight_pct as u32,
        drop_on_overload: reader.flag_or("drop_on_overload", linux.drop_on_overload)?,
        drop_early: reader.flag_or("drop_early", linux.drop_early)?,
        mtu_bytes: frame_bytes,
        seed: 0,
    })
}
