//! The settings of one queue, whichever discipline it has.

use crate::any::{AnyAdmission, AnyQdisc};
use crate::classes::{Classes, ClassesConfig};
use crate::codel::{CodelConfig, CodelQueue};
use crate::droptail::{DropTail, DropTailConfig};
use crate::dualpi2::{DualPi2, DualPi2Config};
use crate::fifo::Fifo;
use crate::fq_codel::{FqCodel, FqCodelConfig};
use crate::packet::Packet;
use crate::pie::{Pie, PieConfig};
use crate::policer::{Policer, PolicerConfig};
use crate::red::{Red, RedConfig};
use crate::settings::{Check, ConfigError, FindLimit, PortProperties, Seeds, Settings};
use crate::share::{Share, ShareConfig};
use crate::step::{Step, StepConfig};
use crate::trim::{Trim, TrimConfig};
use crate::two_buffers::TwoBuffersConfig;
use knee_units::Limit;
use knee_units::settings::Names;

/// The list of all disciplines.
macro_rules! disciplines {
    ($($(#[$doc:meta])* $name:ident($config:ty),)*) => {
        /// The settings of one queue.
        #[derive(Clone, Debug, PartialEq)]
        pub enum QueueConfig {
            $($(#[$doc])* $name($config),)*
        }

        impl QueueConfig {
            /// Default settings of each discipline for this port.
            pub fn each(place: PortProperties) -> Vec<QueueConfig> {
                vec![$(QueueConfig::$name(<$config>::at(place)),)*]
            }

            /// The settings of the discipline, read-only.
            pub fn settings(&self) -> &dyn Settings {
                match self {
                    $(QueueConfig::$name(config) => config,)*
                }
            }

            /// The settings of the discipline, mutable.
            pub fn settings_mut(&mut self) -> &mut dyn Settings {
                match self {
                    $(QueueConfig::$name(config) => config,)*
                }
            }
        }
    };
}

disciplines! {
    DropTail(DropTailConfig),
    Step(StepConfig),
    Pie(PieConfig),
    /// Marking of a share.
    Share(ShareConfig),
    Red(RedConfig),
    Codel(CodelConfig),
    FqCodel(FqCodelConfig),
    DualPi2(DualPi2Config),
    /// Several queues by what a packet is.
    Classes(ClassesConfig),
    /// Two queues by where a packet came in.
    TwoBuffers(TwoBuffersConfig),
    /// Headers of what finds no room.
    Trim(TrimConfig),
    /// Drop of what exceeds a token bucket.
    Policer(PolicerConfig),
}

impl QueueConfig {
    /// The discipline's name in experiment files.
    pub fn kind(&self) -> &'static str {
        self.settings().kind()
    }

    /// The keys that a file may give it, beside its kind.
    pub fn keys(&self) -> Vec<&'static str> {
        let mut keys = Names::default();
        self.clone().settings_mut().fields(&mut keys);
        keys.0
    }

    /// Refuses settings that cannot work; the others all build.
    ///
    /// # Errors
    /// The first that cannot, of itself before those of the queues that it consists of.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut check = Check::default();
        self.clone().each_mut(&mut |queue| queue.settings_mut().fields(&mut check));
        check.0.map_or(Ok(()), Err)
    }

    /// Seeds the random generators of this queue, each with the next value of `next`.
    pub fn seed(&mut self, next: &mut dyn FnMut() -> u64) {
        self.each_mut(&mut |queue| queue.settings_mut().fields(&mut Seeds(next)));
    }

    /// The names of the queues that it consists of, as in results; none for a single one.
    pub fn part_names(&self) -> Vec<&str> {
        match self {
            QueueConfig::Classes(classes) => classes.names().collect(),
            QueueConfig::TwoBuffers(_) => TwoBuffersConfig::NAMES.to_vec(),
            _ => Vec::new(),
        }
    }

    /// Shows `visit` these settings, then those of the queues that it consists of, in order, all the way down.
    pub fn each_mut(&mut self, visit: &mut dyn FnMut(&mut QueueConfig)) {
        visit(self);
        match self {
            QueueConfig::Classes(classes) => {
                classes.classes.iter_mut().for_each(|class| class.queue.each_mut(visit));
            }
            QueueConfig::TwoBuffers(buffers) => buffers.queue.each_mut(visit),
            _ => {}
        }
    }

    /// These settings, then those of the queues that they consist of, in order, all the way down.
    pub fn all(&self) -> Vec<&QueueConfig> {
        let parts: Vec<&QueueConfig> = match self {
            QueueConfig::Classes(config) => config.classes.iter().map(|c| &c.queue).collect(),
            QueueConfig::TwoBuffers(config) => vec![&config.queue],
            _ => Vec::new(),
        };
        std::iter::once(self).chain(parts.into_iter().flat_map(QueueConfig::all)).collect()
    }

    /// Whether something is so of any of them.
    pub fn any(&self, is_so: impl FnMut(&QueueConfig) -> bool) -> bool {
        self.all().into_iter().any(is_so)
    }

    /// How much may wait; `None`: the queues that it consists of say so.
    pub fn limit(&self) -> Option<Limit> {
        let mut found = FindLimit::default();
        self.clone().settings_mut().fields(&mut found);
        found.0
    }

    /// An empty queue with these settings, which [`validate`](QueueConfig::validate) has accepted. (With
    /// others it is still safe to use: a sojourn time at enqueue is zero, an update interval at least
    /// 64 ns, an MTU at least 1 byte, a share from 0 to 1, and so on.)
    pub fn build<P: Packet>(&self) -> AnyQdisc<P> {
        match self {
            QueueConfig::DropTail(config) => AnyQdisc::DropTail(Fifo::new(DropTail::new(*config))),
            QueueConfig::Step(config) => AnyQdisc::Step(Fifo::new(Step::new(*config))),
            QueueConfig::Pie(config) => AnyQdisc::Pie(Fifo::new(Pie::new(config.clone()))),
            QueueConfig::Share(config) => AnyQdisc::Share(Fifo::new(Share::new(*config))),
            QueueConfig::Red(config) => {
                AnyQdisc::Red(Box::new(Fifo::new(Red::new(config.clone()))))
            }
            QueueConfig::Codel(config) => AnyQdisc::Codel(CodelQueue::new(*config)),
            QueueConfig::FqCodel(config) => AnyQdisc::FqCodel(FqCodel::new(*config)),
            QueueConfig::DualPi2(config) => AnyQdisc::DualPi2(DualPi2::new(*config)),
            QueueConfig::Classes(config) => AnyQdisc::Classes(Box::new(Classes::new(config))),
            QueueConfig::TwoBuffers(config) => AnyQdisc::Classes(Box::new(config.build())),
            QueueConfig::Trim(config) => AnyQdisc::Trim(Box::new(Trim::new(*config))),
            QueueConfig::Policer(config) => AnyQdisc::Policer(Fifo::new(Policer::new(*config))),
        }
    }

    /// The admission policy alone, if it decides at arrival and by the backlog only: drop-tail, marking of a share, and
    /// step marking at enqueue on packets or bytes.
    pub fn admission(&self) -> Option<AnyAdmission> {
        match self {
            QueueConfig::DropTail(config) => Some(AnyAdmission::DropTail(DropTail::new(*config))),
            QueueConfig::Step(config) => {
                config.decides_at_arrival().then(|| AnyAdmission::Step(Step::new(*config)))
            }
            QueueConfig::Share(config) => Some(AnyAdmission::Share(Share::new(*config))),
            QueueConfig::Pie(_)
            | QueueConfig::Red(_)
            | QueueConfig::Codel(_)
            | QueueConfig::FqCodel(_)
            | QueueConfig::DualPi2(_)
            | QueueConfig::Classes(_)
            | QueueConfig::TwoBuffers(_)
            | QueueConfig::Trim(_)
            | QueueConfig::Policer(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::MarkShare;
    use crate::step::{MarkAt, MarkWhen, NotEctAbove};
    use crate::time::{Duration, Rate};
    use knee_units::Threshold;

    /// The key that says what cannot work, and why.
    fn refused(config: &QueueConfig) -> (&'static str, String) {
        let error = config.validate().unwrap_err();
        (error.key, error.to_string())
    }

    fn step(threshold: Threshold, when: MarkWhen) -> QueueConfig {
        QueueConfig::Step(StepConfig {
            limit: Limit::Pkts(100),
            threshold,
            mark_at: MarkAt::AtLeast,
            when,
            not_ect: NotEctAbove::Queue,
        })
    }

    /// At 1 Gbps, where a full packet of 1514 bytes takes 12.112 us.
    #[test]
    fn a_discipline_names_its_shortest_delay_and_its_early_drops() {
        let rate = Rate::from_bps(1_000_000_000).unwrap();
        let says = |config: &QueueConfig| {
            let settings = config.settings();
            (settings.acts_at(rate).map(Duration::ns), settings.drops_early())
        };
        let with = |threshold, mark_at, not_ect| {
            let limit = Limit::Pkts(100);
            let when = MarkWhen::Dequeue;
            QueueConfig::Step(StepConfig { limit, threshold, mark_at, when, not_ect })
        };
        let drops = Some("drops what is not ECN-capable above K");
        for (threshold, mark_at, not_ect, expected) in [
            (Threshold::Pkts(10), MarkAt::AtLeast, NotEctAbove::Queue, (121_120, None)),
            (Threshold::Pkts(10), MarkAt::Above, NotEctAbove::Drop, (133_232, drops)),
            (Threshold::Bytes(3028), MarkAt::Above, NotEctAbove::Queue, (24_224, None)),
            (
                Threshold::Sojourn(Duration::from_us(50)),
                MarkAt::Above,
                NotEctAbove::Drop,
                (50_000, drops),
            ),
        ] {
            let config = with(threshold, mark_at, not_ect);
            assert_eq!(says(&config), (Some(expected.0), expected.1), "{config:?}");
        }
        let droptail = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(9) });
        assert_eq!(says(&droptail), (None, None));
        let early = Some("drops packets before it is full");
        let place = PortProperties { frame_bytes: 1514, rate, has_burst: false };
        let red =
            |min_bytes| says(&QueueConfig::Red(RedConfig { min_bytes, ..RedConfig::at(place) }));
        assert_eq!([red(3028), red(1)], [(Some(24_224), early), (Some(12_112), early)]);
        let pie = QueueConfig::Pie(PieConfig::default());
        assert_eq!(says(&pie), (Some(15_000_000), early));
        let flows =
            |flows| QueueConfig::FqCodel(FqCodelConfig { flows, ..FqCodelConfig::default() });
        assert_eq!(says(&flows(8)), (Some(5_000_000), early));
    }

    #[test]
    fn a_sojourn_threshold_at_enqueue_is_refused_in_one_sentence() {
        let sojourn = Threshold::Sojourn(Duration::from_us(100));
        let error = step(sojourn, MarkWhen::Enqueue).validate().unwrap_err();
        assert_eq!(
            error.to_string(),
            "a sojourn-time threshold needs marking at dequeue: how long a packet will wait is not known \
             at enqueue"
        );
        assert_eq!(step(sojourn, MarkWhen::Dequeue).validate(), Ok(()));
        assert_eq!(step(Threshold::Pkts(10), MarkWhen::Enqueue).validate(), Ok(()));
    }

    #[test]
    fn pie_without_interval_or_mtu_is_refused() {
        let no_interval =
            PieConfig { update_interval: Duration::from_ns(63), ..PieConfig::default() };
        let why = "PIE's update interval must be at least 64 ns, the tick of its clock";
        assert_eq!(refused(&QueueConfig::Pie(no_interval)), ("update_interval", why.into()));
        let no_mtu = PieConfig { mtu_bytes: 0, ..PieConfig::default() };
        let why = "PIE's MTU must be above 0 bytes (1514 for Ethernet, header included)";
        assert_eq!(refused(&QueueConfig::Pie(no_mtu)), ("kind", why.into()));
        assert_eq!(QueueConfig::Pie(PieConfig::default()).validate(), Ok(()));
    }

    fn share(mark: MarkShare) -> QueueConfig {
        QueueConfig::Share(ShareConfig { limit: Limit::Pkts(1), mark, seed: 0 })
    }

    #[test]
    fn a_share_that_is_none_is_refused() {
        let why = "a queue marks a share from 0 to 1, or every n-th packet with n at least 1";
        for bad in [-0.1, 1.1, f64::NAN] {
            let config = share(MarkShare::Probability(bad));
            assert_eq!(refused(&config), ("kind", why.into()), "{bad}");
        }
        assert_eq!(refused(&share(MarkShare::Every(0))), ("kind", why.into()));
        assert_eq!(share(MarkShare::Every(1)).validate(), Ok(()));
        assert_eq!(share(MarkShare::Probability(1.0)).validate(), Ok(()));
    }

    #[test]
    fn only_policies_that_decide_at_arrival_stand_alone() {
        let droptail = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(1) });
        assert!(droptail.admission().is_some());
        assert!(step(Threshold::Bytes(1514), MarkWhen::Enqueue).admission().is_some());
        assert!(step(Threshold::Bytes(1514), MarkWhen::Dequeue).admission().is_none());
        assert!(QueueConfig::Pie(PieConfig::default()).admission().is_none());
        assert!(share(MarkShare::Probability(0.5)).admission().is_some());
    }

    /// Each visitor sees what it should of every discipline, so that a new one cannot forget a part.
    #[test]
    fn every_discipline_says_all_of_its_settings() {
        let rate = Rate::from_bps(1_000_000_000).unwrap();
        let place = PortProperties { frame_bytes: 9014, rate, has_burst: false };
        let all = QueueConfig::each(place);
        let mut kinds: Vec<_> = all.iter().map(QueueConfig::kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), all.len());
        for mut queue in all {
            let kind = queue.kind();
            assert_eq!(queue.validate(), Ok(()), "{kind}");
            let mut keys = queue.keys();
            let consists_of_queues = queue.limit().is_none();
            assert_eq!(keys.contains(&"limit"), !consists_of_queues, "{kind}");
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), queue.keys().len(), "{kind}");
            // Whatever has a seed is given one, and nothing else changes.
            let text = format!("{queue:?}");
            queue.seed(&mut || 7);
            assert_eq!(format!("{queue:?}"), text.replace("seed: 0", "seed: 7"));
            // Full packets are what they are at its place.
            assert!(!text.contains("mtu_bytes: 1514"), "{text}");
        }
    }
}
