//! Captures of hosts, made from the frames that the guest's kernel records on its cables (`kernel/knee_capture.c`).

use std::path::Path;

use knee_run::Run;
use knee_run::error::caused;
use knee_run::spec::{Link, NodeId};
use knee_wire::host::{AT_HOST, AT_PORT, HostFile, SNAP_BYTES};
use knee_wire::{Direction, Record};

use crate::Error;

/// Length of a frame's header: times, link and lengths. The frame's bytes follow, padded to a multiple of 8.
const HEADER_BYTES: usize = 32;
/// Time of an event that did not happen before the run ended.
const NEVER: u64 = u64::MAX;

/// A frame that crossed a link.
#[derive(Clone, Copy, Debug)]
struct Frame<'a> {
    /// Times at which the frame left its queue and reached the other end, in ns on the guest's clock.
    left_ns: u64,
    came_ns: u64,
    link: u32,
    original_len: u32,
    /// The frame's bytes without the padding.
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Splits off the first frame of these bytes.
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

/// Writes `HOST.pcapng` for each host into an existing directory, with times since the run's time 0.
///
/// # Errors
/// Fails if the guest lacked memory for frames, if the bytes are malformed, or if a file cannot be written.
pub(crate) fn write(run: &Run, bytes: &[u8], zero_ns: u64, dir: &Path) -> Result<(), Error> {
    let cut_short = || Error::Failed("the guest's captures are cut short".to_owned());
    let (left_out, frames) = bytes.split_first_chunk().ok_or_else(cut_short)?;
    if u64::from_ne_bytes(*left_out) > 0 {
        return Err(Error::Failed(
            "--pcap: a guest has room for 1 GB of captures, and this run has more: make run.duration shorter, or leave --pcap out"
                .to_owned(),
        ));
    }
    // Only times and offsets are kept, because there may be millions of frames.
    let mut sightings: Vec<(u64, usize, u8)> = Vec::new();
    let mut rest = frames;
    while !rest.is_empty() {
        let (frame, behind) = Frame::read(rest).ok_or_else(cut_short)?;
        let link = run.network.links.get(frame.link as usize);
        let link =
            link.ok_or_else(|| Error::Failed(format!("the guest has no link {}", frame.link)))?;
        let offset = frames.len() - rest.len();
        let seen = SIGHTINGS.iter().zip(0..).filter_map(|(sighting, number)| {
            let (node, at_ns) = sighting.of(link, &frame);
            let is_seen = at_ns != NEVER && run.network.nodes[node as usize].host.is_some();
            is_seen.then_some((at_ns, offset, number))
        });
        sightings.extend(seen);
        rest = behind;
    }
    // Frames of the same time stay in their order of arrival, because the offset breaks ties.
    sightings.sort_unstable();
    let nodes = run.network.nodes.iter();
    let files =
        nodes.map(|node| node.host.as_ref().map(|_| HostFile::create(dir, &node.name)).transpose());
    let files: Result<Vec<Option<HostFile>>, _> = files.collect();
    let mut files = files.map_err(caused)?;
    let mut data = Vec::new();
    for (at_ns, offset, number) in sightings {
        let sighting = SIGHTINGS[usize::from(number)];
        let (frame, _) = Frame::read(&frames[offset..]).ok_or_else(cut_short)?;
        let (host, _) = sighting.of(&run.network.links[frame.link as usize], &frame);
        let Some(Some(file)) = files.get_mut(host as usize) else { continue };
        data.clear();
        data.extend_from_slice(frame.bytes);
        data.resize(frame.original_len.min(SNAP_BYTES) as usize, 0);
        let record = Record {
            interface: sighting.interface,
            at_ns: at_ns.saturating_sub(zero_ns),
            original_len: frame.original_len,
            data: &data,
            direction: Some(sighting.direction),
            comment: None,
        };
        file.write(&record).map_err(caused)?;
    }
    files.into_iter().flatten().try_for_each(HostFile::finish).map_err(caused)
}

/// A side of a link that sees a frame: the sender as the frame leaves its queue, the receiver as it arrives.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    direction: Direction,
    interface: u32,
    leaves: bool,
}

const SIGHTINGS: [Sighting; 4] = [
    Sighting { direction: Direction::Out, interface: AT_HOST, leaves: true },
    Sighting { direction: Direction::Out, interface: AT_PORT, leaves: false },
    Sighting { direction: Direction::In, interface: AT_PORT, leaves: true },
    Sighting { direction: Direction::In, interface: AT_HOST, leaves: false },
];

impl Sighting {
    /// Returns the node that sees a frame of this link, and the time in ns.
    fn of(self, link: &Link, frame: &Frame<'_>) -> (NodeId, u64) {
        let node = if self.direction == Direction::Out { link.from } else { link.to };
        (node, if self.leaves { frame.left_ns } else { frame.came_ns })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::ops::ControlFlow;

    use knee_queue::QueueConfig;
    use knee_queue::time::{Rate, Time};
    use knee_run::spec::{HostConfig, LinuxVersion, Sampling, Schedule};
    use knee_run::topology::{Cable, Star};

    use super::*;

    /// Two hosts at a switch. Links 0 and 1 are the first host's, up and down.
    fn run() -> Run {
        let host = HostConfig::new(LinuxVersion(6, 1));
        let cable = Cable::new(
            Rate::from_bps(1_000_000_000),
            QueueConfig::DropTail(knee_queue::DropTailConfig { limit: knee_queue::Limit::Pkts(9) }),
        );
        let hosts = ["a", "b"].map(|name| (name.to_owned(), host.clone())).to_vec();
        Run {
            seed: 1,
            end: Time::from_ms(1),
            until_done: false,
            network: Star { hosts, up: cable.clone(), down: cable }.build(),
            flows: Vec::new(),
            pings: Vec::new(),
            sampling: Sampling::default(),
            schedule: Schedule::default(),
        }
    }

    fn frame(left_ns: u64, came_ns: u64, link: u32, len: u32) -> Vec<u8> {
        let times = [left_ns, came_ns].map(u64::to_ne_bytes).concat();
        let numbers = [link, 60, len, 0].map(u32::to_ne_bytes).concat();
        let bytes = vec![7; len.next_multiple_of(8) as usize];
        [times, numbers, bytes].concat()
    }

    fn written(left_out: u64, frames: &[Vec<u8>]) -> (Result<(), Error>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let bytes = [left_out.to_ne_bytes().to_vec(), frames.concat()].concat();
        (write(&run(), &bytes, 1000, dir.path()), dir)
    }

    #[test]
    fn a_host_sees_frames_at_both_ends_of_its_link_in_the_order_of_time() {
        let frames = [frame(1500, 1900, 0, 20), frame(1600, NEVER, 1, 9), frame(1500, 1700, 0, 0)];
        let (done, dir) = written(0, &frames);
        assert_eq!(done, Ok(()));
        let mut seen = Vec::new();
        let file = fs::File::open(dir.path().join(knee_wire::host::file_name("a"))).unwrap();
        knee_wire::read::read(file, |frame| {
            seen.push((frame.at_ns, frame.interface, frame.data.len()));
            ControlFlow::Continue(())
        })
        .unwrap();
        let (host, port) = (AT_HOST, AT_PORT);
        assert_eq!(
            seen,
            [(500, host, 60), (500, host, 60), (600, port, 60), (700, port, 60), (900, port, 60)]
        );
    }

    #[test]
    fn what_is_not_whole_is_refused_before_a_file_is_made() {
        let cut = frame(1, 2, 0, 20)[..40].to_vec();
        for (left_out, frames, why) in [
            (1, vec![frame(1, 2, 0, 20)], "--pcap: a guest has room for 1 GB"),
            (0, vec![cut], "the guest's captures are cut short"),
            (0, vec![frame(1, 2, 99, 0)], "the guest has no link 99"),
        ] {
            let (done, dir) = written(left_out, &frames);
            assert!(done.unwrap_err().to_string().starts_with(why), "{why}");
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        }
    }
}
