//! Tests of intervals, each a module.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod coverage;
