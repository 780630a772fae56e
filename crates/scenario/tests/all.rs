//! Experiments as their files say them. One program, so that one is linked and its tests share the cores.

mod bad_input;
mod counters;
mod each;
mod extremes;
mod kinds;
mod queues;
mod resolve;
mod unused;
mod vary;
