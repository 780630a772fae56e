/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The native host's side of the contract: calls into the table of operations with the host's values
 * in place, and the layout that the Rust mirror must have.
 */
#include "tcp.h"

CC_PER_THREAD struct cc_host *cc_host;

/*
 * The value at the same place of a replayed call is the one to give, if it is of the same kind. What
 * kernel functions return is computed, noted and so compared: only the outside world is replayed.
 */
u32 cc_give(const struct sock *sk, u32 kind, u32 value)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;
	const struct cc_given_log *replayed = cc_host->replayed;
	struct cc_given_log *log = cc_host->given;
	u32 n = log->count++;

	if (n >= CC_GIVEN_MAX)
		return value;
	if (replayed && n < replayed->count && replayed->given[n].kind == kind &&
	    (kind == CC_GIVEN_JIFFIES || kind == CC_GIVEN_RANDOM || kind == CC_GIVEN_BASE_RTT ||
	     kind == CC_GIVEN_APP_LIMITED || kind == CC_GIVEN_CLOCK_US ||
	     kind == CC_GIVEN_UPPER_HALF))
		value = replayed->given[n].value;
	log->given[n] = (struct cc_given){ kind, value, tp->snd_cwnd, tp->snd_cwnd_cnt };
	return value;
}

u32 cc_call_ssthresh(const struct tcp_congestion_ops *ops, struct sock *sk, struct cc_host *host)
{
	cc_host = host;
	return ops->ssthresh(sk);
}

void cc_call_cong_avoid(const struct tcp_congestion_ops *ops, struct sock *sk, struct cc_host *host,
			u32 ack, u32 acked)
{
	cc_host = host;
	ops->cong_avoid(sk, ack, acked);
}

void cc_call_set_state(const struct tcp_congestion_ops *ops, struct sock *sk, struct cc_host *host,
		       u8 state)
{
	cc_host = host;
	ops->set_state(sk, state);
}

void cc_call_cwnd_event(const struct tcp_congestion_ops *ops, struct sock *sk, struct cc_host *host,
			u32 event)
{
	cc_host = host;
	ops->cwnd_event(sk, event);
}

void cc_call_in_ack_event(const struct tcp_congestion_ops *ops, struct sock *sk,
			  struct cc_host *host, u32 flags)
{
	cc_host = host;
	ops->in_ack_event(sk, flags);
}

void cc_call_pkts_acked(const struct tcp_congestion_ops *ops, struct sock *sk, struct cc_host *host,
			const struct ack_sample *sample)
{
	cc_host = host;
	ops->pkts_acked(sk, sample);
}

u32 cc_call_min_tso_segs(const struct tcp_congestion_ops *ops, struct sock *sk,
			 struct cc_host *host)
{
	cc_host = host;
	return ops->min_tso_segs(sk);
}

void cc_call_cong_control(const struct tcp_congestion_ops *ops, struct sock *sk,
			  struct cc_host *host, u32 ack, s32 flag, const struct rate_sample *rs)
{
	cc_host = host;
	ops->cong_control(sk, ack, flag, rs);
}

u32 cc_call_sndbuf_expand(const struct tcp_congestion_ops *ops, struct sock *sk,
			  struct cc_host *host)
{
	cc_host = host;
	return ops->sndbuf_expand(sk);
}

u32 cc_call_undo_cwnd(const struct tcp_congestion_ops *ops, struct sock *sk, struct cc_host *host)
{
	cc_host = host;
	return ops->undo_cwnd(sk);
}

void cc_call_init(const struct tcp_congestion_ops *ops, struct sock *sk, struct cc_host *host)
{
	cc_host = host;
	ops->init(sk);
}

void cc_call_release(const struct tcp_congestion_ops *ops, struct sock *sk, struct cc_host *host)
{
	cc_host = host;
	ops->release(sk);
}

void cc_call_diag_read(void (*read)(const struct sock *sk, u64 *out), const struct sock *sk,
		       struct cc_host *host, u64 *out)
{
	cc_host = host;
	read(sk, out);
}

#define ROW(prefix, type, field) { prefix #field, offsetof(struct type, field) },
#define SOCK(type, name, ...) ROW("", sock, name)
#define ICSK(type, name, ...) ROW("", inet_connection_sock, name)
#define NESTED(type, outer, name, ...) { #outer "_" #name, offsetof(struct inet_connection_sock, outer.name) },
#define RX_OPT(type, outer, name, ...) { #outer "_" #name, offsetof(struct tcp_sock, outer.name) },
#define TCP(type, name, ...) ROW("", tcp_sock, name)
#define ACK(type, name, ...) ROW("ack_sample.", ack_sample, name)
#define RATE(type, name, ...) ROW("rate_sample.", rate_sample, name)
#define OPERATION(type, name, ...) ROW("ops.", tcp_congestion_ops, name)
#define HOST(name) ROW("host.", cc_host, name)
#define SIZE(type) { #type, sizeof(struct type) },

const struct cc_layout {
	const char *name;
	u64 value;
} cc_layout[] = {
	SIZE(tcp_sock) SIZE(cc_host) SIZE(ack_sample) SIZE(rate_sample) SIZE(tcp_congestion_ops)
	SIZE(cc_given) SIZE(cc_given_log)
	CC_SOCK_FIELDS(SOCK, SOCK, SOCK) CC_SOCK_OWN_FIELDS(SOCK)
	CC_ICSK_FIELDS(ICSK, NESTED, ICSK, ICSK)
	ICSK(u64, cc_guard_before) ICSK(u64, icsk_ca_priv) ICSK(u64, cc_guard_behind)
	CC_TCP_FIELDS(TCP, TCP)
	CC_TCP_OWN_FIELDS(TCP)
	CC_RX_OPT_FIELDS(RX_OPT)
	CC_TCP_PATCHED_FIELDS(TCP)
	CC_ACK_SAMPLE_FIELDS(ACK)
	CC_RATE_SAMPLE_FIELDS(RATE) CC_RATE_SAMPLE_OWN_FIELDS(RATE)
	CC_OPERATIONS(OPERATION) OPERATION(char, name) OPERATION(u32, flags)
	HOST(random_state) HOST(storage) HOST(jiffies) HOST(hz) HOST(base_rtt_us) HOST(acks_asked)
	HOST(ack_rcv_nxt) HOST(ack_ecn_flags) HOST(rehashes_asked) HOST(fallback_asked) HOST(cwr_asked)
	HOST(fallback_name) HOST(given) HOST(replayed)
	{ 0 },
};
