//! The congestion controls of `algorithms/*.c`, built natively, behind a safe interface.
//!
//! An [`Algorithm`] is one of those files. An [`Instance`] of it works on a [`TcpSock`] and on a
//! [`Host`]. The [`TcpSock`] is the trimmed kernel socket that the caller owns. The [`Host`]
//! supplies time and random numbers, and stores the algorithm's requests. The algorithm never calls
//! back, so a call is a plain function of these two.
//!
//! ```
//! use knee_algo::{Algorithm, Host, TcpSock};
//!
//! let reno = Algorithm::by_name("reno").expect("it is in the folder");
//! let mut reno = reno.instance(reno.default_params());
//! let mut host = Host::new(1000, 1);
//! let mut sock = TcpSock::default();
//! (sock.snd_cwnd, sock.is_cwnd_limited) = (10, 1);
//! reno.cong_avoid(&mut sock, &mut host, 0, 2);
//! assert_eq!(sock.snd_cwnd, 12, "slow start counts every packet");
//! assert_eq!(reno.ssthresh(&mut sock, &mut host), 6);
//! ```

#[macro_use]
mod sock;

mod about;
mod call;
pub mod check;
#[doc(hidden)]
pub mod conformance;
mod described;
mod dwarf;
mod fields;
mod given;
mod instead;
mod kept;
pub mod module;
mod odd;
mod operations;
mod params;
mod patched;
pub mod sha256;
mod storage;
pub mod template;
mod tokens;

pub use call::Call;
pub use described::Description;
pub use fields::{Field, FieldKind};
pub use given::{Given, GivenLog, Observed, Observer};
pub use odd::{MOST_CWND_PKTS, Oddity, RTTS_WITHOUT_GROWTH, Warning};
pub use params::{DiagInfo, Error, ParamInfo, Params};
pub use patched::{SentSegment, SentState, sent_mark};
pub use sock::{
    AckSample, AskedAck, Host, OPERATIONS, Pointer, RECORDED_PARTS, RECORDED_SOCK_BYTES,
    RateSample, TcpSock, recorded_offset,
};

use given::{Noted, Notes};
use patched::PatchedOps;
use sock::Ops;
use std::ffi::{CStr, c_char};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use kept::Kept;
use module::{LoadedModules, Module, NO_FLOW, Place, Running};
use odd::Watch;
use storage::Storage;

/// Value of `snd_ssthresh` before the connection has seen congestion.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Values of [`TcpSock::icsk_ca_state`].
pub mod ca_state {
    /// No loss, reordering or mark is pending.
    pub const OPEN: u8 = 0;
    /// A SACK or a duplicate ACK was seen.
    pub const DISORDER: u8 = 1;
    /// The sender reduces cwnd after ECE.
    pub const CWR: u8 = 2;
    /// The sender retransmits packets that SACK or RACK found lost.
    pub const RECOVERY: u8 = 3;
    /// The sender recovers from a retransmission timeout.
    pub const LOSS: u8 = 4;
}

/// Values of [`TcpSock::sk_state`] that an algorithm meets.
pub mod tcp_state {
    /// The handshake is complete.
    pub const ESTABLISHED: u8 = 1;
    /// The client has sent its SYN.
    pub const SYN_SENT: u8 = 2;
    /// The server has answered a SYN.
    pub const SYN_RECV: u8 = 3;
    /// The local application has closed the connection.
    pub const FIN_WAIT1: u8 = 4;
    /// The peer has acknowledged the FIN of the local side.
    pub const FIN_WAIT2: u8 = 5;
    /// The connection is not open.
    pub const CLOSE: u8 = 7;
    /// The peer has closed the connection.
    pub const CLOSE_WAIT: u8 = 8;
    /// Both sides have closed the connection, the peer first.
    pub const LAST_ACK: u8 = 9;
    /// The socket accepts connections.
    pub const LISTEN: u8 = 10;
    /// Both sides have closed the connection at the same time.
    pub const CLOSING: u8 = 11;
}

/// Events of [`Instance::cwnd_event`].
pub mod ca_event {
    /// The sender transmits with nothing in flight.
    pub const TX_START: u32 = 0;
    /// The window restarts after an idle period.
    pub const CWND_RESTART: u32 = 1;
    /// CWR or Recovery ends.
    pub const COMPLETE_CWR: u32 = 2;
    /// A retransmission timeout occurred.
    pub const LOSS: u32 = 3;
    /// A data segment arrived without CE.
    pub const ECN_NO_CE: u32 = 4;
    /// A data segment arrived with CE.
    pub const ECN_IS_CE: u32 = 5;
    /// A tail loss probe repaired a loss. Only modules for a patched kernel's API receive this
    /// event.
    pub const TLP_RECOVERY: u32 = 6;
}

/// Bits of [`TcpSock::ecn_flags`].
pub mod ecn_flags {
    /// The connection has negotiated ECN.
    pub const OK: u8 = 1;
    /// The next new data segment carries CWR.
    pub const QUEUE_CWR: u8 = 2;
    /// Every outgoing segment carries ECE.
    pub const DEMAND_CWR: u8 = 4;
    /// An ECT packet was received.
    pub const SEEN: u8 = 8;
    /// A shallow threshold sets the marks. This flag and the next three exist in patched kernels
    /// only.
    pub const LOW: u8 = 16;
    /// Every packet is sent with ECT.
    pub const ECT_PERMANENT: u8 = 32;
    /// Packets carry ECT(1) instead of ECT(0).
    pub const ECT_1: u8 = 64;
    /// The receiver counts marked packets (Accurate ECN, RFC 9768).
    pub const ACCECN: u8 = 128;
}

/// Bits of [`TcpSock::icsk_ack_pending`].
pub mod ack_pending {
    /// The receiver must send an ACK.
    pub const SCHED: u8 = 1;
    /// The delayed-ACK timer is running.
    pub const TIMER: u8 = 2;
    /// A segment with PSH arrived.
    pub const PUSHED: u8 = 4;
    /// Two segments with PSH arrived.
    pub const PUSHED2: u8 = 8;
    /// The receiver must send the ACK without delay.
    pub const NOW: u8 = 16;
}

/// Size of the private area of a socket, in bytes.
const PRIVATE_AREA_BYTES: u32 = 104;

/// Flag in `tcp_congestion_ops` of an algorithm that needs ECN on its connections.
pub const NEEDS_ECN: u32 = 2;

type Sk = *mut TcpSock;

#[repr(C)]
struct RawParam {
    name: *const c_char,
    default_value: u32,
    min: u32,
    max: u32,
    choices: *const c_char,
    meaning: *const c_char,
}

#[repr(C)]
struct RawDiag {
    name: *const c_char,
    unit: *const c_char,
}

struct Raw {
    name: &'static str,
    /// Source text of the file, for its header.
    text: &'static str,
    ops: *const Ops,
    state_bytes: *const u32,
    params: *const RawParam,
    params_len: *const u32,
    diag: *const RawDiag,
    diag_len: *const u32,
    diag_read: DiagRead,
    fields: &'static [RawField],
}

/// A field of the private state: name, first bit, number of bits and kind.
type RawField = (&'static str, u64, u64, fn() -> FieldKind);

// SAFETY: all pointers are to constants of the C objects.
unsafe impl Sync for Raw {}

include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// A congestion control algorithm: a file of `algorithms/`, or one that the user names.
pub struct Algorithm {
    name: &'static str,
    text: &'static str,
    state_bytes: u32,
    origin: Origin,
    params: Vec<ParamInfo>,
    diag: Vec<DiagInfo>,
    fields: Vec<Field>,
    flags: u32,
    has: Has,
}

/// Location of an algorithm's C code.
enum Origin {
    /// The code is built into this crate.
    Folder { ops: *const Ops, diag_read: DiagRead },
    /// The code is compiled from a file that the user named. Each host of a run loads its own copy.
    File(Box<Module>),
    /// A second table of operations in a user's file, to which connections fall back. `at` is its
    /// distance from the symbol of the copy.
    Other { of: &'static Algorithm, at: isize },
    /// The code is not in this process; only a description is known.
    Elsewhere,
}

type DiagRead = unsafe extern "C" fn(*const TcpSock, *mut u64);

/// The optional operations of an algorithm, copied from the C table.
struct Has {
    /// Names of the operations present, in the kernel's order.
    operations: Vec<&'static str>,
    cong_control: bool,
    set_state: bool,
    cwnd_event: bool,
    in_ack_event: bool,
    pkts_acked: bool,
    min_tso_segs: bool,
    sndbuf_expand: bool,
    init: bool,
    release: bool,
    /// The algorithm is written for a patched kernel's API.
    is_patched: bool,
    tso_segs: bool,
    skb_marked_lost: bool,
}

// SAFETY: the pointers are to constants of the C objects.
unsafe impl Send for Algorithm {}
// SAFETY: as above.
unsafe impl Sync for Algorithm {}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Algorithm({})", self.name)
    }
}

impl Algorithm {
    /// Returns all built-in algorithms, by name.
    pub fn all() -> &'static [Algorithm] {
        static ALL: OnceLock<Vec<Algorithm>> = OnceLock::new();
        ALL.get_or_init(|| RAW.iter().map(Algorithm::from_raw).collect())
    }

    /// Returns the built-in algorithm of this name.
    ///
    /// # Errors
    /// [`Error::UnknownAlgorithm`], which lists the known names, and [`Error::FileHere`].
    pub fn by_name(name: &str) -> Result<&'static Algorithm, Error> {
        Algorithm::all().iter().find(|algorithm| algorithm.name() == name).ok_or_else(|| {
            match module::is_path(name) {
                true => Error::FileHere(name.to_owned()),
                false => Error::UnknownAlgorithm(name.to_owned()),
            }
        })
    }

    /// Returns the algorithm of this name, or that of the file at this path (see [`module`]). A
    /// relative path starts from `folder`.
    ///
    /// # Errors
    /// [`Error::UnknownAlgorithm`], which lists the known names, and [`Error::File`].
    pub fn named(name: &str, folder: &Path) -> Result<&'static Algorithm, Error> {
        Algorithm::named_with(name, folder, &module::Options::default())
    }

    /// Like [`Algorithm::named`], but compiles a file with these options.
    ///
    /// # Errors
    /// Like [`Algorithm::named`].
    pub fn named_with(
        name: &str,
        folder: &Path,
        options: &module::Options,
    ) -> Result<&'static Algorithm, Error> {
        module::Modules::new(options.clone()).named(name, folder)
    }

    /// Returns an algorithm that exists only for the tests of this workspace.
    ///
    /// # Panics
    /// If none has this name.
    #[doc(hidden)]
    pub fn for_tests(name: &str) -> &'static Algorithm {
        static ALL: OnceLock<Vec<Algorithm>> = OnceLock::new();
        let all = ALL.get_or_init(|| RAW_TESTING.iter().map(Algorithm::from_raw).collect());
        all.iter().find(|algorithm| algorithm.name() == name).expect("it is in src/testing")
    }

    fn from_raw(raw: &'static Raw) -> Algorithm {
        // SAFETY: the tables are constants of the C objects with the lengths they state. A test
        // compares the layouts of the mirrors with those of the C side.
        let (ops, params, diag) = unsafe {
            (
                &*raw.ops,
                std::slice::from_raw_parts(raw.params, *raw.params_len as usize),
                std::slice::from_raw_parts(raw.diag, *raw.diag_len as usize),
            )
        };
        // The kernel requires these operations, and the calls below rely on them.
        assert!(
            ops.ssthresh.is_some()
                && ops.undo_cwnd.is_some()
                && ops.cong_avoid.is_some() != ops.cong_control.is_some(),
            "algorithms/{}.c needs ssthresh, undo_cwnd, and cong_avoid or cong_control",
            raw.name
        );
        assert_eq!(text(ops.name.as_ptr()), raw.name, "algorithms/{}.c: its .name", raw.name);
        Algorithm {
            name: raw.name,
            text: raw.text,
            // SAFETY: the pointer is to a constant of the C object.
            state_bytes: unsafe { *raw.state_bytes },
            origin: Origin::Folder { ops, diag_read: raw.diag_read },
            params: param_infos(params),
            diag: diag_infos(diag),
            fields: raw
                .fields
                .iter()
                .filter_map(|(name, at, bits, kind)| {
                    Field::new((*name).to_owned(), *at, *bits, kind())
                })
                .collect(),
            flags: ops.flags,
            has: Has::of(ops),
        }
    }

    /// Returns the algorithm's name, which is its file's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the source text.
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// Returns the user's file from which the algorithm was compiled. `None` for a built-in
    /// algorithm.
    pub fn module(&self) -> Option<&Module> {
        match &self.origin {
            Origin::Folder { .. } | Origin::Elsewhere => None,
            Origin::File(module) => Some(module),
            Origin::Other { of, .. } => of.module(),
        }
    }

    /// Returns the size of the private state per connection, in bytes.
    pub fn state_bytes(&self) -> u32 {
        self.state_bytes
    }

    /// Creates the algorithm for one connection.
    ///
    /// # Panics
    /// If the parameters belong to another algorithm, or if a user's file can no longer be loaded.
    pub fn instance(&'static self, params: Params) -> Instance {
        self.instance_on(params, &LoadedModules::default())
    }

    /// Like [`Algorithm::instance`], on a host with loaded modules. Connections with the same
    /// algorithm and parameters share its global variables.
    ///
    /// # Panics
    /// Like [`Algorithm::instance`], but never after a successful [`LoadedModules::load`] of the
    /// algorithm.
    pub fn instance_on(&'static self, params: Params, loaded: &LoadedModules) -> Instance {
        assert_eq!(params.0.len(), self.params.len(), "parameters of another algorithm");
        let is_large = self.state_bytes() > PRIVATE_AREA_BYTES;
        let storage = Storage::of(if is_large { self.state_bytes() as usize } else { 0 });
        let (ops, running) = match &self.origin {
            Origin::Folder { ops, .. } => (*ops, None),
            _ => {
                let running = loaded.run(self, &params).expect("its file could be loaded before");
                (running.ops(), Some(running))
            }
        };
        let watch = running.is_some().then(Box::<Watch>::default);
        let (socket, notes) = (NO_FLOW, None);
        Instance { algorithm: self, ops, running, params, storage, notes, socket, watch }
    }

    /// Returns descriptions of the parameters.
    pub fn params(&self) -> &[ParamInfo] {
        &self.params
    }

    /// Returns descriptions of the internal values that the algorithm shows.
    pub fn diag(&self) -> &[DiagInfo] {
        &self.diag
    }

    /// Returns whether connections must negotiate ECN and send ECT on every packet.
    pub fn needs_ecn(&self) -> bool {
        self.flags & NEEDS_ECN != 0
    }

    /// Returns whether the algorithm has `cong_control`, which sets cwnd and pacing rate on every
    /// ACK, as BBR does.
    pub fn has_cong_control(&self) -> bool {
        self.has.cong_control
    }

    /// Returns whether the algorithm has `in_ack_event`.
    #[inline]
    pub fn has_in_ack_event(&self) -> bool {
        self.has.in_ack_event
    }

    /// Returns whether the algorithm has `pkts_acked`.
    #[inline]
    pub fn has_pkts_acked(&self) -> bool {
        self.has.pkts_acked
    }

    /// Returns the names of the operations that the algorithm has, in the kernel's order.
    pub fn operations(&self) -> Vec<&'static str> {
        self.has.operations.clone()
    }

    /// Returns the default value of each parameter.
    pub fn default_params(&self) -> Params {
        Params(self.params.iter().map(|param| param.default).collect())
    }

    /// Builds parameters from these values, in the order of [`Algorithm::params`]. `None` if the
    /// number of values differs or one is out of range.
    pub fn params_of(&self, values: &[u32]) -> Option<Params> {
        let is_allowed = |(info, value): (&ParamInfo, &u32)| info.allows(*value);
        let all =
            values.len() == self.params.len() && self.params.iter().zip(values).all(is_allowed);
        all.then(|| Params(values.into()))
    }

    /// Sets one parameter by name. `value` is a number or one of the parameter's named choices.
    ///
    /// # Errors
    /// [`Error::UnknownParam`] and [`Error::BadValue`], which state what is allowed.
    pub fn set_param(&self, params: &mut Params, name: &str, value: &str) -> Result<(), Error> {
        let index = self.params.iter().position(|param| param.name == name).ok_or_else(|| {
            Error::UnknownParam {
                algorithm: self.name(),
                name: name.to_owned(),
                known: self.params.iter().map(|param| param.name).collect(),
            }
        })?;
        let info = &self.params[index];
        Arc::make_mut(&mut params.0)[index] = info.parse(value).ok_or_else(|| Error::BadValue {
            algorithm: self.name(),
            name: info.name,
            value: value.to_owned(),
            allowed: info.allowed(),
        })?;
        Ok(())
    }
}

/// An algorithm on one connection: its parameters, and its state if that exceeds the private area.
#[derive(Debug)]
#[repr(C)] // What each call touches lies together.
pub struct Instance {
    /// The loaded copy of a user's file; `None` for a built-in algorithm.
    running: Option<Running>,
    algorithm: &'static Algorithm,
    ops: *const Ops,
    params: Params,
    /// Large state; empty if the state fits the socket's private area.
    storage: Storage,
    /// Notes for an observer or a replay; `None` without either.
    notes: Option<Box<Notes>>,
    /// Checks the values that a user's file leaves behind. Tests check built-in algorithms instead.
    watch: Option<Box<Watch>>,
    /// Number of the connection in messages: see [`Instance::set_socket`].
    socket: u32,
}

impl Instance {
    /// Returns the algorithm.
    pub fn algorithm(&self) -> &'static Algorithm {
        self.algorithm
    }

    /// Assigns the algorithm to a connection and clears its private state.
    pub fn assign(&mut self, sock: &mut TcpSock) {
        sock.icsk_ca_priv = [0; 13];
        (sock.cc_guard_before, sock.cc_guard_behind) = ([0; 1], [0; 7]);
        self.storage.clear();
    }

    /// Sets the number of the connection for messages and module output: twice the flow's number,
    /// plus 1 on the listening side.
    pub fn set_socket(&mut self, socket: u32) {
        self.socket = socket;
        if let Some(running) = &mut self.running {
            running.set_flow(socket / 2);
        }
    }

    /// Returns the warnings about this connection, each kind once. A built-in algorithm has none.
    pub fn warnings(&self) -> Vec<Warning> {
        self.watch.as_ref().map_or_else(Vec::new, |watch| watch.warnings())
    }

    /// Returns whether the algorithm is compiled from a user's file.
    #[inline]
    pub fn is_of_file(&self) -> bool {
        self.running.is_some()
    }

    /// Checks a user's algorithm after an ACK has been processed. `waits` says whether data waits
    /// to be sent.
    pub fn after_ack(&mut self, sock: &TcpSock, waits: bool) {
        if let (Some(watch), Some(running)) = (&mut self.watch, &self.running) {
            watch.after_ack(sock, waits, running);
        }
    }

    /// Runs `run` with parameters and storage in place; `run` makes the C function call that `call`
    /// names.
    ///
    /// If code of a user's file crashes or does not return, this unwinds with a [`module::Fault`].
    ///
    /// The exclusive borrows of `self`, `sock` and `host` make the writes of the C side sound: it
    /// touches nothing else, and keeps no pointer beyond the call.
    #[inline]
    fn with(
        &mut self,
        sock: &mut TcpSock,
        host: &mut Host,
        call: impl FnOnce() -> Call,
        run: impl FnOnce(*const Ops, Sk, *mut Host) -> u32,
    ) -> u32 {
        if self.notes.is_some() {
            return self.with_notes(sock, host, call(), run);
        }
        let result = self.with_pointers(sock, host, || call().constant(), run);
        debug_assert!(
            sock.snd_cwnd > 0 || sock.mss_cache == 0 || self.is_of_file(),
            "{} set cwnd to 0",
            self.algorithm.name()
        );
        result
    }

    #[inline]
    fn with_pointers(
        &mut self,
        sock: &mut TcpSock,
        host: &mut Host,
        operation: impl FnOnce() -> &'static &'static str,
        run: impl FnOnce(*const Ops, Sk, *mut Host) -> u32,
    ) -> u32 {
        sock.cc_params = Pointer::to(self.params.0.as_ptr());
        host.storage = self.storage.as_mut_ptr();
        let result = match &self.running {
            None => run(self.ops, sock, host),
            Some(_) => self.call_file(sock, host, operation(), run),
        };
        sock.cc_params = Pointer::default();
        host.storage = std::ptr::null_mut();
        result
    }

    /// Describes a call of a user's file for messages.
    fn place(&self, sock: &TcpSock, operation: &'static &'static str) -> Place {
        Place { operation, flow: self.socket, at_ns: sock.tcp_clock_cache }
    }

    /// Calls code of a user's file. It is separate from the path of built-in algorithms, which
    /// every ACK takes.
    #[cold]
    #[inline(never)]
    fn call_file(
        &mut self,
        sock: &mut TcpSock,
        host: &mut Host,
        operation: &'static &'static str,
        run: impl FnOnce(*const Ops, Sk, *mut Host) -> u32,
    ) -> u32 {
        let place = self.place(sock, operation);
        let Some(running) = &mut self.running else { return 0 };
        running.enter(sock, host);
        let kept = Kept::of(sock);
        let (ops, sk, host): (_, Sk, *mut Host) = (self.ops, sock, host);
        let result = running.guarded(&place, || run(ops, sk, host));
        let result = result.unwrap_or_else(|fault| fault.unwind());
        running.check(sock, &self.storage, &kept, &place);
        if let Some(watch) = &mut self.watch {
            watch.after_call(sock, operation, result, running);
        }
        // A module may replace its first table by another of its own, for the life of the
        // connection.
        if let Some(algorithm) = running.leave(sock, self.algorithm) {
            self.algorithm = algorithm;
            self.ops = running.ops();
        }
        result
    }

    #[cold]
    fn with_notes(
        &mut self,
        sock: &mut TcpSock,
        host: &mut Host,
        call: Call,
        run: impl FnOnce(*const Ops, Sk, *mut Host) -> u32,
    ) -> u32 {
        let Some(mut notes) = self.notes.take() else { return 0 };
        let before = notes.is_observed().then(|| (sock.clone(), self.storage.words().to_vec()));
        let (acks_before, rehashes_before) = (host.asked_acks().count(), host.asked_rehashes());
        let operation = || call.constant();
        let result =
            notes.around(sock, host, |sock, host| self.with_pointers(sock, host, operation, run));
        if let Some((before, large_before)) = &before {
            notes.tell(&Noted {
                call,
                result,
                before,
                after: sock,
                large_before,
                large_after: self.storage.words(),
                host,
                acks_before,
                rehashes_before,
            });
        }
        self.notes = Some(notes);
        result
    }
}

impl Has {
    fn of(ops: &Ops) -> Has {
        Has {
            operations: ops.present(),
            cong_control: ops.cong_control.is_some(),
            set_state: ops.set_state.is_some(),
            cwnd_event: ops.cwnd_event.is_some(),
            in_ack_event: ops.in_ack_event.is_some(),
            pkts_acked: ops.pkts_acked.is_some(),
            min_tso_segs: ops.min_tso_segs.is_some(),
            sndbuf_expand: ops.sndbuf_expand.is_some(),
            init: ops.init.is_some(),
            release: ops.release.is_some(),
            is_patched: false,
            tso_segs: false,
            skb_marked_lost: false,
        }
    }
}

fn param_infos(params: &[RawParam]) -> Vec<ParamInfo> {
    let info = |param: &RawParam| ParamInfo {
        name: text(param.name),
        default: param.default_value,
        min: param.min,
        max: param.max,
        is_signed: false,
        choices: text(param.choices).split('|').filter(|choice| !choice.is_empty()).collect(),
        meaning: text(param.meaning),
    };
    params.iter().map(info).collect()
}

fn diag_infos(diag: &[RawDiag]) -> Vec<DiagInfo> {
    diag.iter()
        .map(|diag| match (text(diag.name), text(diag.unit)) {
            (name, choices) if choices.contains('|') => {
                DiagInfo { name, unit: "", choices, is_signed: false }
            }
            (name, unit) => DiagInfo { name, unit, choices: "", is_signed: false },
        })
        .collect()
}

/// Converts a C string constant.
fn text(pointer: *const c_char) -> &'static str {
    // SAFETY: the pointers are to string literals of C objects that are never unloaded.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap_or("?")
}

#[cfg(test)]
mod tests;
