//! Packet scripts without a kernel. One program, so that one is linked and its tests share the cores.

mod again;
mod capture;
mod common;
mod mutation;
mod packetdrill;
mod parse;
mod random;
mod record;
mod scripts;
