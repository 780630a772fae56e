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
    /// So long after `since` (`rx-usecs`).
    pub time: Duration,
    pub since: Since,
    /// The time, or both, follow the traffic.
    pub adaptive: Option<Adaptive>,
}

/// What `time` counts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Since {
    /// The first packet that waits.
    #[default]
    First,
    /// The last one: packets that come close together wait until `frames` are there. mlx5's CQE mode.
    Last,
    /// The interrupt before: at most one in `time`, and the first packet after a pause waits for nothing. mlx5's EQE mode, and an Intel
    /// device's throttling.
    Interrupt,
}

/// How coalescing follows the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adaptive {
    Rate(ByRate),
    Dim(Dim),
}

/// Adaptive coalescing by packet rate, as `ethtool -C` has it (`pkt-rate-low`, `pkt-rate-high`) and Linux's mlx4 fills it in:
/// up to the low rate the interrupt comes at once, from the high rate on after [`Coalesce::time`], between them after a
/// time that grows in proportion. Packets that are short on average count as a low rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByRate {
    /// Packets per second of a queue.
    pub rate_low: u64,
    /// Packets per second of a queue.
    pub rate_high: u64,
    /// The rate is that of a period of at least this length; the packet that comes after it ends it.
    pub interval: Duration,
}

/// Dynamic interrupt moderation of Linux's `lib/dim`: each 64 interrupts it keeps or changes the level, by bytes, then packets, then interrupts
/// per time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim {
    pub mode: DimMode,
    /// The time that stands for 1 us of the library; longer in a scaled run.
    pub us: Duration,
}

/// The levels among which [`Dim`] chooses, and what their time counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimMode {
    /// 1, 8, 64, 128 or 256 us since the last interrupt, or 256 packets.
    Eqe,
    /// 2, 8, 16, 32 or 64 us since the last packet, or 256, 128 or (three times) 64 packets.
    Cqe,
}

/// Levels of a [`DimMode`].
pub const DIM_LEVELS: usize = 5;

impl Dim {
    /// In us as they are.
    pub fn new(mode: DimMode) -> Dim {
        Dim { mode, us: Duration::from_us(1) }
    }

    /// Time and packets of a level (`rx_profile` of `lib/dim/net_dim.c`).
    pub fn level(&self, level: usize) -> (Duration, u32) {
        const EQE: [(u64, u32); DIM_LEVELS] =
            [(1, 256), (8, 256), (64, 256), (128, 256), (256, 256)];
        const CQE: [(u64, u32); DIM_LEVELS] = [(2, 256), (8, 128), (16, 64), (32, 64), (64, 64)];
        let levels = match self.mode {
            DimMode::Eqe => EQE,
            DimMode::Cqe => CQE,
        };
        let (us, packets) = levels[level.min(DIM_LEVELS - 1)];
        (Duration::from_ps(self.us.ps().saturating_mul(us)), packets)
    }

    /// What a device has before the first change (`net_dim_get_def_rx_moderation`).
    pub fn coalesce(self) -> Coalesce {
        let (time, frames) = self.level(1);
        let since = match self.mode {
            DimMode::Eqe => Since::Interrupt,
            DimMode::Cqe => Since::Last,
        };
        Coalesce { frames: Some(frames), time, since, adaptive: Some(Adaptive::Dim(self)) }
    }
}

impl Coalesce {
    /// At so many packets, or so long after the first one.
    pub const fn fixed(frames: Option<u32>, time: Duration) -> Coalesce {
        Coalesce { frames, time, since: Since::First, adaptive: None }
    }

    /// As `fields` of other settings.
    pub fn fields(&mut self, v: &mut dyn Visit) {
        let mut dim = match self.adaptive {
            Some(Adaptive::Dim(dim)) => Some(dim.mode),
            _ => None,
        };
        let modes = [("off", None), ("eqe", Some(DimMode::Eqe)), ("cqe", Some(DimMode::Cqe))];
        v.word(key("dim", "Linux's DIM sets `frames`, `time` and `since`."), &mut dim, &modes);
        let own = |name, says| {
            key(name, says)
                .only_if(dim.is_none(), "has no effect with dim: leave out one of the two")
        };
        let Coalesce { frames, time, since, adaptive } = self;
        let about = own("frames", "Interrupt at this number of packets.").within(1, MAX_FRAMES);
        v.key(about.usually("only `time` counts"), Setting::MaybeNumber(frames));
        let about =
            own("time", "From `since` to the interrupt.").needed("50 us").usually("`50 us`");
        v.key(about, Setting::Time(time));
        let words = [
            ("first packet", Since::First),
            ("last packet", Since::Last),
            ("last interrupt", Since::Interrupt),
        ];
        v.word(own("since", "What `time` counts from."), since, &words);
        if *since == Since::Last && frames.is_none() {
            v.refuse("since", "needs frames: packets close together would wait for ever");
        }
        let mut is_adaptive = matches!(adaptive, Some(Adaptive::Rate(_)));
        let about = own("adaptive", "Adapt `time` to the packet rate.");
        v.key(about, Setting::Flag(&mut is_adaptive));
        let mut found = match adaptive {
            Some(Adaptive::Rate(found)) => *found,
            _ => ByRate::default(),
        };
        let ByRate { rate_low, rate_high, interval } = &mut found;
        let why = match dim {
            Some(_) => "has no effect with dim: leave out one of the two",
            None => "needs adaptive = true",
        };
        let adapting = |name, says| key(name, says).only_if(is_adaptive, why);
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
        match (dim, *adaptive) {
            (Some(mode), Some(Adaptive::Dim(dim))) if dim.mode == mode => {}
            (Some(mode), _) => *self = Dim::new(mode).coalesce(),
            (None, _) => *adaptive = is_adaptive.then_some(Adaptive::Rate(found)),
        }
    }
}

impl Default for ByRate {
    /// mlx4's: 400,000 and 450,000 packets per second, looked at four times a second.
    fn default() -> ByRate {
        ByRate { rate_low: 400_000, rate_high: 450_000, interval: Duration::from_ms(250) }
    }
}

impl ByRate {
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
        let adaptive = ByRate::default();
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
