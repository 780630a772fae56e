/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one list of what algorithms see of the kernel: fields of the socket, of the two samples, and the
 * operations. Each line is all that there is of a field or an operation. Made from them are
 *
 *   the simulator's structs (native.h), and their mirrors in Rust, which crates/algo/build.rs reads from
 *   the lines below: one field on each, its meaning the documentation there;
 *   the views of a running kernel (bpf.h), and what of a socket is read there (crates/bpf/src/sock.h);
 *   recordings (crates/flight), which hold the fields in this order and say so, so that a recording
 *   made with other fields is refused.
 *
 * A field is one of
 *
 *   FIELD(type, name, meaning)           the kernel has it under this name, with this type
 *   NESTED(type, struct, name, meaning)  the same, in a struct of its own; flat elsewhere: struct_name
 *   VALUE(type, name, value, meaning)    the kernel keeps it otherwise: an expression of `sk`, or of `tp`,
 *                                        that reads it there; bpf.h declares what that takes
 *   OWN(type, name, value, meaning)      the same, and no recording holds it: for Linux modules and for the
 *                                        simulator's own use
 */
#ifndef KNEE_FIELDS_H
#define KNEE_FIELDS_H

/* struct sock */
#define CC_SOCK_FIELDS(FIELD, VALUE, OWN)							\
	FIELD(u64, sk_pacing_rate, "bytes per second; all ones: no limit")			\
	FIELD(u64, sk_max_pacing_rate, "bytes per second, the application's limit; all ones: none")	\
	OWN(const u32 *, cc_params, 0, "this flow's parameters, set around each call")		\
	FIELD(u32, sk_pacing_status, "SK_PACING_...: who paces")				\
	FIELD(u32, sk_gso_max_size, "bytes of the largest burst handed to the device at once")	\
	VALUE(u32, sk_gso_max_segs, sk->sk_gso_max_segs, "segments of that burst at most")	\
	VALUE(u32, sk_pacing_shift, sk->sk_pacing_shift, "a burst is 2^-this s of the pacing rate: 10, about 1 ms")	\
	OWN(u8, sk_state, sk->__sk_common.skc_state, "the kernel's number: 1 established, 7 closed, ...")

/* struct inet_connection_sock. Behind them lies the algorithm's own state, icsk_ca_priv. */
#define CC_ICSK_FIELDS(FIELD, NESTED, VALUE, OWN)						\
	OWN(const struct tcp_congestion_ops *, icsk_ca_ops, 0, "a module's table in use, set around each call")	\
	VALUE(u8, icsk_ca_state, cc_ca_state(sk), "enum tcp_ca_state: where loss recovery stands")	\
	FIELD(u8, icsk_retransmits, "consecutive timeouts")					\
	NESTED(u8, icsk_ack, pending, "ICSK_ACK_...: what ACK is owed")

/* struct tcp_sock */
#define CC_TCP_FIELDS(FIELD, VALUE)								\
	FIELD(u32, snd_una, "first byte not acknowledged")					\
	FIELD(u32, snd_nxt, "next byte to send")						\
	FIELD(u32, snd_cwnd, "packets")								\
	FIELD(u32, snd_cwnd_cnt, "packets acked towards the next increment")			\
	FIELD(u32, snd_cwnd_clamp, "packets, never passed")					\
	FIELD(u32, snd_ssthresh, "packets")							\
	FIELD(u32, prior_cwnd, "packets, before the reduction in progress")			\
	FIELD(u32, prior_ssthresh, "packets, for undo; 0: undo not allowed")			\
	FIELD(u32, packets_out, "packets sent and not cumulatively acked")			\
	FIELD(u32, sacked_out, "packets SACKed")						\
	FIELD(u32, lost_out, "packets marked lost")						\
	FIELD(u32, retrans_out, "packets retransmitted and not yet acked")			\
	FIELD(u32, max_packets_out, "largest packets_out of this window")			\
	FIELD(u32, delivered, "packets, cumulative, also by SACK")				\
	FIELD(u32, delivered_ce, "of these, acked with ECE")					\
	FIELD(u32, lost, "packets marked lost, cumulative")					\
	FIELD(u32, app_limited, "delivered count up to which samples are app-limited; 0: none")	\
	FIELD(u32, srtt_us, "smoothed RTT, us << 3")						\
	FIELD(u32, mss_cache, "bytes of payload in a full segment")				\
	FIELD(u32, rcv_nxt, "next byte expected")						\
	FIELD(u32, lsndtime, "jiffies of the last data sent")					\
	FIELD(u32, reordering, "packets")							\
	FIELD(u32, undo_marker, "snd_una when the episode began; 0: nothing to undo")		\
	FIELD(u32, snd_cwnd_stamp, "jiffies when cwnd was last validated")			\
	VALUE(u32, min_rtt_us, cc_min_rtt_us(tp), "windowed minimum RTT of the core, us")	\
	FIELD(u8, ecn_flags, "TCP_ECN_...")							\
	VALUE(u8, is_cwnd_limited, cc_cwnd_limited_flag(tp), "noted by the last send attempt")	\
	FIELD(u64, tcp_mstamp, "us, the clock of the packet being processed")			\
	FIELD(u64, delivered_mstamp, "us, when delivered last changed")				\
	FIELD(u64, first_tx_mstamp, "us, start of the send phase being sampled")		\
	FIELD(u64, tcp_clock_cache, "ns, the clock that tcp_mstamp was taken from")		\
	FIELD(u64, tcp_wstamp_ns, "ns, when pacing lets the next packet leave")

/*
 * More of struct tcp_sock: the kernel has it under this name, and only Linux modules and the simulator
 * itself look at it, so that no recording holds it. The first has 64 bits: recordings end before it.
 */
#define CC_TCP_OWN_FIELDS(FIELD)								\
	FIELD(u64, bytes_acked, "bytes acknowledged, cumulative")				\
	FIELD(u32, data_segs_out, "segments with payload sent, those sent again too")		\
	FIELD(u32, write_seq, "end of what the application has written")			\
	FIELD(u32, pushed_seq, "end of the last segment sent with PSH")				\
	FIELD(u32, snd_wnd, "bytes that the peer's window holds from snd_una on")		\
	FIELD(u32, snd_wl1, "sequence number of the segment that last changed it")		\
	FIELD(u32, max_window, "largest of these windows")					\
	FIELD(u32, high_seq, "snd_nxt when the present or last episode of loss recovery began")	\
	FIELD(u32, tlp_high_seq, "snd_nxt when the tail loss probe was sent; 0: none is out")	\
	FIELD(u32, snd_cwnd_used, "packets, most in flight while the application was the limit") \
	FIELD(s32, undo_retrans, "retransmissions of the episode that no DSACK has reported; -1: undo not by these")

/* Its struct tcp_options_received. */
#define CC_RX_OPT_FIELDS(NESTED)								\
	NESTED(u32, rx_opt, rcv_tsval, "timestamp of the last segment received, ticks of 1 ms and the peer's offset")	\
	NESTED(u32, rx_opt, rcv_tsecr, "our own that it echoes, without our offset; 0: none")

/* What one ACK tells about RTT and the flight (pkts_acked). */
#define CC_ACK_SAMPLE_FIELDS(FIELD)								\
	FIELD(u32, pkts_acked, "packets cumulatively acked by this ACK")			\
	FIELD(s32, rtt_us, "RTT of the last segment (S)ACKed, us; -1: none")			\
	FIELD(u32, in_flight, "bytes delivered since that segment was sent")

/* One delivery-rate sample (cong_control). */
#define CC_RATE_SAMPLE_FIELDS(FIELD)								\
	FIELD(u64, prior_mstamp, "us, when prior_delivered was current")			\
	FIELD(u32, prior_delivered, "packets delivered when the sampled packet was sent")	\
	FIELD(u32, prior_delivered_ce, "of these, acked with ECE")				\
	FIELD(s32, delivered, "packets over the interval; negative: invalid")			\
	FIELD(s32, delivered_ce, "of these, acked with ECE")					\
	FIELD(s64, interval_us, "length of the interval, us; negative: invalid")		\
	FIELD(u32, snd_interval_us, "length by the send times, us")				\
	FIELD(u32, rcv_interval_us, "length by the ACK times, us")				\
	FIELD(s64, rtt_us, "RTT of the last segment (S)ACKed, us; -1: none")			\
	FIELD(s32, losses, "packets marked lost by this ACK")					\
	FIELD(u32, acked_sacked, "packets delivered by this ACK")				\
	FIELD(u32, prior_in_flight, "packets in flight before this ACK")			\
	FIELD(u32, last_end_seq, "end of the sampled packet")					\
	FIELD(bool, is_app_limited, "the application, not the network, may have limited the sample")	\
	FIELD(bool, is_retrans, "the sampled packet had been retransmitted")			\
	FIELD(bool, is_ack_delayed, "the receiver may have delayed the ACK")

/* The operations, named and ordered as in the kernel. */
#define CC_OPERATIONS(OPERATION)								\
	OPERATION(u32, ssthresh, struct sock *sk)						\
	OPERATION(void, cong_avoid, struct sock *sk, u32 ack, u32 acked)			\
	OPERATION(void, set_state, struct sock *sk, u8 new_state)				\
	OPERATION(void, cwnd_event, struct sock *sk, u32 event)					\
	OPERATION(void, in_ack_event, struct sock *sk, u32 flags)				\
	OPERATION(void, pkts_acked, struct sock *sk, const struct ack_sample *sample)		\
	OPERATION(u32, min_tso_segs, struct sock *sk)						\
	OPERATION(void, cong_control, struct sock *sk, u32 ack, s32 flag, const struct rate_sample *rs)	\
	OPERATION(u32, undo_cwnd, struct sock *sk)						\
	OPERATION(u32, sndbuf_expand, struct sock *sk)						\
	OPERATION(void, init, struct sock *sk)							\
	OPERATION(void, release, struct sock *sk)

/* What becomes of a line where a struct is declared. */
#define CC_MEMBER(type, name, ...) type name;
#define CC_INNER_MEMBER(type, outer, name, ...) type name;
#define CC_NESTED_MEMBER(type, outer, name, ...) struct { type name; } outer;
#define CC_NO_MEMBER(...)
#define CC_OPERATION_MEMBER(type, name, ...) type (*name)(__VA_ARGS__);

#endif
