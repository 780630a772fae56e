//! The choice of algorithm and ECN per connection: `programs/policy.bpf.c` on a cgroup.
//!
//! A [`Rule`] names peers by prefix, services by port, or listening ports. [`Policy::attach`] loads
//! rules into the kernel while the value and its process live. [`apply`](crate::host::policies::apply)
//! makes the rules of a [`File`] the host's.
//!
//! ```no_run
//! use knee_bpf::policy::{Policy, Rule, Scope};
//! use std::path::Path;
//!
//! // The effect of a default on the programs below one cgroup, while this process lives.
//! let rules = [Rule::everything("knee_dctcp")];
//! let trial = Policy::attach(&rules, Path::new("/sys/fs/cgroup/trial"), Scope::default())?;
//! println!("{:?}", trial.hits()?);
//! # Ok::<(), knee_bpf::Error>(())
//! ```

mod attach;
mod file;
mod rule;

pub(crate) use attach::{CGROUP_MAP, attach, kept_path, load, needs_ecn, read_hits, read_rules};
pub use attach::{Hits, Policy, Scope};
pub use file::{FILE, File, FileRule};
pub use rule::{Ecn, Ports, Prefix, Rule};
