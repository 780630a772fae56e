//! What all crates count in.
#![forbid(unsafe_code)]

mod linux;

pub use linux::LinuxVersion;
