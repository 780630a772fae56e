//! Network namespaces: those that the host has, and new ones; [`netlink`] to set them up, and where the system's own programs are.
//!
//! A namespace is a property of a thread, so whatever is done in one is done by a thread of its own:
//! the caller's stays where it is.
//!
//! ```no_run
//! for found in knee_netns::all()? {
//!     let name = found.run(|| std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control"))??;
//!     println!("{}: {name}", found.label());
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod found_namespace;
pub mod netlink;
mod own;
mod program;

pub use found_namespace::{FoundNamespace, Id, all, current, of_process};
pub use own::Namespace;
pub use program::system_program;
