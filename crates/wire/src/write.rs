//! pcapng files, written packet by packet, with times in ns.

use crate::Error;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Size of a file's write buffer, bytes.
const BUFFER_BYTES: usize = 128 << 10;

/// Blocks, options and constants of the format (draft-ietf-opsawg-pcapng).
mod format {
    pub(super) const SECTION: u32 = 0x0a0d_0d0a;
    pub(super) const INTERFACE: u32 = 1;
    pub(super) const PACKET: u32 = 6;
    pub(super) const BYTE_ORDER: u32 = 0x1a2b_3c4d;
    pub(super) const END: u16 = 0;
    pub(super) const COMMENT: u16 = 1;
    pub(super) const PACKET_FLAGS: u16 = 2;
    pub(super) const INTERFACE_NAME: u16 = 2;
    pub(super) const APPLICATION: u16 = 4;
    pub(super) const RESOLUTION: u16 = 9;
    /// Value of `if_tsresol`: 10^-9 s.
    pub(super) const NANOSECONDS: u8 = 9;
}

/// Where packets are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name that tools show.
    pub name: String,
    /// Link-layer type, one of [`crate::link`].
    pub link: u32,
    /// Longer packets are cut to this many bytes; 0: none is.
    pub snaplen: u32,
}

/// Direction of a packet at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the host.
    In,
    /// From the host.
    Out,
}

/// A packet of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    /// Place of its interface.
    pub interface: u32,
    pub at_ns: u64,
    /// Length on the wire, bytes; `data` may be only the beginning.
    pub original_len: u32,
    /// Bytes from the link-layer header on.
    pub data: &'a [u8],
    /// If it is known.
    pub direction: Option<Direction>,
    /// Comment that tools show with the packet.
    pub comment: Option<&'a str>,
}

/// Writes a file into anything that takes bytes.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    /// File name, for errors.
    name: String,
    snaplens: Vec<u32>,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a file of these interfaces. `name` is what errors call it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(out: W, name: &str, interfaces: &[Interface]) -> Result<Writer<W>, Error> {
        let snaplens = interfaces.iter().map(|interface| interface.snaplen).collect();
        let mut writer = Writer { out, name: name.to_owned(), snaplens, block: Vec::new() };
        writer.section()?;
        for interface in interfaces {
            writer.interface(interface)?;
        }
        Ok(writer)
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// If it cannot be written, or the interface does not exist.
    pub fn write(&mut self, record: &Record<'_>) -> Result<(), Error> {
        let Some(snaplen) = self.snaplens.get(record.interface as usize) else {
            let (name, there) = (self.name.clone(), self.snaplens.len());
            return Err(Error::NoInterface { name, interface: record.interface, there });
        };
        let most = if *snaplen == 0 { usize::MAX } else { *snaplen as usize };
        let data = &record.data[..record.data.len().min(most)];
        self.begin(format::PACKET);
        self.words(&[
            record.interface,
            (record.at_ns >> 32) as u32,
            record.at_ns as u32,
            data.len() as u32,
            record.original_len.max(data.len() as u32),
        ]);
        self.padded(data);
        if let Some(comment) = record.comment {
            self.option(format::COMMENT, comment.as_bytes());
        }
        if let Some(direction) = record.direction {
            let bits: u32 = if direction == Direction::In { 1 } else { 2 };
            self.option(format::PACKET_FLAGS, &bits.to_le_bytes());
        }
        if record.comment.is_some() || record.direction.is_some() {
            self.option(format::END, &[]);
        }
        self.end()
    }

    /// Hands over what it has written into, all of it written.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<W, Error> {
        self.out.flush().map_err(|why| cannot_write(&self.name, why))?;
        Ok(self.out)
    }

    fn section(&mut self) -> Result<(), Error> {
        self.begin(format::SECTION);
        // Version 1.0, of a length that is not known yet.
        self.words(&[format::BYTE_ORDER, 1, u32::MAX, u32::MAX]);
        self.option(format::APPLICATION, b"knee");
        self.option(format::END, &[]);
        self.end()
    }

    fn interface(&mut self, interface: &Interface) -> Result<(), Error> {
        self.begin(format::INTERFACE);
        self.words(&[interface.link & 0xffff, interface.snaplen]);
        self.option(format::INTERFACE_NAME, interface.name.as_bytes());
        self.option(format::RESOLUTION, &[format::NANOSECONDS]);
        self.option(format::END, &[]);
        self.end()
    }

    /// A block is its kind, its length, what is in it, and its length again.
    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.words(&[kind, 0]);
    }

    fn end(&mut self) -> Result<(), Error> {
        let len = self.block.len() as u32 + 4;
        self.block[4..8].copy_from_slice(&len.to_le_bytes());
        self.words(&[len]);
        self.out.write_all(&self.block).map_err(|why| cannot_write(&self.name, why))
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.block.extend_from_slice(&word.to_le_bytes()));
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// An option longer than its length can say is cut.
    fn option(&mut self, code: u16, value: &[u8]) {
        let len = value.len().min(usize::from(u16::MAX));
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(len as u16).to_le_bytes());
        self.padded(&value[..len]);
    }
}

/// A file on disk; it is removed if it is dropped before [`File::finish`].
#[derive(Debug)]
pub struct File {
    /// `None` once finished.
    writer: Option<Writer<BufWriter<fs::File>>>,
    /// Path to remove on drop; empty once the file is complete.
    path: PathBuf,
}

impl File {
    /// Creates a new file that only its owner may read, since payload may be private; an existing file is an error.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(path: &Path, interfaces: &[Interface]) -> Result<File, Error> {
        let name = path.display().to_string();
        let file = knee_files::create_private(path);
        let file = file.map_err(|why| cannot_write(&name, why))?;
        // Removes the file if its head cannot be written.
        let mut made = File { writer: None, path: path.to_owned() };
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        made.writer = Some(Writer::new(out, &name, interfaces)?);
        Ok(made)
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// If it cannot be written, or the interface does not exist.
    pub fn write(&mut self, record: &Record<'_>) -> Result<(), Error> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write(record))
    }

    /// Writes what is still in memory, and keeps the file.
    ///
    /// # Errors
    /// If it cannot be written; then there is no file.
    pub fn finish(mut self) -> Result<(), Error> {
        if let Some(writer) = self.writer.take() {
            writer.finish()?;
            self.path.clear();
        }
        Ok(())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = knee_files::remove_file(&self.path);
        }
    }
}

fn cannot_write(name: &str, source: io::Error) -> Error {
    Error::Unwritten { name: name.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{link, read};
    use std::ops::ControlFlow;

    fn interfaces() -> [Interface; 2] {
        [("left", link::ETHERNET, 100), ("right", link::RAW, 0)]
            .map(|(name, link, snaplen)| Interface { name: name.to_owned(), link, snaplen })
    }

    #[test]
    fn what_is_written_is_read_again() {
        let data: Vec<u8> = (0..=254).collect();
        let mut writer = Writer::new(Vec::new(), "x", &interfaces()).unwrap();
        let plain =
            Record { at_ns: 3_000_000_007, original_len: 1514, data: &data, ..Record::default() };
        let comment = Some("dropped here");
        let direction = Some(Direction::Out);
        writer.write(&plain).unwrap();
        writer
            .write(&Record { interface: 1, comment, direction, at_ns: u64::MAX, ..plain })
            .unwrap();
        writer.write(&Record { interface: 1, original_len: 0, data: &[1, 2, 3], ..plain }).unwrap();
        let bytes = writer.finish().unwrap();
        assert!(bytes.windows(12).any(|window| window == b"dropped here"));
        let mut found = Vec::new();
        let ending = read(&bytes[..], |packet| {
            let (at, len) = (packet.at_ns, packet.original_len);
            found.push((at, packet.interface, packet.link, len, packet.data.to_vec()));
            ControlFlow::Continue(())
        });
        assert_eq!(ending.unwrap().broken, None);
        let expected = [
            (3_000_000_007, 0, link::ETHERNET, 1514, data[..100].to_vec()),
            (u64::MAX, 1, link::RAW, 1514, data.clone()),
            (3_000_000_007, 1, link::RAW, 3, vec![1, 2, 3]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_interface_that_is_not_there_is_refused() {
        let mut writer = Writer::new(Vec::new(), "x.pcapng", &interfaces()).unwrap();
        let why = writer.write(&Record { interface: 2, ..Record::default() }).unwrap_err();
        assert_eq!(why.to_string(), "x.pcapng has no interface 2: it has 2");
    }

    #[test]
    fn a_full_disk_is_an_error_and_leaves_nothing() {
        let out = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let why = Writer::new(out, "full.pcapng", &[]).unwrap_err();
        assert!(why.to_string().starts_with("full.pcapng: cannot write: No space left"), "{why}");

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcapng");
        let record = Record { data: &[0; 60], ..Record::default() };
        let mut given_up = File::create(&path, &interfaces()).unwrap();
        given_up.write(&record).unwrap();
        assert!(File::create(&path, &[]).unwrap_err().to_string().contains("File exists"));
        drop(given_up);
        assert!(!path.exists());
        let mut whole = File::create(&path, &interfaces()).unwrap();
        whole.write(&record).unwrap();
        whole.finish().unwrap();
        let ending = read(fs::File::open(&path).unwrap(), |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((ending.packets, ending.broken), (1, None));
    }
}
