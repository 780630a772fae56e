//! How a host receives: interrupts that wait for more packets (coalescing), and what its networking takes of a CPU.

use knee_queue::time::{Duration, PS_PER_S};

/// Packets no longer than this on average are not worth waiting for (mlx4's `AVG_PKT_SMALL`).
const SMALL_PACKET_BYTES: u64 = 256;

/// When a NIC's receive queue raises its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// As soon as so many packets wait (`rx-frames`); `None`: time alone decides.
    pub frames: Option<u32>,
    /// So long after the first of them (`rx-usecs`).
    pub time: Duration,
    /// The time follows the packet rate.
    pub adaptive: Option<Adaptive>,
}

/// Adaptive coalescing by packet rate, as `ethtool -C` has it (`pkt-rate-low`, `pkt-rate-high`) and Linux's mlx4 fills it in:
/// up to the low rate the interrupt comes at once, from the high rate on after [`Coalesce::time`], between them after a
/// time that grows in proportion. Packets that are short on average count as a low rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adaptive {
    /// Packets per second of a queue.
    pub rate_low: u64,
    /// Packets per second of a queue.
    pub rate_high: u64,
    /// The rate is that of a period of at least this length; the packet that comes after it ends it.
    pub interval: Duration,
}

impl Default for Adaptive {
    /// mlx4's: 400,000 and 450,000 packets per second, looked at four times a second.
    fn default() -> Adaptive {
        Adaptive { rate_low: 400_000, rate_high: 450_000, interval: Duration::from_ms(250) }
    }
}

impl Adaptive {
    /// The time at a rate.
    pub fn time(&self, most: Duration, pkts: u64, bytes: u64, elapsed: Duration) -> Duration {
        if bytes <= pkts * SMALL_PACKET_BYTES {
            return Duration::ZERO;
        }
        let rate = u128::from(pkts) * u128::from(PS_PER_S) / u128::from(elapsed.ps().max(1));
        let (low, high) = (u128::from(self.rate_low), u128::from(self.rate_high));
        if rate <= low {
            Duration::ZERO
        } else if rate >= high {
            most
        } else {
            Duration::from_ps((u128::from(most.ps()) * (rate - low) / (high - low)) as u64)
        }
    }
}

/// CPU time that a host's networking takes, by what it does; applications are not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCosts {
    /// Each interrupt of a receive queue, with the poll that it begins.
    pub per_interrupt: Duration,
    /// Each packet taken from the wire.
    pub per_packet: Duration,
    /// Each packet that reaches IP and TCP: merged ones are one.
    pub per_merged: Duration,
    /// Each pure ACK received, with what TCP then sends.
    pub per_ack: Duration,
    /// Each pure ACK sent.
    pub per_ack_sent: Duration,
    /// Each burst handed to the device.
    pub per_burst: Duration,
    /// Each byte of payload received.
    pub per_byte: Duration,
}

impl Default for CpuCosts {
    /// Fitted to the measurements in notebook/ce-price.md, as docs/receiving.md says.
    fn default() -> CpuCosts {
        CpuCosts {
            per_interrupt: Duration::from_ns(10_600),
            per_packet: Duration::from_ns(760),
            per_merged: Duration::ZERO,
            per_ack: Duration::from_ns(2900),
            per_ack_sent: Duration::from_ns(2100),
            per_burst: Duration::ZERO,
            per_byte: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adaptive_time_grows_between_the_rates() {
        let adaptive = Adaptive::default();
        let most = Duration::from_us(128);
        let time = |pkts| adaptive.time(most, pkts, pkts * 1500, Duration::from_ms(250));
        // 100,000 packets in 250 ms are 400,000 a second, 112,500 are 450,000.
        assert_eq!(time(100_000), Duration::ZERO);
        assert_eq!(time(106_250), Duration::from_us(64));
        assert_eq!(time(112_500), most);
        assert_eq!(time(250_000), most);
        let of_acks = adaptive.time(most, 250_000, 250_000 * 66, Duration::from_ms(250));
        assert_eq!(of_acks, Duration::ZERO);
    }
}
