//! How knee reads files that somebody names: bounded, and of the right kind.
//!
//! A name may lead to anything: a device without an end, a pipe that nobody writes to, a file that grows. So nothing is read whole
//! without a limit, nothing is waited for when it is opened, and what a file is is asked of the opened one and not of its name.
#![forbid(unsafe_code)]

mod read;

pub use read::{Unreadable, open_file, open_stream, read_bounded, read_text};
