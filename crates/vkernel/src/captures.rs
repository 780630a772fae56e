//! Captures of hosts, of what the guest's kernel has noted of its cables (`kernel/knee_capture.c`).

use std::path::Path;

use knee_capture::host::{AT_HOST, AT_PORT, HostFile, SNAP_BYTES};
use knee_capture::{Direction, Record};
use knee_sim::Run;
use knee_sim::spec::{Link, NodeId};

use crate::Error;

/// A frame's times, link and lengths; its bytes follow, filled up to 8.
const HEADER_BYTES: usize = 32;
/// What came to nowhere before the run was over.
const NEVER: u64 = u64::MAX;

/// A frame that went over a link.
#[derive(Clone, Copy, Debug)]
struct Frame<'a> {
    /// It left its queue then, and had come to the other end then; on the guest's clock.
    left_ns: u64,
    came_ns: u64,
    link: u32,
    original_len: u32,
    /// Without the zeros at its end.
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The first frame in these bytes, and what is behind it.
    fn read(bytes: &'a [u8]) -> Option<(Frame<'a>, &'a [u8])> {
        let u64_at = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let len = u32_at(24)? as usize;
        let frame = Frame {
            left_ns: u64_at(0)?,
            came_ns: u64_at(8)?,
            link: u32_at(16)?,
            original_len: u32_at(20)?,
            bytes: bytes.get(HEADER_BYTES..HEADER_BYTES + len)?,
        };
        Some((frame, bytes.get((HEADER_BYTES + len).next_multiple_of(8)..)?))
    }
}

/// A frame where a host, or the other end of its link, sees it.
struct Sighting<'a> {
    at_ns: u64,
    host: NodeId,
    interface: u32,
    direction: Direction,
    frame: Frame<'a>,
}

/// Writes `HOST.pcapng` for each host into a directory that is there. Times become those since the run's time 0.
///
/// # Errors
/// Frames for which the guest had no memory, bytes that are none of frames, a file that cannot be written.
pub(crate) fn write(run: &Run, mut bytes: &[u8], zero_ns: u64, dir: &Path) -> Result<(), Error> {
    let nodes = run.network.nodes.iter();
    let files =
        nodes.map(|node| node.host.as_ref().map(|_| HostFile::create(dir, &node.name)).transpose());
    let files: Result<Vec<Option<HostFile>>, _> = files.collect();
    let mut files = files.map_err(|why| Error(why.0))?;
    let mut sightings = Vec::new();
    let cut_short = || Error("the guest's captures are cut short".to_owned());
    let (left_out, frames) = bytes.split_first_chunk().ok_or_else(cut_short)?;
    if u64::from_ne_bytes(*left_out) > 0 {
        return Err(Error(
            "--pcap: a guest has room for 1 GB of captures, and this run has more: make run.duration shorter, or leave --pcap out"
                .to_owned(),
        ));
    }
    bytes = frames;
    while !bytes.is_empty() {
        let (frame, rest) = Frame::read(bytes).ok_or_else(cut_short)?;
        bytes = rest;
        let link = run.network.links.get(frame.link as usize);
        let link = link.ok_or_else(|| Error(format!("the guest has no link {}", frame.link)))?;
        sightings.extend(seen(run, link, frame));
    }
    // Frames of one time stay in the order in which they came.
    sightings.sort_by_key(|sighting| sighting.at_ns);
    let mut data = Vec::new();
    for Sighting { at_ns, host, interface, direction, frame } in sightings {
        let Some(Some(file)) = files.get_mut(host as usize) else { continue };
        data.clear();
        data.extend_from_slice(frame.bytes);
        data.resize(frame.original_len.min(SNAP_BYTES) as usize, 0);
        let at_ns = at_ns.saturating_sub(zero_ns);
        let (original_len, direction) = (frame.original_len, Some(direction));
        let record =
            Record { interface, at_ns, original_len, data: &data, direction, comment: None };
        file.write(&record).map_err(|why| Error(why.0))?;
    }
    files.into_iter().flatten().try_for_each(HostFile::finish).map_err(|why| Error(why.0))
}

/// Where a frame is seen: leaving and coming, by the host that sends and by the one that receives.
fn seen<'a>(run: &Run, link: &Link, frame: Frame<'a>) -> impl Iterator<Item = Sighting<'a>> {
    let is_host = |node: NodeId| run.network.nodes[node as usize].host.is_some();
    let of = [
        (link.from, Direction::Out, [AT_HOST, AT_PORT]),
        (link.to, Direction::In, [AT_PORT, AT_HOST]),
    ];
    let all = of.map(|(host, direction, [leaves, comes])| {
        let at = [(frame.left_ns, leaves), (frame.came_ns, comes)];
        let is_there = is_host(host);
        let sighting = at.map(|(at_ns, interface)| {
            let is_seen = is_there && at_ns != NEVER;
            is_seen.then_some(Sighting { at_ns, host, interface, direction, frame })
        });
        sighting.into_iter().flatten()
    });
    all.into_iter().flatten()
}
