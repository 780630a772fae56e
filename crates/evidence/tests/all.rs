//! Results as they are read, compared and shown. One program, so that one is linked and its tests share the cores.

mod back_end;
mod catalogue;
mod claims;
#[path = "../../sweep/tests/common/mod.rs"]
mod common;
mod compare;
mod compare_cases;
mod jobs;
mod link_changes;
mod networks;
mod paths;
mod scale;
mod sketches;
mod sweep;
mod switches;
mod tables;
mod tails;
