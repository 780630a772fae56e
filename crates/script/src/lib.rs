//! Packet scripts: what a TCP end point must send, packet by packet.
#![deny(unsafe_code)]

#[cfg(feature = "kernel")]
mod kernel;
mod settings;
mod stack;

#[cfg(feature = "kernel")]
pub use kernel::{Algorithms, KernelStack};
pub use settings::{SYSCTLS, Settings};
pub use stack::{Call, INFO, Info, Linux, MakeStack, Refusal, SocketOption, Stack};
