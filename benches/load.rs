//! Transfers of web-search sizes that begin at random times, for the benchmarks.

use knee_queue::time::Time;
use knee_run::sizes::WEB_SEARCH as SIZES;
use knee_run::spec::NodeId;
use knee_units as units;

/// Rate of a host's link, bit/s.
const HOST_BPS: f64 = 10e9;

pub(crate) struct Random(units::Random);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(units::Random::new(seed))
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (self.0.u64() % u64::from(n)) as u32
    }

    fn size(&mut self) -> u64 {
        let share = self.0.unit();
        let above = SIZES.partition_point(|(_, up_to)| *up_to <= share).clamp(1, SIZES.len() - 1);
        let ((a, from), (b, to)) = (SIZES[above - 1], SIZES[above]);
        a + ((b - a) as f64 * (share - from) / (to - from)) as u64
    }
}

pub(crate) struct Transfer {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) start: Time,
    pub(crate) bytes: u64,
}

/// Returns transfers between random hosts until a time. They take the share `load` of the hosts' links.
pub(crate) fn web_search(random: &mut Random, hosts: u32, load: f64, until: Time) -> Vec<Transfer> {
    let mean: f64 =
        SIZES.windows(2).map(|p| (p[1].1 - p[0].1) * (p[0].0 + p[1].0) as f64 / 2.0).sum();
    let gap_ps = mean * 8.0 / (load * f64::from(hosts) * HOST_BPS) * 1e12;
    let (mut transfers, mut at) = (Vec::new(), 0.0);
    loop {
        at += -gap_ps * (1.0 - random.0.unit()).ln();
        let start = Time::from_ps(at as u64);
        if start >= until {
            return transfers;
        }
        let from = random.below(hosts);
        let to = (from + 1 + random.below(hosts - 1)) % hosts;
        transfers.push(Transfer { from, to, start, bytes: random.size() });
    }
}
