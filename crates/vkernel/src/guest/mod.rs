//! What a guest is told and what it tells, byte by byte: the other side of `guest/plan.h`.

mod orders;
mod records;

pub use orders::{FlowOrder, LaneOrder, Orders, PingOrder, QueueOrder, Step, Traffic};
pub use records::{FlowSample, QueueAnswer, Records};
