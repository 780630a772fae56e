//! Queues and their page. One program, so that one is linked.

mod model;
mod page;
mod properties;
