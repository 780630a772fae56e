//! Open-loop traffic: how often transfers or requests arrive, and requests on connections that stay.

use std::collections::HashMap;

use knee_file::keys::{Key, List, Text};
use knee_file::units::Share;
use knee_file::{Error, Reader, keys};
use knee_queue::time::{Duration, PS_PER_S, Rate, Time};
use knee_run::spec::{Pool, Run};

use super::EntryInRun;
use crate::network::NetworkSpec;
use crate::random::Random;
use crate::sizes::Sizes;

keys! {
    /// How often something arrives.
    pub(super) static OPEN_LOOP: OpenLoopKeys = "open-loop" {
        /// Load, as a share of the rates of `of`.
        load: Key<Share> = usually("from `arrivals_per_sec`").above("0 %").like("60 %"),
        /// Links (`FROM-TO`), or hosts for the links to them.
        of: Key<List<Text>> = like("switch-r"),
        /// Payload rate of all arrivals together, instead of `load`.
        rate: Key<Rate> = usually("from `load`"),
        /// Arrivals, instead of `load`.
        arrivals_per_sec: Key<u64> = within(1, 1_000_000_000).usually("from `load`"),
    }
}

/// Reads the mean time between arrivals, of this mean size, from `load`, a share of the rates that `of` names, from `rate`, or from
/// `arrivals_per_sec`. `None` if the entry has none of these.
pub(super) fn read_mean_gap(
    reader: &Reader<'_>,
    network: &NetworkSpec,
    mean_bytes: f64,
) -> Result<Option<Duration>, Error> {
    let load = reader.get(&OPEN_LOOP.load)?;
    let rate = reader.get(&OPEN_LOOP.rate)?;
    let per_sec = reader.get(&OPEN_LOOP.arrivals_per_sec)?;
    let instead = |first: &str| format!("conflicts with \"{first}\": leave one out");
    if per_sec.is_some() && load.is_some() {
        return Err(reader.error(&OPEN_LOOP.arrivals_per_sec, instead("load")));
    }
    if rate.is_some() && (load.is_some() || per_sec.is_some()) {
        let first = if load.is_some() { "load" } else { "arrivals_per_sec" };
        return Err(reader.error(&OPEN_LOOP.rate, instead(first)));
    }
    if load.is_none() && reader.has(&OPEN_LOOP.of) {
        return Err(reader.error(&OPEN_LOOP.of, "needs \"load\""));
    }
    let gap_s = match (load, rate, per_sec) {
        (Some(Share(load)), ..) => {
            let mut bps = 0;
            let of = reader.need_texts(&OPEN_LOOP.of)?;
            for (place, text) in of.iter().enumerate() {
                if of[..place].contains(text) {
                    return Err(reader.error(&OPEN_LOOP.of, format!("has {text:?} twice")));
                }
                bps +=
                    network.rate_bps_named(text).map_err(|why| reader.error(&OPEN_LOOP.of, why))?;
            }
            mean_bytes * 8.0 / (load * bps as f64)
        }
        (None, Some(rate), _) => mean_bytes * 8.0 / rate.bps() as f64,
        (None, None, Some(per_sec)) => 1.0 / per_sec as f64,
        (None, None, None) => return Ok(None),
    };
    Ok(Some(Duration::from_ps(((gap_s * PS_PER_S as f64).round() as u64).max(1))))
}

/// Returns an upper bound on the number of arrivals in a time: six standard deviations above the mean, exceeded once in 1e9
/// repeats.
pub(super) fn most_arrivals(span: Duration, mean_gap: Duration) -> u64 {
    let mean = span.ps() as f64 / mean_gap.ps() as f64;
    (mean + 6.0 * mean.sqrt()) as u64 + 10
}

/// Requests that arrive at the times of a Poisson process, whatever became of those before.
#[derive(Debug)]
pub(super) struct Requests {
    pub(super) mean_gap: Duration,
    /// The last of them arrive before this; `None`: the end of the run.
    pub(super) until: Option<Duration>,
    /// Sizes of answers, if they are drawn.
    pub(super) sizes: Option<Sizes>,
}

impl Requests {
    /// Returns an upper bound on their number in a run.
    pub(super) fn most(&self, start: Duration, end: Time) -> u64 {
        let until = self.until(end);
        most_arrivals(until.since((Time::ZERO + start).min(until)), self.mean_gap)
    }

    fn until(&self, end: Time) -> Time {
        self.until.map_or(end, |until| end.min(Time::ZERO + until))
    }

    /// Adds the requests of the flows from number `first` on, each to a random pair of hosts. The connections of a pair share
    /// its requests.
    pub(super) fn build(&self, start: Duration, in_run: &EntryInRun, first: usize, run: &mut Run) {
        let mut pools: Vec<Pool> = Vec::new();
        let mut of_pairs = HashMap::new();
        for (flow, index) in run.flows[first..].iter().zip(first as u32..) {
            let pool = *of_pairs.entry((flow.from, flow.to)).or_insert(pools.len());
            if pool == pools.len() {
                pools.push(Pool::default());
            }
            pools[pool].flows.push(index);
        }
        if pools.is_empty() {
            return;
        }
        let (mut times, mut sizes): (Random, Random) = (in_run.random(8), in_run.random(9));
        let (until, most) = (self.until(run.end), self.most(start, run.end));
        let mut at = Time::ZERO + start;
        for _ in 0..most {
            at += times.exponential(self.mean_gap);
            if at >= until {
                break;
            }
            let pool = &mut pools[times.below(of_pairs.len())];
            pool.arrivals_ns.push(at.ns());
            pool.response_bytes.extend(self.sizes.as_ref().map(|of| of.draw(&mut sizes)));
        }
        run.schedule.pools.extend(pools);
    }
}
