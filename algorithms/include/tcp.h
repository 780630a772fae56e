/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between a congestion control and its host.
 *
 * It declares what an algorithm may see of the kernel's sockets, under the kernel's names and with
 * the kernel's meanings; fields.h lists the fields. Three hosts provide it:
 *
 *   native.h  the simulator: the structs below are what it keeps for each connection;
 *   bpf.h     a running kernel: the structs are a view, their offsets are found at load time (CO-RE);
 *   linux.h   a kernel's source tree: the structs are its own, and so is much of what is below.
 *
 * An algorithm file includes this header, perhaps a law beside it that several share, and holds no
 * #ifdef. It reaches
 *
 *   its entry points   CC_OP(u32, dctcp_ssthresh, struct sock *sk) { ... }
 *   its state          CC_STATE(dctcp, struct dctcp)             -> cc_state(sk)
 *                      CC_LARGE_STATE, where 104 bytes are not enough: cc_state(sk) may be NULL then,
 *                      and the algorithm leaves the window as it is
 *   its parameters     CC_PARAMS(dctcp, LIST)                    -> cc_params(sk)->shift_g
 *   a base RTT         CC_BASE_RTT, where it wants one           -> cc_base_rtt_us(sk), 0: unknown
 *   another path       CC_REHASH, where it may ask for one (plb.h)  -> cc_rehash(sk)
 *   its inside views   CC_DIAG(dctcp, LIST)
 *   its operations     CC_ALGORITHM(dctcp) = { .ssthresh = CC_FN(dctcp_ssthresh), ... };
 *
 * and everything that the host decides (time, random numbers, kernel functions) through functions,
 * so that a recording of their results replays a run exactly. What reads the clock (tcp_jiffies32)
 * does so for the socket `sk`, which must be in scope: the reading goes into that socket's record.
 */
#ifndef KNEE_TCP_H
#define KNEE_TCP_H

#ifdef __KERNEL__
#include <net/tcp.h>
#else

#ifdef __bpf__
#include "bpf_types.h"
#else
#include "native_types.h"
#endif

/* ca_state: where loss recovery stands. */
enum tcp_ca_state {
	TCP_CA_Open = 0,
	TCP_CA_Disorder = 1,
	TCP_CA_CWR = 2,
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
};

/* Events of cwnd_event. */
enum tcp_ca_event {
	CA_EVENT_TX_START = 0,		/* first transmission with nothing in flight */
	CA_EVENT_CWND_RESTART = 1,	/* window restart after idle */
	CA_EVENT_COMPLETE_CWR = 2,	/* end of CWR or Recovery */
	CA_EVENT_LOSS = 3,		/* retransmission timeout */
	CA_EVENT_ECN_NO_CE = 4,		/* data segment without CE (needs TCP_CONG_NEEDS_ECN) */
	CA_EVENT_ECN_IS_CE = 5,		/* data segment with CE */
};

/* Flags of in_ack_event. */
#define CA_ACK_SLOWPATH		1
#define CA_ACK_WIN_UPDATE	2
#define CA_ACK_ECE		4

/*
 * Flags of an algorithm. NON_RESTRICTED lets every user of the host choose it by setsockopt. Only reno and bbr of Linux
 * have it. Linux's cubic has it as the kernel's default. All other algorithms are for CAP_NET_ADMIN.
 */
#define TCP_CONG_NON_RESTRICTED	1
#define TCP_CONG_NEEDS_ECN	2

/* ecn_flags */
#define TCP_ECN_OK		1
#define TCP_ECN_QUEUE_CWR	2
#define TCP_ECN_DEMAND_CWR	4	/* while set, every outgoing segment carries ECE */
#define TCP_ECN_SEEN		8

/* icsk_ack.pending */
#define ICSK_ACK_SCHED		1
#define ICSK_ACK_TIMER		2
#define ICSK_ACK_PUSHED		4
#define ICSK_ACK_PUSHED2	8
#define ICSK_ACK_NOW		16

/* sk_pacing_status */
#define SK_PACING_NONE		0
#define SK_PACING_NEEDED	1
#define SK_PACING_FQ		2

#define TCP_INFINITE_SSTHRESH	0x7fffffff

/* Sequence numbers compare modulo 2^32. */
static inline bool before(u32 seq1, u32 seq2)
{
	return (s32)(seq1 - seq2) < 0;
}

#define after(seq2, seq1) before(seq1, seq2)

#endif /* __KERNEL__ */

static inline u32 min_u32(u32 a, u32 b)
{
	return a < b ? a : b;
}

static inline u32 max_u32(u32 a, u32 b)
{
	return a > b ? a : b;
}

static inline u32 clamp_u32(u32 value, u32 low, u32 high)
{
	return max_u32(low, min_u32(value, high));
}

/*
 * What the host gave during one call, in order, noted while somebody records: readings of the clock,
 * random numbers, base RTTs, what became of a field that not every kernel lets be written, and results of
 * kernel functions with what these wrote.
 */
enum cc_given_kind {
	CC_GIVEN_JIFFIES = 1,
	CC_GIVEN_RANDOM = 2,
	CC_GIVEN_SLOW_START = 3,
	CC_GIVEN_CONG_AVOID_AI = 4,
	CC_GIVEN_RENO_SSTHRESH = 5,
	CC_GIVEN_RENO_UNDO_CWND = 6,
	CC_GIVEN_RENO_CONG_AVOID = 7,
	CC_GIVEN_BASE_RTT = 8,
	CC_GIVEN_APP_LIMITED = 9,
	CC_GIVEN_CLOCK_US = 10,		/* of Linux modules: the lower half */
	CC_GIVEN_UPPER_HALF = 11,	/* of the clock or the jiffies before it */
};

struct cc_given {
	u32 kind;			/* CC_GIVEN_... */
	u32 value;			/* what was returned; 0 where that is nothing */
	u32 snd_cwnd;			/* packets, afterwards; 0: not known, as it is of modules in a kernel that read a clock */
	u32 snd_cwnd_cnt;		/* packets, afterwards */
};

/* Room for the values of one call; no algorithm here asks for more than three. */
#define CC_GIVEN_MAX		16

struct cc_given_log {
	u32 count;			/* all, also those that found no room */
	struct cc_given given[CC_GIVEN_MAX];
};

#include "fields.h"

#ifdef __KERNEL__
#include "linux.h"
#else

#ifdef __bpf__
#include "bpf.h"
#else
#include "native.h"
#endif

static inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static inline bool tcp_in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

static inline u32 tcp_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/*
 * Whether cwnd, and not the application or the host, limits the flow. In slow start a window of up
 * to twice the largest flight counts as used, so that a probe that doubles is not cut short.
 */
static inline bool tcp_is_cwnd_limited(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (cc_cwnd_limited_flag(tp))
		return true;
	return tcp_in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

#endif /* __KERNEL__ */
#endif
