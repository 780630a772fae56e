//! `knee compare`.

use std::path::{Path, PathBuf};

use knee_evidence::compare::{
    Options, Picked, Side, answers, answers_json, compare, json, render, render_answers,
};
use knee_evidence::difference::{TOLERANCE, Verdict};
use knee_file::units;

use crate::complete;
use crate::library::results;
use crate::{CHECK_FAILED, DONE, Failure, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Results directories, or their names below results: two or more of one experiment, or one with --cases. Or DIR:CASE of each case.
    #[arg(required = true, num_args = 1.., value_name = "DIR", add = complete::results())]
    dirs: Vec<PathBuf>,
    /// Compare these cases of the directory: which is better, by how much, and how sure that is.
    #[arg(long, value_name = "CASE,CASE", value_delimiter = ',', conflicts_with = "force")]
    cases: Vec<String>,
    /// The case that the others are compared with [default: the first]
    #[arg(long, value_name = "CASE", conflicts_with = "force")]
    baseline: Option<String>,
    /// Also list figures that agree, and of cases those that are no questions.
    #[arg(long)]
    all: bool,
    /// Differences below this agree, even if chance cannot explain them [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    within: Option<f64>,
    /// Also compare different experiments by equal names, and rows whose runs were all limited by a host.
    #[arg(long)]
    force: bool,
    /// Print JSON: a line per pair of directories, or an object for cases.
    #[arg(long)]
    json: bool,
    /// Compare the captures of two directories (knee run --pcap) packet by packet, and show where they part: which packet of which
    /// host differs first.
    #[arg(long, conflicts_with_all = ["cases", "baseline", "all", "within", "force", "json"])]
    first_difference: bool,
    /// Packets also differ if they leave or arrive more than this earlier or later.
    #[arg(long, value_name = "TIME", value_parser = units::microseconds, requires = "first_difference")]
    slack: Option<u64>,
}

/// Splits `DIR:CASE`. `None` if the word is a directory itself, or has no case.
fn dir_and_case(word: &Path) -> Option<Picked> {
    if results(word).is_dir() {
        return None;
    }
    let (dir, case) = word.to_str()?.rsplit_once(':')?;
    let is_whole = !dir.is_empty() && !case.is_empty();
    is_whole.then(|| Picked { dir: results(Path::new(dir)), case: case.to_owned() })
}

/// Returns the cases to compare. Empty if directories are to be compared.
fn picked(args: &Args) -> Result<Vec<Picked>, Failure> {
    let says = |why: &str| Err(Failure::Says(why.to_owned()));
    let named: Vec<Picked> = args.dirs.iter().filter_map(|word| dir_and_case(word)).collect();
    let all: Vec<Picked> = match (args.dirs.as_slice(), args.cases.as_slice()) {
        ([dir], [_, ..]) if named.is_empty() => {
            let of = |case: &String| Picked { dir: results(dir), case: case.trim().to_owned() };
            args.cases.iter().map(of).collect()
        }
        (_, [_, ..]) => {
            return says("--cases takes one directory: give DIR:CASE for each case of several");
        }
        (dirs, []) if named.len() == dirs.len() => named,
        _ if !named.is_empty() => {
            return says("give DIR:CASE for each case, or directories without a case");
        }
        ([_], []) => {
            return says(
                "one directory needs --cases A,B; else give two directories, or DIR:CASE twice",
            );
        }
        _ if args.baseline.is_some() => {
            return says("--baseline names a case: give --cases A,B or DIR:CASE, too");
        }
        _ => Vec::new(),
    };
    let is_twice = |at: usize| all[..at].contains(&all[at]);
    if let Some(at) = (0..all.len()).find(|at| is_twice(*at)) {
        return Err(Failure::Says(format!("{}: is given twice: give two cases", all[at].case)));
    }
    if let [one] = all.as_slice() {
        return Err(Failure::Says(format!("{}: is one case: give another one, too", one.case)));
    }
    Ok(all)
}

/// Parses a share such as `10%` or `0.1`.
fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 0.01),
        None => (text, 1.0),
    };
    let share = number.parse().ok().map(|number: f64| number * unit);
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "must be a share from 0% to 100%, as in 10%".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    if args.first_difference {
        return first_difference(args);
    }
    let within = args.within.unwrap_or(TOLERANCE);
    let cases = picked(args)?;
    if !cases.is_empty() {
        let of = answers(&cases, args.baseline.as_deref(), within)?;
        match args.json {
            true => print(&format!("{}\n", answers_json(&of)))?,
            false => print(&render_answers(&of, args.all))?,
        }
        return Ok(DONE);
    }
    let options = Options { within, force: args.force, show_all: args.all };
    let sides =
        args.dirs.iter().map(|dir| Side::read(&results(dir))).collect::<Result<Vec<_>, _>>()?;
    // All pairs are checked before the first is printed.
    let first = sides[0].clone();
    let pairs = sides.into_iter().skip(1).map(|other| compare(first.clone(), other, options));
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    match args.json {
        true => pairs.iter().try_for_each(|pair| print(&format!("{}\n", json(pair))))?,
        false => print(&render(&pairs))?,
    }
    let differs = pairs.iter().any(|comparison| comparison.count(Verdict::Differs) > 0);
    Ok(if differs { CHECK_FAILED } else { DONE })
}

#[cfg(feature = "tools")]
fn first_difference(args: &Args) -> Result<u8, Failure> {
    let [one, other] = args.dirs.as_slice() else {
        return Err(Failure::Says("--first-difference takes two directories".to_owned()));
    };
    let slack_ns = args.slack.map(|us| us.saturating_mul(1000));
    crate::first_difference::run(&results(one), &results(other), slack_ns)
}

#[cfg(not(feature = "tools"))]
fn first_difference(_: &Args) -> Result<u8, Failure> {
    Err(Failure::Says(format!("--first-difference: {}", crate::left_out::TOOLS)))
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_are_percent_or_plain() {
        assert_eq!(share("10%"), Ok(0.1));
        assert_eq!(share("10 %"), Ok(0.1));
        assert_eq!(share("0.1"), Ok(0.1));
        for bad in ["", "%", "ten", "200%", "-1%", "NaN", "10"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}
