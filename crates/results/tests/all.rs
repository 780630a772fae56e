//! Results directories and their page. One program, so that one is linked.

mod docs;
mod manifest;
