//! One method for each operation that TCP calls on an algorithm.

use crate::kept::Kept;
use crate::{AckSample, Call, Host, Instance, Ops, Origin, RateSample, Sk, TcpSock};

unsafe extern "C" {
    fn cc_call_ssthresh(ops: *const Ops, sk: Sk, host: *mut Host) -> u32;
    fn cc_call_cong_avoid(ops: *const Ops, sk: Sk, host: *mut Host, ack: u32, acked: u32);
    fn cc_call_set_state(ops: *const Ops, sk: Sk, host: *mut Host, state: u8);
    fn cc_call_cwnd_event(ops: *const Ops, sk: Sk, host: *mut Host, event: u32);
    fn cc_call_in_ack_event(ops: *const Ops, sk: Sk, host: *mut Host, flags: u32);
    fn cc_call_pkts_acked(ops: *const Ops, sk: Sk, host: *mut Host, sample: *const AckSample);
    fn cc_call_min_tso_segs(ops: *const Ops, sk: Sk, host: *mut Host) -> u32;
    fn cc_call_cong_control(
        ops: *const Ops,
        sk: Sk,
        host: *mut Host,
        ack: u32,
        flag: i32,
        rs: *const RateSample,
    );
    fn cc_call_undo_cwnd(ops: *const Ops, sk: Sk, host: *mut Host) -> u32;
    fn cc_call_sndbuf_expand(ops: *const Ops, sk: Sk, host: *mut Host) -> u32;
    fn cc_call_init(ops: *const Ops, sk: Sk, host: *mut Host);
    fn cc_call_release(ops: *const Ops, sk: Sk, host: *mut Host);
    fn cc_call_diag_read(
        read: unsafe extern "C" fn(*const TcpSock, *mut u64),
        sk: *const TcpSock,
        host: *mut Host,
        out: *mut u64,
    );
}

impl Instance {
    /// Tells the algorithm that the connection is established, or that it was chosen on an
    /// established one.
    ///
    /// The private state must have been zeroed when the algorithm was assigned. That can be well
    /// before: on the connecting side, the SYN-ACK arrives in between.
    pub fn init(&mut self, sock: &mut TcpSock, host: &mut Host) {
        if self.algorithm.has.init {
            // SAFETY: see `with`; the operation exists.
            self.with(
                sock,
                host,
                || Call::Init,
                |ops, sk, host| unsafe {
                    cc_call_init(ops, sk, host);
                    0
                },
            );
        }
    }

    /// Tells the algorithm that the connection ends or switches to another algorithm.
    pub fn release(&mut self, sock: &mut TcpSock, host: &mut Host) {
        if self.algorithm.has.release {
            // SAFETY: see `with`; the operation exists.
            self.with(
                sock,
                host,
                || Call::Release,
                |ops, sk, host| unsafe {
                    cc_call_release(ops, sk, host);
                    0
                },
            );
        }
    }

    /// Returns the new ssthresh in packets, at the start of CWR, Recovery or Loss.
    pub fn ssthresh(&mut self, sock: &mut TcpSock, host: &mut Host) -> u32 {
        // SAFETY: see `with`; every algorithm has this operation, as the kernel demands.
        self.with(
            sock,
            host,
            || Call::Ssthresh,
            |ops, sk, host| unsafe { cc_call_ssthresh(ops, sk, host) },
        )
    }

    /// Grows cwnd for `acked` delivered packets; `ack` is the acknowledged sequence number.
    ///
    /// # Panics
    /// If the algorithm has `cong_control`, and so lacks this operation.
    #[inline]
    pub fn cong_avoid(&mut self, sock: &mut TcpSock, host: &mut Host, ack: u32, acked: u32) {
        assert!(
            !self.algorithm.has.cong_control,
            "an algorithm with cong_control has no cong_avoid"
        );
        // SAFETY: see `with`. The kernel demands this operation of every algorithm without
        // `cong_control`, and that was checked.
        self.with(
            sock,
            host,
            || Call::CongAvoid { ack, acked },
            |ops, sk, host| unsafe {
                cc_call_cong_avoid(ops, sk, host, ack, acked);
                0
            },
        );
    }

    /// Tells the algorithm that `icsk_ca_state` is about to become `state`.
    pub fn set_state(&mut self, sock: &mut TcpSock, host: &mut Host, state: u8) {
        if self.algorithm.has.set_state {
            // SAFETY: see `with`; the operation exists.
            self.with(
                sock,
                host,
                || Call::SetState { new_state: state },
                |ops, sk, host| unsafe {
                    cc_call_set_state(ops, sk, host, state);
                    0
                },
            );
        }
    }

    /// Reports an event, one of [`crate::ca_event`].
    #[inline]
    pub fn cwnd_event(&mut self, sock: &mut TcpSock, host: &mut Host, event: u32) {
        if self.algorithm.has.cwnd_event {
            // SAFETY: see `with`; the operation exists.
            self.with(
                sock,
                host,
                || Call::CwndEvent { event },
                |ops, sk, host| unsafe {
                    cc_call_cwnd_event(ops, sk, host, event);
                    0
                },
            );
        }
    }

    /// Reports an ACK. The bits of `flags` are 1 for slow path, 2 for window update and 4 for ECE.
    #[inline]
    pub fn in_ack_event(&mut self, sock: &mut TcpSock, host: &mut Host, flags: u32) {
        if self.algorithm.has.in_ack_event {
            // SAFETY: see `with`; the operation exists.
            self.with(
                sock,
                host,
                || Call::InAckEvent { flags },
                |ops, sk, host| unsafe {
                    cc_call_in_ack_event(ops, sk, host, flags);
                    0
                },
            );
        }
    }

    /// Tells the algorithm that an ACK has removed packets from the retransmit queue.
    #[inline]
    pub fn pkts_acked(&mut self, sock: &mut TcpSock, host: &mut Host, sample: &AckSample) {
        if self.algorithm.has.pkts_acked {
            // SAFETY: see `with`; the operation exists and only reads the sample.
            self.with(
                sock,
                host,
                || Call::PktsAcked { sample: *sample },
                |ops, sk, host| unsafe {
                    cc_call_pkts_acked(ops, sk, host, sample);
                    0
                },
            );
        }
    }

    /// Returns the smallest number of segments per burst; the kernel's 2 if the algorithm has no
    /// such operation.
    pub fn min_tso_segs(&mut self, sock: &mut TcpSock, host: &mut Host) -> u32 {
        if self.algorithm.has.min_tso_segs {
            // SAFETY: see `with`; the operation exists.
            self.with(
                sock,
                host,
                || Call::MinTsoSegs,
                |ops, sk, host| unsafe { cc_call_min_tso_segs(ops, sk, host) },
            )
        } else {
            2
        }
    }

    /// Returns the number of windows that the send buffer may hold; the kernel's 2 if the algorithm
    /// has no such operation.
    pub fn sndbuf_expand(&mut self, sock: &mut TcpSock, host: &mut Host) -> u32 {
        if self.algorithm.has.sndbuf_expand {
            // SAFETY: see `with`; the operation exists.
            self.with(
                sock,
                host,
                || Call::SndbufExpand,
                |ops, sk, host| unsafe { cc_call_sndbuf_expand(ops, sk, host) },
            )
        } else {
            2
        }
    }

    /// Ends the processing of an ACK, for algorithms that set cwnd themselves.
    #[inline]
    pub fn cong_control(
        &mut self,
        sock: &mut TcpSock,
        host: &mut Host,
        (ack, flag): (u32, i32),
        rs: &RateSample,
    ) {
        if self.algorithm.has.cong_control {
            // SAFETY: see `with`; the operation exists and only reads the sample.
            self.with(
                sock,
                host,
                || Call::CongControl { ack, flag, rs: *rs },
                |ops, sk, host| unsafe {
                    cc_call_cong_control(ops, sk, host, ack, flag, rs);
                    0
                },
            );
        }
    }

    /// Returns the cwnd in packets to restore after a spurious reduction.
    pub fn undo_cwnd(&mut self, sock: &mut TcpSock, host: &mut Host) -> u32 {
        // SAFETY: see `with`; every algorithm has this operation, as the kernel demands.
        self.with(
            sock,
            host,
            || Call::UndoCwnd,
            |ops, sk, host| unsafe { cc_call_undo_cwnd(ops, sk, host) },
        )
    }

    /// Reads the values of [`crate::Algorithm::diag`] for this connection. Empty if a module
    /// reports none at the moment.
    pub fn read_diag(&mut self, sock: &mut TcpSock, host: &mut Host) -> Vec<u64> {
        let mut values = vec![0; self.algorithm.diag.len()];
        if values.is_empty() {
            return values;
        }
        let read = match (&self.algorithm.origin, &self.running) {
            (Origin::Folder { diag_read, .. }, _) => *diag_read,
            (_, Some(running)) => match running.diag_read() {
                Some(read) => read,
                None => {
                    host.storage = self.storage.as_mut_ptr();
                    let kept = Kept::of(sock);
                    let place = self.place(sock, &"get_info");
                    let mut values = running.info(sock, host, &place);
                    host.storage = std::ptr::null_mut();
                    running.check(sock, &self.storage, &kept, &place);
                    let is_beside = !self.storage.is_empty();
                    let area =
                        if is_beside { self.storage.words() } else { &sock.icsk_ca_priv[..] };
                    values.extend(running.shown(area));
                    return values;
                }
            },
            (_, None) => return Vec::new(),
        };
        // SAFETY: see `with`; the function writes as many values as the table has rows.
        self.with_pointers(
            sock,
            host,
            || &"CC_DIAG",
            |_, sk, host| unsafe {
                cc_call_diag_read(read, sk, host, values.as_mut_ptr());
                0
            },
        );
        values
    }
}
