//! What captures are found to hold. One program, so that one is linked and its tests share the cores.

mod agreement;
mod common;
mod diagnosis;
mod experiments;
mod hostile;
mod linux;
mod matrix;
mod neighbours;
mod packets;
mod simulated;
