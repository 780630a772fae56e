//! How often 95 % intervals hold the truth, in 1,000 experiments of each kind and number of runs. docs/compare.md has this table.

use std::fmt::Write as _;

use knee_inference::{
    Contrast, Interval, Known, PAIRS, Run, contrast, half_width, runs_to_reach, student_t_95,
};
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

/// How the values of a run come about whose percentile is looked at.
struct Values {
    says: &'static str,
    share: f64,
    /// Values of a run.
    flows: u32,
    /// Pareto's tail (shape 2) with a spread of 20 % that a run's values share, or exponential times without such a spread.
    has_tail: bool,
    /// Numbers of runs at which the interval does not hold 93 to 97 %.
    odd: &'static [usize],
}

const VALUES: &[Values] = &[
    Values {
        says: "p99 of 100 flows with a tail",
        share: 0.99,
        flows: 100,
        has_tail: true,
        odd: &[5, 10],
    },
    Values {
        says: "p99 of 300 flows with a tail",
        share: 0.99,
        flows: 300,
        has_tail: true,
        odd: &[],
    },
    Values {
        says: "p99 of 300 exponential times",
        share: 0.99,
        flows: 300,
        has_tail: false,
        odd: &[30],
    },
    Values {
        says: "p99.9 of 3,000 flows with a tail",
        share: 0.999,
        flows: 3000,
        has_tail: true,
        odd: &[],
    },
];

impl Values {
    /// The largest values of a run, largest first: as many as the percentile of all runs can be among.
    fn draw(&self, random: &mut Random) -> Vec<f64> {
        const LARGEST: u32 = 40;
        let z = normal(random);
        let mut top = 1.0;
        let ranks = (self.flows - LARGEST..self.flows).rev();
        let shares = ranks.map(|below| {
            top *= random.unit().powf(1.0 / f64::from(below + 1));
            1.0 - top
        });
        let value = |above: f64| match self.has_tail {
            true => above.powf(-0.5) * (0.2 * z).exp(),
            false => -above.ln(),
        };
        shares.map(value).collect()
    }

    /// The percentile of values in descending order, of which there are `count`.
    fn percentile(&self, descending: &[f64], count: f64) -> f64 {
        descending[(count - (self.share * count).ceil()) as usize]
    }

    /// The percentile of all runs, and half the width of its interval.
    fn measure(&self, runs: usize, random: &mut Random) -> (f64, f64) {
        let all: Vec<Vec<f64>> = (0..runs).map(|_| self.draw(random)).collect();
        let flows = f64::from(self.flows);
        let sections: Vec<Known> =
            all.iter().map(|run| Known::exact(self.percentile(run, flows))).collect();
        let mut merged = all.concat();
        merged.sort_by(|a, b| b.total_cmp(a));
        let of_all = self.percentile(&merged, flows * runs as f64);
        (of_all, half_width(Known::exact(of_all), &sections).expect("they have a spread"))
    }

    /// The percentile of the distribution.
    fn truth(&self) -> f64 {
        let above = 1.0 - self.share;
        match self.has_tail {
            // The mean of the square of the runs' spread: exp((2 * 0.2)^2 / 2).
            true => (0.08_f64.exp() / above).sqrt(),
            false => -above.ln(),
        }
    }
}

#[test]
fn intervals_of_percentiles_hold_the_truth_as_often_as_they_say() {
    let heads = RUNS.map(|runs| format!(" {runs} |")).concat();
    let mut table =
        format!("| percentile of all values |{heads}\n| --- |{}\n", " ---: |".repeat(RUNS.len()));
    let mut wrong = Vec::new();
    for values in VALUES {
        let truth = values.truth();
        let cells = RUNS.map(|runs| {
            let mut random = Random::new(99 + runs as u64);
            let holds = (0..EXPERIMENTS).filter(|_| {
                let (value, half) = values.measure(runs, &mut random);
                (value - truth).abs() <= half
            });
            let percent = 100.0 * holds.count() as f64 / EXPERIMENTS as f64;
            let is_fine = (HOLDS.0..=HOLDS.1).contains(&percent);
            if is_fine == values.odd.contains(&runs) {
                wrong.push(format!("{}, {runs} runs: {percent:.1}", values.says));
            }
            if is_fine { format!(" {percent:.1} |") } else { format!(" *{percent:.1}* |") }
        });
        let _ = writeln!(table, "| {} |{}", values.says, cells.concat());
    }
    println!("{table}");
    assert!(wrong.is_empty(), "not as expected:\n{}", wrong.join("\n"));
    let page = include_str!("../../../docs/compare.md");
    assert!(page.contains(&table), "docs/compare.md must have this table:\n{table}");
}

/// Returns the per cent of intervals that hold the truth if runs are added until half the width is at most 5 % of the mean, and the mean
/// number of runs. `sd` is the spread of a run, in shares of the mean.
fn coverage_of_stopping(sd: f64, least: u64, random: &mut Random) -> (f64, f64) {
    const WITHIN: f64 = 0.05;
    const MOST: u64 = 1000;
    let (mut holds, mut all_runs) = (0, 0);
    for _ in 0..EXPERIMENTS * 4 {
        let mut values = Vec::new();
        let mut runs = least;
        let is_held = loop {
            while (values.len() as u64) < runs {
                values.push(1.0 + sd * normal(random));
            }
            let n = runs as f64;
            let mean = values.iter().sum::<f64>() / n;
            let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
            let half = student_t_95(n - 1.0) * (squares / (n - 1.0) / n).sqrt();
            match runs_to_reach(runs, half, WITHIN * mean).min(MOST) {
                more if more > runs => runs = more,
                _ => break (mean - 1.0).abs() <= half,
            }
        };
        holds += usize::from(is_held);
        all_runs += runs;
    }
    let experiments = (EXPERIMENTS * 4) as f64;
    (100.0 * holds as f64 / experiments, all_runs as f64 / experiments)
}

#[test]
fn stopping_by_the_interval_costs_some_of_its_coverage() {
    let mut random = Random::new(5);
    let mut table = String::from(
        "| spread of a run | from 3 | runs | from 5 | runs | from 10 | runs |\n| ---: |",
    );
    table.push_str(&" ---: |".repeat(6));
    table.push('\n');
    let mut least = f64::INFINITY;
    for sd in [0.05, 0.1, 0.2, 0.4] {
        let _ = write!(table, "| {:.0} % |", 100.0 * sd);
        for from in [3, 5, 10] {
            let (percent, runs) = coverage_of_stopping(sd, from, &mut random);
            if from == 5 {
                least = least.min(percent);
            }
            let _ = write!(table, " {percent:.1} | {runs:.0} |");
        }
        table.push('\n');
    }
    println!("{table}");
    assert!((90.0..95.0).contains(&least), "{least}");
    let page = include_str!("../../../docs/compare.md");
    assert!(page.contains(&table), "docs/compare.md must have this table:\n{table}");
}
