//! Reading and writing of files that a user names.
//!
//! A name may lead to anything: an endless device, a pipe without a writer, a file that grows. So nothing is read whole
//! without a limit, nothing is waited for when it is opened, and what a file is is asked of the opened one and not of its name. What is
//! written may lie where others can write, too: [`write()`] and its like say how. No other code of knee creates, renames or removes
//! files: `crates/tidy/tests/writes.rs` checks it.
#![forbid(unsafe_code)]

mod paths;
mod read;
mod text;
pub mod trust;
mod write;

pub use paths::{
    append, copy, make_dir, make_private_dir, remove_dir, remove_file, remove_tree, rename,
};
pub use read::{Unreadable, open_file, read_bounded, read_open, read_text};
pub use text::write_as_text;
pub use write::{Dir, NewFile, PARTIAL, create_new, create_private, mark, write, write_new};
