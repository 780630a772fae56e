//! How a host receives: interrupts that wait for more packets (coalescing), and what its networking takes of a CPU.

use knee_queue::time::{Duration, PS_PER_S};
use knee_units::settings::{Setting, Visit, key};

/// Largest number of frames in a NIC's ring.
const MAX_FRAMES: u64 = 65_536;
/// Largest packet rate, in packets per second.
const MAX_RATE: u64 = 1_000_000_000;
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

impl Coalesce {
    /// As `fields` of other settings.
    pub fn fields(&mut self, v: &mut dyn Visit) {
        let Coalesce { frames, time, adaptive } = self;
        let about = key("frames", "Interrupt at this number of packets.").within(1, MAX_FRAMES);
        v.key(about.usually("only `time` counts"), Setting::MaybeNumber(frames));
        let about =
            key("time", "Maximum delay after the first packet.").needed("50 us").usually("`50 us`");
        v.key(about, Setting::Time(time));
        let mut is_adaptive = adaptive.is_some();
        v.key(key("adaptive", "Adapt `time` to the packet rate."), Setting::Flag(&mut is_adaptive));
        let mut found = adaptive.unwrap_or_default();
        let Adaptive { rate_low, rate_high, interval } = &mut found;
        let adapting = |name, says| key(name, says).only_if(is_adaptive, "needs adaptive = true");
        let about = adapting("rate_low", "No delay up to this rate, packets/s.");
        v.key(about.within(1, MAX_RATE), Setting::Large(rate_low));
        let about = adapting("rate_high", "Full `time` from this rate, packets/s.");
        v.key(about.within(1, MAX_RATE), Setting::Large(rate_high));
        let about = adapting("interval", "Period of the rate measurement.").at_least("1 us");
        v.key(about.like("250 ms"), Setting::Time(interval));
        if rate_low >= rate_high {
            let why = format!(
                "rate_low ({rate_low}) must be below rate_high ({rate_high}), both in packets per second"
            );
            v.refused_if_written("rate_low", &|| why.clone());
            v.refuse("rate_high", why);
        }
        *adaptive = is_adaptive.then_some(found);
    }
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

knee_units::settings! {
    /// CPU time that a host's networking takes, by what it does; applications are not in it. Defaults are fitted to the
    /// measurements in notebook/ce-price.md, as docs/receiving.md says.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CpuCosts as (it, v) {
        /// Interrupt and its poll.
        pub per_interrupt: Duration = Duration::from_ns(10_600) => "per_interrupt": Time;
        /// Received packet.
        pub per_packet: Duration = Duration::from_ns(760) => "per_packet": Time;
        /// Packet to IP, after GRO.
        pub per_merged: Duration = Duration::ZERO => "per_merged": Time;
        /// Received pure ACK, with the sends it allows.
        pub per_ack: Duration = Duration::from_ns(2900) => "per_ack": Time;
        /// Sent pure ACK.
        pub per_ack_sent: Duration = Duration::from_ns(2100) => "per_ack_sent": Time;
        /// Burst to the device.
        pub per_burst: Duration = Duration::ZERO => "per_burst": Time;
        /// Received byte of payload.
        pub per_byte: Duration = Duration::ZERO => "per_byte": Time;
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
