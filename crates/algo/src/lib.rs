//! The congestion controls of `algorithms/*.c`, built natively, behind a safe interface.
//!
//! An [`Algorithm`] is one of those files; an [`Instance`] of it works on a [`TcpSock`], the trimmed kernel socket
//! that the caller owns, and on a [`Host`], which gives it time and random numbers and notes what
//! it asks for. It never calls back, so a call is a plain function of these two.
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
mod kept;
pub mod module;
mod odd;
mod operations;
mod params;
mod patched;
pub mod sha256;
mod storage;
pub mod template;

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
use std::sync::OnceLock;

use kept::Kept;
use module::{LoadedModules, Module, NO_FLOW, Place, Running};
use odd::Watch;
use storage::Storage;

/// `snd_ssthresh` of a connection that has seen no congestion.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Values of [`TcpSock::icsk_ca_state`].
pub mod ca_state {
    /// Nothing unusual.
    pub const OPEN: u8 = 0;
    /// Some SACK or duplicate ACK seen.
    pub const DISORDER: u8 = 1;
    /// Reducing after ECE.
    pub const CWR: u8 = 2;
    /// Retransmitting what SACK and RACK found lost.
    pub const RECOVERY: u8 = 3;
    /// After a retransmission timeout.
    pub const LOSS: u8 = 4;
}

/// Values of [`TcpSock::sk_state`] that an algorithm meets.
pub mod tcp_state {
    /// The handshake is done.
    pub const ESTABLISHED: u8 = 1;
    /// Connecting.
    pub const SYN_SENT: u8 = 2;
    /// Answering one that connects.
    pub const SYN_RECV: u8 = 3;
    /// Closed by its application.
    pub const FIN_WAIT1: u8 = 4;
    /// And that is acknowledged.
    pub const FIN_WAIT2: u8 = 5;
    /// Not open, or no longer.
    pub const CLOSE: u8 = 7;
    /// Closed by the peer.
    pub const CLOSE_WAIT: u8 = 8;
    /// And then by the application.
    pub const LAST_ACK: u8 = 9;
    /// Waiting for one that connects.
    pub const LISTEN: u8 = 10;
    /// Closed by both at one time.
    pub const CLOSING: u8 = 11;
}

/// Events of [`Instance::cwnd_event`].
pub mod ca_event {
    /// First transmission with nothing in flight.
    pub const TX_START: u32 = 0;
    /// Window restart after idle.
    pub const CWND_RESTART: u32 = 1;
    /// End of CWR or Recovery.
    pub const COMPLETE_CWR: u32 = 2;
    /// Retransmission timeout.
    pub const LOSS: u32 = 3;
    /// Data segment without CE.
    pub const ECN_NO_CE: u32 = 4;
    /// Data segment with CE.
    pub const ECN_IS_CE: u32 = 5;
    /// A tail loss probe repaired a loss: for modules of a patched kernel's API.
    pub const TLP_RECOVERY: u32 = 6;
}

/// Bits of [`TcpSock::ecn_flags`].
pub mod ecn_flags {
    /// ECN was negotiated.
    pub const OK: u8 = 1;
    /// The next new data segment carries CWR.
    pub const QUEUE_CWR: u8 = 2;
    /// Every outgoing segment carries ECE.
    pub const DEMAND_CWR: u8 = 4;
    /// An ECT packet was received.
    pub const SEEN: u8 = 8;
    /// Marks mean a shallow threshold: this and the next three are of patched kernels.
    pub const LOW: u8 = 16;
    /// Every packet goes out as ECT.
    pub const ECT_PERMANENT: u8 = 32;
    /// ECT(1) in place of ECT(0).
    pub const ECT_1: u8 = 64;
    /// Feedback is of packets marked (RFC 9768).
    pub const ACCECN: u8 = 128;
}

/// Bits of [`TcpSock::icsk_ack_pending`].
pub mod ack_pending {
    /// An ACK is owed.
    pub const SCHED: u8 = 1;
    /// The delayed-ACK timer runs.
    pub const TIMER: u8 = 2;
    /// A segment with PSH came.
    pub const PUSHED: u8 = 4;
    /// Two such segments came.
    pub const PUSHED2: u8 = 8;
    /// The ACK must not be delayed.
    pub const NOW: u8 = 16;
}

/// Bytes of private state that a socket has room for.
const PRIVATE_AREA_BYTES: u32 = 104;

/// Flag of an algorithm that needs ECN on its connections.
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
    /// The file itself, for what its header says.
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

/// Name, first bit, bits and kind of a field of the private state.
type RawField = (&'static str, u64, u64, fn() -> FieldKind);

// SAFETY: all pointers are to constants of the C objects.
unsafe impl Sync for Raw {}

include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// One congestion control: a file of `algorithms/`.
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

/// Where the C code of an algorithm is.
enum Origin {
    /// Built with this crate.
    Folder { ops: *const Ops, diag_read: DiagRead },
    /// Compiled from a file that somebody named, and loaded once for each host of a run.
    File(Box<Module>),
    /// Another table of such a file, to which connections fall back; at this distance from its symbol.
    Other { of: &'static Algorithm, at: isize },
    /// Not in this process: it is known by its description alone.
    Elsewhere,
}

type DiagRead = unsafe extern "C" fn(*const TcpSock, *mut u64);

/// Which optional operations there are, copied out of the C table.
struct Has {
    /// Names of all there are, in the kernel's order.
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
    /// It is written against a patched kernel's API.
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
    /// All algorithms, by name.
    pub fn all() -> &'static [Algorithm] {
        static ALL: OnceLock<Vec<Algorithm>> = OnceLock::new();
        ALL.get_or_init(|| RAW.iter().map(Algorithm::from_raw).collect())
    }

    /// The algorithm of this name.
    ///
    /// # Errors
    /// [`Error::UnknownAlgorithm`], which lists those there are, and [`Error::FileHere`].
    pub fn by_name(name: &str) -> Result<&'static Algorithm, Error> {
        Algorithm::all().iter().find(|algorithm| algorithm.name() == name).ok_or_else(|| {
            match module::is_path(name) {
                true => Error::FileHere(name.to_owned()),
                false => Error::UnknownAlgorithm(name.to_owned()),
            }
        })
    }

    /// The algorithm of this name, or of the file at this path (see [`module`]), seen from `folder`.
    ///
    /// # Errors
    /// [`Error::UnknownAlgorithm`], which lists those there are, and [`Error::File`].
    pub fn named(name: &str, folder: &Path) -> Result<&'static Algorithm, Error> {
        Algorithm::named_with(name, folder, &module::Options::default())
    }

    /// As [`Algorithm::named`], and a file is compiled with these options.
    ///
    /// # Errors
    /// As [`Algorithm::named`].
    pub fn named_with(
        name: &str,
        folder: &Path,
        options: &module::Options,
    ) -> Result<&'static Algorithm, Error> {
        if module::is_path(name) {
            return module::load_named(name, folder, options);
        }
        Algorithm::by_name(name)
    }

    /// One that exists for the tests of this workspace.
    ///
    /// # Panics
    /// If there is none of this name.
    #[doc(hidden)]
    pub fn for_tests(name: &str) -> &'static Algorithm {
        static ALL: OnceLock<Vec<Algorithm>> = OnceLock::new();
        let all = ALL.get_or_init(|| RAW_TESTING.iter().map(Algorithm::from_raw).collect());
        all.iter().find(|algorithm| algorithm.name() == name).expect("it is in src/testing")
    }

    fn from_raw(raw: &'static Raw) -> Algorithm {
        // SAFETY: the tables are constants of the C objects with the lengths they state; the
        // mirrors' layouts are compared with the C side's by a test.
        let (ops, params, diag) = unsafe {
            (
                &*raw.ops,
                std::slice::from_raw_parts(raw.params, *raw.params_len as usize),
                std::slice::from_raw_parts(raw.diag, *raw.diag_len as usize),
            )
        };
        // As the kernel demands; the calls below rely on it.
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
            // SAFETY: a constant of the C object.
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

    /// Its name: the file's.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its source.
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// The file it was compiled from, if it is none of this crate's folder.
    pub fn module(&self) -> Option<&Module> {
        match &self.origin {
            Origin::Folder { .. } | Origin::Elsewhere => None,
            Origin::File(module) => Some(module),
            Origin::Other { of, .. } => of.module(),
        }
    }

    /// Bytes of private state per connection.
    pub fn state_bytes(&self) -> u32 {
        self.state_bytes
    }

    /// The algorithm for one connection.
    ///
    /// # Panics
    /// If the parameters are another algorithm's, or if it is of a file that cannot be loaded any more.
    pub fn instance(&'static self, params: Params) -> Instance {
        self.instance_on(params, &LoadedModules::default())
    }

    /// As [`Algorithm::instance`], on a host that has loaded modules: connections whose algorithm has
    /// the same parameters share its global variables.
    ///
    /// # Panics
    /// As [`Algorithm::instance`]; not after a [`LoadedModules::load`] of it.
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

    /// Its parameters.
    pub fn params(&self) -> &[ParamInfo] {
        &self.params
    }

    /// The values it shows of itself.
    pub fn diag(&self) -> &[DiagInfo] {
        &self.diag
    }

    /// Whether its connections must negotiate ECN and send ECT on every packet.
    pub fn needs_ecn(&self) -> bool {
        self.flags & NEEDS_ECN != 0
    }

    /// Whether it sets cwnd and pacing rate itself on every ACK (BBR's way).
    pub fn has_cong_control(&self) -> bool {
        self.has.cong_control
    }

    /// Whether it listens to `in_ack_event`.
    #[inline]
    pub fn has_in_ack_event(&self) -> bool {
        self.has.in_ack_event
    }

    /// Whether it listens to `pkts_acked`.
    #[inline]
    pub fn has_pkts_acked(&self) -> bool {
        self.has.pkts_acked
    }

    /// The names of the operations it has, in the kernel's order.
    pub fn operations(&self) -> Vec<&'static str> {
        self.has.operations.clone()
    }

    /// The default value of each parameter.
    pub fn default_params(&self) -> Params {
        Params(self.params.iter().map(|param| param.default).collect())
    }

    /// Parameters with these values, in the order of [`Algorithm::params`]; `None` if they are not
    /// as many, or one is not allowed.
    pub fn params_of(&self, values: &[u32]) -> Option<Params> {
        let is_allowed = |(info, value): (&ParamInfo, &u32)| info.allows(*value);
        let all =
            values.len() == self.params.len() && self.params.iter().zip(values).all(is_allowed);
        all.then(|| Params(values.into()))
    }

    /// Sets one parameter by name; `value` is a number or one of its named choices.
    ///
    /// # Errors
    /// [`Error::UnknownParam`] and [`Error::BadValue`] say what would have been allowed.
    pub fn set_param(&self, params: &mut Params, name: &str, value: &str) -> Result<(), Error> {
        let index = self.params.iter().position(|param| param.name == name).ok_or_else(|| {
            Error::UnknownParam {
                algorithm: self.name(),
                name: name.to_owned(),
                known: self.params.iter().map(|param| param.name).collect(),
            }
        })?;
        let info = &self.params[index];
        params.0[index] = info.parse(value).ok_or_else(|| Error::BadValue {
            algorithm: self.name(),
            name: info.name,
            value: value.to_owned(),
            allowed: info.allowed(),
        })?;
        Ok(())
    }
}

/// An algorithm at work on one connection: its parameters, and its state where that is large.
#[derive(Debug)]
pub struct Instance {
    algorithm: &'static Algorithm,
    ops: *const Ops,
    /// What is loaded of its file, if it is of none of this crate's folder.
    running: Option<Running>,
    params: Params,
    /// Empty where the state fits the socket's private area.
    storage: Storage,
    /// Only while somebody looks on.
    notes: Option<Box<Notes>>,
    /// What sentences call the connection: see [`Instance::set_socket`].
    socket: u32,
    /// Looks after a file's values; of the folder's a test does.
    watch: Option<Box<Watch>>,
}

impl Instance {
    /// The algorithm.
    pub fn algorithm(&self) -> &'static Algorithm {
        self.algorithm
    }

    /// The algorithm is assigned to a connection: whatever an earlier one kept there is gone.
    pub fn assign(&mut self, sock: &mut TcpSock) {
        sock.icsk_ca_priv = [0; 13];
        (sock.cc_guard_before, sock.cc_guard_behind) = ([0; 1], [0; 7]);
        self.storage.clear();
    }

    /// What sentences about it, and what a module prints, call its connection: twice the flow's number, plus 1 on the listening side.
    pub fn set_socket(&mut self, socket: u32) {
        self.socket = socket;
        if let Some(running) = &mut self.running {
            running.set_flow(socket / 2);
        }
    }

    /// What it did that no algorithm should, each kind once; of those of the folder nothing.
    pub fn warnings(&self) -> Vec<Warning> {
        self.watch.as_ref().map_or_else(Vec::new, |watch| watch.warnings())
    }

    /// Whether it is compiled from a file that somebody named.
    #[inline]
    pub fn is_of_file(&self) -> bool {
        self.running.is_some()
    }

    /// An ACK has been worked off, and there is something to send or not: looks whether a file's algorithm still lets it go.
    pub fn after_ack(&mut self, sock: &TcpSock, waits: bool) {
        if let (Some(watch), Some(running)) = (&mut self.watch, &self.running) {
            watch.after_ack(sock, waits, running);
        }
    }

    /// Runs `run` with parameters and storage in place; it is the C function of `call`.
    ///
    /// Where code of a file crashes, or does not return, this unwinds with a [`module::Fault`].
    ///
    /// The exclusive borrows of `self`, `sock` and `host` are what makes the C side's writes sound:
    /// it touches nothing else, and keeps no pointer beyond the call.
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

    /// Which call of a file's code it is.
    fn place(&self, sock: &TcpSock, operation: &'static &'static str) -> Place {
        Place { operation, flow: self.socket, at_ns: sock.tcp_clock_cache }
    }

    /// Apart from the calls of the folder's algorithms, which are in the way of every ACK.
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
        // A module may have put another table of its own in place of its first: for the connection's life.
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

/// A C string constant as text.
fn text(pointer: *const c_char) -> &'static str {
    // SAFETY: string literals of C objects that are never unloaded.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap_or("?")
}

#[cfg(test)]
mod tests;
