//! `knee plb`.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Subcommand;
use knee_bpf::host::Host;
use knee_bpf::{Error, Kept, LabelsAt, LabelsDropped, LabelsSeen};
use serde_json::{Value as Json, json};

use super::load::duration;
use super::mounted;
use crate::{COULD_NOT, DONE, Failure, complain, print, stop_on_signals};

/// Interval at which a command in the foreground checks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write IPv6 flow labels at a device, so that algorithms can change a connection's path.
    On {
        /// The outgoing device.
        device: String,
        /// Only for this time, in the foreground. The kernel undoes it when this process ends.
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        time: Option<Duration>,
    },
    /// Stop writing labels at a device.
    Off {
        /// The device.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        device: Option<String>,
        /// At all such devices, in all network namespaces.
        #[arg(long)]
        all: bool,
    },
    /// Show the devices at which labels are written.
    Show {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let host = Host::here();
    match &args.action {
        Action::On { device, time: None } => {
            let what = match host.keep_labels(device)? {
                Kept::New => "flow labels follow path changes here",
                Kept::TakenOver => "kept permanently; so far a process held it",
                Kept::Already => "labels are already written here",
            };
            let mounted = mounted(&host);
            print(&format!("{device}: {what}\n{mounted}  knee plb off {device} undoes it\n"))
        }
        Action::On { device, time: Some(time) } => hold(&host, device, *time),
        Action::Off { device, .. } => {
            let dropped = host.drop_labels(device.as_deref())?;
            print(&in_words_after(&dropped))?;
            if dropped.failed.is_empty() {
                return Ok(DONE);
            }
            complain(&not_left_alone(&dropped).join("\n"));
            return Ok(COULD_NOT);
        }
        Action::Show { json: true } => {
            let seen = host.labels()?;
            let unknown = unknown_json(&seen.unknown);
            print(&format!("{}\n", json!({ "labels": as_json(&seen.at), "unknown": unknown })))
        }
        Action::Show { json: false } => {
            let seen = host.labels()?;
            let written = match seen.at.is_empty() {
                true => "no device writes labels: knee plb on DEVICE starts it\n".to_owned(),
                false => words(&seen.at, how),
            };
            print(&(written + &unknown_in_words("the devices with labels", &seen.unknown)))
        }
    }?;
    Ok(DONE)
}

fn hold(host: &Host, device: &str, time: Duration) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let started = Instant::now();
    let labels = host.hold_labels(device, time)?;
    print(&format!(
        "{device}: labels are written here for {} s\n  knee plb on {device}, in another terminal, \
         keeps it; the end of this process undoes it\n",
        time.as_secs_f64()
    ))?;
    while started.elapsed() < time && !stop.load(Ordering::Relaxed) && !labels.are_kept() {
        std::thread::sleep(LOOK_EVERY);
    }
    let kept = labels.are_kept();
    drop(labels);
    match kept {
        true => print(&format!("{device}: kept\n")),
        false => print(&format!("{device}: labels are no longer written\n")),
    }
}

fn how(at: &LabelsAt) -> String {
    match at.kept {
        true => "labels are written".to_owned(),
        false => format!("labels are written as long as {} it", who_holds(at)),
    }
}

fn who_holds(at: &LabelsAt) -> String {
    let holders: Vec<String> = at
        .holders
        .iter()
        .map(|(number, command)| match command.as_str() {
            "" => number.to_string(),
            command => format!("{number} ({command})"),
        })
        .collect();
    match holders.as_slice() {
        [] => "a hidden process or another BPF file system holds".to_owned(),
        [one] => format!("process {one} holds"),
        more => format!("processes {} hold", more.join(", ")),
    }
}

fn words(all: &[LabelsAt], what: impl Fn(&LabelsAt) -> String) -> String {
    let mut out = String::new();
    for at in all {
        let _ = writeln!(out, "{} ({}): {}", at.device, at.namespace, what(at));
    }
    out
}

/// Describes the removed labels, and those that stay with their process.
fn in_words_after(dropped: &LabelsDropped) -> String {
    let begin = match dropped.at.is_empty() && dropped.failed.is_empty() {
        true => "no device writes labels\n".to_owned(),
        false => String::new(),
    };
    begin + &left_alone(dropped)
}

/// Describes labels that stay with their process. `knee unload --all` uses it too.
pub(super) fn left_alone(dropped: &LabelsDropped) -> String {
    let held = |at: &LabelsAt| format!("{}, and end with it", how(at));
    words(&dropped.at, |_| "labels are no longer written".to_owned()) + &words(&dropped.held, held)
}

/// Returns an error for each label writer that could not be removed. `knee unload --all` uses it too.
pub(super) fn not_left_alone(dropped: &LabelsDropped) -> Vec<String> {
    let complaint = |(what, why): &(String, Error)| {
        format!("knee: cannot stop writing labels at {what}: {why}")
    };
    dropped.failed.iter().map(complaint).collect()
}

/// Describes where labels are written, for `knee status`.
pub(super) fn in_words(seen: &LabelsSeen) -> String {
    let how = |at: &LabelsAt| match at.kept {
        true => "IPv6 labels follow PLB".to_owned(),
        false => format!("IPv6 labels follow PLB as long as {} it", who_holds(at)),
    };
    words(&seen.at, how) + &unknown_in_words("the devices with labels", &seen.unknown)
}

/// Returns a line for each namespace that could not be read.
pub(super) fn unknown_in_words(what: &str, unknown: &[(String, String)]) -> String {
    let line = |(namespace, why): &(String, String)| {
        format!("cannot read {namespace}, so knee does not know {what} there: {why}\n")
    };
    unknown.iter().map(line).collect()
}

pub(super) fn unknown_json(unknown: &[(String, String)]) -> Vec<Json> {
    unknown.iter().map(|(namespace, why)| json!({ "namespace": namespace, "why": why })).collect()
}

pub(super) fn as_json(all: &[LabelsAt]) -> Vec<Json> {
    let holder = |(pid, command): &(u32, String)| json!({ "pid": pid, "command": command });
    all.iter()
        .map(|at| {
            let holders: Vec<Json> = at.holders.iter().map(holder).collect();
            json!({
                "namespace": at.namespace,
                "device": at.device,
                "kept": at.kept,
                "holders": holders,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_cannot_be_looked_at_is_named_beside_the_rest() {
        let unknown = vec![("pid 7 (x)".to_owned(), "it is not permitted".to_owned())];
        let seen = LabelsSeen { at: Vec::new(), unknown };
        assert_eq!(
            in_words(&seen),
            "cannot read pid 7 (x), so knee does not know the devices with labels there: it is not \
             permitted\n"
        );
    }

    #[test]
    fn what_could_not_be_taken_away_is_named_and_is_not_said_to_be_kept_nowhere() {
        let failed = vec![("eth0 (host)".to_owned(), Error::NoBpffs)];
        let dropped = LabelsDropped { failed, ..LabelsDropped::default() };
        assert_eq!(in_words_after(&dropped), "");
        let complaints = not_left_alone(&dropped);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("knee: cannot stop writing labels at eth0 (host)"));
    }
}
