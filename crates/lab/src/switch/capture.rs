//! Captures of the switch's ports, one file for each host, in the shape of the simulator's ([`knee_wire::host`]).
//!
//! The switch's thread copies the beginning of each frame into memory, and another thread writes. At most `CHUNKS` chunks
//! wait between them. If the disk is slower than the traffic, frames are left out and counted; the switch is never delayed.

use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

use knee_wire::host::{AT_HOST, AT_PORT, HostFile, SNAP_BYTES};
use knee_wire::{Direction, Record};

use crate::Error;
use crate::error::{caused, failed};

/// A chunk is handed over when it holds this much, bytes: about 2000 frames.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks that may wait: 16 MiB, half a second at 200,000 frames a second.
const CHUNKS: usize = 64;

/// Captures being written.
#[derive(Debug)]
pub struct Captures {
    chunk: Chunk,
    full: SyncSender<Chunk>,
    /// Chunks that have been written, to be filled again.
    empty: Receiver<Chunk>,
    counts: CaptureCounts,
    writer: JoinHandle<Result<(), Error>>,
}

/// Counts of captured frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Frames that are in the files.
    pub frames: u64,
    /// Frames that are not, because the disk was slower than the traffic.
    pub left_out: u64,
}

/// Beginnings of frames, one after the other.
#[derive(Debug, Default)]
struct Chunk {
    frames: Vec<Head>,
    data: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    at_ns: u64,
    port: u32,
    interface: u32,
    original_len: u32,
    captured_len: u32,
}

impl Captures {
    /// Begins a file in `dir`, which is there, for each of the hosts; their places are the numbers of their ports. Times that
    /// follow are ns since the run's time 0.
    ///
    /// # Errors
    /// If a file cannot be made, or the thread that writes.
    pub fn create<S: AsRef<str>>(dir: &Path, hosts: &[S]) -> Result<Captures, Error> {
        let files = hosts.iter().map(|host| HostFile::create(dir, host.as_ref()));
        let files = files.collect::<Result<Vec<_>, _>>().map_err(caused)?;
        let (full, to_write) = sync_channel(CHUNKS);
        let (written, empty) = channel();
        let writer = std::thread::Builder::new()
            .name("captures".to_owned())
            .spawn(move || write(files, &to_write, &written))
            .map_err(failed("no thread for captures"))?;
        let counts = CaptureCounts::default();
        Ok(Captures { chunk: Chunk::default(), full, empty, counts, writer })
    }

    /// A frame has left the host at this port.
    #[inline]
    pub fn frame_in(&mut self, port: usize, bytes: &[u8], at_ns: u64) {
        self.frame(port, AT_HOST, bytes, at_ns);
    }

    /// A frame leaves the switch for the host at this port.
    #[inline]
    pub fn frame_out(&mut self, port: usize, bytes: &[u8], at_ns: u64) {
        self.frame(port, AT_PORT, bytes, at_ns);
    }

    #[inline]
    fn frame(&mut self, port: usize, interface: u32, bytes: &[u8], at_ns: u64) {
        let begin = &bytes[..bytes.len().min(SNAP_BYTES as usize)];
        self.chunk.data.extend_from_slice(begin);
        self.chunk.frames.push(Head {
            at_ns,
            port: port as u32,
            interface,
            original_len: bytes.len() as u32,
            captured_len: begin.len() as u32,
        });
        if self.chunk.data.len() >= CHUNK_BYTES {
            self.hand_over();
        }
    }

    #[cold]
    fn hand_over(&mut self) {
        let chunk = std::mem::take(&mut self.chunk);
        let frames = chunk.frames.len() as u64;
        self.chunk = match self.full.try_send(chunk) {
            Ok(()) => {
                self.counts.frames += frames;
                self.empty.try_recv().unwrap_or_default()
            }
            // If the writer has ended, the error is reported at the end.
            Err(TrySendError::Full(chunk) | TrySendError::Disconnected(chunk)) => {
                self.counts.left_out += frames;
                chunk.emptied()
            }
        };
    }

    /// Writes what is still in memory, and keeps the files: if this is dropped instead, they are removed.
    ///
    /// # Errors
    /// If a file cannot be written; then there are none.
    pub fn finish(mut self) -> Result<CaptureCounts, Error> {
        let chunk = std::mem::take(&mut self.chunk);
        self.counts.frames += chunk.frames.len() as u64;
        // An empty chunk marks the end. A writer that takes no chunks has failed, which is reported below.
        let _ = self.full.send(chunk).and_then(|()| self.full.send(Chunk::default()));
        drop(self.full);
        let written = self.writer.join();
        written
            .map_err(|_| Error::Failed("the thread that writes captures panicked".to_owned()))??;
        Ok(self.counts)
    }
}

impl Chunk {
    fn emptied(mut self) -> Chunk {
        self.frames.clear();
        self.data.clear();
        self
    }
}

/// Writes chunks until one says that it is the end; without that the files are given up.
fn write(
    mut files: Vec<HostFile>,
    to_write: &Receiver<Chunk>,
    written: &Sender<Chunk>,
) -> Result<(), Error> {
    let mut is_whole = false;
    for chunk in to_write {
        is_whole = chunk.frames.is_empty();
        let mut data = &chunk.data[..];
        for head in &chunk.frames {
            let (begin, rest) = data.split_at(head.captured_len as usize);
            data = rest;
            if let Some(file) = files.get_mut(head.port as usize) {
                file.write(&head.record(begin)).map_err(caused)?;
            }
        }
        let _ = written.send(chunk.emptied());
    }
    if is_whole {
        files.into_iter().try_for_each(HostFile::finish).map_err(caused)?;
    }
    Ok(())
}

impl Head {
    fn record<'a>(&self, data: &'a [u8]) -> Record<'a> {
        Record {
            interface: self.interface,
            at_ns: self.at_ns,
            original_len: self.original_len,
            data,
            direction: Some(if self.interface == AT_HOST { Direction::Out } else { Direction::In }),
            comment: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_wire::host::file_name;
    use knee_wire::read;
    use std::fs;
    use std::ops::ControlFlow;

    /// Time, interface, length and first byte of each frame of a host.
    fn frames(dir: &Path, host: &str) -> Vec<(u64, u32, u32, u8)> {
        let mut frames = Vec::new();
        let file = fs::File::open(dir.join(file_name(host))).unwrap();
        let ending = read(file, |frame| {
            assert_eq!(frame.data.len(), frame.original_len.min(SNAP_BYTES) as usize);
            frames.push((frame.at_ns, frame.interface, frame.original_len, frame.data[0]));
            ControlFlow::Continue(())
        });
        assert_eq!(ending.unwrap().broken, None);
        frames
    }

    #[test]
    fn each_host_has_its_frames_on_both_sides() {
        let scratch = tempfile::tempdir().unwrap();
        let mut captures = Captures::create(scratch.path(), &["a", "b"]).unwrap();
        captures.frame_in(0, &[1; 1514], 5_000_000_000);
        captures.frame_out(1, &[2; 1514], 5_000_012_112);
        captures.frame_in(1, &[3; 66], 5_000_020_000);
        captures.frame_out(0, &[4; 66], 5_000_020_001);
        let counts = captures.finish().unwrap();
        assert_eq!(counts, CaptureCounts { frames: 4, left_out: 0 });
        let expected = [(5_000_000_000, AT_HOST, 1514, 1), (5_000_020_001, AT_PORT, 66, 4)];
        assert_eq!(frames(scratch.path(), "a"), expected);
        let expected = [(5_000_012_112, AT_PORT, 1514, 2), (5_000_020_000, AT_HOST, 66, 3)];
        assert_eq!(frames(scratch.path(), "b"), expected);
    }

    #[test]
    fn a_second_of_many_frames_costs_the_switch_little_and_none_is_missing_uncounted() {
        const FRAMES: u64 = 200_000;
        let scratch = tempfile::tempdir().unwrap();
        let mut captures = Captures::create(scratch.path(), &["a", "b"]).unwrap();
        let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let frame = [7; 1514];
        let before = cpu();
        for number in 0..FRAMES {
            captures.frame_in(number as usize % 2, &frame, number * 5_000);
        }
        let spent = cpu() - before;
        let counts = captures.finish().unwrap();
        let spent_ns = spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64;
        // A switch has 5 us for a frame at this rate.
        assert!(spent_ns / FRAMES < 1000, "{} ns for a frame", spent_ns / FRAMES);
        assert_eq!(counts.frames + counts.left_out, FRAMES);
        let found = ["a", "b"].map(|host| frames(scratch.path(), host).len() as u64);
        assert_eq!(found.iter().sum::<u64>(), counts.frames);
    }

    #[test]
    fn what_is_given_up_or_fails_leaves_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let mut captures = Captures::create(scratch.path(), &["a"]).unwrap();
        captures.frame_in(0, &[1; 60], 0);
        let Captures { full, writer, .. } = captures;
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
        drop(full);
        writer.join().unwrap().unwrap();
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);

        fs::write(scratch.path().join("b.pcapng"), "mine").unwrap();
        let why = Captures::create(scratch.path(), &["a", "b"]).unwrap_err();
        assert!(why.to_string().contains("b.pcapng: cannot write: File exists"), "{why}");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_slow_writer_has_no_room_for_is_counted() {
        let (full, to_write) = sync_channel(1);
        let (_written, empty) = channel();
        let writer = std::thread::spawn(|| Ok(()));
        let (chunk, counts) = (Chunk::default(), CaptureCounts::default());
        let mut captures = Captures { chunk, full, empty, counts, writer };
        let of_a_chunk = CHUNK_BYTES as u64 / 128;
        for number in 0..3 * of_a_chunk {
            captures.frame_out(0, &[0; 128], number);
        }
        let counts = captures.counts;
        assert_eq!(counts, CaptureCounts { frames: of_a_chunk, left_out: 2 * of_a_chunk });
        drop(to_write);
    }
}
