/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a congestion-control module uses of net/tcp.h and its like. The sockets are the simulator's
 * own, as tcp.h of the contract declares them for every algorithm; here are the kernel's table of
 * operations, which a module registers, and the functions around it.
 */
#ifndef KNEE_MODULE_NET_H
#define KNEE_MODULE_NET_H

#include <knee/module_linux.h>

#ifdef __bpf__
#include <knee/module_bpf.h>
#else
/* The contract's own take these for functions. */
#undef div64_u64
#define CC_KERNEL_OPS
#include <knee/tcp.h>
/* Not before: to tcp.h it means a kernel's own source tree. */
#define __KERNEL__	1

/* The connection whose call this is. */
extern struct sock *knee_sk;

#define knee_jiffies32()	cc_jiffies32(knee_sk)
/* 64 bits, which go on where the host's 32 wrap: time_after() compares them as longs. In support.c. */
u64 knee_jiffies(void);
#define knee_random_u32()	cc_random_u32(knee_sk)

/* Time stands while a packet is worked on, so the packet's time is now. */
static inline u64 tcp_clock_us(void)
{
	u64 now = ((const struct tcp_sock *)knee_sk)->tcp_mstamp;
	u32 low = cc_given_value(knee_sk, CC_GIVEN_CLOCK_US, (u32)now);

	return (u64)cc_given_value(knee_sk, CC_GIVEN_UPPER_HALF, (u32)(now >> 32)) << 32 | low;
}

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];	/* best, second and third best, each later than the one before */
};
#endif

#define div64_u64(n, d)		((u64)(n) / knee_divisor((u64)(d)))

/* ---- clocks: of the host, as this connection reads them ---- */

#undef HZ
#ifdef __bpf__
#define HZ			((int)cc_hz())
#else
/* The host's, and so no constant; a variable, so that #if can have it: there it counts as 0. In support.c. */
extern int knee_hz;
#define HZ			knee_hz
#endif
#undef tcp_jiffies32
#define tcp_jiffies32		knee_jiffies32()
#define jiffies			((unsigned long)knee_jiffies())
#define jiffies_64		knee_jiffies()
#define get_jiffies_64()	knee_jiffies()
#define jiffies_to_msecs(j)	((unsigned int)((u64)(j) * 1000 / cc_hz()))
#define jiffies_to_usecs(j)	((unsigned int)((u64)(j) * 1000000 / cc_hz()))
#define nsecs_to_jiffies(ns)	((unsigned long)((u64)(ns) / (1000000000ull / cc_hz())))

#define tcp_clock_ns()		(tcp_clock_us() * 1000ull)
#define tcp_clock_ms()		(tcp_clock_us() / 1000ull)
#define ktime_get()		((ktime_t)tcp_clock_ns())
#define ktime_get_ns()		((u64)tcp_clock_ns())
#define ktime_get_boottime()	ktime_get()
#define ktime_get_boottime_ns()	ktime_get_ns()
#define ktime_get_real()	ktime_get()
#define ktime_get_real_ns()	ktime_get_ns()
#define ktime_get_real_seconds() ((s64)(tcp_clock_us() / 1000000ull))
#define ktime_get_seconds()	ktime_get_real_seconds()
#define get_seconds()		((unsigned long)ktime_get_real_seconds())
#define local_clock()		ktime_get_ns()
#define sched_clock()		ktime_get_ns()

static inline u32 tcp_stamp_us_delta(u64 later, u64 earlier)
{
	return later > earlier ? (u32)(later - earlier) : 0;
}

/* ---- random numbers: of the run's seed ---- */

#define get_random_u32()	knee_random_u32()
#define get_random_u64()	((u64)get_random_u32() << 32 | get_random_u32())
#define get_random_u32_below(n)	((u32)(((u64)get_random_u32() * (u32)(n)) >> 32))
#define get_random_u32_above(n)	((u32)(n) + 1 + get_random_u32_below(U32_MAX - (u32)(n)))
#define get_random_u32_inclusive(low, high)					\
	((u32)(low) + get_random_u32_below((u32)(high) - (u32)(low) + 1))
#define prandom_u32()		get_random_u32()
#define prandom_u32_max(n)	get_random_u32_below(n)
#define get_random_int()	get_random_u32()
#define get_random_u8()		((u8)get_random_u32())
#define get_random_u16()	((u16)get_random_u32())
#define prandom_bytes(to, bytes)	get_random_bytes(to, bytes)

static __always_inline void get_random_bytes(void *to, size_t bytes)
{
	u8 *out = to;
	u32 word = 0;
	size_t i;

	for (i = 0; i < bytes; i++) {
		if (i % 4 == 0)
			word = get_random_u32();
		out[i] = (u8)(word >> 8 * (i % 4));
	}
}
#define get_random_long()	((unsigned long)get_random_u64())

/* ---- minimum or maximum over a window of time, by three samples ---- */

static inline u32 minmax_get(const struct minmax *m)
{
	return m->s[0].v;
}

static inline u32 minmax_reset(struct minmax *m, u32 t, u32 value)
{
	struct minmax_sample sample = { .t = t, .v = value };

	m->s[0] = m->s[1] = m->s[2] = sample;
	return value;
}

#include <knee/module_minmax.h>

/* ---- sockets ---- */

#define TCP_CA_NAME_MAX		16
#define ICSK_CA_PRIV_SIZE	(13 * sizeof(u64))
#define TCP_INIT_CWND		10
#define TCP_MSS_DEFAULT		536U
#define MAX_TCP_HEADER		320
#define TCP_MIN_MSS		88U
#define TCP_FASTRETRANS_THRESH	3
#define TCP_RTO_MAX		((unsigned int)(120 * HZ))
#define TCP_RTO_MIN		((unsigned int)(HZ / 5))
#define TCP_TIMEOUT_INIT	((unsigned int)(1 * HZ))
#define TCP_DELACK_MAX		((unsigned int)(HZ / 5))
#define TCP_DELACK_MIN		((unsigned int)(HZ / 25))
#define TCP_ATO_MIN		((unsigned int)(HZ / 25))
#define MAX_TCP_WINDOW		32767U
#define GSO_MAX_SIZE		65536u
#define GSO_LEGACY_MAX_SIZE	65536u

/* Values of sk_state. */
#undef TCP_CLOSE
#undef TCP_LISTEN
enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT = 2,
	TCP_SYN_RECV = 3,
	TCP_FIN_WAIT1 = 4,
	TCP_FIN_WAIT2 = 5,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_CLOSING = 11,
};

enum {
	TCPF_CA_Open = 1 << TCP_CA_Open,
	TCPF_CA_Disorder = 1 << TCP_CA_Disorder,
	TCPF_CA_CWR = 1 << TCP_CA_CWR,
	TCPF_CA_Recovery = 1 << TCP_CA_Recovery,
	TCPF_CA_Loss = 1 << TCP_CA_Loss,
};

/* low <= seq <= high, modulo 2^32. */
static inline bool between(u32 seq, u32 low, u32 high)
{
	return high - low >= seq - low;
}

#include <knee/module_skb.h>
#ifdef KNEE_API_V3
#include <knee/module_v3.h>
#else
#define KNEE_BBR_INFO_V3

static inline void *inet_csk_ca(const struct sock *sk)
{
	return (void *)inet_csk(sk)->icsk_ca_priv;
}
#endif

static inline u32 tcp_snd_cwnd(const struct tcp_sock *tp)
{
	return tp->snd_cwnd;
}

static inline void tcp_snd_cwnd_set(struct tcp_sock *tp, u32 cwnd)
{
	tp->snd_cwnd = cwnd;
}

static inline u32 tcp_min_rtt(const struct tcp_sock *tp)
{
	return cc_min_rtt_us(tp);
}

static inline unsigned int tcp_left_out(const struct tcp_sock *tp)
{
	return tp->sacked_out + tp->lost_out;
}

static inline bool tcp_in_cwnd_reduction(const struct sock *sk)
{
	return (TCPF_CA_CWR | TCPF_CA_Recovery) & (1 << inet_csk(sk)->icsk_ca_state);
}

static inline bool tcp_in_initial_slowstart(const struct tcp_sock *tp)
{
	return tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH;
}

static inline u32 tcp_current_ssthresh(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 three_quarters = (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2);

	return tcp_in_cwnd_reduction(sk) ? tp->snd_ssthresh : max_u32(tp->snd_ssthresh, three_quarters);
}

/* ---- timestamps of segments: ticks of 1 ms, without the connection's offset ---- */

#define TCP_TS_HZ		1000

static inline u32 tcp_time_stamp_ts(const struct tcp_sock *tp)
{
	return (u32)(tp->tcp_mstamp / (1000000 / TCP_TS_HZ));
}

static inline u32 tcp_time_stamp_ms(const struct tcp_sock *tp)
{
	return (u32)(tp->tcp_mstamp / 1000);
}

static inline u32 tcp_clock_ts(bool in_us)
{
	return (u32)(in_us ? tcp_clock_us() : tcp_clock_us() / 1000);
}

/* Before 4.13 the ticks of the host, and no function of a socket. */
#if KNEE_LINUX_VERSION < KERNEL_VERSION(4, 13, 0)
#define tcp_time_stamp		tcp_jiffies32
#else
#define tcp_time_stamp(tp)	tcp_time_stamp_ts(tp)
#define tcp_time_stamp_raw()	tcp_clock_ts(false)
#endif

#ifndef KNEE_API_V3
/* Whether ECN was negotiated, of the one kind that there is here (RFC 3168). */
static inline bool tcp_ecn_mode_any(const struct tcp_sock *tp)
{
	return tp->ecn_flags & TCP_ECN_OK;
}

#define TCP_ECN_MODE_RFC3168	TCP_ECN_OK
#define tcp_ecn_mode_rfc3168(tp)	tcp_ecn_mode_any(tp)
#define tcp_ecn_mode_accecn(tp)	((void)(tp), false)
#define tcp_ecn_disabled(tp)	(!tcp_ecn_mode_any(tp))
#endif

#ifndef __bpf__
/* One beyond what the peer's window lets be sent. */
static inline u32 tcp_wnd_end(const struct tcp_sock *tp)
{
	return tp->snd_una + tp->snd_wnd;
}

/* A burst is to be 2^-value s of the pacing rate. */
static inline void sk_pacing_shift_update(struct sock *sk, int value)
{
	if (sk && sk->sk_pacing_shift != (u32)value)
		sk->sk_pacing_shift = (u32)value;
}
#endif

static inline void tcp_mstamp_refresh(struct tcp_sock *tp)
{
	(void)tp;
}

/* cwnd is to go down as by an ECN mark: that begins when the operation that asks for it has returned. */
#ifndef __bpf__
static inline void tcp_enter_cwr(struct sock *sk)
{
	(void)sk;
	cc_host->cwr_asked = 1;
}
#endif

/* An ACK of everything below rcv_nxt, now. Newer kernels add flags, for AccECN alone. */
#define __tcp_send_ack(sk, rcv_nxt, ...) cc_send_ack(sk, rcv_nxt)

static inline void tcp_send_ack(struct sock *sk)
{
	cc_send_ack(sk, tcp_sk(sk)->rcv_nxt);
}

/* ECT on what is sent follows the flags of the operations in use. */
#define INET_ECN_xmit(sk)	((void)(sk))
#define INET_ECN_dontxmit(sk)	((void)(sk))

/* The base RTT that the experiment states is what a BPF program would say on a host; -1: none does. */
enum {
	BPF_SOCK_OPS_BASE_RTT = 7,
};

#ifndef __bpf__
static inline int tcp_call_bpf(struct sock *sk, int operation, u32 count, u32 *arguments)
{
	u32 base_rtt_us = cc_given_value(sk, CC_GIVEN_BASE_RTT, cc_host->base_rtt_us);

	(void)count;
	(void)arguments;
	return operation == BPF_SOCK_OPS_BASE_RTT && base_rtt_us ? (int)base_rtt_us : -1;
}
#endif

#ifndef __bpf__
#include <knee/module_sysctl.h>
#include <knee/module_mib.h>
#endif

/* ---- what a module shows of itself ---- */

enum {
	INET_DIAG_NONE = 0,
	INET_DIAG_MEMINFO = 1,
	INET_DIAG_INFO = 2,
	INET_DIAG_VEGASINFO = 3,
	INET_DIAG_CONG = 4,
	INET_DIAG_DCTCPINFO = 9,
	INET_DIAG_BBRINFO = 16,
};

struct tcpvegas_info {
	u32 tcpv_enabled;
	u32 tcpv_rttcnt;
	u32 tcpv_rtt;
	u32 tcpv_minrtt;
};

struct tcp_dctcp_info {
	u16 dctcp_enabled;
	u16 dctcp_ce_state;
	u32 dctcp_alpha;
	u32 dctcp_ab_ecn;
	u32 dctcp_ab_tot;
};

struct tcp_bbr_info {
	u32 bbr_bw_lo;
	u32 bbr_bw_hi;
	u32 bbr_min_rtt;
	u32 bbr_pacing_gain;
	u32 bbr_cwnd_gain;
	KNEE_BBR_INFO_V3
};

union tcp_cc_info {
	struct tcpvegas_info vegas;
	struct tcp_dctcp_info dctcp;
	struct tcp_bbr_info bbr;
#ifdef KNEE_API_V3
	struct tcp_prague_info prague;
#endif
};

/* ---- the table of operations, as modules register it ---- */

#define TCP_CONG_MASK	(TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN)

enum tcp_ca_ack_event_flags {
	KNEE_CA_ACK_SLOWPATH = CA_ACK_SLOWPATH,
};

/* In BPF that name is the contract's, whose table is made of this one (src/module/for_bpf.rs). */
#ifdef __bpf__
#define tcp_congestion_ops knee_module_ops
#endif

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	/* Where it is there, in place of cwnd_event(CA_EVENT_TX_START). */
	void (*cwnd_event_tx_start)(struct sock *sk);
	void (*in_ack_event)(struct sock *sk, u32 flags);
#if KNEE_LINUX_VERSION < KERNEL_VERSION(4, 7, 0)
	void (*pkts_acked)(struct sock *sk, u32 num_acked, s32 rtt_us);
#else
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
#endif
	u32 (*min_tso_segs)(struct sock *sk);
#ifndef __bpf__
	/* Of kernels before 4.17: segments of a burst; 0: as without it. */
	u32 (*tso_segs_goal)(struct sock *sk);
#endif
#if KNEE_CONG_CONTROL_ARGUMENTS == 2
	void (*cong_control)(struct sock *sk, const struct rate_sample *rs);
#else
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
#endif
#ifdef KNEE_API_V3
	u32 (*tso_segs)(struct sock *sk, unsigned int mss_now);
	void (*skb_marked_lost)(struct sock *sk, const struct sk_buff *skb);
#endif
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	size_t (*get_info)(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info);
	char name[TCP_CA_NAME_MAX];
	struct module *owner;
	struct list_head list;
	u32 key;
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

#ifdef __bpf__
#define tcp_register_congestion_control(ops)	0
#define tcp_unregister_congestion_control(ops)	do { } while (0)
#else
int tcp_register_congestion_control(struct tcp_congestion_ops *ops);
void tcp_unregister_congestion_control(struct tcp_congestion_ops *ops);

/* The kernel's own Reno, to fall back to. */
extern struct tcp_congestion_ops tcp_reno;

static inline bool tcp_ca_needs_ecn(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_ops->flags & TCP_CONG_NEEDS_ECN;
}
#endif

#include <knee/module_kinds.h>

/* ---- PLB: as on a host with net.ipv4.tcp_plb_enabled = 0, the default: nothing ---- */

#define TCP_PLB_SCALE	8

struct tcp_plb_state {
	u8 consec_cong_rounds : 5, unused : 3;
	u32 pause_until;
};

#define tcp_plb_init(sk, plb)				((void)(sk), (void)(plb))
#define tcp_plb_update_state(sk, plb, cong_ratio)	((void)(sk), (void)(plb), (void)(cong_ratio))
#define tcp_plb_check_rehash(sk, plb)			((void)(sk), (void)(plb))
#define tcp_plb_update_state_upon_rto(sk, plb)		((void)(sk), (void)(plb))

#endif
