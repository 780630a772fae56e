//! Namespaces and netlink. One program, so that one is linked.

mod found;
mod netlink;
