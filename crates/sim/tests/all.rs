//! The simulator: whole networks, and of TCP what no script can say. One program, so that one is linked and its tests share the cores.

mod balance;
mod barrier;
mod bbr;
mod bbr3;
mod buffers;
mod changes;
mod classes;
mod common;
mod defects;
mod determinism;
mod domains;
mod ecn;
mod end_to_end;
mod fluid;
mod guessed_peer;
mod hosts;
mod ideal;
mod invariants;
mod links;
mod nv;
mod pause;
mod pfc;
mod ports;
mod rehash;
mod trim;
