/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What BBR version 3 knows of a connection, and the rates and windows that follow from it. bbr3.c, which
 * includes this, is the algorithm: how the knowledge comes about.
 */
#ifndef KNEE_BBR3_H
#define KNEE_BBR3_H

#include "bbr.h"

#define BBR_INFINITE		0xffffffffU

#define BBR_STARTUP_PACING_GAIN	(BBR_UNIT * 277 / 100 + 1)
#define BBR_DRAIN_GAIN		(BBR_UNIT * 1000 / 2885)
#define BBR_UP_GAIN		(BBR_UNIT * 5 / 4)
#define BBR_DOWN_GAIN		(BBR_UNIT * 91 / 100)
#define BBR_CWND_GAIN		(BBR_UNIT * 2)
#define BBR_UP_CWND_GAIN	(BBR_UNIT * 2 + BBR_UNIT / 4)
#define BBR_PROBE_RTT_CWND_GAIN	(BBR_UNIT / 2)

#define BBR_INIT_CWND_MAX	127
#define BBR_TSO_RTT_SHIFT	9

#define BBR_PROBE_RTT_WIN_SEC	5

#define BBR_FULL_BW_THRESH	(BBR_UNIT * 5 / 4)
#define BBR_FULL_BW_CNT		3
#define BBR_FULL_LOSS_CNT	6
#define BBR_FULL_ECN_CNT	2

/* Too much: 2 % lost, half marked. A cut takes 30 %; headroom is 15 %. */
#define BBR_LOSS_THRESH		(BBR_UNIT * 2 / 100)
#define BBR_ECN_THRESH		(BBR_UNIT / 2)
#define BBR_KEPT		(BBR_UNIT - BBR_UNIT * 30 / 100)
#define BBR_HEADROOM		(BBR_UNIT * 15 / 100)
/* Of the marked share alpha, a third is taken off. alpha has a memory of 16 rounds. */
#define BBR_ECN_FACTOR		(BBR_UNIT / 3)
#define BBR_ECN_ALPHA_GAIN	(BBR_UNIT / 16)
#define BBR_ECN_MAX_RTT_US	5000
#define BBR_ECN_REPROBE_GAIN	(BBR_UNIT / 2)

#define BBR_PROBE_MAX_ROUNDS	63
#define BBR_PROBE_RAND_ROUNDS	2
#define BBR_PROBE_BASE_US	2000000
#define BBR_PROBE_RAND_US	1000000
#define BBR_PROBE_UP_ROUNDS_MAX	30


/* Marks per window, and how many are kept; a power of two. */
#define BBR_MARKS_PER_WINDOW	8
#define BBR_MARKS		16

enum bbr_phase {
	BBR_UP = 0,
	BBR_DOWN = 1,
	BBR_CRUISE = 2,
	BBR_REFILL = 3,
};

/* What the ACKs that come now are of. */
enum bbr_ack_phase {
	BBR_ACKS_INIT = 0,
	BBR_ACKS_REFILLING = 1,
	BBR_ACKS_PROBE_STARTING = 2,
	BBR_ACKS_PROBE_FEEDBACK = 3,
	BBR_ACKS_PROBE_STOPPING = 4,
};

struct bbr_mark {
	u32 delivered;			/* tp->delivered when it was taken */
	u32 lost;			/* tp->lost */
};

struct bbr3 {
	u64 cycle_mstamp;		/* us, the beginning of DOWN or UP */
	u64 ack_epoch_mstamp;		/* us */
	u32 min_rtt_us;			/* over 10 s; BBR_INFINITE: none yet */
	u32 min_rtt_stamp;		/* jiffies */
	u32 probe_rtt_min_us;		/* over 5 s */
	u32 probe_rtt_min_stamp;	/* jiffies */
	u32 probe_rtt_done_stamp;	/* jiffies: the end of PROBE_RTT; 0: it has not got so far */
	u32 next_rtt_delivered;		/* the round ends with a packet sent after so many were delivered */
	u32 loss_round_delivered;	/* the same of rounds that begin with a loss */
	u32 bw_hi[2];			/* largest sample of the last cycle, and of this one */
	u32 bw_lo;			/* bounds of the short term; BBR_INFINITE: none */
	u32 bw_latest;			/* largest sample of this round */
	u32 inflight_hi;		/* packets */
	u32 inflight_lo;
	u32 inflight_latest;		/* most packets delivered in a sample of this round */
	u32 undo_bw_lo;			/* as they were before the last reduction */
	u32 undo_inflight_lo;
	u32 undo_inflight_hi;
	u32 full_bw;			/* what growth is compared with */
	u32 init_cwnd;			/* packets */
	u32 prior_cwnd;			/* packets, before recovery or PROBE_RTT */
	u32 ack_epoch_acked;
	u32 extra_acked[2];
	u32 bw_probe_up_cnt;		/* packets acked per packet that inflight_hi rises by */
	u32 bw_probe_up_acks;
	u32 probe_wait_us;
	u32 last_lost;			/* tp->lost and tp->delivered_ce at the last ACK */
	u32 last_delivered_ce;
	u32 alpha_last_delivered;	/* at the last update of alpha */
	u32 alpha_last_delivered_ce;
	u32 ecn_alpha;			/* average share of marked packets, in 1/256 */
	struct plb plb;
	struct bbr_mark marks[BBR_MARKS];
	u32 last_mark;			/* its index */
	u16 pacing_gain;
	u16 cwnd_gain;
	u8 mode;
	u8 phase;
	u8 ack_phase;
	u8 prev_ca_state;
	u8 round_start;
	u8 loss_round_start;
	u8 rounds_since_probe;
	u8 bw_probe_up_rounds;
	u8 bw_probe_samples;		/* samples tell of a flight above what is known to be safe */
	u8 prev_probe_too_high;
	u8 stopped_risky_probe;
	u8 full_bw_now;			/* growth has stopped since it was last looked for */
	u8 full_bw_reached;		/* STARTUP has filled the pipe */
	u8 full_bw_cnt;
	u8 loss_in_round;
	u8 loss_in_cycle;
	u8 ecn_in_round;
	u8 ecn_in_cycle;
	u8 loss_events_in_round;
	u8 startup_ecn_rounds;
	u8 ecn_eligible;
	u8 idle_restart;
	u8 probe_rtt_round_done;
	u8 has_seen_rtt;
	u8 extra_acked_win_rtts;
	u8 extra_acked_win_idx;
};

/* ---- bandwidth, rates and windows ---- */

static u32 bbr3_max_bw(const struct bbr3 *bbr)
{
	return max_u32(bbr->bw_hi[0], bbr->bw_hi[1]);
}

static u32 bbr3_bw(const struct bbr3 *bbr)
{
	return min_u32(bbr3_max_bw(bbr), bbr->bw_lo);
}

/* Until the pipe is full the rate only rises. */
static void bbr3_set_pacing_rate(struct sock *sk, struct bbr3 *bbr, u32 gain)
{
	u64 rate = bbr_pacing_rate(sk, bbr3_bw(bbr), gain);

	if (!bbr->has_seen_rtt && tcp_sk(sk)->srtt_us)
		bbr->has_seen_rtt = bbr_init_pacing_rate(sk, BBR_STARTUP_PACING_GAIN);
	if (bbr->full_bw_reached || rate > sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

/* Packets of a burst: about 1 ms of the rate, and more on short paths. */
static u32 bbr3_tso_segs_goal(const struct sock *sk, const struct bbr3 *bbr)
{
	u64 bytes = sk->sk_pacing_rate >> sk->sk_pacing_shift;
	u32 halvings = bbr->min_rtt_us >> BBR_TSO_RTT_SHIFT, segs;

	if (halvings < 32)
		bytes += 65536U >> halvings;
	segs = (u32)(bytes < BBR_GSO_MAX_BYTES ? bytes : BBR_GSO_MAX_BYTES) /
	       max_u32(tcp_sk(sk)->mss_cache, 1);
	return clamp_u32(segs, 2, BBR_TSO_SEGS_MAX);
}

static u32 bbr3_bdp(const struct bbr3 *bbr, u32 bw, u32 gain)
{
	return bbr->min_rtt_us == BBR_INFINITE ? bbr->init_cwnd
					       : bbr_bdp_pkts(bw, bbr->min_rtt_us, gain);
}

/* Room for three bursts, and in UP for a path of few packets to be probed. */
static u32 bbr3_quantize_cwnd(const struct sock *sk, const struct bbr3 *bbr, u32 cwnd)
{
	cwnd = max_u32(cwnd, 3 * bbr3_tso_segs_goal(sk, bbr));
	cwnd = max_u32(cwnd, BBR_CWND_MIN_TARGET);
	if (bbr->mode == BBR_PROBE_BW && bbr->phase == BBR_UP)
		cwnd += 2;
	return cwnd;
}

static u32 bbr3_inflight(const struct sock *sk, const struct bbr3 *bbr, u32 bw, u32 gain)
{
	return bbr3_quantize_cwnd(sk, bbr, bbr3_bdp(bbr, bw, gain));
}

static u32 bbr3_target_inflight(const struct sock *sk, const struct bbr3 *bbr)
{
	return min_u32(bbr3_inflight(sk, bbr, bbr3_bw(bbr), BBR_UNIT), tcp_sk(sk)->snd_cwnd);
}

/* What CRUISE leaves free is for others to grow into. */
static u32 bbr3_inflight_with_headroom(const struct bbr3 *bbr)
{
	u32 headroom;

	if (bbr->inflight_hi == BBR_INFINITE)
		return BBR_INFINITE;
	headroom = max_u32(((u64)bbr->inflight_hi * BBR_HEADROOM) >> BBR_SCALE, 1);
	if (bbr->inflight_hi < headroom + BBR_CWND_MIN_TARGET)
		return BBR_CWND_MIN_TARGET;
	return bbr->inflight_hi - headroom;
}

static u32 bbr3_probe_rtt_cwnd(const struct bbr3 *bbr)
{
	return max_u32(bbr3_bdp(bbr, bbr3_bw(bbr), BBR_PROBE_RTT_CWND_GAIN), BBR_CWND_MIN_TARGET);
}

/* With the burst that leaves at that moment, if more is to be in flight. */
static u32 bbr3_packets_in_net_at_edt(const struct sock *sk, const struct bbr3 *bbr, u32 inflight)
{
	if (bbr->pacing_gain > BBR_UNIT)
		inflight += bbr3_tso_segs_goal(sk, bbr);
	return bbr_inflight_at_edt(tcp_sk(sk), bbr3_bw(bbr), inflight);
}

/* ---- beginnings ---- */

static void bbr3_start_round(const struct tcp_sock *tp, struct bbr3 *bbr)
{
	bbr->next_rtt_delivered = tp->delivered;
}

static void bbr3_reset_full_bw(struct bbr3 *bbr)
{
	bbr->full_bw = 0;
	bbr->full_bw_cnt = 0;
	bbr->full_bw_now = 0;
}

static void bbr3_reset_lower_bounds(struct bbr3 *bbr)
{
	bbr->bw_lo = BBR_INFINITE;
	bbr->inflight_lo = BBR_INFINITE;
}

static void bbr3_reset_congestion_signals(struct bbr3 *bbr)
{
	bbr->loss_in_round = 0;
	bbr->ecn_in_round = 0;
	bbr->loss_in_cycle = 0;
	bbr->ecn_in_cycle = 0;
	bbr->bw_latest = 0;
	bbr->inflight_latest = 0;
}

/* ---- ACKs that come together: see bbr.c ---- */

static u32 bbr3_ack_aggregation_cwnd(const struct bbr3 *bbr)
{
	u64 most = ((u64)bbr3_bw(bbr) * BBR_EXTRA_ACKED_MAX_US) >> BW_SCALE;
	u32 extra = max_u32(bbr->extra_acked[0], bbr->extra_acked[1]);

	return extra < most ? extra : (u32)most;
}

static void bbr3_next_extra_acked_slot(struct bbr3 *bbr)
{
	u32 window = bbr->full_bw_reached ? BBR_EXTRA_ACKED_WIN_RTTS : 1;

	bbr->extra_acked_win_rtts = min_u32(bbr->extra_acked_win_rtts + 1, 31);
	if (bbr->extra_acked_win_rtts < window)
		return;
	bbr->extra_acked_win_rtts = 0;
	bbr->extra_acked_win_idx ^= 1;
	bbr->extra_acked[bbr->extra_acked_win_idx & 1] = 0;
}

static void bbr3_update_ack_aggregation(const struct tcp_sock *tp, struct bbr3 *bbr,
					const struct rate_sample *rs)
{
	u32 acked = rs->acked_sacked, slot, extra;
	u64 expected;

	if (!acked || rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (bbr->round_start)
		bbr3_next_extra_acked_slot(bbr);
	expected = ((u64)bbr3_bw(bbr) * (tp->delivered_mstamp - bbr->ack_epoch_mstamp)) >> BW_SCALE;
	if (bbr->ack_epoch_acked <= expected ||
	    bbr->ack_epoch_acked + acked >= BBR_ACK_EPOCH_ACKED_MAX) {
		bbr->ack_epoch_acked = 0;
		bbr->ack_epoch_mstamp = tp->delivered_mstamp;
		expected = 0;
	}
	bbr->ack_epoch_acked = min_u32(bbr->ack_epoch_acked + acked, BBR_ACK_EPOCH_ACKED_MAX - 1);
	extra = min_u32(bbr->ack_epoch_acked - (u32)expected, tp->snd_cwnd);
	slot = bbr->extra_acked_win_idx & 1;
	bbr->extra_acked[slot] = max_u32(bbr->extra_acked[slot], extra);
}

/* ---- what was lost since a packet was sent ---- */

/* The losses that were known when the packet was sent that found so many delivered. */
static u32 bbr3_lost_at(const struct bbr3 *bbr, u32 delivered)
{
	u32 i = bbr->last_mark, lost = bbr->marks[(i + 1) & (BBR_MARKS - 1)].lost, n;

	for (n = 0; n < BBR_MARKS; n++) {
		const struct bbr_mark *mark = &bbr->marks[(i - n) & (BBR_MARKS - 1)];

		if (!after(mark->delivered, delivered)) {
			lost = mark->lost;
			break;
		}
	}
	return lost;
}

static void bbr3_take_mark(const struct tcp_sock *tp, struct bbr3 *bbr, u32 window)
{
	u32 newest = bbr->marks[bbr->last_mark & (BBR_MARKS - 1)].delivered;

	if (tp->delivered - newest < max_u32(window / BBR_MARKS_PER_WINDOW, 1))
		return;
	bbr->last_mark++;
	bbr->marks[bbr->last_mark & (BBR_MARKS - 1)].delivered = tp->delivered;
	bbr->marks[bbr->last_mark & (BBR_MARKS - 1)].lost = tp->lost;
}

#endif
