//! `knee load`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use knee_algo::{Algorithm, module};
use knee_bpf::host::{Done, Ended, Entry, Host, Request, TrialRequest};
use knee_bpf::{Embedded, KernelApi, check_name};
use serde_json::json;

use super::{entry_json, made_of, mounted, mounted_json, set_to};
use crate::{CHECK_FAILED, DONE, Failure, print, stop_on_signals};

/// Longest name that the kernel accepts, in characters.
const NAME_MOST: usize = 15;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The algorithm, as dctcp; or a file that clang compiles, as ./foo.c; or an object of knee check --object, as
    /// ./foo.bpf.o. "=WORD" names a variant: dctcp=g5, ./foo.c=g5.
    #[arg(value_name = "NAME|FILE[=VARIANT]")]
    what: String,
    /// The clang that compiles a file [default: KNEE_CLANG, else the first of clang, clang-21, ...]
    #[arg(long, value_name = "PROGRAM")]
    clang: Option<String>,
    /// Set a parameter, as shift_g=5. Repeat it for more. A wrong name lists the valid ones.
    #[arg(long, value_name = "PARAM=VALUE")]
    set: Vec<String>,
    /// Register it under this name, at most 15 characters [default: knee_NAME or knee_NAME_VARIANT]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Make it the default of this network namespace (net.ipv4.tcp_congestion_control).
    #[arg(long)]
    default: bool,
    /// Give it to the connections of this cgroup and of those below, with a sock_ops program.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Load on trial, in the foreground. The kernel undoes everything unless `knee confirm` runs within this time,
    /// and whenever this process ends.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    confirm_within: Option<Duration>,
    /// Let every user of the host choose it. Otherwise that takes CAP_NET_ADMIN, except for reno, cubic, bbr and bbr3.
    #[arg(long)]
    any_user: bool,
    /// Allow an algorithm that needs ECN on all connections, also those to the Internet.
    #[arg(long)]
    i_know: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Parses a duration such as `60s`, `5 min` or `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let allowed = || "must be a whole number of ms, s, min or h, as 60s".to_owned();
    let number: u64 = number.parse().map_err(|_| allowed())?;
    let unit_ms = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "min" | "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(allowed()),
    };
    let ms = number.checked_mul(unit_ms).filter(|ms| (1..=86_400_000).contains(ms));
    ms.map(Duration::from_millis).ok_or_else(|| "must be from 1 ms to 24 h".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let request = request(args)?;
    let host = Host::here();
    match args.confirm_within {
        None => {
            let (done, entry) = host.load(&request)?;
            print(&in_words(args, &host, done, &entry))?;
            Ok(DONE)
        }
        Some(confirm_within) => on_trial(args, &host, TrialRequest { request, confirm_within }),
    }
}

fn request(args: &Args) -> Result<Request, Failure> {
    let says = |why: knee_algo::Error| Failure::Says(why.to_string());
    let (what, variant) = split(&args.what);
    let program = program(what, args.clang.as_deref())?;
    let algorithm = program.algorithm();
    let mut params = algorithm.default_params();
    let mut fallback_chosen = false;
    for setting in &args.set {
        let (name, value) = setting.split_once('=').ok_or_else(|| {
            Failure::Says(format!("--set {}: must be PARAM=VALUE", setting.escape_debug()))
        })?;
        algorithm.set_param(&mut params, name.trim(), value.trim()).map_err(says)?;
        fallback_chosen |= name.trim() == "fallback";
    }
    let name = match (&args.name, variant) {
        (Some(name), _) => name.clone(),
        (None, Some(variant)) => variant_name(algorithm.name(), variant)?,
        (None, None) => format!("knee_{}", algorithm.name()),
    };
    Ok(Request {
        program,
        name,
        params,
        fallback_chosen,
        default: args.default,
        cgroup: args.cgroup.as_deref().map(cgroup).transpose()?,
        any_user: args.any_user,
        i_know: args.i_know,
    })
}

/// Splits the algorithm or file from its variant.
fn split(what: &str) -> (&str, Option<&str>) {
    if is_file(what) && (what.ends_with(".c") || what.ends_with(".o")) {
        return (what, None);
    }
    let parts = match is_file(what) {
        // A file's path may contain the sign too.
        true => what.rsplit_once('='),
        false => what.split_once('='),
    };
    parts.map_or((what, None), |(what, variant)| (what, Some(variant)))
}

fn is_file(what: &str) -> bool {
    module::is_path(what) || what.contains(".c=") || what.ends_with(".o") || what.contains(".o=")
}

fn program(what: &str, clang: Option<&str>) -> Result<&'static Embedded, Failure> {
    if is_file(what) {
        return Ok(Box::leak(Box::new(Embedded::of_file(Path::new(what), clang)?)));
    }
    let here = format!("algorithms/{what}.c");
    if let Err(why) = Algorithm::by_name(what) {
        let is_here = check_name(what).is_ok() && Path::new(&here).is_file();
        return Err(Failure::Says(match is_here {
            true => format!("this knee has no {what}, but its file is here: knee load ./{here}"),
            false => why.to_string(),
        }));
    }
    Ok(Embedded::by_name(what)?)
}

fn variant_name(algorithm: &str, variant: &str) -> Result<String, Failure> {
    let name = format!("knee_{algorithm}_{variant}");
    let room = NAME_MOST.saturating_sub(name.len() - variant.len());
    let way_out = match room {
        0 => "choose a name with --as".to_owned(),
        1 => "choose a word of one character, or a name with --as".to_owned(),
        room => format!("choose a word of at most {room} characters, or a name with --as"),
    };
    match name.len() > NAME_MOST {
        true => Err(Failure::Says(format!(
            "{algorithm}={}: \"{}\" is longer than the kernel's {NAME_MOST} characters: {way_out}",
            variant.escape_debug(),
            name.escape_debug()
        ))),
        false => Ok(name),
    }
}

/// Returns the cgroup's absolute path.
fn cgroup(path: &Path) -> Result<PathBuf, Failure> {
    let says = |why: String| Failure::Says(format!("--cgroup {}: {why}", path.display()));
    let path = fs::canonicalize(path).map_err(|error| says(error.to_string()))?;
    match path.to_str() {
        Some(_) => Ok(path),
        None => Err(says("the path must be UTF-8".to_owned())),
    }
}

fn in_words(args: &Args, host: &Host, done: Done, entry: &Entry) -> String {
    let what = match done {
        Done::Loaded => "loaded",
        Done::Updated => "updated",
        Done::Already => "already",
    };
    if args.json {
        let mounted = mounted_json(host);
        let answer = json!({
            "done": what,
            "loaded": entry_json(entry),
            "mounted": mounted,
            "any_user": is_for_any_user(&entry.name),
            "calls_left_out": KernelApi::running().spares_process_1,
        });
        return format!("{answer}\n");
    }
    let name = &entry.name;
    let mut out = match done {
        Done::Loaded => format!("{name}: registered{}\n", set_to(entry)),
        Done::Updated => format!(
            "{name}: updated{}\n  open connections keep the old program until they close, and so \
             do listeners that chose it\n  and what they accept: knee migrate --from {name} --to \
             {name} [--listeners]\n",
            set_to(entry)
        ),
        Done::Already => format!("{name}: already loaded{}\n", set_to(entry)),
    };
    if let Some(source) = &entry.source {
        out += &format!("  of {}\n", made_of(source));
    }
    if let Some(fallback) = &entry.fallback {
        out += &format!("  connections without ECN use {fallback}, this host's default\n");
    }
    if entry.params.iter().any(|(name, value)| name == "plb" && *value != 0) {
        out += "  path changes need IPv6 and a program at the device: knee plb on DEVICE\n";
    }
    if args.default {
        out += "  it is now the default of this network namespace\n";
    } else if args.cgroup.is_none() {
        out += &format!("  a program chooses it by setsockopt(TCP_CONGESTION, \"{name}\")\n");
    }
    out += if is_for_any_user(name) {
        "  every user of this host may choose it\n"
    } else {
        "  only programs with CAP_NET_ADMIN may choose it (--any-user lets all)\n"
    };
    out += calls_left_out();
    out += &mounted(host);
    out += &format!("  knee status shows who uses it; knee unload {name} undoes all of this\n");
    out
}

/// Whether programs without rights may choose it, by the kernel's list.
fn is_for_any_user(name: &str) -> bool {
    let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    list.is_ok_and(|list| list.split_whitespace().any(|allowed| allowed == name))
}

/// Returns a warning if this kernel skips calls of algorithms.
fn calls_left_out() -> &'static str {
    if KernelApi::running().spares_process_1 {
        "  warning: this kernel skips calls of it while process 1 runs (docs/kernels.md)\n"
    } else {
        ""
    }
}

fn on_trial(args: &Args, host: &Host, request: TrialRequest) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let trial = host.trial(&request)?;
    let entry = trial.note().entry.clone();
    let name = &entry.name;
    let seconds = request.confirm_within.as_secs_f64();
    if args.json {
        let trial = json!({
            "done": "on trial",
            "loaded": entry_json(&entry),
            "default": args.default,
            "seconds": seconds,
            "any_user": is_for_any_user(name),
            "calls_left_out": KernelApi::running().spares_process_1,
        });
        tell(&format!("{trial}\n"))?;
    } else {
        let mut given = Vec::new();
        if args.default {
            given.push("as the default of this network namespace".to_owned());
        }
        given.extend(entry.cgroup.iter().map(|cgroup| format!("for {}", cgroup.display())));
        let given = if given.is_empty() { String::new() } else { format!(" {}", given.join(" ")) };
        tell(&format!(
            "{name}: on trial for {seconds} s{given}{}\n  knee confirm {name}, in another \
             terminal, makes it permanent; the end of this process undoes it\n{}",
            set_to(&entry),
            calls_left_out()
        ))?;
    }
    let ended = trial.wait(host, &stop)?;
    let (word, sentence, code) = match ended {
        Ended::Confirmed => ("confirmed", "confirmed", DONE),
        Ended::TimedOut => {
            ("timed out", "not confirmed in time: the host is as before", CHECK_FAILED)
        }
        Ended::Stopped => ("stopped", "stopped: the host is as before", CHECK_FAILED),
    };
    if args.json {
        tell(&format!("{}\n", json!({ "done": word, "name": name })))?;
    } else {
        tell(&format!("{name}: {sentence}\n"))?;
    }
    Ok(code)
}

/// Prints a text, but continues if nobody reads it: the exit code also reports how a trial ended.
fn tell(text: &str) -> Result<(), Failure> {
    match print(text) {
        Err(Failure::ClosedPipe) => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        assert_eq!(duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("500 ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5min"), Ok(Duration::from_secs(300)));
        for wrong in ["", "s", "60", "0s", "25h", "-1s", "1.5s", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
