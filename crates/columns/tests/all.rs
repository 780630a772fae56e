//! Tests of the crate.

mod files;
