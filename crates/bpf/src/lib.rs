//! The algorithms of `algorithms/*.c` in the running kernel, as eBPF struct_ops programs.
//!
//! The build script compiles each file twice with clang: as it is, and *recording*, where every call
//! of an entry point leaves a [`Record`]. [`Loaded`] brings an object into the kernel and registers
//! it under a name of the caller's choice; when it is dropped the name is gone. A [`Recorder`] does
//! so with the recording build and collects the records; [`replay`] makes the same calls on the
//! native build of the same file and reports the first difference.
//!
//! ```no_run
//! use knee_bpf::{Recorder, replay};
//!
//! let dctcp = knee_algo::Algorithm::by_name("dctcp")?;
//! let params = dctcp.default_params();
//! let mut recorder = Recorder::start(dctcp, "knee_dctcp", &params)?;
//! // ... connections that choose "knee_dctcp" by setsockopt(TCP_CONGESTION) ...
//! let report = replay(dctcp, &params, &recorder.take()?);
//! assert_eq!(report.first_difference, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod base_rtt;
mod connections;
pub mod doctor;
mod embedded;
mod error;
mod filter;
pub mod host;
mod inside;
mod load;
mod migrate;
pub mod policy;
mod probe;
mod record;
mod registry;
mod replay;
mod rights;
mod table;

pub use connections::{Connection, Connections, State};
pub use embedded::{Embedded, program};
pub use error::Error;
pub use filter::Filter;
pub use inside::{Inside, Value};
pub use load::{Build, Loaded, check_name};
pub use migrate::{Migration, Outcome, Planned};
pub use probe::{KernelApi, Lack, Version};
pub use record::{Call, Record, Recorder};
pub use registry::{Registered, registered};
pub use replay::{Difference, Report, replay};
pub use rights::Rights;
