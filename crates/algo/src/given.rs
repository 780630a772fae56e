//! What a host gave during a call, and who looks on.

use std::fmt;

use crate::{Call, Host, Instance, TcpSock};

/// A value that the host gave: `struct cc_given` of tcp.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Which: an index of [`Given::KINDS`].
    pub kind: u32,
    /// What was returned; 0 where that is nothing.
    pub value: u32,
    /// The socket's cwnd afterwards, packets; 0: not known, of a Linux module that read a clock or a random number in a kernel.
    pub snd_cwnd: u32,
    /// The socket's `snd_cwnd_cnt` afterwards, packets.
    pub snd_cwnd_cnt: u32,
}

impl Given {
    /// A reading of the coarse clock.
    pub const JIFFIES: u32 = 1;
    /// A random number.
    pub const RANDOM: u32 = 2;
    /// The clock of Linux modules, its lower half.
    pub const CLOCK_US: u32 = 10;
    /// The upper half of the reading before.
    pub const UPPER_HALF: u32 = 11;
    /// Names of the kinds; there is no kind 0.
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
    /// Whether it comes from outside of the socket: a reading of a clock, or a random number.
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

/// What the host gave during one call, in order: `struct cc_given_log` of tcp.h.
#[repr(C)]
#[derive(Clone, Default)]
pub struct GivenLog {
    /// How many values were given, also those beyond the room.
    pub count: u32,
    /// The first of them; those from `count` on mean nothing.
    pub given: [Given; GivenLog::ROOM],
}

impl GivenLog {
    /// Values that it has room for.
    pub const ROOM: usize = 16;

    /// The values, as far as there was room.
    pub fn values(&self) -> &[Given] {
        &self.given[..(self.count as usize).min(GivenLog::ROOM)]
    }

    /// Whether values found no room.
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
    /// What it returned; 0 if that is nothing.
    pub result: u32,
    /// The socket before.
    pub before: &'a TcpSock,
    /// The socket after.
    pub after: &'a TcpSock,
    /// A state in socket storage before, words of 8 bytes; empty: the algorithm has none.
    pub large_before: &'a [u64],
    pub large_after: &'a [u64],
    /// The host after: its clock, and what was asked of it since that was last taken.
    pub host: &'a Host,
    /// How many ACKs had been asked for before this call and were not taken yet.
    pub acks_before: usize,
    /// How often another path had been asked for before this call and not taken yet.
    pub rehashes_before: u8,
    /// What the host gave.
    pub given: &'a GivenLog,
}

/// Is told of every call of an [`Instance`]: see [`Instance::observe`].
pub trait Observer {
    /// A call was made.
    fn called(&mut self, observed: &Observed<'_>);
}

/// What an instance keeps while somebody looks on, or while it replays.
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
    /// Whether somebody looks on.
    pub(crate) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// Runs `run` with the host's values noted.
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

    /// Tells the observer of a call that was noted.
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

/// A call that was made, without what the host gave.
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
    /// Has `observer` told of every call from now on.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.notes = Some(Box::new(Notes { observer: Some(observer), ..Notes::default() }));
    }

    /// The state in socket storage, words of 8 bytes; empty: the algorithm has none.
    pub fn large_state(&self) -> &[u64] {
        self.storage.words()
    }

    /// Sets that state. Words that are missing are 0, and those that it has no room for are ignored.
    pub fn set_large_state(&mut self, words: &[u64]) {
        for (i, word) in self.storage.words_mut().iter_mut().enumerate() {
            *word = words.get(i).copied().unwrap_or(0);
        }
    }

    /// Makes `call` with readings of the clock and random numbers taken from `given` where it has
    /// them at the same place, and from `host` where not. Gives what the call returns and what it
    /// was given. An [`Observer`] is not told.
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
