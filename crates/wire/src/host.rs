//! The capture of a host of a run: one file with both sides of its link.
//!
//! A frame that the host has sent stands at [`AT_HOST`] as it leaves the host, one that it is to receive at [`AT_PORT`] as it
//! leaves the queue of the switch. The simulator sees all frames on both sides; a switch alone sees those two.

use crate::write::{File, Interface, Record};
use crate::{Error, link};
use std::path::Path;

/// Place of the interface at the host.
pub const AT_HOST: u32 = 0;
/// Place of the interface at the other end of the host's link: the port of a switch.
pub const AT_PORT: u32 = 1;
/// Captured bytes of a frame: all headers, and a little of the payload.
pub const SNAP_BYTES: u32 = 128;

/// The file of a host.
#[derive(Debug)]
pub struct HostFile(File);

/// File name of a host's capture.
pub fn file_name(host: &str) -> String {
    format!("{host}.pcapng")
}

impl HostFile {
    /// A new file for a host, in a directory that is there. One that is there already is an error.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(dir: &Path, host: &str) -> Result<HostFile, Error> {
        let interface =
            |name: String| Interface { name, link: link::ETHERNET, snaplen: SNAP_BYTES };
        let interfaces = [interface(host.to_owned()), interface(format!("port of {host}"))];
        File::create(&dir.join(file_name(host)), &interfaces).map(HostFile)
    }

    /// Adds a frame; [`Record::interface`] is [`AT_HOST`] or [`AT_PORT`].
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, record: &Record<'_>) -> Result<(), Error> {
        self.0.write(record)
    }

    /// Writes what is still in memory, and keeps the file: one that is dropped before is removed.
    ///
    /// # Errors
    /// If it cannot be written; then there is no file.
    pub fn finish(self) -> Result<(), Error> {
        self.0.finish()
    }
}
