//! Experiments, from their file to their results. One program, so that one is linked and its tests share the cores.

mod back_end;
mod bad_input;
mod captures;
mod catalogue;
mod claims;
mod classes;
mod common;
mod compare;
mod each;
mod extremes;
mod kinds;
mod module_kinds;
mod modules;
mod networks;
mod outside_tree;
mod queues;
mod receiving;
mod recording;
mod resolve;
mod scale;
mod sweep;
mod switches;
mod tables;
mod theory;
mod waiting;
mod window;
