//! `knee script`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use clap::ValueEnum;
use knee_algo::module;
use knee_run::spec::PROFILES;
use knee_script::{
    Limits, LinuxVersion, Packetdrill, Played, Profile, Refusal, Script, ScriptOutcome, Settings,
    Settled, SimStack, Stack, capture, play_again_if_late,
};
use serde_json::{Value as Json, json};

use crate::{
    CHECK_FAILED, COULD_NOT, DONE, Failure, complain, print, random, record, stop_on_signals,
};

/// Lines of the account shown before a difference.
const ACCOUNT_BEFORE_DIFFERENCE: usize = 6;

/// Extension of packetdrill's files.
const PACKETDRILL: &str = "pkt";

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("writes").args(["record", "random"]))]
pub(crate) struct Args {
    /// Packet scripts, packetdrill's files (*.pkt), or folders of them (*.script, *.pkt).
    #[arg(required_unless_present = "random", conflicts_with = "random", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Play this many random conversations against the kernel and compare with the simulator (--linux, --hz). Keep
    /// scripts that differ in the folder OUTPUT.
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["account", "json"])]
    random: Option<u64>,
    /// Write a script of a flow: FILE is a capture (pcap, pcapng) or an experiment (*.toml, or the name of a built-in one).
    #[arg(long, conflicts_with_all = ["on", "linux", "hz", "algorithms", "attempts", "jobs", "account", "pcap", "json"])]
    record: bool,
    #[command(flatten)]
    recording: record::Args,
    /// Play them against this TCP.
    #[arg(long, value_enum, default_value_t = On::Sim)]
    on: On,
    /// Let the simulator behave like this Linux, or several, or all [default: 6.1]
    #[arg(long, value_name = "VERSION,...", value_delimiter = ',')]
    linux: Vec<String>,
    /// Ticks of the simulator's coarse clock per second [default: 1000]
    #[arg(long, value_name = "HZ")]
    hz: Option<u32>,
    /// On a kernel: use knee's algorithms, or the kernel's own.
    #[arg(long, value_enum, default_value_t = AlgorithmSource::Ours)]
    algorithms: AlgorithmSource,
    /// On a kernel: attempts for a script that differs while the machine was late.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
    /// Scripts at once [default: one per core; on a kernel 1, since more delay each other]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Print each segment and call with its time.
    #[arg(short, long)]
    account: bool,
    /// Write the packets of one script to a capture (pcapng), replacing an existing one.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum On {
    /// The simulator's TCP, in virtual time.
    Sim,
    /// The running kernel's TCP, in its own network namespace; needs root.
    Kernel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AlgorithmSource {
    /// knee's, loaded during the script.
    Ours,
    /// The kernel's own.
    Kernel,
}

/// The TCP that plays a script.
#[derive(Clone, Copy)]
enum Against {
    Sim(Profile),
    Kernel(AlgorithmSource),
}

impl Against {
    fn make_stack(self, settings: &Settings) -> Result<Box<dyn Stack>, Refusal> {
        match self {
            Against::Sim(profile) => Ok(Box::new(SimStack::new(settings, profile)?)),
            #[cfg(feature = "kernel")]
            Against::Kernel(whose) => {
                let whose = match whose {
                    AlgorithmSource::Ours => knee_script::Algorithms::Ours,
                    AlgorithmSource::Kernel => knee_script::Algorithms::Kernels,
                };
                Ok(Box::new(knee_script::KernelStack::new(settings, whose)?))
            }
            #[cfg(not(feature = "kernel"))]
            Against::Kernel(_) => Err(Refusal(crate::left_out::KERNEL.to_owned())),
        }
    }

    /// Result for a script that excludes this version or the kernel's own algorithms. No stack is made, because such a version
    /// may lack the script's sysctls.
    fn not_for(self, script: &Script) -> Result<Option<Played>, Refusal> {
        let linux = match self {
            Against::Sim(profile) => profile.linux,
            #[cfg(feature = "kernel")]
            Against::Kernel(_) => knee_script::running(),
            #[cfg(not(feature = "kernel"))]
            Against::Kernel(_) => return Ok(None),
        };
        if !script.is_for(linux) {
            return Ok(Some(Played::not_for(linux)));
        }
        match self {
            #[cfg(feature = "kernel")]
            Against::Kernel(AlgorithmSource::Kernel) => {
                Ok(knee_script::not_for_kernels_own(script)?.map(Played::not_for_this))
            }
            _ => Ok(None),
        }
    }

    fn is_kernel(self) -> bool {
        matches!(self, Against::Kernel(_))
    }

    fn json(self) -> Json {
        match self {
            Against::Sim(Profile { linux, hz }) => {
                json!({ "on": "sim", "linux": linux.to_string(), "hz": hz, "algorithms": "ours" })
            }
            Against::Kernel(whose) => {
                let algorithms = if whose == AlgorithmSource::Ours { "ours" } else { "kernel" };
                let (release, hz) = running();
                json!({ "on": "kernel", "linux": release, "hz": hz, "algorithms": algorithms })
            }
        }
    }
}

/// Release and HZ of the running kernel.
#[cfg(feature = "kernel")]
fn running() -> (Option<String>, Option<u32>) {
    let api = knee_bpf::KernelApi::running();
    (Some(api.release.to_string()), Some(api.hz))
}

#[cfg(not(feature = "kernel"))]
fn running() -> (Option<String>, Option<u32>) {
    (None, None)
}

/// A script to play on one stack.
struct Play {
    file: PathBuf,
    against: Against,
    /// The file, followed by the version if there are several.
    name: String,
}

/// Result of a script, or the reason why it could not be played.
type Ended = Result<Settled, String>;

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    if args.record {
        return record::run(&args.files, &args.recording);
    }
    if let Some(count) = args.random {
        let profile = profile_of_conversations(args)?;
        let against = match args.on {
            On::Sim => Against::Sim(profile),
            On::Kernel => Against::Kernel(args.algorithms),
        };
        let wanted = random::Wanted {
            algorithm: args.recording.cc.as_deref().unwrap_or("reno"),
            count,
            seed: args.recording.seed.unwrap_or(1),
            profile,
            attempts: args.attempts,
            output: args.recording.output.as_deref(),
        };
        return random::run(&wanted, &|settings| against.make_stack(settings));
    }
    let plays = plays(args)?;
    let stop = stop_on_signals()?;
    let mut tally = Tally::default();
    let mut could_not = Vec::new();
    let mut all = Vec::new();
    let told = play_all(args, &plays, &stop, &mut |play, ended| {
        tally.count(play.against, &ended);
        if args.json {
            all.push(json(play, &ended));
        }
        match ended {
            Ok(settled) => {
                if args.json {
                    Ok(())
                } else {
                    print(&in_words(&play.name, &settled, args.account))
                }
            }
            Err(why) => {
                could_not.push(why);
                Ok(())
            }
        }
    })?;
    tally.not_played = plays.len() - told;
    print(&if args.json { format!("{}\n", Json::from(all)) } else { tally.sentence() })?;
    if !could_not.is_empty() {
        complain(&format!("knee: {}", could_not.join("\nknee: ")));
        return Ok(COULD_NOT);
    }
    Ok(match &tally {
        Tally { not_played: 1.., .. } => COULD_NOT,
        // Nothing was compared.
        Tally { passed: 0, differ: 0, not_applicable: 1.., .. } => COULD_NOT,
        Tally { differ: 0, .. } => DONE,
        _ => CHECK_FAILED,
    })
}

// ---- scripts to play ----

fn plays(args: &Args) -> Result<Vec<Play>, Failure> {
    let against = against(args)?;
    let files = scripts(&args.files)?;
    if args.pcap.is_some() && files.len() * against.len() != 1 {
        return Err(Failure::Says("--pcap takes one script and one Linux".to_owned()));
    }
    let several = against.len() > 1;
    let of_file = |file: PathBuf| {
        let against = against.clone();
        against.into_iter().map(move |against| {
            let shown = file.display();
            let name = match against {
                Against::Sim(profile) if several => {
                    format!("{shown} (Linux {})", profile.linux)
                }
                _ => shown.to_string(),
            };
            Play { file: file.clone(), against, name }
        })
    };
    Ok(files.into_iter().flat_map(of_file).collect())
}

fn against(args: &Args) -> Result<Vec<Against>, Failure> {
    if args.on == On::Kernel {
        if !args.linux.is_empty() || args.hz.is_some() {
            return Err(Failure::Says(
                "--linux and --hz are for the simulator: leave them out on a kernel".to_owned(),
            ));
        }
        return Ok(vec![Against::Kernel(args.algorithms)]);
    }
    let hz = hz(args, 1000)?;
    Ok(versions(args, LinuxVersion(6, 1))?
        .into_iter()
        .map(|linux| Against::Sim(Profile { linux, hz }))
        .collect())
}

/// The simulator's profile for conversations, with the running kernel's HZ if it is the other side.
fn profile_of_conversations(args: &Args) -> Result<Profile, Failure> {
    let running = if args.on == On::Kernel { running().1 } else { None };
    let versions = versions(args, LinuxVersion(6, 18))?;
    let [linux] = versions[..] else {
        return Err(Failure::Says("--random takes one version of Linux".to_owned()));
    };
    Ok(Profile { linux, hz: hz(args, running.unwrap_or(1000))? })
}

fn hz(args: &Args, default: u32) -> Result<u32, Failure> {
    let hz = args.hz.unwrap_or(default);
    if ![100, 250, 1000].contains(&hz) {
        return Err(Failure::Says(format!("--hz {hz}: must be 100, 250 or 1000")));
    }
    Ok(hz)
}

fn versions(args: &Args, default: LinuxVersion) -> Result<Vec<LinuxVersion>, Failure> {
    let mut versions = Vec::new();
    for asked in &args.linux {
        if asked == "all" {
            versions.extend(PROFILES.iter().map(|(_, version)| *version));
            continue;
        }
        let known = PROFILES.iter().find(|(name, _)| name == asked);
        let (_, version) = known.ok_or_else(|| {
            let names: Vec<_> = PROFILES.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            Failure::Says(format!("--linux {asked}: the simulator knows {names}, or all"))
        })?;
        versions.push(*version);
    }
    if versions.is_empty() {
        versions.push(default);
    }
    Ok(versions)
}

/// Returns the given files, and those of folders sorted by name.
fn scripts(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in given {
        if path.is_dir() {
            let before = files.len();
            collect(path, 0, &mut files)?;
            files[before..].sort();
            if files.len() == before {
                return Err(Failure::Says(format!(
                    "{}: it has neither *.script nor *.pkt",
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
        } else if path.extension().is_some_and(|it| it == "script" || it == PACKETDRILL) {
            files.push(path);
        }
    }
    Ok(())
}

// ---- playing ----

fn jobs(args: &Args) -> usize {
    match (args.jobs, args.on) {
        (Some(jobs), _) => jobs as usize,
        (None, On::Sim) => thread::available_parallelism().map_or(1, usize::from),
        (None, On::Kernel) => 1,
    }
}

/// Plays all scripts, several at once, and passes their results on in the order of `plays` as soon as possible. After
/// `stop` no further script begins. Returns the number of played scripts.
fn play_all(
    args: &Args,
    plays: &[Play],
    stop: &AtomicBool,
    each: &mut dyn FnMut(&Play, Ended) -> Result<(), Failure>,
) -> Result<usize, Failure> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs(args).min(plays.len()) {
            let (next, sender) = (&next, sender.clone());
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(play) = plays.get(index) else { return };
                    if sender.send((index, played(args, play))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut told = 0;
        for (index, ended) in receiver {
            waiting.insert(index, ended);
            while let Some(ended) = waiting.remove(&told) {
                each(&plays[told], ended)?;
                told += 1;
            }
        }
        Ok(told)
    })
}

fn played(args: &Args, play: &Play) -> Ended {
    let script = match read(&play.file, args.recording.cc.as_deref())? {
        Packetdrill::Script(script) => *script,
        Packetdrill::NotApplicable(why) => {
            return Ok(Settled::not_played(Played::not_applicable(why)));
        }
    };
    let not_for = play.against.not_for(&script);
    if let Some(played) = not_for.map_err(|why| format!("{}: {}", script.file(), why.0))? {
        return Ok(Settled::not_played(played));
    }
    let settled = play_again_if_late(&script, Limits::default(), args.attempts, &mut |settings| {
        play.against.make_stack(settings)
    })
    .map_err(|why| why.to_string())?;
    if let Some(path) = &args.pcap {
        let shown = path.display();
        let bytes = capture::write(&settled.played.segments, script.settings.ipv6)
            .map_err(|why| format!("{shown}: {}", why.0))?;
        knee_files::write(path, bytes).map_err(|why| format!("{shown}: cannot write: {why}"))?;
        if settled.played.segments_left_out > 0 {
            let (kept, more) = (settled.played.segments.len(), settled.played.segments_left_out);
            complain(&format!(
                "knee: {shown} has the first {kept} packets; {more} more are left out"
            ));
        }
    }
    Ok(settled)
}

/// Reads a script, or a file of packetdrill. `cc` replaces its algorithm. A file that the script names is relative to the
/// script.
fn read(file: &Path, cc: Option<&str>) -> Result<Packetdrill, String> {
    let shown = file.display().to_string();
    let text = knee_files::read_text(file, Script::MAX_BYTES as u64, "packet script")
        .map_err(|why| format!("{shown}: {why}"))?;
    let read = if file.extension().is_some_and(|it| it == PACKETDRILL) {
        Script::parse_packetdrill(&shown, &text)
    } else {
        Script::parse(&shown, &text).map(|script| Packetdrill::Script(Box::new(script)))
    };
    let mut script = match read.map_err(|why| why.to_string())? {
        Packetdrill::Script(script) => script,
        not_applicable @ Packetdrill::NotApplicable(_) => return Ok(not_applicable),
    };
    let folder = file.parent().unwrap_or(Path::new(""));
    let named = &mut script.settings.algorithm;
    match cc {
        Some(name) => *named = name.to_owned(),
        None if module::is_path(named) => *named = folder.join(&*named).display().to_string(),
        None => {}
    }
    Ok(Packetdrill::Script(script))
}

// ---- output ----

#[derive(Default)]
struct Tally {
    passed: usize,
    differ: usize,
    not_for_this: usize,
    not_applicable: usize,
    could_not: usize,
    not_played: usize,
    /// Number of scripts played again, on a kernel.
    again: usize,
    lateness_us: u64,
}

impl Tally {
    fn count(&mut self, against: Against, ended: &Ended) {
        let Ok(settled) = ended else {
            self.could_not += 1;
            return;
        };
        match &settled.played.outcome {
            ScriptOutcome::Passed => self.passed += 1,
            ScriptOutcome::NotForThis(_) => self.not_for_this += 1,
            ScriptOutcome::NotApplicable(_) => self.not_applicable += 1,
            ScriptOutcome::Differs(_) => self.differ += 1,
        }
        if against.is_kernel() {
            self.again += usize::from(settled.attempts > 1);
            self.lateness_us = self.lateness_us.max(settled.lateness.us());
        }
    }

    /// Returns the counts above 0 as a sentence.
    fn sentence(&self) -> String {
        let differ = if self.differ == 1 { "differs" } else { "differ" };
        let counts = [
            (self.passed, "passed"),
            (self.differ, differ),
            (self.not_for_this, "not for this version"),
            (self.not_applicable, "not applicable"),
            (self.could_not, "could not be played"),
            (self.not_played, "not played: stopped"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let mut said: Vec<_> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        let late = self.lateness_us;
        let late = if late < 1000 { format!("{late} us") } else { format!("{} ms", late / 1000) };
        if self.again > 0 {
            said.push(format!("{} played again, machine up to {late} late", self.again));
        } else if self.lateness_us >= 1000 {
            said.push(format!("machine up to {late} late"));
        }
        format!("{}\n", said.join(", "))
    }
}

fn in_words(name: &str, settled: &Settled, account: bool) -> String {
    let mut out = String::new();
    let Settled { played, attempts, .. } = settled;
    let last = played.account.len().saturating_sub(ACCOUNT_BEFORE_DIFFERENCE);
    let shown = match (&played.outcome, account) {
        (_, true) => &played.account[..],
        (ScriptOutcome::Differs(_), false) => &played.account[last..],
        _ => &[],
    };
    match &played.outcome {
        ScriptOutcome::Passed => {
            let _ = writeln!(out, "pass     {name}");
        }
        ScriptOutcome::NotForThis(why) => {
            let _ = writeln!(out, "not      {name}: {why}");
        }
        ScriptOutcome::NotApplicable(why) => {
            let _ = writeln!(out, "n/a      {why}");
        }
        ScriptOutcome::Differs(difference) => {
            let version = name.strip_prefix(&difference.file).unwrap_or_default();
            let _ = writeln!(out, "DIFFERS{version}  {difference}");
            if *attempts > 1 {
                let late = played.lateness.us();
                let _ = writeln!(
                    out,
                    "    in each of {attempts} attempts; machine {late} us late in the last"
                );
            }
        }
    }
    for line in shown {
        let _ = writeln!(out, "    {line}");
    }
    out
}

fn json(play: &Play, ended: &Ended) -> Json {
    let mut json = json!({ "file": play.file.display().to_string() });
    let mut add = |more: Json| {
        if let (Json::Object(all), Json::Object(more)) = (&mut json, more) {
            all.extend(more);
        }
    };
    add(play.against.json());
    let settled = match ended {
        Ok(settled) => settled,
        Err(why) => {
            add(json!({ "verdict": "could not be played", "message": why }));
            return json;
        }
    };
    let played = &settled.played;
    let (verdict, line, text) = match &played.outcome {
        ScriptOutcome::Passed => ("passed", None, None),
        ScriptOutcome::NotForThis(why) => ("not for this version", None, Some(why.clone())),
        ScriptOutcome::NotApplicable(why) => {
            ("not applicable", Some(why.line), Some(why.text.clone()))
        }
        ScriptOutcome::Differs(error) => ("differs", Some(error.line), Some(error.text.clone())),
    };
    add(json!({
        "verdict": verdict,
        "line": line,
        "message": text,
        "attempts": settled.attempts,
        "took_ns": played.took.ns(),
        "lateness_ns": settled.lateness.ns(),
        "account": played.account,
        "account_left_out": played.account_left_out,
    }));
    json
}
