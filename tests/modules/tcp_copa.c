// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Copa, default mode: cwnd moves towards 1 / (delta * dq) packets per standing RTT, where dq is the
 * queueing delay; its velocity doubles each round trip that it keeps its direction.
 *
 * Source: Arun and Balakrishnan, NSDI 2018, sections 2.1 and 2.2. Without the competitive mode of
 * section 2.3, without its pacing, and with whole packets: delta is given as 1/100.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <net/tcp.h>
#include <linux/inet_diag.h>

#define COPA_NO_RTT	(~0U)
/* Packets of cwnd are kept in 1/1024, so that an ACK's share is no less than one. */
#define COPA_SHIFT	10
/* The base RTT is the least of so long. */
#define COPA_BASE_MS	10000
/* A velocity beyond doubles cwnd in less than an RTT. */
#define COPA_MAX_VELOCITY	(1U << 15)

enum copa_direction {
	COPA_UNDECIDED,
	COPA_UP,
	COPA_DOWN,
};

struct copa {
	struct minmax base_rtt_us;	/* least RTT of the last 10 s */
	u32 standing_rtt_us;		/* least RTT of the last half of srtt */
	u32 next_standing_rtt_us;	/* the same, being gathered */
	u32 standing_stamp_us;		/* when the gathering began */
	u32 round_end_seq;		/* the round trip ends when this is acknowledged */
	u32 round_start_cwnd;		/* packets */
	u32 velocity;			/* 1, 2, 4, ... */
	s32 last_step;			/* what the last ACK added to cwnd, 1/1024 packets */
	u16 fraction;			/* of cwnd, 1/1024 packets */
	u8 same_direction : 3,		/* round trips that cwnd went one way, up to 3 */
	   is_slow_start : 1,
	   is_above : 1;		/* the rate is above the target's */
	enum copa_direction direction;
	u64 queueing_ns;		/* standing RTT less base RTT */
};

static unsigned int delta_pct __read_mostly = 50;
module_param(delta_pct, uint, 0644);
MODULE_PARM_DESC(delta_pct, "delta in 1/100: about 1/delta packets of each flow wait in the queue");

static void copa_init(struct sock *sk)
{
	struct copa *ca = inet_csk_ca(sk);

	memset(ca, 0, sizeof(*ca));
	minmax_reset(&ca->base_rtt_us, tcp_jiffies32, COPA_NO_RTT);
	ca->standing_rtt_us = COPA_NO_RTT;
	ca->next_standing_rtt_us = COPA_NO_RTT;
	ca->velocity = 1;
	ca->is_slow_start = 1;
	ca->round_end_seq = tcp_sk(sk)->snd_nxt;
	ca->round_start_cwnd = tcp_snd_cwnd(tcp_sk(sk));
}

/* Least RTTs: of the path, and of about half a round trip, which leaves out the jitter of ACKs. */
static void copa_rtt(struct sock *sk, u32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct copa *ca = inet_csk_ca(sk);
	u32 now_us = (u32)tp->tcp_mstamp;

	minmax_running_min(&ca->base_rtt_us, msecs_to_jiffies(COPA_BASE_MS), tcp_jiffies32, rtt_us);
	ca->next_standing_rtt_us = min(ca->next_standing_rtt_us, rtt_us);
	ca->standing_rtt_us = min(ca->standing_rtt_us, rtt_us);
	if (now_us - ca->standing_stamp_us >= tp->srtt_us >> 4) {
		ca->standing_rtt_us = ca->next_standing_rtt_us;
		ca->next_standing_rtt_us = rtt_us;
		ca->standing_stamp_us = now_us;
	}
	ca->queueing_ns = (u64)(ca->standing_rtt_us - min(ca->standing_rtt_us,
				minmax_get(&ca->base_rtt_us))) * NSEC_PER_USEC;
}

static void copa_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	if (sample->rtt_us > 0)
		copa_rtt(sk, sample->rtt_us);
}

/* Once per round trip: after three of them in one direction the velocity doubles in each. */
static void copa_round(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct copa *ca = inet_csk_ca(sk);
	enum copa_direction direction;

	direction = tcp_snd_cwnd(tp) > ca->round_start_cwnd ? COPA_UP : COPA_DOWN;
	if (direction != ca->direction) {
		ca->velocity = 1;
		ca->same_direction = 0;
	} else if (ca->same_direction < 3) {
		ca->same_direction++;
	} else {
		ca->velocity = min(ca->velocity * 2, COPA_MAX_VELOCITY);
	}
	ca->direction = direction;
	ca->round_end_seq = tp->snd_nxt;
	ca->round_start_cwnd = tcp_snd_cwnd(tp);
}

/* Whether cwnd / standing RTT is above 1 / (delta * dq). */
static bool copa_is_above(const struct sock *sk)
{
	const struct copa *ca = inet_csk_ca(sk);
	u64 lead = (u64)tcp_snd_cwnd(tcp_sk(sk)) * delta_pct * (ca->queueing_ns / NSEC_PER_USEC);

	return lead > (u64)ca->standing_rtt_us * 100;
}

static void copa_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct copa *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tp);
	s64 whole;

	if (ca->standing_rtt_us == COPA_NO_RTT)
		return;
	ca->is_above = copa_is_above(sk);
	if (ca->is_slow_start) {
		if (!ca->is_above) {
			tcp_snd_cwnd_set(tp, min(cwnd + acked, tp->snd_cwnd_clamp));
			return;
		}
		ca->is_slow_start = 0;
	}
	if (after(ack, ca->round_end_seq))
		copa_round(sk);
	/* A change of direction within a round trip ends the race at once. */
	if (ca->velocity > 1 && (ca->direction == COPA_UP) == ca->is_above) {
		ca->velocity = 1;
		ca->same_direction = 0;
	}
	/* v / (delta * cwnd) for each packet acknowledged. */
	ca->last_step = (s32)div_u64(((u64)acked * ca->velocity * 100) << COPA_SHIFT,
				     max(delta_pct * cwnd, 1U));
	if (ca->is_above)
		ca->last_step = -ca->last_step;
	whole = ((s64)cwnd << COPA_SHIFT) + ca->fraction + ca->last_step;
	whole = clamp_t(s64, whole, 2 << COPA_SHIFT, (s64)tp->snd_cwnd_clamp << COPA_SHIFT);
	ca->fraction = whole & ((1 << COPA_SHIFT) - 1);
	tcp_snd_cwnd_set(tp, (u32)(whole >> COPA_SHIFT));
}

static u32 copa_ssthresh(struct sock *sk)
{
	struct copa *ca = inet_csk_ca(sk);

	ca->is_slow_start = 0;
	ca->velocity = 1;
	return max(tcp_snd_cwnd(tcp_sk(sk)) >> 1, 2U);
}

static size_t copa_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct copa *ca = inet_csk_ca(sk);

	if (!(ext & (1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	info->vegas.tcpv_enabled = 1;
	info->vegas.tcpv_rttcnt = ca->velocity;
	info->vegas.tcpv_rtt = ca->standing_rtt_us;
	info->vegas.tcpv_minrtt = minmax_get(&ca->base_rtt_us);
	*attr = INET_DIAG_VEGASINFO;
	return sizeof(struct tcpvegas_info);
}

static struct tcp_congestion_ops tcp_copa __read_mostly = {
	.init		= copa_init,
	.ssthresh	= copa_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= copa_cong_avoid,
	.pkts_acked	= copa_pkts_acked,
	.get_info	= copa_get_info,

	.owner		= THIS_MODULE,
	.name		= "copa",
};

static int __init tcp_copa_register(void)
{
	BUILD_BUG_ON(sizeof(struct copa) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&tcp_copa);
}

static void __exit tcp_copa_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_copa);
}

module_init(tcp_copa_register);
module_exit(tcp_copa_unregister);

MODULE_AUTHOR("The knee authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Copa, default mode");
