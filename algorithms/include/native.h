/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The simulator as host: the structs are its own, one per connection, and crates/algo mirrors them
 * (a test compares every offset). Modules that are compiled for the simulator see the
 * same structs, and the kernel's own table of operations in place of the one here (CC_KERNEL_OPS).
 *
 * An algorithm never calls back into the simulator. What it asks for (an extra ACK, another path,
 * another algorithm) is noted in struct cc_host and carried out when the callback has returned; the note
 * keeps the value of ecn_flags at the time of asking, so nothing is lost by the delay.
 */
#ifndef KNEE_NATIVE_H
#define KNEE_NATIVE_H

struct proto;

struct sock {
	CC_SOCK_FIELDS(CC_MEMBER, CC_MEMBER, CC_MEMBER)
	CC_SOCK_OWN_FIELDS(CC_MEMBER)
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	CC_ICSK_FIELDS(CC_MEMBER, CC_NESTED_MEMBER, CC_MEMBER, CC_MEMBER)
	u64 cc_guard_before[1];		/* stay 0: what a file writes beside its own bytes is found here */
	u64 icsk_ca_priv[13];		/* the algorithm's own 104 bytes */
	u64 cc_guard_behind[7];
};

struct tcp_options_received {
	CC_RX_OPT_FIELDS(CC_INNER_MEMBER)
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	CC_TCP_FIELDS(CC_MEMBER, CC_MEMBER)
	CC_TCP_OWN_FIELDS(CC_MEMBER)
	struct tcp_options_received rx_opt;
	CC_TCP_PATCHED_FIELDS(CC_MEMBER)
};

struct ack_sample {
	CC_ACK_SAMPLE_FIELDS(CC_MEMBER)
};

struct rate_sample {
	CC_RATE_SAMPLE_FIELDS(CC_MEMBER)
	CC_RATE_SAMPLE_OWN_FIELDS(CC_MEMBER)
};

#ifndef CC_KERNEL_OPS
struct tcp_congestion_ops {
	CC_OPERATIONS(CC_OPERATION_MEMBER)
	char name[16];
	u32 flags;			/* TCP_CONG_... */
};
#endif

/* A parameter as the host shows it: always a u32, perhaps one of named choices. */
struct cc_param {
	const char *name;
	u32 default_value;
	u32 min;
	u32 max;
	const char *choices;		/* "reno|cubic": names of 0, 1, ...; empty: a number */
	const char *meaning;
};

/* A value inside the algorithm, for inspection. */
struct cc_diag {
	const char *name;
	const char *unit;
};

/* What the host decides, and what the algorithm asks of it during one callback. */
struct cc_host {
	u64 random_state;
	void *storage;			/* of this connection, for a large state; else NULL */
	u32 jiffies;
	u32 hz;
	u32 base_rtt_us;		/* of this connection, as its owner says; 0: unknown */
	u32 acks_asked;			/* valid entries of the two arrays below */
	u32 ack_rcv_nxt[2];
	u8 ack_ecn_flags[2];
	u8 rehashes_asked;
	u8 fallback_asked;
	u8 cwr_asked;
	char fallback_name[16];
	struct cc_given_log *given;	/* what this host gives is noted here; NULL: nobody records */
	const struct cc_given_log *replayed;	/* clock and random numbers come from here; or NULL */
};

/* What is compiled while the simulator runs is loaded once per thread that runs it. */
#ifdef CC_ONE_THREAD
#define CC_PER_THREAD
#else
#define CC_PER_THREAD _Thread_local
#endif
extern CC_PER_THREAD struct cc_host *cc_host;

#define CC_OP(type, name, ...) static type name(__VA_ARGS__)
#define CC_FN(name) name
#define CC_ALGORITHM(algorithm) const struct tcp_congestion_ops cc_ops_##algorithm

#define CC_STATE(algorithm, type)						\
	_Static_assert(sizeof(type) <= 104, "state passes the kernel's private area"); \
	const u32 cc_state_bytes_##algorithm = sizeof(type);			\
	static inline type *cc_state(const struct sock *sk)			\
	{									\
		return (type *)inet_csk(sk)->icsk_ca_priv;			\
	}

/* A state that passes the private area lives in socket storage; NULL: none could be had. */
#define CC_LARGE_STATE(algorithm, type)						\
	const u32 cc_state_bytes_##algorithm = sizeof(type);			\
	static inline type *cc_state(const struct sock *sk)			\
	{									\
		(void)sk;							\
		return (type *)cc_host->storage;				\
	}

#define CC_NO_STATE(algorithm) const u32 cc_state_bytes_##algorithm = 0;

/* RTT without queues, us, as the host's owner says it; 0: unknown. */
#define CC_BASE_RTT								\
	static inline u32 cc_base_rtt_us(const struct sock *sk)			\
	{									\
		return cc_given_value(sk, CC_GIVEN_BASE_RTT, cc_host->base_rtt_us); \
	}

/* Change the connection's transmit hash, and so the path of its packets from now on (IPv6 only). */
#define CC_REHASH								\
	static inline void cc_rehash(struct sock *sk)				\
	{									\
		(void)sk;							\
		cc_host->rehashes_asked++;					\
	}

#define CC_PARAM_FIELD(name, value, min, max, choices, meaning) u32 name;
#define CC_PARAM_INFO(name, value, min, max, choices, meaning)			\
	{ #name, value, min, max, choices, meaning },
#define CC_PARAMS(algorithm, LIST)						\
	struct algorithm##_params { LIST(CC_PARAM_FIELD) };			\
	const struct cc_param cc_params_##algorithm[] = { LIST(CC_PARAM_INFO) };	\
	const u32 cc_params_len_##algorithm =					\
		sizeof(struct algorithm##_params) / sizeof(u32);		\
	static inline const struct algorithm##_params *cc_params(const struct sock *sk) \
	{									\
		return (const struct algorithm##_params *)sk->cc_params;	\
	}

#define CC_NO_PARAMS(algorithm)							\
	const struct cc_param cc_params_##algorithm[1] = { { 0 } };		\
	const u32 cc_params_len_##algorithm = 0;

#define CC_DIAG_INFO(name, unit, value) { #name, unit },
#define CC_DIAG_READ(name, unit, value) *out++ = (value);
#define CC_DIAG(algorithm, LIST)						\
	const struct cc_diag cc_diag_##algorithm[] = { LIST(CC_DIAG_INFO) };	\
	const u32 cc_diag_len_##algorithm =					\
		sizeof(cc_diag_##algorithm) / sizeof(struct cc_diag);		\
	void cc_diag_read_##algorithm(const struct sock *sk, u64 *out)		\
	{									\
		LIST(CC_DIAG_READ)						\
	}

#define CC_NO_DIAG(algorithm)							\
	const struct cc_diag cc_diag_##algorithm[1] = { { 0 } };		\
	const u32 cc_diag_len_##algorithm = 0;					\
	void cc_diag_read_##algorithm(const struct sock *sk, u64 *out)		\
	{									\
		(void)sk;							\
		(void)out;							\
	}

/* ---- what the host decides ---- */

/* Notes a value given, and takes it from the recording where one is replayed: see host.c. */
u32 cc_give(const struct sock *sk, u32 kind, u32 value);

static inline u32 cc_given_value(const struct sock *sk, u32 kind, u32 value)
{
	return __builtin_expect(cc_host->given != NULL, 0) ? cc_give(sk, kind, value) : value;
}

static inline u32 cc_jiffies32(const struct sock *sk)
{
	return cc_given_value(sk, CC_GIVEN_JIFFIES, cc_host->jiffies);
}
#define tcp_jiffies32 cc_jiffies32(sk)

static inline u32 cc_hz(void)
{
	return cc_host->hz;
}
#define HZ cc_hz()

/* Uniform over 32 bits (splitmix64). */
static inline u32 cc_random_u32(struct sock *sk)
{
	u64 z = cc_host->random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return cc_given_value(sk, CC_GIVEN_RANDOM, (u32)((z ^ (z >> 31)) >> 32));
}

/*
 * Send a pure ACK for everything below rcv_nxt, with ECE as ecn_flags is now. One that leaves
 * nothing unacknowledged ends the delayed ACK, at once as in the kernel: what the algorithm sets in
 * icsk_ack.pending afterwards is for the next ACK.
 */
static inline void cc_send_ack(struct sock *sk, u32 rcv_nxt)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u32 n = cc_host->acks_asked;

	if (n < 2) {
		cc_host->ack_rcv_nxt[n] = rcv_nxt;
		cc_host->ack_ecn_flags[n] = tp->ecn_flags;
		cc_host->acks_asked = n + 1;
	}
	if (rcv_nxt == tp->rcv_nxt)
		tp->inet_conn.icsk_ack.pending = 0;
	/* As with any packet, the time until which nothing left is over. */
	if (tp->tcp_wstamp_ns < tp->tcp_clock_cache)
		tp->tcp_wstamp_ns = tp->tcp_clock_cache;
}

/* Leave this algorithm for another for the life of the connection, and stop sending ECT. */
static inline void cc_fallback(struct sock *sk, const char *name)
{
	(void)sk;
	strncpy(cc_host->fallback_name, name, sizeof(cc_host->fallback_name) - 1);
	cc_host->fallback_asked = 1;
}

/* Rate samples count as limited by the application until so many packets are delivered. */
static inline void cc_set_app_limited(struct sock *sk, u32 delivered)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	tp->app_limited = cc_given_value(sk, CC_GIVEN_APP_LIMITED, delivered);
}

/* Whether ECN was negotiated. */
static inline bool cc_ecn_negotiated(const struct sock *sk)
{
	return ((const struct tcp_sock *)sk)->ecn_flags & TCP_ECN_OK;
}

/* ---- fields that the kernel keeps in its own way ---- */

static inline u8 cc_ca_state(const struct sock *sk)
{
	return ((const struct inet_connection_sock *)sk)->icsk_ca_state;
}

static inline bool cc_cwnd_limited_flag(const struct tcp_sock *tp)
{
	return tp->is_cwnd_limited;
}

/* Core's windowed minimum RTT, us. */
static inline u32 cc_min_rtt_us(const struct tcp_sock *tp)
{
	return tp->min_rtt_us;
}

/* ---- kernel functions: twins of the kernel's own ---- */

static inline bool tcp_is_cwnd_limited(const struct sock *sk);

static inline u32 cc_twin_slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 cwnd = min_u32(tp->snd_cwnd + acked, tp->snd_ssthresh);

	acked -= cwnd - tp->snd_cwnd;
	tp->snd_cwnd = min_u32(cwnd, tp->snd_cwnd_clamp);
	return acked;
}

static inline void cc_twin_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
{
	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd_cnt = 0;
		tp->snd_cwnd++;
	}
	tp->snd_cwnd_cnt += acked;
	if (tp->snd_cwnd_cnt >= w && w > 0) {
		u32 increments = tp->snd_cwnd_cnt / w;

		tp->snd_cwnd_cnt -= increments * w;
		tp->snd_cwnd += increments;
	}
	tp->snd_cwnd = min_u32(tp->snd_cwnd, tp->snd_cwnd_clamp);
}

/* Slow start for `acked` packets; returns those left over once ssthresh is reached. */
static inline u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 left = cc_twin_slow_start(tp, acked);

	return cc_given_value((struct sock *)tp, CC_GIVEN_SLOW_START, left);
}

/* Additive increase: one packet more for each `w` packets acked. */
static inline void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
{
	cc_twin_cong_avoid_ai(tp, w, acked);
	cc_given_value((struct sock *)tp, CC_GIVEN_CONG_AVOID_AI, 0);
}

static inline u32 tcp_reno_ssthresh(struct sock *sk)
{
	u32 ssthresh = max_u32(((struct tcp_sock *)sk)->snd_cwnd >> 1, 2);

	return cc_given_value(sk, CC_GIVEN_RENO_SSTHRESH, ssthresh);
}

static inline u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;
	u32 cwnd = max_u32(tp->snd_cwnd, tp->prior_cwnd);

	return cc_given_value(sk, CC_GIVEN_RENO_UNDO_CWND, cwnd);
}

static inline void cc_twin_reno_cong_avoid(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		acked = cc_twin_slow_start(tp, acked);
		if (!acked)
			return;
	}
	cc_twin_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

static inline void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	(void)ack;
	cc_twin_reno_cong_avoid(sk, acked);
	cc_given_value(sk, CC_GIVEN_RENO_CONG_AVOID, 0);
}

/* ---- arithmetic that differs between the hosts ---- */

/* Quotient of two unsigned 64-bit values; 0 if the divisor is 0, as in BPF. */
static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return divisor ? dividend / divisor : 0;
}

static inline u32 usecs_to_jiffies(u32 us)
{
	u64 per_second = 1000000;

	return (u32)(((u64)us * cc_hz() + per_second - 1) / per_second);
}

static inline u32 msecs_to_jiffies(u32 ms)
{
	return (u32)(((u64)ms * cc_hz() + 999) / 1000);
}

#endif
