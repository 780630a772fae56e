//! `knee plb`.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Subcommand;
use knee_bpf::host::Host;
use knee_bpf::{Kept, LabelsAt};
use serde_json::{Value as Json, json};

use super::load::duration;
use crate::{Failure, print, stop_on_signals};

/// How often a command in the foreground looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write IPv6 labels at a device, so that connections whose algorithm asks for it change path.
    On {
        /// The device that packets leave by.
        device: String,
        /// Only for so long, in the foreground: the kernel ends it with this process, in whatever way.
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        time: Option<Duration>,
    },
    /// Leave the labels at a device alone again.
    Off {
        /// The device.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        device: Option<String>,
        /// At all devices where that is kept, in all network namespaces.
        #[arg(long)]
        all: bool,
    },
    /// Show at which devices labels are written.
    Show {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let host = Host::here();
    match &args.action {
        Action::On { device, time: None } => {
            let what = match host.keep_labels(device)? {
                Kept::New => "labels of connections that change path are written here",
                Kept::TakenOver => "what a process held until now is kept",
                Kept::Already => "labels were written here already",
            };
            print(&format!("{device}: {what}\n  knee plb off {device} undoes it\n"))
        }
        Action::On { device, time: Some(time) } => hold(&host, device, *time),
        Action::Off { device, .. } => {
            let dropped = host.drop_labels(device.as_deref())?;
            match dropped.is_empty() {
                true => print("labels are kept nowhere\n"),
                false => print(&left_alone(&dropped)),
            }
        }
        Action::Show { json: true } => {
            print(&format!("{}\n", json!({ "labels": as_json(&host.labels()?) })))
        }
        Action::Show { json: false } => {
            let all = host.labels()?;
            match all.is_empty() {
                true => print("labels are written nowhere: knee plb on DEVICE\n"),
                false => print(&words(&all, how)),
            }
        }
    }
}

fn hold(host: &Host, device: &str, time: Duration) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let started = Instant::now();
    let labels = host.hold_labels(device, time)?;
    print(&format!(
        "{device}: labels are written here for {} s\n  knee plb on {device}, from elsewhere, keeps it; the \
         end of this process undoes it\n",
        time.as_secs_f64()
    ))?;
    while started.elapsed() < time && !stop.load(Ordering::Relaxed) && !labels.are_kept() {
        std::thread::sleep(LOOK_EVERY);
    }
    let kept = labels.are_kept();
    drop(labels);
    match kept {
        true => print(&format!("{device}: kept\n")),
        false => print(&format!("{device}: left alone again\n")),
    }
}

fn how(at: &LabelsAt) -> &'static str {
    if at.kept { "labels are written" } else { "labels are written as long as a process holds it" }
}

fn words(all: &[LabelsAt], what: impl Fn(&LabelsAt) -> &'static str) -> String {
    let mut out = String::new();
    for at in all {
        let _ = writeln!(out, "{} ({}): {}", at.device, at.namespace, what(at));
    }
    out
}

/// For `knee unload --all`, too.
pub(super) fn left_alone(dropped: &[LabelsAt]) -> String {
    words(dropped, |_| "labels are left alone again")
}

/// For `knee status`: where labels are written.
pub(super) fn in_words(all: &[LabelsAt]) -> String {
    words(
        all,
        |at| if at.kept { "IPv6 labels follow PLB" } else { "IPv6 labels follow PLB (held)" },
    )
}

pub(super) fn as_json(all: &[LabelsAt]) -> Vec<Json> {
    all.iter()
        .map(|at| json!({ "namespace": at.namespace, "device": at.device, "kept": at.kept }))
        .collect()
}
