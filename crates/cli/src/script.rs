//! `knee script`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use knee_script::{
    Limits, LinuxVersion, Played, Profile, Refusal, Script, Settings, SimStack, Stack, Verdict,
    play_again_if_late,
};
use serde_json::{Value as Json, json};

use crate::{CHECK_FAILED, DONE, Failure, print, random, record};

/// Lines of the account shown before a difference.
const ACCOUNT_BEFORE_DIFFERENCE: usize = 6;

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("writes").args(["record", "random"]))]
pub(crate) struct Args {
    /// Packet scripts, or folders of them (*.script).
    #[arg(required_unless_present = "random", conflicts_with = "random", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Play so many random conversations, whose answers are the simulator's (--linux, --hz), and keep the scripts
    /// of those that differ in the folder OUTPUT.
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["account", "json"])]
    random: Option<u64>,
    /// Write a script of a flow: FILE is a capture (pcap, pcapng) or an experiment (*.toml).
    #[arg(long, conflicts_with_all = ["on", "linux", "hz", "account", "json"])]
    record: bool,
    #[command(flatten)]
    recording: record::Args,
    /// What to play them against.
    #[arg(long, value_enum, default_value_t = On::Sim)]
    on: On,
    /// The Linux that the simulator behaves like.
    #[arg(long, value_name = "VERSION", default_value = "6.1")]
    linux: String,
    /// Ticks of the simulator's coarse clock per second.
    #[arg(long, value_name = "HZ", default_value_t = 1000)]
    hz: u32,
    /// On a kernel: whose algorithm a name means.
    #[arg(long, value_enum, default_value_t = Whose::Ours)]
    algorithms: Whose,
    /// On a kernel: how often a script that differs is played if the machine was late.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
    /// Print each segment and call with its time.
    #[arg(short, long)]
    account: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum On {
    /// The simulator's end point, on virtual time.
    Sim,
    /// The running kernel's TCP, in a network namespace of its own; needs root.
    Kernel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Whose {
    /// Ours, loaded for the time of the script.
    Ours,
    /// The kernel's own.
    Kernel,
}

/// Makes what `--on` says.
fn make_stack(
    args: &Args,
    profile: Profile,
    settings: &Settings,
) -> Result<Box<dyn Stack>, Refusal> {
    match args.on {
        On::Sim => Ok(Box::new(SimStack::new(settings, profile)?)),
        #[cfg(feature = "kernel")]
        On::Kernel => {
            let whose = match args.algorithms {
                Whose::Ours => knee_script::Algorithms::Ours,
                Whose::Kernel => knee_script::Algorithms::Kernels,
            };
            Ok(Box::new(knee_script::KernelStack::new(settings, whose)?))
        }
        #[cfg(not(feature = "kernel"))]
        On::Kernel => Err(Refusal(crate::without_kernel::WHY.to_owned())),
    }
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    if args.record {
        return record::run(&args.files, &args.recording);
    }
    let profile = profile(args)?;
    if let Some(count) = args.random {
        let wanted = random::Wanted {
            algorithm: args.recording.cc.as_deref().unwrap_or("reno"),
            count,
            seed: args.recording.seed.unwrap_or(1),
            profile,
            attempts: args.attempts,
            output: args.recording.output.as_deref(),
        };
        return random::run(&wanted, &|settings| make_stack(args, profile, settings));
    }
    let files = scripts(&args.files)?;
    let mut out = String::new();
    let mut all: Vec<Json> = Vec::new();
    let (mut passed, mut differ, mut not_for_this, mut could_not) = (0, 0, 0, Vec::new());
    for file in &files {
        let shown = file.display().to_string();
        let played = read(file).and_then(|script| {
            play_again_if_late(&script, Limits::default(), args.attempts, &mut |settings| {
                make_stack(args, profile, settings)
            })
            .map_err(|why| Failure::Says(why.to_string()))
        });
        let (played, attempts) = match played {
            Ok(played) => played,
            Err(why) => {
                could_not.push(why.to_string());
                continue;
            }
        };
        match &played.verdict {
            Verdict::Passed => passed += 1,
            Verdict::NotForThis(_) => not_for_this += 1,
            Verdict::Differs(_) => differ += 1,
        }
        tell(&shown, &played, attempts, args.account, &mut out);
        all.push(json(&shown, &played, attempts));
    }
    if args.json {
        print(&format!("{}\n", Json::from(all)))?;
    } else {
        let _ = writeln!(
            out,
            "{passed} passed, {differ} differ, {not_for_this} not for this version, {} could not be played",
            could_not.len()
        );
        print(&out)?;
    }
    if !could_not.is_empty() {
        return Err(Failure::Says(could_not.join("\nknee: ")));
    }
    Ok(if differ == 0 { DONE } else { CHECK_FAILED })
}

fn profile(args: &Args) -> Result<Profile, Failure> {
    let known = LinuxVersion::NAMED.iter().find(|(name, _)| *name == args.linux);
    let names: Vec<_> = LinuxVersion::NAMED.iter().map(|(name, _)| *name).collect();
    let (_, linux) = known.ok_or_else(|| {
        Failure::Says(format!("--linux {}: the simulator knows {}", args.linux, names.join(", ")))
    })?;
    if ![100, 250, 1000].contains(&args.hz) {
        return Err(Failure::Says(format!("--hz {}: it is 100, 250 or 1000", args.hz)));
    }
    Ok(Profile { linux: *linux, hz: args.hz })
}

/// The files as given, and those of folders in the order of their names.
fn scripts(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in given {
        if path.is_dir() {
            let before = files.len();
            collect(path, 0, &mut files)?;
            files[before..].sort();
            if files.len() == before {
                return Err(Failure::Says(format!(
                    "{}: there is no *.script in it",
                    path.display()
                )));
            }
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn collect(folder: &Path, depth: u32, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let failed = |why| Failure::Says(format!("{}: cannot read: {why}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() && depth < 8 {
            collect(&path, depth + 1, files)?;
        } else if path.extension().is_some_and(|extension| extension == "script") {
            files.push(path);
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<Script, Failure> {
    let shown = file.display().to_string();
    let text = fs::read_to_string(file)
        .map_err(|why| Failure::Says(format!("{shown}: cannot read: {why}")))?;
    Script::parse(&shown, &text).map_err(|why| Failure::Says(why.to_string()))
}

fn tell(file: &str, played: &Played, attempts: u32, account: bool, out: &mut String) {
    let last = played.account.len().saturating_sub(ACCOUNT_BEFORE_DIFFERENCE);
    let shown = match (&played.verdict, account) {
        (_, true) => &played.account[..],
        (Verdict::Differs(_), false) => &played.account[last..],
        _ => &[],
    };
    match &played.verdict {
        Verdict::Passed => {
            let _ = writeln!(out, "pass     {file}");
        }
        Verdict::NotForThis(why) => {
            let _ = writeln!(out, "not      {file}: {why}");
        }
        Verdict::Differs(difference) => {
            let _ = writeln!(out, "DIFFERS  {difference}");
            if attempts > 1 {
                let late = played.lateness.us();
                let _ = writeln!(
                    out,
                    "    in each of {attempts} attempts; the machine was {late} us late in the last"
                );
            }
        }
    }
    for line in shown {
        let _ = writeln!(out, "    {line}");
    }
}

fn json(file: &str, played: &Played, attempts: u32) -> Json {
    let (verdict, line, text) = match &played.verdict {
        Verdict::Passed => ("passed", None, None),
        Verdict::NotForThis(why) => ("not for this version", None, Some(why.clone())),
        Verdict::Differs(error) => ("differs", Some(error.line), Some(error.text.clone())),
    };
    json!({
        "file": file,
        "verdict": verdict,
        "line": line,
        "message": text,
        "attempts": attempts,
        "took_ns": played.took.ns(),
        "lateness_ns": played.lateness.ns(),
        "account": played.account,
    })
}
