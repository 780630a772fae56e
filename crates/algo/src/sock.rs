//! Mirrors of the structs in `algorithms/include/native.h`, with the same fields and names. The
//! fields and their documentation come from `fields.h`, which the build script reads.

use std::ffi::{c_char, c_void};

use crate::GivenLog;

/// A pointer that [`crate::Instance`] sets around each call. Nothing dereferences it outside a
/// call.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer(*const c_void);

impl Pointer {
    pub(crate) fn to<T>(target: *const T) -> Pointer {
        Pointer(target.cast())
    }

    pub(crate) fn target(self) -> *const c_void {
        self.0
    }
}

impl Default for Pointer {
    /// Returns a null pointer.
    fn default() -> Pointer {
        Pointer(std::ptr::null())
    }
}

// SAFETY: nothing dereferences it outside a call into an algorithm. One thread makes that call and
// sets the pointer.
unsafe impl Send for Pointer {}
// SAFETY: as above.
unsafe impl Sync for Pointer {}

macro_rules! mirror {
    (TcpSock: $($(#[$doc:meta])* $field:ident: $type:ty,)*) => {
        /// A connection as algorithms see it: the kernel's `struct tcp_sock`, trimmed. Nested
        /// kernel structs are flattened; the fields keep the kernel's names.
        #[repr(C)]
        #[derive(Clone, Debug)]
        pub struct TcpSock {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl TcpSock {
            fn zeroed() -> TcpSock {
                TcpSock { $($field: Default::default(),)* }
            }
        }
    };
    ($sample:ident: $($(#[$doc:meta])* $field:ident: $type:ty,)*) => {
        #[doc = sample_doc!($sample)]
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $sample {
            $($(#[$doc])* pub $field: $type,)*
        }
    };
}

macro_rules! sample_doc {
    (AckSample) => {
        "What one ACK tells about RTT and the flight."
    };
    (RateSample) => {
        "One delivery-rate sample."
    };
}

macro_rules! operations {
    ($($name:ident)*) => {
        /// The operations of `struct tcp_congestion_ops`, in the order in which the contract
        /// declares them.
        pub const OPERATIONS: [&str; [$(stringify!($name)),*].len()] = [$(stringify!($name)),*];

        /// The C table of operations. Calls go through `host.c`, which knows the function types.
        #[repr(C)]
        #[derive(Default)]
        pub(crate) struct Ops {
            $(pub(crate) $name: Option<unsafe extern "C" fn()>,)*
            pub(crate) name: [c_char; 16],
            pub(crate) flags: u32,
        }

        impl Ops {
            /// Returns a copy of the name in the table.
            pub(crate) fn name(&self) -> String {
                self.name.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect()
            }

            /// Returns the address of an operation's function.
            pub(crate) fn address(&self, operation: &str) -> Option<usize> {
                let all = [$((stringify!($name), self.$name)),*];
                let found = all.into_iter().find(|(name, _)| *name == operation)?;
                found.1.map(|function| (function as *const ()).addr())
            }

            /// Returns the names of the operations present.
            pub(crate) fn present(&self) -> Vec<&'static str> {
                let all = [$((stringify!($name), self.$name.is_some())),*];
                all.into_iter().filter_map(|(name, is_there)| is_there.then_some(name)).collect()
            }

            /// Returns name and offset of each operation.
            #[cfg(test)]
            fn layout() -> Vec<(&'static str, u64)> {
                use std::mem::offset_of;
                let mut all = vec![$((concat!("ops.", stringify!($name)), offset_of!(Ops, $name))),*];
                all.extend([("ops.name", offset_of!(Ops, name)), ("ops.flags", offset_of!(Ops, flags))]);
                all.into_iter().map(|(name, offset)| (name, offset as u64)).collect()
            }
        }
    };
}

macro_rules! hand_on {
    ($($arms:tt)*) => {
        /// Passes the numeric fields of a struct, by name and type, to the macro `$apply`, after
        /// any leading arguments. `with_fields!(AckSample, apply, "x")` becomes `apply! { "x"
        /// AckSample: [pkts_acked: u32, ...] }`. [`TcpSock`] has three groups: the recorded fields
        /// before and after the private state, and the fields that recordings omit.
        #[macro_export]
        macro_rules! with_fields { $($arms)* }
    };
}

include!(concat!(env!("OUT_DIR"), "/fields.rs"));

impl Default for TcpSock {
    fn default() -> TcpSock {
        TcpSock {
            sk_pacing_rate: u64::MAX,
            sk_max_pacing_rate: u64::MAX,
            sk_pacing_shift: 10,
            sk_state: crate::tcp_state::CLOSE,
            sk_family: 2,
            snd_cwnd_clamp: u32::MAX,
            snd_ssthresh: crate::INFINITE_SSTHRESH,
            ..TcpSock::zeroed()
        }
    }
}

impl TcpSock {
    /// Returns whether cwnd is below ssthresh.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.snd_cwnd < self.snd_ssthresh
    }

    /// Returns the number of packets believed to be in the network.
    #[inline]
    pub fn packets_in_flight(&self) -> u32 {
        self.packets_out
            .wrapping_sub(self.sacked_out + self.lost_out)
            .wrapping_add(self.retrans_out)
    }
}

/// The values that the host decides, and the requests of an algorithm during one call.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct Host {
    /// State of the random number generator for algorithms.
    pub random_state: u64,
    /// Large state of the current connection. [`crate::Instance`] sets it around each call.
    pub(crate) storage: *mut u64,
    /// Coarse clock, in ticks of 1/`hz` s.
    pub jiffies: u32,
    /// Ticks per second.
    pub hz: u32,
    /// RTT of the current connection without queues, in us; 0 if unknown.
    pub base_rtt_us: u32,
    acks_asked: u32,
    ack_rcv_nxt: [u32; 2],
    ack_ecn_flags: [u8; 2],
    rehashes_asked: u8,
    fallback_asked: u8,
    cwr_asked: u8,
    fallback_name: [u8; 16],
    /// Log of the values that this host gives. [`crate::Instance`] sets it while an observer is
    /// present.
    pub(crate) given: *mut GivenLog,
    /// The values to give while a call is replayed.
    pub(crate) replayed: *const GivenLog,
}

// SAFETY: the pointers are set and cleared around each call into an algorithm.
unsafe impl Send for Host {}
// SAFETY: as above; nothing dereferences the pointers outside such a call.
unsafe impl Sync for Host {}

/// An ACK that an algorithm requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedAck {
    /// The ACK acknowledges every byte below this sequence number.
    pub rcv_nxt: u32,
    /// Value of `ecn_flags` at the time of the request. It decides whether the ACK carries ECE.
    pub ecn_flags: u8,
}

impl Host {
    /// Creates a host with `hz` ticks per second. `seed` determines its random numbers.
    pub fn new(hz: u32, seed: u64) -> Host {
        Host {
            random_state: seed,
            storage: std::ptr::null_mut(),
            jiffies: 0,
            hz,
            base_rtt_us: 0,
            acks_asked: 0,
            ack_rcv_nxt: [0; 2],
            ack_ecn_flags: [0; 2],
            rehashes_asked: 0,
            fallback_asked: 0,
            cwr_asked: 0,
            fallback_name: [0; 16],
            given: std::ptr::null_mut(),
            replayed: std::ptr::null(),
        }
    }

    /// Returns the ACKs requested and not taken yet, in order.
    pub fn asked_acks(&self) -> impl Iterator<Item = AskedAck> + use<> {
        let (rcv_nxt, ecn_flags) = (self.ack_rcv_nxt, self.ack_ecn_flags);
        (0..(self.acks_asked as usize).min(2))
            .map(move |i| AskedAck { rcv_nxt: rcv_nxt[i], ecn_flags: ecn_flags[i] })
    }

    /// Returns the number of path changes requested and not taken yet.
    #[inline]
    pub fn asked_rehashes(&self) -> u8 {
        self.rehashes_asked
    }

    /// Returns the algorithm to switch to, if such a request has not been taken yet.
    pub fn asked_fallback(&self) -> Option<String> {
        (self.fallback_asked != 0).then(|| {
            let name = &self.fallback_name;
            let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            String::from_utf8_lossy(&name[..len]).into_owned()
        })
    }

    /// Takes the ACKs requested since the last call of this, in order.
    #[inline]
    pub fn take_asked_acks(&mut self) -> impl Iterator<Item = AskedAck> + use<> {
        let asked = self.asked_acks();
        self.acks_asked = 0;
        asked
    }

    /// Takes the number of path changes requested since the last call of this.
    #[inline]
    pub fn take_asked_rehashes(&mut self) -> u8 {
        std::mem::take(&mut self.rehashes_asked)
    }

    /// Returns whether a path change or a cwnd reduction is requested.
    #[inline]
    pub fn asks_sender(&self) -> bool {
        self.rehashes_asked | self.cwr_asked != 0
    }

    /// Takes the request for a cwnd reduction as for ECN since the last call of this
    /// (`tcp_enter_cwr` of a module).
    #[inline]
    pub fn take_asked_cwr(&mut self) -> bool {
        std::mem::take(&mut self.cwr_asked) != 0
    }

    /// Takes the algorithm to switch to, if one was requested since the last call of this.
    pub fn take_fallback(&mut self) -> Option<String> {
        let asked = self.asked_fallback();
        self.fallback_asked = 0;
        self.fallback_name = [0; 16];
        asked
    }
}

/// The byte ranges of a [`TcpSock`] that BPF programs in a running kernel report, one after the
/// other. Fields that only modules use are omitted, and so are the words around the private area.
pub const RECORDED_PARTS: [std::ops::Range<usize>; 3] = {
    use std::mem::offset_of;
    let behind = offset_of!(TcpSock, cc_guard_behind);
    [
        0..offset_of!(TcpSock, cc_guard_before),
        offset_of!(TcpSock, icsk_ca_priv)..behind,
        behind + size_of::<[u64; 7]>()..FIRST_OWN,
    ]
};

/// Total size of the recorded parts, in bytes.
pub const RECORDED_SOCK_BYTES: usize = recorded_offset(FIRST_OWN);

/// Converts an offset in a [`TcpSock`] to the offset in the recorded parts.
pub const fn recorded_offset(offset: usize) -> usize {
    let [head, private, tail] = RECORDED_PARTS;
    let before = private.start - head.end;
    match offset {
        _ if offset < private.start => offset,
        _ if offset < private.end => offset - before,
        _ => offset - before - (tail.start - private.end),
    }
}

/// Returns name and offset (or size) of each item of the C side, to compare with the mirrors here.
#[cfg(test)]
pub(crate) fn layout() -> Vec<(&'static str, u64)> {
    use crate::Given;
    use std::mem::{offset_of, size_of};
    let mut all = vec![
        ("tcp_sock", size_of::<TcpSock>() as u64),
        ("cc_host", size_of::<Host>() as u64),
        ("ack_sample", size_of::<AckSample>() as u64),
        ("rate_sample", size_of::<RateSample>() as u64),
        ("tcp_congestion_ops", size_of::<Ops>() as u64),
        ("cc_given", size_of::<Given>() as u64),
        ("cc_given_log", size_of::<GivenLog>() as u64),
    ];
    macro_rules! fields {
        ($prefix:literal $kind:ident: $([$($field:ident $(: $type:ty)?,)*])*) => {
            all.extend([$($((concat!($prefix, stringify!($field)), offset_of!($kind, $field) as u64)),*),*])
        };
    }
    with_fields!(TcpSock, fields, "");
    with_own_fields!(fields, "");
    with_fields!(AckSample, fields, "ack_sample.");
    with_fields!(RateSample, fields, "rate_sample.");
    fields! { "" TcpSock: [cc_guard_before, icsk_ca_priv, cc_guard_behind,] }
    fields! { "" TcpSock: [sk_prot, sk_daddr, sk_rcv_saddr, sk_dport, sk_sport, sk_family,]}
    fields! { "rate_sample." RateSample: [prior_lost, tx_in_flight, lost, ece_delta,]
    [is_acking_tlp_retrans_seq, is_ece,] }
    fields! { "host." Host: [random_state, storage, jiffies, hz, base_rtt_us, acks_asked,
    ack_rcv_nxt, ack_ecn_flags, rehashes_asked, fallback_asked, cwr_asked, fallback_name, given, replayed,] }
    all.extend(Ops::layout());
    all
}
