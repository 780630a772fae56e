//! How hosts receive: `hosts.coalesce`, `receive_queues`, `gro` and `cpu`.

use knee_file::{Error, Reader};
use knee_queue::time::Duration;
use knee_run::spec::{Adaptive, Coalesce, CpuCosts, HostConfig};

/// Keys of a host that are read here.
pub(crate) const KEYS: [&str; 4] = ["coalesce", "receive_queues", "gro", "cpu"];

/// More than any NIC has.
const MAX_RECEIVE_QUEUES: u32 = 1024;
/// A NIC's ring holds no more.
const MAX_FRAMES: u64 = 65_536;
/// Packets per second.
const MAX_RATE: u64 = 1_000_000_000;

/// Reads them into `host`, which has what they are where the file does not say.
pub(crate) fn read(reader: &Reader<'_>, host: &mut HostConfig) -> Result<(), Error> {
    if let Some(coalesce) = reader.child("coalesce")? {
        host.coalesce = Some(read_coalesce(&coalesce, &[])?);
    }
    for key in ["receive_queues", "gro"] {
        if reader.has(key) && host.coalesce.is_none() {
            return Err(reader.error(
                key,
                "has no effect without interrupts that wait: give coalesce = { frames = 64, time = \"50 us\" } beside it",
            ));
        }
    }
    if host.coalesce.is_some() {
        host.receive_queues =
            reader.u32_or("receive_queues", 1..=MAX_RECEIVE_QUEUES, host.receive_queues)?;
        host.gro = reader.flag_or("gro", host.gro)?;
    }
    if host.gro && host.gro_window > Duration::ZERO {
        return Err(reader.error(
            if reader.has("gro") { "gro" } else { "gro_window" },
            "there is either gro, which merges what an interrupt brings, or gro_window: leave one out",
        ));
    }
    if let Some(cpu) = reader.child("cpu")? {
        host.cpu = Some(read_cpu(&cpu, host.cpu.unwrap_or_default())?);
    }
    Ok(())
}

/// When interrupts come, of hosts and of switches, whose table has these other keys.
pub(crate) fn read_coalesce(reader: &Reader<'_>, other: &[&str]) -> Result<Coalesce, Error> {
    let keys = ["frames", "time", "adaptive", "rate_low", "rate_high", "interval"];
    reader.check(&[keys.as_slice(), other].concat())?;
    let frames = reader.integer("frames", 1..=MAX_FRAMES)?;
    let adaptive = match reader.flag_or("adaptive", false)? {
        true => Some(read_adaptive(reader)?),
        false => {
            for key in ["rate_low", "rate_high", "interval"] {
                if reader.has(key) {
                    return Err(
                        reader.error(key, "has no effect without adaptive = true beside it")
                    );
                }
            }
            None
        }
    };
    let time: Duration = reader.need("time", "50 us")?;
    Ok(Coalesce { frames: frames.map(|frames| frames as u32), time, adaptive })
}

fn read_adaptive(reader: &Reader<'_>) -> Result<Adaptive, Error> {
    let usual = Adaptive::default();
    let adaptive = Adaptive {
        rate_low: reader.integer_or("rate_low", 1..=MAX_RATE, usual.rate_low)?,
        rate_high: reader.integer_or("rate_high", 1..=MAX_RATE, usual.rate_high)?,
        interval: reader.get_or("interval", usual.interval)?,
    };
    if adaptive.rate_low >= adaptive.rate_high {
        let key = if reader.has("rate_low") { "rate_low" } else { "rate_high" };
        return Err(reader.error(
            key,
            format!(
                "rate_low ({}) must be below rate_high ({}), both in packets per second",
                adaptive.rate_low, adaptive.rate_high
            ),
        ));
    }
    if adaptive.interval < Duration::from_us(1) {
        return Err(reader.error("interval", "must be at least 1 us, as in \"250 ms\""));
    }
    Ok(adaptive)
}

fn read_cpu(reader: &Reader<'_>, usual: CpuCosts) -> Result<CpuCosts, Error> {
    let keys = [
        "per_interrupt",
        "per_packet",
        "per_merged",
        "per_ack",
        "per_ack_sent",
        "per_burst",
        "per_byte",
    ];
    reader.check(&keys)?;
    Ok(CpuCosts {
        per_interrupt: reader.get_or("per_interrupt", usual.per_interrupt)?,
        per_packet: reader.get_or("per_packet", usual.per_packet)?,
        per_merged: reader.get_or("per_merged", usual.per_merged)?,
        per_ack: reader.get_or("per_ack", usual.per_ack)?,
        per_ack_sent: reader.get_or("per_ack_sent", usual.per_ack_sent)?,
        per_burst: reader.get_or("per_burst", usual.per_burst)?,
        per_byte: reader.get_or("per_byte", usual.per_byte)?,
    })
}
