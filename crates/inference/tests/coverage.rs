//! How often 95 % intervals hold the truth, in 1,000 experiments of each kind and number of runs. docs/compare.md has this table.

use std::fmt::Write as _;

use knee_inference::{Contrast, Interval, Known, PAIRS, Run, contrast};
use knee_units::random::Random;

const EXPERIMENTS: usize = 1000;
const RUNS: [usize; 6] = [3, 5, 7, 10, 30, 100];
/// The case is so many times the baseline.
const RATIO: f64 = 2.0;
/// The least and the most per cent that count as 95.
const HOLDS: (f64, f64) = (93.0, 97.0);

/// How the figure of a run comes about.
#[derive(Clone, Copy, Debug)]
enum Model {
    /// Normal, with a standard deviation of 5 %: a goodput.
    Normal,
    /// The mean of 30 flows whose times are lognormal (sigma 1.5): the first moves it far.
    MeanOfFlows,
    /// A percentile of so many flows with a Pareto tail (shape 2), this many below the largest.
    Percentile { flows: u32, below_largest: u32 },
    /// Lognormal, with these spreads of the case and of the baseline.
    Lognormal(f64, f64),
    /// Counts of rare events (Poisson): 3 of the case, 1 of the baseline.
    Counts,
    /// A tenth as much again, and 40 times as much in three of ten runs: a timeout in some.
    Timeouts,
}

/// A row of the table.
struct Kind {
    says: &'static str,
    model: Model,
    /// Correlation of the spread that both cases share with the seed.
    shared: f64,
    /// Numbers of runs at which difference and ratio do not hold 93 to 97 %: known, and said in the table.
    odd: (&'static [usize], &'static [usize]),
}

fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

fn poisson(random: &mut Random, mean: f64) -> f64 {
    let (least, mut count, mut product) = ((-mean).exp(), 0.0, random.unit());
    while product > least {
        count += 1.0;
        product *= random.unit();
    }
    count
}

impl Model {
    /// Draws the figure of a run; `z` is its part that a seed may share.
    fn draw(self, of_case: bool, z: f64, random: &mut Random) -> f64 {
        let times = if of_case { RATIO } else { 1.0 };
        times
            * match self {
                Model::Normal => 1.0 + 0.05 * z,
                Model::MeanOfFlows => {
                    let flows = (0..30).map(|_| (1.5 * normal(random)).exp()).sum::<f64>();
                    flows / 30.0 * (0.2 * z).exp()
                }
                Model::Percentile { flows, below_largest } => {
                    // The largest of n uniform numbers is u^(1/n), the next one of the n - 1 below it.
                    let ranks = (flows - below_largest..=flows).rev();
                    let share =
                        ranks.fold(1.0, |top, n| top * random.unit().powf(1.0 / f64::from(n)));
                    (1.0 - share).powf(-0.5) * (0.2 * z).exp()
                }
                Model::Lognormal(case, baseline) => {
                    (if of_case { case } else { baseline } * z).exp()
                }
                Model::Counts => poisson(random, if of_case { 3.0 } else { 1.0 }) / times,
                Model::Timeouts => {
                    let waits = of_case && random.unit() < 0.3;
                    (if waits { 40.0 } else { 1.0 }) * (0.1 * z).exp()
                }
            }
    }

    /// Draws a run of the case and of the baseline with one seed.
    fn pair(self, shared: f64, random: &mut Random) -> [f64; 2] {
        let seed = normal(random);
        [true, false].map(|of_case| {
            let z = shared.sqrt() * seed + (1.0 - shared).sqrt() * normal(random);
            self.draw(of_case, z, random)
        })
    }
}

const KINDS: &[Kind] = &[
    Kind { says: "mean, normal", model: Model::Normal, shared: 0.0, odd: (&[], &[3]) },
    Kind {
        says: "mean, normal, seeds share half",
        model: Model::Normal,
        shared: 0.5,
        odd: (&[3], &[3]),
    },
    Kind {
        says: "mean of 30 skewed flows",
        model: Model::MeanOfFlows,
        shared: 0.5,
        odd: (&[], &[]),
    },
    Kind {
        says: "p99 of 300 flows with a tail",
        model: Model::Percentile { flows: 300, below_largest: 3 },
        shared: 0.5,
        odd: (&[], &[3]),
    },
    Kind {
        says: "p99.9 of 3,000 flows with a tail",
        model: Model::Percentile { flows: 3000, below_largest: 3 },
        shared: 0.0,
        odd: (&[3], &[3]),
    },
    Kind {
        says: "lognormal, sigma 0.3",
        model: Model::Lognormal(0.3, 0.3),
        shared: 0.5,
        odd: (&[3], &[3]),
    },
    Kind {
        says: "lognormal, sigma 0.5 and 0.2",
        model: Model::Lognormal(0.5, 0.2),
        shared: 0.5,
        odd: (&[5, 7, 10], &[3]),
    },
    Kind {
        says: "lognormal, sigma 1 and 0.3",
        model: Model::Lognormal(1.0, 0.3),
        shared: 0.5,
        odd: (&[3, 5, 7, 10, 30, 100], &[]),
    },
    Kind {
        says: "rare events, 3 and 1 a run",
        model: Model::Counts,
        shared: 0.0,
        odd: (&[3], &[]),
    },
    Kind {
        says: "40 times as much in 3 of 10 runs",
        model: Model::Timeouts,
        shared: 0.0,
        odd: (&[3, 5, 7], &[3, 5, 7]),
    },
];

/// Runs of the case and of the baseline.
fn experiment(kind: &Kind, runs: usize, random: &mut Random) -> [Vec<Run>; 2] {
    let mut sides = [Vec::new(), Vec::new()];
    for seed in 0..runs as u64 {
        let pair = kind.model.pair(kind.shared, random);
        for (side, value) in sides.iter_mut().zip(pair) {
            side.push(Run { seed, known: Some(Known::exact(value)) });
        }
    }
    sides
}

/// The true difference of means, and the true ratio.
fn truth(kind: &Kind) -> (f64, f64) {
    // The mean of a lognormal number whose logarithm has a mean of 0.
    let lognormal = |sigma: f64| (sigma * sigma / 2.0).exp();
    match kind.model {
        Model::Normal => (RATIO - 1.0, RATIO),
        Model::MeanOfFlows => ((RATIO - 1.0) * lognormal(1.5) * lognormal(0.2), RATIO),
        Model::Percentile { .. } => {
            const DRAWS: usize = 100_000;
            let mut random = Random::new(1);
            let all = (0..DRAWS).map(|_| kind.model.pair(kind.shared, &mut random)[1]);
            ((RATIO - 1.0) * all.sum::<f64>() / DRAWS as f64, RATIO)
        }
        Model::Lognormal(case, baseline) => (RATIO * lognormal(case) - lognormal(baseline), RATIO),
        Model::Counts => (2.0, f64::NAN),
        Model::Timeouts => {
            ((RATIO * (0.3 * 40.0 + 0.7) - 1.0) * lognormal(0.1), RATIO * 40.0_f64.powf(0.3))
        }
    }
}

/// Returns the per cent of intervals that hold the truth: of the difference, and of the ratio.
fn coverage(kind: &Kind, runs: usize, (difference, ratio): (f64, f64)) -> (f64, f64) {
    let mut random = Random::new(49 + runs as u64);
    let all: Vec<Contrast> = (0..EXPERIMENTS)
        .map(|_| {
            let [case, baseline] = experiment(kind, runs, &mut random);
            contrast(&case, &baseline)
        })
        .collect();
    let share = |of: &dyn Fn(&Contrast) -> Option<Interval>, truth: f64| {
        let given = all.iter().filter_map(|one| of(one)?.ends);
        let holds: Vec<bool> = given.map(|(low, high)| low <= truth && truth <= high).collect();
        100.0 * holds.iter().filter(|is| **is).count() as f64 / holds.len() as f64
    };
    (share(&|one| Some(one.difference), difference), share(&|one| one.ratio, ratio))
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let heads = RUNS.map(|runs| format!(" {runs} |")).concat();
    let mut table =
        format!("| figure of a run | of |{heads}\n| --- | --- |{}\n", " ---: |".repeat(RUNS.len()));
    let mut wrong = Vec::new();
    for kind in KINDS {
        let truth = truth(kind);
        let cells = RUNS.map(|runs| (runs, coverage(kind, runs, truth)));
        let of_difference = cells.map(|(runs, both)| (runs, both.0));
        let of_ratio = cells.map(|(runs, both)| (runs, both.1));
        let rows = [("difference", of_difference, kind.odd.0), ("ratio", of_ratio, kind.odd.1)];
        for (what, cells, odd) in rows {
            if truth.1.is_nan() && what == "ratio" {
                continue;
            }
            let shown = cells.map(|(runs, percent)| {
                let is_fine = (HOLDS.0..=HOLDS.1).contains(&percent);
                if is_fine == odd.contains(&runs) {
                    wrong.push(format!("{}, {what}, {runs} runs: {percent:.1}", kind.says));
                }
                if is_fine { format!(" {percent:.1} |") } else { format!(" *{percent:.1}* |") }
            });
            let _ = writeln!(table, "| {} | {what} |{}", kind.says, shown.concat());
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "not as expected:\n{}", wrong.join("\n"));
    let page = include_str!("../../../docs/compare.md");
    assert!(page.contains(&table), "docs/compare.md must have this table:\n{table}");
}

/// Mean width of the interval of pairs relative to that of runs without seeds.
fn width_of_pairs(runs: usize, shared: f64) -> f64 {
    let kind = Kind { says: "", model: Model::Normal, shared, odd: (&[], &[]) };
    let mut random = Random::new(7);
    let (mut paired, mut unpaired) = (0.0, 0.0);
    for _ in 0..4000 {
        let [case, baseline] = experiment(&kind, runs, &mut random);
        let width = |one: Contrast| one.difference.ends.map_or(0.0, |ends| ends.1 - ends.0);
        // As differences from a constant, which is a baseline without a spread: Welch's interval is then that of Student's t.
        let differences = case.iter().zip(&baseline).map(|(x, y)| {
            let difference = x.known.unwrap().low - RATIO * y.known.unwrap().low;
            Run { known: Some(Known::exact(difference)), ..*x }
        });
        let zero = baseline.iter().map(|run| Run { known: Some(Known::exact(0.0)), ..*run });
        paired += width(contrast(&differences.collect::<Vec<_>>(), &zero.collect::<Vec<_>>()));
        let apart = baseline.iter().map(|run| Run {
            seed: run.seed + 1000,
            known: Some(Known::exact(RATIO * run.known.unwrap().low)),
        });
        unpaired += width(contrast(&case, &apart.collect::<Vec<_>>()));
    }
    paired / unpaired
}

#[test]
fn pairs_may_gain_more_than_they_cost_from_five_on() {
    for runs in [3, 4, 5, 7, 10] {
        let (cost, gain) = (width_of_pairs(runs, 0.0) - 1.0, 1.0 - width_of_pairs(runs, 0.5));
        println!("{runs} pairs: cost {:.0} %, gain {:.0} %", 100.0 * cost, 100.0 * gain);
        assert_eq!(gain > cost, runs >= PAIRS, "{runs} pairs: {cost:.3} {gain:.3}");
    }
}

#[test]
fn the_number_of_runs_that_would_tell_does_so_in_four_of_five() {
    // A case of 1.03 times the baseline, spread by 5 % each: the formula from the true spread.
    let mut random = Random::new(11);
    let draw = |runs: usize, random: &mut Random| {
        let mut sides = [Vec::new(), Vec::new()];
        for seed in 0..runs as u64 {
            for (side, mean) in sides.iter_mut().zip([1.03, 1.0]) {
                let value = mean * (1.0 + 0.05 * normal(random));
                side.push(Run { seed, known: Some(Known::exact(value)) });
            }
        }
        contrast(&sides[0], &sides[1])
    };
    // Five hundred runs measure spread and difference well.
    let needed = draw(500, &mut random).runs_to_tell(0.05, 0.0).unwrap().unwrap();
    assert!((35..65).contains(&needed), "{needed}");
    let told = (0..EXPERIMENTS).filter(|_| draw(needed as usize, &mut random).p.unwrap() < 0.05);
    let told = told.count() as f64 / EXPERIMENTS as f64;
    assert!((0.74..0.88).contains(&told), "{needed} runs tell in {told}");
}
