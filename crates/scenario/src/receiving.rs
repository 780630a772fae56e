//! Receive settings of hosts: `hosts.coalesce`, `receive_queues`, `gro` and `cpu`.

use std::path::Path;

use knee_file::keys::{Below, Describe, Entry, Key, Keys, Shape, Table, entries};
use knee_file::schema::with_defaults;
use knee_file::{Error, Node, Reader, keys};
use knee_queue::time::Duration;
use knee_run::spec::{Adaptive, Coalesce, CpuCosts, HostConfig};

/// Largest number of receive queues, more than any NIC has.
const MAX_RECEIVE_QUEUES: u32 = 1024;
/// Largest number of frames in a NIC's ring.
const MAX_FRAMES: u64 = 65_536;
/// Largest packet rate, in packets per second.
const MAX_RATE: u64 = 1_000_000_000;

keys! {
    /// How a host receives: docs/receiving.md.
    pub(crate) static KEYS: ReceivingKeys = "receiving" {
        /// Interrupt coalescing.
        coalesce: Below = table(&COALESCE_TABLE).usually("no coalescing"),
        /// NIC queues, one interrupt each.
        receive_queues: Key<u32> = within(1, MAX_RECEIVE_QUEUES as u64).usually("1"),
        /// GRO merges packets of one interrupt.
        gro: Key<bool> = usually("`false`"),
        /// CPU time per operation.
        cpu: Below = table(&CPU_TABLE).usually("none"),
    }
}

keys! {
    /// Interrupt coalescing.
    static COALESCE: CoalesceKeys = "coalesce" {
        /// Interrupt at this number of packets.
        frames: Key<u64> = within(1, MAX_FRAMES).usually("only `time` counts"),
        /// Maximum delay after the first packet.
        time: Key<Duration> = needed("50 us"),
        /// Adapt `time` to the packet rate.
        adaptive: Key<bool> = or(false),
        /// No delay up to this rate, packets/s.
        rate_low: Key<u64> = within(1, MAX_RATE),
        /// Full `time` from this rate, packets/s.
        rate_high: Key<u64> = within(1, MAX_RATE),
        /// Period of the rate measurement.
        interval: Key<Duration> = at_least("1 us").like("250 ms"),
    }
}

/// Interrupt coalescing of a host.
static COALESCE_TABLE: Table = Table {
    name: "coalesce",
    says: "Interrupt coalescing.",
    shape: || Shape::Keys(coalesce_entries()),
};

/// Returns the schema entries of coalescing, for hosts and switches.
pub(crate) fn coalesce_entries() -> Vec<Entry> {
    let example = knee_file::parse(Path::new(""), "time = \"50 us\"\nadaptive = true");
    with_defaults(entries(&[&COALESCE]), &example.unwrap_or_else(|_| Node::nothing()), |reader| {
        read_coalesce(reader, None)
    })
}

/// CPU costs.
static CPU_TABLE: Table = Table {
    name: "cpu",
    says: "CPU time per operation.",
    shape: || {
        let read = |reader: &Reader<'_>| read_cpu(reader, CpuCosts::default());
        Shape::Keys(with_defaults(entries(&[&CPU]), &Node::nothing(), read))
    },
};

keys! {
    /// CPU time per operation.
    static CPU: CpuKeys = "cpu" {
        /// Interrupt and its poll.
        per_interrupt: Key<Duration>,
        /// Received packet.
        per_packet: Key<Duration>,
        /// Packet to IP, after GRO.
        per_merged: Key<Duration>,
        /// Received pure ACK, with the sends it allows.
        per_ack: Key<Duration>,
        /// Sent pure ACK.
        per_ack_sent: Key<Duration>,
        /// Burst to the device.
        per_burst: Key<Duration>,
        /// Received byte of payload.
        per_byte: Key<Duration>,
    }
}

/// Reads the receive settings into `host`, which holds their defaults.
pub(crate) fn read(reader: &Reader<'_>, host: &mut HostConfig) -> Result<(), Error> {
    if let Some(coalesce) = reader.child(&KEYS.coalesce)? {
        host.coalesce = Some(read_coalesce(&coalesce, None)?);
    }
    for key in [KEYS.receive_queues.as_ref(), KEYS.gro.as_ref()] {
        if reader.has(key) && host.coalesce.is_none() {
            return Err(reader.error(
                key,
                "needs interrupt coalescing: add coalesce = { frames = 64, time = \"50 us\" }",
            ));
        }
    }
    if host.coalesce.is_some() {
        host.receive_queues = reader.get_or(&KEYS.receive_queues, host.receive_queues)?;
        host.gro = reader.get_or(&KEYS.gro, host.gro)?;
    }
    if host.gro && host.gro_window > Duration::ZERO {
        return Err(reader.error(
            if reader.has(&KEYS.gro) { "gro" } else { "gro_window" },
            "conflicts with gro_window: leave one out",
        ));
    }
    if let Some(cpu) = reader.child(&KEYS.cpu)? {
        host.cpu = Some(read_cpu(&cpu, host.cpu.unwrap_or_default())?);
    }
    Ok(())
}

/// Reads interrupt coalescing of a host or a switch. A switch's table has additional keys.
pub(crate) fn read_coalesce(
    reader: &Reader<'_>,
    other: Option<&dyn Keys>,
) -> Result<Coalesce, Error> {
    let keys: Vec<&dyn Keys> = [&COALESCE as &dyn Keys].into_iter().chain(other).collect();
    reader.check(&keys)?;
    let frames = reader.get(&COALESCE.frames)?;
    let adaptive = match reader.read(&COALESCE.adaptive)? {
        true => Some(read_adaptive(reader)?),
        false => {
            let unused =
                [&COALESCE.rate_low as &dyn Describe, &COALESCE.rate_high, &COALESCE.interval];
            for key in unused.map(Describe::name) {
                if reader.has(key) {
                    return Err(reader.error(key, "needs adaptive = true"));
                }
            }
            None
        }
    };
    let time = reader.read(&COALESCE.time)?;
    Ok(Coalesce { frames: frames.map(|frames| frames as u32), time, adaptive })
}

fn read_adaptive(reader: &Reader<'_>) -> Result<Adaptive, Error> {
    let usual = Adaptive::default();
    let adaptive = Adaptive {
        rate_low: reader.get_or(&COALESCE.rate_low, usual.rate_low)?,
        rate_high: reader.get_or(&COALESCE.rate_high, usual.rate_high)?,
        interval: reader.get_or(&COALESCE.interval, usual.interval)?,
    };
    if adaptive.rate_low >= adaptive.rate_high {
        let low = reader.has(&COALESCE.rate_low);
        return Err(reader.error(
            if low { &COALESCE.rate_low } else { &COALESCE.rate_high },
            format!(
                "rate_low ({}) must be below rate_high ({}), both in packets per second",
                adaptive.rate_low, adaptive.rate_high
            ),
        ));
    }
    Ok(adaptive)
}

fn read_cpu(reader: &Reader<'_>, usual: CpuCosts) -> Result<CpuCosts, Error> {
    reader.check(&[&CPU])?;
    Ok(CpuCosts {
        per_interrupt: reader.get_or(&CPU.per_interrupt, usual.per_interrupt)?,
        per_packet: reader.get_or(&CPU.per_packet, usual.per_packet)?,
        per_merged: reader.get_or(&CPU.per_merged, usual.per_merged)?,
        per_ack: reader.get_or(&CPU.per_ack, usual.per_ack)?,
        per_ack_sent: reader.get_or(&CPU.per_ack_sent, usual.per_ack_sent)?,
        per_burst: reader.get_or(&CPU.per_burst, usual.per_burst)?,
        per_byte: reader.get_or(&CPU.per_byte, usual.per_byte)?,
    })
}
