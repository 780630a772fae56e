//! Packet scripts: what a TCP end point must send, packet by packet.
#![deny(unsafe_code)]

mod account;
pub mod capture;
pub mod connections;
mod expression;
#[cfg(feature = "kernel")]
mod kernel;
mod mistake;
mod packetdrill;
mod parse;
mod play;
pub mod random;
pub mod record;
mod script;
mod settings;
mod show;
mod sim;
mod stack;
pub mod wire;

#[cfg(feature = "kernel")]
pub use kernel::{Algorithms, KernelStack, not_for_kernels_own, running};
pub use knee_run::spec::LinuxVersion;
pub use packetdrill::Packetdrill;
pub use play::{Limits, Played, ScriptOutcome, Settled, play, play_again_if_late};
pub use script::{Error, Script};
pub use settings::{SYSCTLS, Settings};
pub use sim::{Profile, SimStack};
pub use stack::{Call, Given, INFO, Info, MakeStack, Refusal, SocketOption, Stack};
