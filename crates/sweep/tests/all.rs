//! Experiments, from their file to their results. One program, so that one is linked and its tests share the cores.

mod captures;
mod cbr;
mod chakra;
mod classes;
mod common;
mod known;
mod module_kinds;
mod modules;
mod network_files;
mod open_loop;
mod outside_tree;
mod receiving;
mod recording;
mod same_process;
mod store;
mod theory;
mod waiting;
mod window;
