//! `knee compare`.

use std::path::PathBuf;

use knee_evidence::compare::{Options, Side, compare, json, render};
use knee_evidence::difference::{TOLERANCE, Verdict};

use crate::library::results;
use crate::{CHECK_FAILED, DONE, Failure, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Results directories, or their names below results. The first is the reference.
    #[arg(required = true, num_args = 2.., value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Differences below this agree, even if chance cannot explain them [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    within: Option<f64>,
    /// Also compare different experiments by equal names, and rows whose runs were all limited by a host.
    #[arg(long)]
    force: bool,
    /// Print JSON, one line per pair.
    #[arg(long)]
    json: bool,
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
    let options = Options { within: args.within.unwrap_or(TOLERANCE), force: args.force };
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
