//! A cable: a link in one direction, with the queue of its sending end.

use knee_queue::QueueConfig;
use knee_queue::time::{Duration, Rate};
use knee_units::settings::{Setting, key};

knee_units::settings! {
    /// One direction of a cable with its queue, without its end points: by default it stores and forwards, and does nothing else.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Cable(rate: Option<Rate>, queue: QueueConfig) as (cable, v) {
        /// Rate. Without it: only delay, no queue.
        pub rate: Option<Rate> = rate => "rate": MaybeRate;
        /// When a packet counts as sent.
        pub serialisation: Serialisation = Serialisation::StoreAndForward => {
            let about = key("burst", "Depth of a token bucket, as tbf, in full packets.").usually("none");
            let mut burst = cable.serialisation.burst_bytes();
            v.key(about.only_if(cable.rate.is_some(), NEEDS_RATE), Setting::MaybeBurst(&mut burst));
            cable.serialisation = Serialisation::with_burst(burst);
        };
        /// Bytes per frame on the wire, not in the queue: `24 B` is Ethernet's preamble, FCS and gap.
        pub overhead_bytes: u32 = 0 => "overhead": Overhead.usually("none").only_if(cable.rate.is_some(), NEEDS_RATE);
        /// Propagation delay.
        pub delay: Duration = Duration::ZERO => "delay": Time;
        // Packets may overtake each other.
        /// Random extra delay per packet, 0 to this; may reorder.
        pub jitter: Duration = Duration::ZERO => "jitter": Time;
        /// Random loss before the queue.
        pub loss: f64 = 0.0 => "loss": Share;
        // A burst is what a socket handed to its device: netem beneath GSO.
        /// Unit of loss: a packet, or a burst of one socket.
        pub loses_bursts: bool = false => "loss_per": Word[("packet", false), ("burst", true)].with("loss");
        /// Random duplication before the queue, as netem's.
        pub duplicate: f64 = 0.0 => "duplicate": Share;
        // An older one that still waits is gone. In the simulator alone.
        /// Thin out ACKs: a pure ACK takes the place of an older one of its flow that still waits.
        pub thins_acks: bool = false => "thin_acks": Flag.only_if(cable.rate.is_some(), NEEDS_RATE);
        // Unused without a rate.
        /// Queue of the sending end.
        pub queue: QueueConfig = queue
            => "queue": Parts.usually("unlimited at hosts; required at switches").only_if(cable.rate.is_some(), NEEDS_RATE);
        // Whether new links of it are sampled.
        /// Record the queue.
        pub sampled: bool = false => "record": Flag
            .usually("true for the bottleneck and ports to receivers").only_if(cable.rate.is_some(), NEEDS_RATE);
    }
}

const NEEDS_RATE: &str = "needs a rate";

impl Cable {
    /// Whether the way behind the queue does anything at random.
    pub fn draws(&self) -> bool {
        self.loss > 0.0 || self.duplicate > 0.0 || self.jitter != Duration::ZERO
    }

    /// How long a frame of this length takes the wire, with what goes around it; `None`: there is no rate.
    pub fn time_of(&self, frame_bytes: u32) -> Option<Duration> {
        Some(self.rate?.time_of(frame_bytes.saturating_add(self.overhead_bytes)))
    }
}

/// How a link turns packets into time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serialisation {
    /// As a token bucket (Linux `tbf`): a packet leaves at once when there are tokens for all of it,
    /// so packets are spaced but an idle link adds no delay.
    TokenBucket {
        /// Depth of the bucket; at least one full packet.
        burst_bytes: u32,
    },
    /// As a switch port: a packet arrives when its last bit has.
    StoreAndForward,
}

impl Serialisation {
    /// Depth of the token bucket, if it is one.
    pub fn burst_bytes(self) -> Option<u32> {
        match self {
            Serialisation::TokenBucket { burst_bytes } => Some(burst_bytes),
            Serialisation::StoreAndForward => None,
        }
    }

    fn with_burst(burst_bytes: Option<u32>) -> Serialisation {
        burst_bytes.map_or(Serialisation::StoreAndForward, |burst_bytes| {
            Serialisation::TokenBucket { burst_bytes }
        })
    }
}
