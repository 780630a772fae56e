//! The values that a host gives during a call, and the observer of calls.

use std::fmt;

use crate::{Call, Host, Instance, TcpSock};

/// A value that the host gave during a call: `struct cc_given` of tcp.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Kind of the value, an index of [`Given::KINDS`].
    pub kind: u32,
    /// The returned value; 0 for a function without one.
    pub value: u32,
    /// The socket's cwnd after the value was given, in packets. 0 if unknown, as for clock readings
    /// and random numbers of Linux modules in a kernel.
    pub snd_cwnd: u32,
    /// The socket's `snd_cwnd_cnt` after the value was given, in packets.
    pub snd_cwnd_cnt: u32,
}

impl Given {
    /// Kind of a reading of the coarse clock.
    pub const JIFFIES: u32 = 1;
    /// Kind of a random number.
    pub const RANDOM: u32 = 2;
    /// Kind of the lower half of a reading of the Linux modules' clock.
    pub const CLOCK_US: u32 = 10;
    /// Kind of the upper half of the preceding reading.
    pub const UPPER_HALF: u32 = 11;
    /// Names of the kinds. Kind 0 does not exist.
    pub const KINDS: [&'static str; 12] = [
        "",
        "jiffies",
        "random",
        "tcp_slow_start",
        "tcp_cong_avoid_ai",
        "tcp_reno_ssthresh",
        "tcp_reno_undo_cwnd",
        "tcp_reno_cong_avoid",
        "base_rtt_us",
        "app_limited",
        "clock_us",
        "upper_half",
    ];
}

impl Given {
    /// Returns whether the value comes from outside the socket: a clock reading or a random number.
    pub fn is_from_outside(&self) -> bool {
        let outside = [Given::JIFFIES, Given::RANDOM, Given::CLOCK_US, Given::UPPER_HALF];
        outside.contains(&self.kind)
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Given { kind, value, snd_cwnd, snd_cwnd_cnt } = self;
        let name = Given::KINDS.get(*kind as usize).copied().unwrap_or("?");
        if *snd_cwnd == 0 && self.is_from_outside() {
            return write!(f, "{name} {value}");
        }
        write!(f, "{name} {value} (cwnd {snd_cwnd}, cwnd_cnt {snd_cwnd_cnt})")
    }
}

/// The values that the host gave during one call, in order: `struct cc_given_log` of tcp.h.
#[repr(C)]
#[derive(Clone, Default)]
pub struct GivenLog {
    /// Number of values given, including those that did not fit.
    pub count: u32,
    /// The first values. Entries from `count` on have no meaning.
    pub given: [Given; GivenLog::ROOM],
}

impl GivenLog {
    /// Capacity of the log, in values.
    pub const ROOM: usize = 16;

    /// Returns the values that fit.
    pub fn values(&self) -> &[Given] {
        &self.given[..(self.count as usize).min(GivenLog::ROOM)]
    }

    /// Returns whether some values did not fit.
    pub fn overflowed(&self) -> bool {
        self.count as usize > GivenLog::ROOM
    }
}

impl fmt::Debug for GivenLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenLog")
            .field("count", &self.count)
            .field("given", &self.values())
            .finish()
    }
}

/// A call that an [`Instance`] made.
#[derive(Debug)]
pub struct Observed<'a> {
    /// Operation and arguments.
    pub call: Call,
    /// The returned number; 0 for an operation without one.
    pub result: u32,
    /// The socket before the call.
    pub before: &'a TcpSock,
    /// The socket after the call.
    pub after: &'a TcpSock,
    /// State in socket storage before the call, in words of 8 bytes; empty if the algorithm has
    /// none.
    pub large_before: &'a [u64],
    pub large_after: &'a [u64],
    /// The host after the call: its clock, and the requests not taken yet.
    pub host: &'a Host,
    /// Number of ACKs requested before this call and not taken yet.
    pub acks_before: usize,
    /// Number of path changes requested before this call and not taken yet.
    pub rehashes_before: u8,
    /// The values that the host gave.
    pub given: &'a GivenLog,
}

/// Receives every call of an [`Instance`]: see [`Instance::observe`].
pub trait Observer {
    /// Reports a call after it was made.
    fn called(&mut self, observed: &Observed<'_>);
}

/// Notes of an instance for its observer, or for a replay.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) observer: Option<Box<dyn Observer>>,
    replayed: Option<GivenLog>,
    log: GivenLog,
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notes").field("log", &self.log).finish_non_exhaustive()
    }
}

impl Notes {
    /// Returns whether there is an observer.
    pub(crate) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// Runs `run` and notes the values that the host gives.
    pub(crate) fn around(
        &mut self,
        sock: &mut TcpSock,
        host: &mut Host,
        run: impl FnOnce(&mut TcpSock, &mut Host) -> u32,
    ) -> u32 {
        self.log.count = 0;
        host.given = &raw mut self.log;
        host.replayed = self.replayed.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let result = run(sock, host);
        host.given = std::ptr::null_mut();
        host.replayed = std::ptr::null();
        result
    }

    /// Reports a noted call to the observer.
    pub(crate) fn tell(&mut self, noted: &Noted<'_>) {
        let &Noted { call, result, before, after, large_before, large_after, host, .. } = noted;
        let given = &self.log;
        if let Some(observer) = &mut self.observer {
            observer.called(&Observed {
                call,
                result,
                before,
                after,
                large_before,
                large_after,
                host,
                acks_before: noted.acks_before,
                rehashes_before: noted.rehashes_before,
                given,
            });
        }
    }
}

/// A call that was made, without the values that the host gave.
pub(crate) struct Noted<'a> {
    pub(crate) call: Call,
    pub(crate) result: u32,
    pub(crate) before: &'a TcpSock,
    pub(crate) after: &'a TcpSock,
    pub(crate) large_before: &'a [u64],
    pub(crate) large_after: &'a [u64],
    pub(crate) host: &'a Host,
    pub(crate) acks_before: usize,
    pub(crate) rehashes_before: u8,
}

impl Instance {
    /// Reports every call from now on to `observer`.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.notes = Some(Box::new(Notes { observer: Some(observer), ..Notes::default() }));
    }

    /// Returns the state in socket storage, in words of 8 bytes; empty if the algorithm has none.
    pub fn large_state(&self) -> &[u64] {
        self.storage.words()
    }

    /// Sets the state in socket storage. Missing words become 0; surplus words are ignored.
    pub fn set_large_state(&mut self, words: &[u64]) {
        for (i, word) in self.storage.words_mut().iter_mut().enumerate() {
            *word = words.get(i).copied().unwrap_or(0);
        }
    }

    /// Makes `call` with recorded clock readings and random numbers. Each comes from `given` if it
    /// has one at the same place, else from `host`. Returns the result of the call and the values
    /// it was given. An [`Observer`] does not see this call.
    pub fn replay(
        &mut self,
        call: &Call,
        sock: &mut TcpSock,
        host: &mut Host,
        given: &GivenLog,
    ) -> (u32, GivenLog) {
        let notes = Notes { replayed: Some(given.clone()), ..Notes::default() };
        let observing = self.notes.replace(Box::new(notes));
        let result = self.call(call, sock, host);
        let log = std::mem::replace(&mut self.notes, observing).map(|notes| notes.log);
        (result, log.unwrap_or_default())
    }
}
