//! `knee compare --first-difference`.

use std::path::Path;

use knee_files::open_file;
use knee_pcap::first_difference::{Difference, HostCapture, MOST_PACKETS, first_difference};

use crate::{CHECK_FAILED, DONE, Failure, print};

/// Compares the captures of equal names in two results directories, and prints the earliest packet that differs.
pub(crate) fn run(one: &Path, other: &Path, slack_ns: Option<u64>) -> Result<u8, Failure> {
    let mut names = captures(one)?;
    let others = captures(other)?;
    names.retain(|name| others.contains(name));
    if names.is_empty() {
        return Err(Failure::Says(format!(
            "{} and {}: have no capture of the same host and run: run both with --pcap",
            one.display(),
            other.display()
        )));
    }
    let mut is_cut = false;
    let mut first: Option<(String, Difference)> = None;
    for name in &names {
        let [ours, theirs] = [one, other].map(|dir| read(&dir.join(name)));
        let (ours, theirs) = (ours?, theirs?);
        is_cut |= ours.is_cut || theirs.is_cut;
        let Some(difference) = first_difference(&ours, &theirs, slack_ns) else { continue };
        // What a host sends otherwise comes before what others receive of it.
        let order = |found: &Difference| (found.by_clock_ns, !found.sent);
        if first.as_ref().is_none_or(|(_, first)| order(&difference) < order(first)) {
            first = Some((name.clone(), difference));
        }
    }
    let Some((name, difference)) = first else {
        let of = if is_cut { format!(" of the first {MOST_PACKETS}") } else { String::new() };
        let captures = if names.len() == 1 { "capture" } else { "captures" };
        print(&format!("{} {captures}: no packet{of} differs\n", names.len()))?;
        return Ok(DONE);
    };
    let way = if difference.sent { "sent" } else { "received" };
    print(&format!(
        "{}: packet {} that {} {way} of its connection with {}, at {:.3} us, is the first that differs\n  {} | {}\n{}",
        name.escape_debug(),
        difference.number,
        difference.local,
        difference.peer,
        difference.at_ns as f64 / 1e3,
        one.display(),
        other.display(),
        difference.table(),
    ))?;
    Ok(CHECK_FAILED)
}

fn captures(dir: &Path) -> Result<Vec<String>, Failure> {
    let says = |why: std::io::Error| Failure::Says(format!("{}: {why}", dir.display()));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(says)? {
        let name = entry.map_err(says)?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".pcapng") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn read(file: &Path) -> Result<HostCapture, Failure> {
    let says = |why: &dyn std::fmt::Display| Failure::Says(format!("{}: {why}", file.display()));
    let opened = open_file(file, "capture").map_err(|why| says(&why))?;
    HostCapture::read(opened).map_err(|why| says(&why))
}
