//! The algorithms of `algorithms/*.c` in the running kernel, as eBPF struct_ops programs.
//!
//! The build script compiles each file with clang. [`Loaded`] loads an object into the kernel and
//! registers it under a name of the caller's choice; dropping the value removes the name. Every
//! entry point can record its calls. A [`Tracer`] switches that on for any registered algorithm,
//! whoever loaded it, and returns the records. `knee-flight` writes, reads and replays them.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use knee_bpf::{Embedded, Loaded, TraceFilter, Tracer};
//! use knee_flight::Replay;
//!
//! let dctcp = knee_algo::Algorithm::by_name("dctcp")?;
//! let params = dctcp.default_params();
//! let _loaded = Loaded::register(Embedded::by_name("dctcp")?, "knee_dctcp", &params)?;
//! let mut tracer = Tracer::attach("knee_dctcp", &TraceFilter::default())?;
//! // ... connections that choose "knee_dctcp" by setsockopt(TCP_CONGESTION) ...
//! let mut replay = Replay::new(dctcp, params, tracer.header().hz)?;
//! for record in tracer.poll(Duration::from_millis(100))? {
//!     replay.step(&record);
//! }
//! assert!(replay.finish().is_equal());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apart;
mod connections;
pub mod doctor;
mod embedded;
mod error;
mod filter;
mod hardening;
pub mod host;
mod inside;
mod label;
mod load;
mod migrate;
mod outside;
pub mod policy;
mod probe;
mod raw_sock;
mod registry;
mod rights;
mod shared_maps;
mod source;
mod table;
mod trace;

pub use connections::{Connection, Connections, State, Watch};
pub use embedded::{Embedded, program};
pub use error::Error;
pub use filter::Filter;
pub use inside::{Inside, Value};
pub use label::{Kept, Labels, LabelsAt, LabelsDropped, LabelsSeen};
pub use load::{Loaded, check_fits, check_name};
pub use migrate::{Migration, Outcome, Planned};
pub use probe::{KernelApi, Lack};
pub use registry::{Registered, registered};
pub use rights::Rights;
pub use source::Source;
pub use trace::{TraceFilter, Tracer};
