//! Packet scripts: what a TCP end point must send, packet by packet.
#![forbid(unsafe_code)]

mod settings;
mod stack;

pub use settings::{SYSCTLS, Settings};
pub use stack::{Call, INFO, Info, Linux, MakeStack, Refusal, SocketOption, Stack};
