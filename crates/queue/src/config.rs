//! The settings of one queue, whichever discipline it has.

use std::error::Error;
use std::fmt;

use crate::any::{AnyAdmission, AnyQdisc};
use crate::classes::{Classes, ClassesConfig};
use crate::codel::{CodelConfig, CodelParams, CodelQueue};
use crate::droptail::{DropTail, DropTailConfig, Limit};
use crate::dualpi2::{DualPi2, DualPi2Config};
use crate::fifo::Fifo;
use crate::fq_codel::{FLOWS_MAX, FqCodel, FqCodelConfig};
use crate::packet::Packet;
use crate::pie::{Pie, PieConfig};
use crate::red::{Red, RedConfig, THRESHOLD_MAX_BYTES, WLOG_MAX};
use crate::share::{MarkShare, Share, ShareConfig};
use crate::step::{MarkWhen, Step, StepConfig, Threshold};
use crate::time::Duration;
use crate::two_buffers::TwoBuffersConfig;

/// The settings of one queue.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueConfig {
    /// Drop-tail.
    DropTail(DropTailConfig),
    /// Step marking.
    Step(StepConfig),
    /// PIE.
    Pie(PieConfig),
    /// Marking of a share.
    Share(ShareConfig),
    /// RED.
    Red(RedConfig),
    /// CoDel.
    Codel(CodelConfig),
    /// FQ-CoDel.
    FqCodel(FqCodelConfig),
    /// DualPI2.
    DualPi2(DualPi2Config),
    /// Several queues by what a packet is.
    Classes(ClassesConfig),
    /// Two queues by where a packet came in.
    TwoBuffers(TwoBuffersConfig),
}

/// Settings that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// A sojourn-time threshold with marking at enqueue.
    SojournAtEnqueue,
    /// A PIE update interval below its clock's tick of 64 ns.
    UpdateIntervalTooShort,
    /// A PIE MTU of zero bytes.
    ZeroMtu,
    /// A share to mark that is none, or every zeroth packet.
    NoShare,
    /// RED thresholds that are too large or of which the upper is the lower.
    RedThresholds,
    /// A RED probability that is none.
    RedProbability,
    /// A RED weight below 2^-31.
    RedWeight,
    /// An interval of CoDel shorter than its target, or as short as its clock.
    CodelInterval,
    /// No queue, or too many.
    FqCodelFlows,
    /// Turns of no bytes.
    ZeroQuantum,
    /// Updates of DualPI2, or RED's adaptation, more often than every us.
    UpdatesTooOften,
    /// A weight of DualPI2's that leaves one of its queues without service.
    Weight,
    /// A coupling factor of zero.
    ZeroCoupling,
    /// Classes of which the last has a condition, or there is none.
    NoLastClass,
    /// A class behind one that takes everything.
    UnreachableClass,
    /// A weight of zero, or a quantum below 64 bytes.
    NoTurn,
    /// Two buffers with one limit, and a queue that does not decide by the backlog at arrival alone.
    NoLimitPerPort,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfigError::SojournAtEnqueue => {
                "a sojourn-time threshold needs marking at dequeue: how long a packet will wait is not \
                 known at enqueue"
            }
            ConfigError::UpdateIntervalTooShort => {
                "PIE's update interval must be at least 64 ns, the tick of its clock"
            }
            ConfigError::ZeroMtu => {
                "PIE's MTU must be above 0 bytes (1514 for Ethernet, header included)"
            }
            ConfigError::RedThresholds => {
                "RED's max must be at least its min, and both at most 1 GiB"
            }
            ConfigError::RedProbability => "RED's max_p must be a share from 0 to 1",
            ConfigError::RedWeight => "RED's wlog must be from 0 (no averaging) to 31",
            ConfigError::CodelInterval => {
                "CoDel's interval must be longer than its target and at least 1024 ns, the tick of its clock: \
                 take the longest RTT, and a tenth of it or less as the target"
            }
            ConfigError::FqCodelFlows => "FQ-CoDel needs from 1 to 65536 queues for flows",
            ConfigError::ZeroQuantum => {
                "FQ-CoDel's quantum and drop batch must be above 0 (1514 bytes, 64 packets)"
            }
            ConfigError::UpdatesTooOften => "the time between updates must be at least 1 us",
            ConfigError::Weight => "the weight of DualPI2's classic queue must be from 1 to 99 %",
            ConfigError::ZeroCoupling => "DualPI2's coupling factor must be at least 1 (usually 2)",
            ConfigError::NoLastClass => {
                "the last class must have no condition, so that every packet has a class"
            }
            ConfigError::UnreachableClass => {
                "a class without a condition takes every packet, so it must be the last"
            }
            ConfigError::NoTurn => {
                "a weight must be above 0, and the quantum at least 64 B, or no packet ever gets its turn"
            }
            ConfigError::NoLimitPerPort => {
                "one limit for both buffers needs a queue that decides at arrival by what waits: droptail, \
                 share, or step at enqueue"
            }
            ConfigError::NoShare => {
                "what is marked must be a share from 0 to 1, or every n-th packet with n from 1 on"
            }
        })
    }
}

impl Error for ConfigError {}

impl QueueConfig {
    /// Refuses settings that cannot work; the others all build.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            QueueConfig::DropTail(_) => Ok(()),
            QueueConfig::Step(step) => match (step.threshold, step.when) {
                (Threshold::Sojourn(_), MarkWhen::Enqueue) => Err(ConfigError::SojournAtEnqueue),
                _ => Ok(()),
            },
            QueueConfig::Pie(pie) if pie.update_interval < Duration::from_ns(64) => {
                Err(ConfigError::UpdateIntervalTooShort)
            }
            QueueConfig::Pie(pie) if pie.mtu_bytes == 0 => Err(ConfigError::ZeroMtu),
            QueueConfig::Pie(_) => Ok(()),
            QueueConfig::Share(share) => match share.mark {
                MarkShare::Probability(mark) if !(0.0..=1.0).contains(&mark) => {
                    Err(ConfigError::NoShare)
                }
                MarkShare::Every(0) => Err(ConfigError::NoShare),
                _ => Ok(()),
            },
            QueueConfig::Red(red) => validate_red(red),
            QueueConfig::Codel(codel) => validate_codel(&codel.codel),
            QueueConfig::FqCodel(fq) if !(1..=FLOWS_MAX).contains(&fq.flows) => {
                Err(ConfigError::FqCodelFlows)
            }
            QueueConfig::FqCodel(fq) if fq.quantum_bytes == 0 || fq.drop_batch_pkts == 0 => {
                Err(ConfigError::ZeroQuantum)
            }
            QueueConfig::FqCodel(fq) => validate_codel(&fq.codel),
            QueueConfig::DualPi2(dual) if dual.update_interval < SHORTEST_UPDATE => {
                Err(ConfigError::UpdatesTooOften)
            }
            QueueConfig::DualPi2(dual) if !(1..=99).contains(&dual.c_weight_pct) => {
                Err(ConfigError::Weight)
            }
            QueueConfig::DualPi2(dual) if dual.coupling_factor == 0 => {
                Err(ConfigError::ZeroCoupling)
            }
            QueueConfig::DualPi2(_) => Ok(()),
            QueueConfig::Classes(classes) => classes.validate(),
            QueueConfig::TwoBuffers(buffers) => buffers.validate(),
        }
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

    /// The most packets of `pkt_bytes` that may wait, with nobody else in a shared buffer; `None`: no limit.
    pub fn most_pkts(&self, pkt_bytes: u32) -> Option<u64> {
        let of_bytes =
            |bytes: u64| (bytes != u64::MAX).then(|| bytes.div_ceil(u64::from(pkt_bytes.max(1))));
        let of = |limit: Limit| match limit {
            Limit::Pkts(pkts) => Some(u64::from(pkts)),
            Limit::Bytes(bytes) => of_bytes(bytes),
        };
        match self {
            QueueConfig::DropTail(config) => of(config.limit),
            QueueConfig::Step(config) => of(config.limit),
            QueueConfig::Share(config) => of(config.limit),
            QueueConfig::Red(config) => of(config.limit),
            QueueConfig::Pie(config) => Some(config.limit_pkts.into()),
            QueueConfig::Codel(config) => Some(config.limit_pkts.into()),
            QueueConfig::FqCodel(config) => Some(config.limit_pkts.into()),
            QueueConfig::DualPi2(config) => Some(config.limit_pkts.into()),
            QueueConfig::Classes(config) => {
                let parts = config.classes.iter().map(|class| class.queue.most_pkts(pkt_bytes));
                parts.sum()
            }
            QueueConfig::TwoBuffers(config) => Some(config.queue.most_pkts(pkt_bytes)? * 2),
        }
    }

    /// About how many bytes of memory a queue takes before anything waits in it.
    pub fn empty_bytes(&self) -> u64 {
        match self {
            QueueConfig::FqCodel(config) => u64::from(config.flows) * FqCodel::<()>::FLOW_BYTES,
            QueueConfig::Classes(config) => {
                config.classes.iter().map(|class| class.queue.empty_bytes()).sum()
            }
            QueueConfig::TwoBuffers(config) => config.queue.empty_bytes() * 2,
            _ => 0,
        }
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
        }
    }

    /// The law alone, if it decides at arrival and by the backlog found: drop-tail, marking of a share, and
    /// step marking at enqueue on packets or bytes.
    pub fn admission(&self) -> Option<AnyAdmission> {
        match self {
            QueueConfig::DropTail(config) => Some(AnyAdmission::DropTail(DropTail::new(*config))),
            QueueConfig::Step(config) => match (config.when, config.threshold) {
                (MarkWhen::Enqueue, Threshold::Pkts(_) | Threshold::Bytes(_)) => {
                    Some(AnyAdmission::Step(Step::new(*config)))
                }
                _ => None,
            },
            QueueConfig::Pie(_)
            | QueueConfig::Red(_)
            | QueueConfig::Codel(_)
            | QueueConfig::FqCodel(_)
            | QueueConfig::DualPi2(_)
            | QueueConfig::Classes(_)
            | QueueConfig::TwoBuffers(_) => None,
            QueueConfig::Share(config) => Some(AnyAdmission::Share(Share::new(*config))),
        }
    }
}

/// Of disciplines with updates of their own.
const SHORTEST_UPDATE: Duration = Duration::from_us(1);

fn validate_red(red: &RedConfig) -> Result<(), ConfigError> {
    if red.min_bytes > red.max_bytes || red.max_bytes > THRESHOLD_MAX_BYTES {
        Err(ConfigError::RedThresholds)
    } else if !(0.0..=1.0).contains(&red.max_p) {
        Err(ConfigError::RedProbability)
    } else if red.wlog > WLOG_MAX {
        Err(ConfigError::RedWeight)
    } else if red.adapt_interval.is_some_and(|interval| interval < SHORTEST_UPDATE) {
        Err(ConfigError::UpdatesTooOften)
    } else {
        Ok(())
    }
}

fn validate_codel(codel: &CodelParams) -> Result<(), ConfigError> {
    let is_possible = codel.interval > codel.target && codel.interval >= Duration::from_ns(1024);
    if is_possible { Ok(()) } else { Err(ConfigError::CodelInterval) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::droptail::Limit;
    use crate::step::{MarkAt, NotEctAbove};

    fn step(threshold: Threshold, when: MarkWhen) -> QueueConfig {
        QueueConfig::Step(StepConfig {
            limit: Limit::Pkts(100),
            threshold,
            mark_at: MarkAt::AtLeast,
            when,
            not_ect: NotEctAbove::Queue,
        })
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
        assert_eq!(
            QueueConfig::Pie(no_interval).validate(),
            Err(ConfigError::UpdateIntervalTooShort)
        );
        let no_mtu = PieConfig { mtu_bytes: 0, ..PieConfig::default() };
        assert_eq!(QueueConfig::Pie(no_mtu).validate(), Err(ConfigError::ZeroMtu));
        assert_eq!(QueueConfig::Pie(PieConfig::default()).validate(), Ok(()));
    }

    fn share(mark: MarkShare) -> QueueConfig {
        QueueConfig::Share(ShareConfig { limit: Limit::Pkts(1), mark, seed: 0 })
    }

    #[test]
    fn a_share_that_is_none_is_refused() {
        for bad in [-0.1, 1.1, f64::NAN] {
            let config = share(MarkShare::Probability(bad));
            assert_eq!(config.validate(), Err(ConfigError::NoShare), "{bad}");
        }
        assert_eq!(share(MarkShare::Every(0)).validate(), Err(ConfigError::NoShare));
        assert_eq!(share(MarkShare::Every(1)).validate(), Ok(()));
        assert_eq!(share(MarkShare::Probability(1.0)).validate(), Ok(()));
    }

    #[test]
    fn only_laws_that_decide_at_arrival_stand_alone() {
        let droptail = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(1) });
        assert!(droptail.admission().is_some());
        assert!(step(Threshold::Bytes(1514), MarkWhen::Enqueue).admission().is_some());
        assert!(step(Threshold::Bytes(1514), MarkWhen::Dequeue).admission().is_none());
        assert!(QueueConfig::Pie(PieConfig::default()).admission().is_none());
        assert!(share(MarkShare::Probability(0.5)).admission().is_some());
    }
}
