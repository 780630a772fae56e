// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * BBR, version 1: send at the rate at which the path delivers, and keep little more in flight than it
 * holds.
 *
 * Two measurements make the model of the path, and it sends by the model, not by losses:
 *
 *   bw       = max of delivered / interval         over 10 round trips
 *   min_rtt  = min of RTT                          over 10 s
 *   pacing rate = pacing_gain * bw * 99 %
 *   cwnd        = cwnd_gain * bw * min_rtt + room for bursts and for ACKs that come together
 *
 * No moment shows both at once: a full pipe has a queue, which hides min_rtt, and an empty one does not
 * show bw. So it goes through modes that look for one or the other:
 *
 *   STARTUP    2.89 / 2.89   until bw grows by less than 25 % in three rounds
 *      |
 *   DRAIN      0.34 / 2.89   until no more is in flight than the path holds
 *      |
 *   PROBE_BW   1.25, 0.75, 1, 1, 1, 1, 1, 1 / 2     a phase is min_rtt long; starts at a random one
 *      ^ |
 *      | v     when min_rtt was not seen for 10 s
 *   PROBE_RTT  1 / 1, cwnd 4  for 200 ms and a round       (back to STARTUP if that was not over)
 *
 * Beside them: after a loss begins, one round of packet conservation; bw of a long time, where a
 * policer lets bursts through and then drops a fifth (LT); cwnd for ACKs that come together
 * (extra_acked).
 *
 * Sources: Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14 (5), 2016;
 * draft-cheng-iccrg-delivery-rate-estimation; behaves as tcp_bbr of Linux 6.1, with which its runs are
 * compared.
 *
 * Deviations: where Linux's arithmetic would overflow 32 bits above some 10 Gbps (comparing LT
 * intervals) or 16 bits (extra_acked above 65535 packets), this does not; rates are at least 1 byte/s,
 * and the first is at most 3 Tbps. On kernels before 6.4
 * samples taken in PROBE_RTT are not marked app-limited, which a program may not do there: bw may be
 * underestimated for a moment after it.
 */
#include "tcp.h"
#include "bbr.h"
#include "minmax.h"

/* 2 / ln 2: the least that doubles the rate in each round, and what drains in one round. */
#define BBR_HIGH_GAIN		(BBR_UNIT * 2885 / 1000 + 1)
#define BBR_DRAIN_GAIN		(BBR_UNIT * 1000 / 2885)
#define BBR_CWND_GAIN		(BBR_UNIT * 2)

#define BBR_CYCLE_LEN		8
#define BBR_CYCLE_RAND		7
#define BBR_BW_RTTS		(BBR_CYCLE_LEN + 2)
#define BBR_NO_RTT		0xffffffffU
#define BBR_INIT_CWND		10

#define BBR_FULL_BW_THRESH	(BBR_UNIT * 5 / 4)
#define BBR_FULL_BW_CNT		3

/* Below 1.2 Mbps bursts are single packets. */
#define BBR_MIN_TSO_RATE	(1200000 / 8)

/* LT: intervals of 4 to 16 rounds with losses of a fifth; equal if within 1/8 or 4 kbps; for 48 rounds. */
#define BBR_LT_INTVL_MIN_RTTS	4
#define BBR_LT_LOSS_THRESH	50
#define BBR_LT_BW_RATIO		(BBR_UNIT / 8)
#define BBR_LT_BW_DIFF		(4000 / 8)
#define BBR_LT_BW_MAX_RTTS	48

struct bbr {
	struct max_filter bw;		/* of samples, over BBR_BW_RTTS rounds */
	u32 rtt_cnt;			/* rounds since the beginning */
	u32 next_rtt_delivered;		/* the round ends with a packet sent after so many were delivered */
	u32 min_rtt_us;			/* BBR_NO_RTT: none yet */
	u32 min_rtt_stamp;		/* jiffies when it was seen */
	u32 probe_rtt_done_stamp;	/* jiffies: the end of PROBE_RTT; 0: it has not got so far */
	u32 prior_cwnd;			/* packets, before recovery or PROBE_RTT */
	u32 full_bw;			/* bw that the next rounds of STARTUP are compared with */
	u32 lt_bw;			/* bw of the last LT interval, or of two that agree */
	u32 lt_last_delivered;		/* the beginning of the LT interval: tp->delivered, */
	u32 lt_last_lost;		/* tp->lost */
	u32 lt_last_stamp;		/* and time, ms */
	u32 ack_epoch_acked;		/* packets acked since ack_epoch_mstamp */
	u64 ack_epoch_mstamp;		/* us */
	u64 cycle_mstamp;		/* us, the beginning of the phase */
	u16 extra_acked[2];		/* packets acked beyond bw, the most in each of two slots of 5 rounds */
	u16 pacing_gain;
	u16 cwnd_gain;
	u32 mode:2;
	u32 cycle_idx:3;
	u32 prev_ca_state:3;
	u32 round_start:1;		/* this ACK began a round */
	u32 packet_conservation:1;
	u32 idle_restart:1;		/* sending again after the application had nothing to send */
	u32 probe_rtt_round_done:1;
	u32 full_bw_cnt:2;		/* rounds without growth */
	u32 full_bw_reached:1;
	u32 has_seen_rtt:1;
	u32 lt_is_sampling:1;
	u32 lt_use_bw:1;
	u32 lt_rtt_cnt:7;
	u32 extra_acked_win_rtts:5;	/* rounds of the slot that is being filled */
	u32 extra_acked_win_idx:1;
};

CC_STATE(bbr, struct bbr)
CC_NO_PARAMS(bbr)

/* ---- bandwidth, rates and windows ---- */

static u32 bbr_max_bw(const struct bbr *bbr)
{
	return bbr->bw.best.value;
}

/* What it sends by. */
static u32 bbr_bw(const struct bbr *bbr)
{
	return bbr->lt_use_bw ? bbr->lt_bw : bbr_max_bw(bbr);
}

/* Until the pipe is full the rate only rises: samples of the first rounds are low. */
static void bbr_set_pacing_rate(struct sock *sk, u32 bw, u32 gain)
{
	struct bbr *bbr = cc_state(sk);
	u64 rate = bbr_pacing_rate(sk, bw, gain);

	if (!bbr->has_seen_rtt && tcp_sk(sk)->srtt_us)
		bbr->has_seen_rtt = bbr_init_pacing_rate(sk, BBR_HIGH_GAIN);
	if (bbr->full_bw_reached || rate > sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

static u32 bbr_least_tso_segs(const struct sock *sk)
{
	return sk->sk_pacing_rate < BBR_MIN_TSO_RATE ? 1 : 2;
}

/* Packets of a burst, about 1 ms; the window has room for bursts whether the device takes them or not. */
static u32 bbr_tso_segs_goal(const struct sock *sk)
{
	u64 bytes = sk->sk_pacing_rate >> sk->sk_pacing_shift;
	u32 segs;

	if (bytes > BBR_GSO_MAX_BYTES)
		bytes = BBR_GSO_MAX_BYTES;
	segs = (u32)bytes / max_u32(tcp_sk(sk)->mss_cache, 1);
	return min_u32(max_u32(segs, bbr_least_tso_segs(sk)), BBR_TSO_SEGS_MAX);
}

static u32 bbr_bdp(const struct bbr *bbr, u32 bw, u32 gain)
{
	return bbr->min_rtt_us == BBR_NO_RTT ? BBR_INIT_CWND
					     : bbr_bdp_pkts(bw, bbr->min_rtt_us, gain);
}

/*
 * A window with room for three bursts (one under way in the host, one in the network, one in a receiver
 * that merges), even because of delayed ACKs, and two more for a path of few packets to be probed.
 */
static u32 bbr_quantize_cwnd(const struct sock *sk, u32 cwnd)
{
	const struct bbr *bbr = cc_state(sk);

	cwnd += 3 * bbr_tso_segs_goal(sk);
	cwnd = (cwnd + 1) & ~1U;
	if (bbr->mode == BBR_PROBE_BW && bbr->cycle_idx == 0)
		cwnd += 2;
	return cwnd;
}

static u32 bbr_inflight(const struct sock *sk, u32 bw, u32 gain)
{
	return bbr_quantize_cwnd(sk, bbr_bdp(cc_state(sk), bw, gain));
}

/* With the burst that leaves at that moment, if more is to be in flight. */
static u32 bbr_packets_in_net_at_edt(const struct sock *sk, u32 inflight_now)
{
	const struct bbr *bbr = cc_state(sk);

	if (bbr->pacing_gain > BBR_UNIT)
		inflight_now += bbr_tso_segs_goal(sk);
	return bbr_inflight_at_edt(tcp_sk(sk), bbr_bw(bbr), inflight_now);
}

/* ---- modes ---- */

static void bbr_advance_cycle_phase(struct sock *sk)
{
	struct bbr *bbr = cc_state(sk);

	bbr->cycle_idx = (bbr->cycle_idx + 1) & (BBR_CYCLE_LEN - 1);
	bbr->cycle_mstamp = tcp_sk(sk)->delivered_mstamp;
}

/*
 * Any phase but the one that drains (1): flows that start together should not probe together, and there is
 * nothing to drain.
 */
static void bbr_enter_probe_bw(struct sock *sk)
{
	struct bbr *bbr = cc_state(sk);
	u32 below = ((u64)cc_random_u32(sk) * BBR_CYCLE_RAND) >> 32;

	bbr->mode = BBR_PROBE_BW;
	bbr->cycle_idx = BBR_CYCLE_LEN - 1 - below;
	bbr_advance_cycle_phase(sk);
}

static u32 bbr_cycle_gain(u32 cycle_idx)
{
	switch (cycle_idx) {
	case 0:
		return BBR_UNIT * 5 / 4;
	case 1:
		return BBR_UNIT * 3 / 4;
	default:
		return BBR_UNIT;
	}
}

static void bbr_update_gains(struct bbr *bbr)
{
	switch (bbr->mode) {
	case BBR_STARTUP:
		bbr->pacing_gain = BBR_HIGH_GAIN;
		bbr->cwnd_gain = BBR_HIGH_GAIN;
		break;
	case BBR_DRAIN:
		bbr->pacing_gain = BBR_DRAIN_GAIN;
		bbr->cwnd_gain = BBR_HIGH_GAIN;
		break;
	case BBR_PROBE_BW:
		bbr->pacing_gain = bbr->lt_use_bw ? BBR_UNIT : bbr_cycle_gain(bbr->cycle_idx);
		bbr->cwnd_gain = BBR_CWND_GAIN;
		break;
	case BBR_PROBE_RTT:
		bbr->pacing_gain = BBR_UNIT;
		bbr->cwnd_gain = BBR_UNIT;
		break;
	}
}

/* The window to come back to: of several reductions in a row, that before the first. */
static void bbr_save_cwnd(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = cc_state(sk);

	if (bbr->prev_ca_state < TCP_CA_Recovery && bbr->mode != BBR_PROBE_RTT)
		bbr->prior_cwnd = tp->snd_cwnd;
	else
		bbr->prior_cwnd = max_u32(bbr->prior_cwnd, tp->snd_cwnd);
}

/* ---- the model: bandwidth ---- */

static void bbr_start_lt_interval(const struct tcp_sock *tp, struct bbr *bbr)
{
	bbr->lt_last_stamp = (u32)(tp->delivered_mstamp / 1000);
	bbr->lt_last_delivered = tp->delivered;
	bbr->lt_last_lost = tp->lost;
	bbr->lt_rtt_cnt = 0;
}

static void bbr_reset_lt_bw(const struct tcp_sock *tp, struct bbr *bbr)
{
	bbr->lt_bw = 0;
	bbr->lt_use_bw = 0;
	bbr->lt_is_sampling = 0;
	bbr_start_lt_interval(tp, bbr);
}

/* An interval is over. Two of nearly equal bw in a row are the work of a policer. */
static void bbr_lt_interval_done(struct sock *sk, u32 bw)
{
	struct bbr *bbr = cc_state(sk);
	u32 diff = bw > bbr->lt_bw ? bw - bbr->lt_bw : bbr->lt_bw - bw;

	if (bbr->lt_bw &&
	    ((u64)diff * BBR_UNIT <= (u64)bbr->lt_bw * BBR_LT_BW_RATIO ||
	     bbr_rate_bytes_per_sec(sk, diff, BBR_UNIT) <= BBR_LT_BW_DIFF)) {
		bbr->lt_bw = ((u64)bw + bbr->lt_bw) >> 1;
		bbr->lt_use_bw = 1;
		bbr->pacing_gain = BBR_UNIT;
		bbr->lt_rtt_cnt = 0;
		return;
	}
	bbr->lt_bw = bw;
	bbr_start_lt_interval(tcp_sk(sk), bbr);
}

/* Whether an LT interval that has begun may end with this ACK. */
static bool bbr_lt_interval_ends(struct sock *sk, bool lost, bool is_app_limited)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = cc_state(sk);

	if (is_app_limited) {
		bbr_reset_lt_bw(tp, bbr);
		return false;
	}
	if (bbr->round_start)
		bbr->lt_rtt_cnt++;
	if (bbr->lt_rtt_cnt < BBR_LT_INTVL_MIN_RTTS)
		return false;
	if (bbr->lt_rtt_cnt > 4 * BBR_LT_INTVL_MIN_RTTS) {
		bbr_reset_lt_bw(tp, bbr);
		return false;
	}
	/* At a loss, when the policer's tokens are spent. */
	return lost;
}

static void bbr_lt_bw_sampling(struct sock *sk, bool lost, bool is_app_limited)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = cc_state(sk);
	u32 lost_pkts, delivered, t_ms;

	if (bbr->lt_use_bw) {
		if (bbr->mode == BBR_PROBE_BW && bbr->round_start) {
			bbr->lt_rtt_cnt++;
			if (bbr->lt_rtt_cnt >= BBR_LT_BW_MAX_RTTS) {
				bbr_reset_lt_bw(tp, bbr);
				bbr_enter_probe_bw(sk);
			}
		}
		return;
	}
	if (!bbr->lt_is_sampling) {
		if (!lost)
			return;
		bbr_start_lt_interval(tp, bbr);
		bbr->lt_is_sampling = 1;
	}
	if (!bbr_lt_interval_ends(sk, lost, is_app_limited))
		return;
	lost_pkts = tp->lost - bbr->lt_last_lost;
	delivered = tp->delivered - bbr->lt_last_delivered;
	if (!delivered || (u64)lost_pkts * BBR_UNIT < (u64)delivered * BBR_LT_LOSS_THRESH)
		return;
	t_ms = (u32)(tp->delivered_mstamp / 1000) - bbr->lt_last_stamp;
	if ((s32)t_ms < 1)
		return;
	/* In us it must fit 32 bits: 71 minutes. */
	if (t_ms >= 0xffffffffU / 1000) {
		bbr_reset_lt_bw(tp, bbr);
		return;
	}
	bbr_lt_interval_done(sk, div64_u64((u64)delivered << BW_SCALE, t_ms * 1000));
}

/* A round ends when a packet sent after its beginning is delivered. */
static void bbr_update_bw(struct sock *sk, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = cc_state(sk);
	u32 bw;

	bbr->round_start = 0;
	if (rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (!before(rs->prior_delivered, bbr->next_rtt_delivered)) {
		bbr->next_rtt_delivered = tp->delivered;
		bbr->rtt_cnt++;
		bbr->round_start = 1;
		bbr->packet_conservation = 0;
	}
	bbr_lt_bw_sampling(sk, rs->losses > 0, rs->is_app_limited);
	/* What the application limited shows at least so much. */
	bw = div64_u64((u64)rs->delivered << BW_SCALE, rs->interval_us);
	if (!rs->is_app_limited || bw >= bbr_max_bw(bbr))
		max_filter_update(&bbr->bw, BBR_BW_RTTS, bbr->rtt_cnt, bw);
}

/* ---- the model: ACKs that come together ---- */

static u32 bbr_extra_acked(const struct bbr *bbr)
{
	return max_u32(bbr->extra_acked[0], bbr->extra_acked[1]);
}

/* While ACKs are held up, packets for what they will acknowledge must be able to leave: 100 ms at most. */
static u32 bbr_ack_aggregation_cwnd(const struct bbr *bbr)
{
	u64 most = ((u64)bbr_bw(bbr) * BBR_EXTRA_ACKED_MAX_US) >> BW_SCALE;

	if (!bbr->full_bw_reached)
		return 0;
	return bbr_extra_acked(bbr) < most ? bbr_extra_acked(bbr) : (u32)most;
}

/* extra_acked = acked since the epoch began - bw * time since; the epoch begins where that is negative. */
static void bbr_update_ack_aggregation(struct sock *sk, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = cc_state(sk);
	u32 acked = rs->acked_sacked, extra, slot;
	u64 expected;

	if (!acked || rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (bbr->round_start) {
		bbr->extra_acked_win_rtts = min_u32(bbr->extra_acked_win_rtts + 1, 31);
		if (bbr->extra_acked_win_rtts >= BBR_EXTRA_ACKED_WIN_RTTS) {
			bbr->extra_acked_win_rtts = 0;
			bbr->extra_acked_win_idx = !bbr->extra_acked_win_idx;
			if (bbr->extra_acked_win_idx)
				bbr->extra_acked[1] = 0;
			else
				bbr->extra_acked[0] = 0;
		}
	}
	/* After an hour at 3 Tbps this would pass 64 bits; the epoch is over long before. */
	expected = ((u64)bbr_bw(bbr) * (tp->delivered_mstamp - bbr->ack_epoch_mstamp)) >> BW_SCALE;
	if (bbr->ack_epoch_acked <= expected ||
	    bbr->ack_epoch_acked + acked >= BBR_ACK_EPOCH_ACKED_MAX) {
		bbr->ack_epoch_acked = 0;
		bbr->ack_epoch_mstamp = tp->delivered_mstamp;
		expected = 0;
	}
	bbr->ack_epoch_acked = min_u32(bbr->ack_epoch_acked + acked, BBR_ACK_EPOCH_ACKED_MAX - 1);
	extra = min_u32(bbr->ack_epoch_acked - (u32)expected, tp->snd_cwnd);
	slot = bbr->extra_acked_win_idx ? bbr->extra_acked[1] : bbr->extra_acked[0];
	if (extra <= slot)
		return;
	if (bbr->extra_acked_win_idx)
		bbr->extra_acked[1] = min_u32(extra, 0xffff);
	else
		bbr->extra_acked[0] = min_u32(extra, 0xffff);
}

/* ---- the model: where the modes end ---- */

/*
 * A phase lasts min_rtt. One that probes goes on until as much is in flight as it wants, or packets are
 * lost; one that drains ends early, when there is nothing left to drain.
 */
static bool bbr_is_next_cycle_phase(struct sock *sk, const struct rate_sample *rs)
{
	const struct bbr *bbr = cc_state(sk);
	bool is_full_length = tcp_sk(sk)->delivered_mstamp - bbr->cycle_mstamp > bbr->min_rtt_us;
	u32 inflight;

	if (bbr->pacing_gain == BBR_UNIT)
		return is_full_length;
	inflight = bbr_packets_in_net_at_edt(sk, rs->prior_in_flight);
	if (bbr->pacing_gain > BBR_UNIT)
		return is_full_length &&
		       (rs->losses ||
			inflight >= bbr_inflight(sk, bbr_max_bw(bbr), bbr->pacing_gain));
	return is_full_length || inflight <= bbr_inflight(sk, bbr_max_bw(bbr), BBR_UNIT);
}

static void bbr_update_cycle_phase(struct sock *sk, const struct rate_sample *rs)
{
	if (cc_state(sk)->mode == BBR_PROBE_BW && bbr_is_next_cycle_phase(sk, rs))
		bbr_advance_cycle_phase(sk);
}

/* The pipe is full when bw has not grown by a quarter for three rounds. */
static void bbr_check_full_bw_reached(struct bbr *bbr, const struct rate_sample *rs)
{
	u32 grown;

	if (bbr->full_bw_reached || !bbr->round_start || rs->is_app_limited)
		return;
	grown = ((u64)bbr->full_bw * BBR_FULL_BW_THRESH) >> BBR_SCALE;
	if (bbr_max_bw(bbr) >= grown) {
		bbr->full_bw = bbr_max_bw(bbr);
		bbr->full_bw_cnt = 0;
		return;
	}
	bbr->full_bw_cnt++;
	bbr->full_bw_reached = bbr->full_bw_cnt >= BBR_FULL_BW_CNT;
}

static void bbr_check_drain(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = cc_state(sk);
	u32 bdp;

	if (bbr->mode == BBR_STARTUP && bbr->full_bw_reached) {
		bbr->mode = BBR_DRAIN;
		/* For those who look: BBR does not go by it. */
		tp->snd_ssthresh = bbr_inflight(sk, bbr_max_bw(bbr), BBR_UNIT);
	}
	if (bbr->mode != BBR_DRAIN)
		return;
	bdp = bbr_inflight(sk, bbr_max_bw(bbr), BBR_UNIT);
	if (bbr_packets_in_net_at_edt(sk, tcp_packets_in_flight(tp)) <= bdp)
		bbr_enter_probe_bw(sk);
}

/* ---- the model: min_rtt ---- */

static void bbr_check_probe_rtt_done(struct sock *sk, u32 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = cc_state(sk);

	if (!bbr->probe_rtt_done_stamp || !after(now, bbr->probe_rtt_done_stamp))
		return;
	bbr->min_rtt_stamp = now;
	tp->snd_cwnd = max_u32(tp->snd_cwnd, bbr->prior_cwnd);
	if (bbr->full_bw_reached)
		bbr_enter_probe_bw(sk);
	else
		bbr->mode = BBR_STARTUP;
}

/* With 4 packets in flight the queue empties. The 200 ms begin when the flight has come down to them. */
static void bbr_probe_rtt(struct sock *sk, u32 now)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = cc_state(sk);
	u32 inflight = tcp_packets_in_flight(tp);

	/* These samples say nothing about bw. */
	cc_set_app_limited(sk, max_u32(tp->delivered + inflight, 1));
	if (!bbr->probe_rtt_done_stamp) {
		if (inflight > BBR_CWND_MIN_TARGET)
			return;
		bbr->probe_rtt_done_stamp = now + msecs_to_jiffies(BBR_PROBE_RTT_MODE_MS);
		bbr->probe_rtt_round_done = 0;
		bbr->next_rtt_delivered = tp->delivered;
		return;
	}
	if (bbr->round_start)
		bbr->probe_rtt_round_done = 1;
	if (bbr->probe_rtt_round_done)
		bbr_check_probe_rtt_done(sk, now);
}

static void bbr_update_min_rtt(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr *bbr = cc_state(sk);
	u32 now = tcp_jiffies32;
	bool is_expired = after(now, bbr->min_rtt_stamp + BBR_MIN_RTT_WIN_SEC * HZ);

	if (rs->rtt_us >= 0 &&
	    (rs->rtt_us < bbr->min_rtt_us || (is_expired && !rs->is_ack_delayed))) {
		bbr->min_rtt_us = (u32)rs->rtt_us;
		bbr->min_rtt_stamp = now;
	}
	/* After idling the queue was empty anyway. */
	if (is_expired && !bbr->idle_restart && bbr->mode != BBR_PROBE_RTT) {
		/* In this mode a window kept before is not forgotten for a smaller one. */
		bbr->mode = BBR_PROBE_RTT;
		bbr_save_cwnd(sk);
		bbr->probe_rtt_done_stamp = 0;
	}
	if (bbr->mode == BBR_PROBE_RTT)
		bbr_probe_rtt(sk, now);
	if (rs->delivered > 0)
		bbr->idle_restart = 0;
}

/* ---- the window ---- */

/*
 * What was lost goes off the window. The first round of Recovery sends one packet for each delivered;
 * at its end, or that of a timeout, the window is what it was before. Returns the window to go on from.
 */
static u32 bbr_recover_or_restore_cwnd(struct sock *sk, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = cc_state(sk);
	u8 prev_state = bbr->prev_ca_state, state = cc_ca_state(sk);
	u32 cwnd = tp->snd_cwnd;

	if (rs->losses > 0)
		cwnd = cwnd > (u32)rs->losses ? cwnd - (u32)rs->losses : 1;
	if (state == TCP_CA_Recovery && prev_state != TCP_CA_Recovery) {
		bbr->packet_conservation = 1;
		bbr->next_rtt_delivered = tp->delivered;
		cwnd = tcp_packets_in_flight(tp) + rs->acked_sacked;
	} else if (prev_state >= TCP_CA_Recovery && state < TCP_CA_Recovery) {
		cwnd = max_u32(cwnd, bbr->prior_cwnd);
		bbr->packet_conservation = 0;
	}
	bbr->prev_ca_state = state;
	return cwnd;
}

static u32 bbr_next_cwnd(struct sock *sk, const struct rate_sample *rs, u32 bw, u32 gain)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct bbr *bbr = cc_state(sk);
	u32 acked = rs->acked_sacked, cwnd, target;

	if (!acked)
		return tp->snd_cwnd;
	cwnd = bbr_recover_or_restore_cwnd(sk, rs);
	if (bbr->packet_conservation)
		return max_u32(cwnd, tcp_packets_in_flight(tp) + acked);
	target = bbr_quantize_cwnd(sk, bbr_bdp(bbr, bw, gain) + bbr_ack_aggregation_cwnd(bbr));
	if (bbr->full_bw_reached)
		cwnd = min_u32(cwnd + acked, target);
	else if (cwnd < target || tp->delivered < BBR_INIT_CWND)
		cwnd += acked;
	return max_u32(cwnd, BBR_CWND_MIN_TARGET);
}

static void bbr_set_cwnd(struct sock *sk, const struct rate_sample *rs, u32 bw, u32 gain)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = min_u32(bbr_next_cwnd(sk, rs, bw, gain), tp->snd_cwnd_clamp);

	if (cc_state(sk)->mode == BBR_PROBE_RTT)
		cwnd = min_u32(cwnd, BBR_CWND_MIN_TARGET);
	tp->snd_cwnd = cwnd;
}

/* ---- entry points ---- */

CC_OP(void, bbr_main, struct sock *sk, u32 ack, s32 flag, const struct rate_sample *rs)
{
	struct bbr *bbr = cc_state(sk);

	bbr_update_bw(sk, rs);
	bbr_update_ack_aggregation(sk, rs);
	bbr_update_cycle_phase(sk, rs);
	bbr_check_full_bw_reached(bbr, rs);
	bbr_check_drain(sk);
	bbr_update_min_rtt(sk, rs);
	bbr_update_gains(bbr);

	bbr_set_pacing_rate(sk, bbr_bw(bbr), bbr->pacing_gain);
	bbr_set_cwnd(sk, rs, bbr_bw(bbr), bbr->cwnd_gain);
}

CC_OP(void, bbr_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = cc_state(sk);

	/* On the connecting side it has been called already, for the answer to the SYN. */
	__builtin_memset(bbr, 0, sizeof(*bbr));
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	bbr->prev_ca_state = TCP_CA_Open;
	bbr->next_rtt_delivered = tp->delivered;
	bbr->min_rtt_us = cc_min_rtt_us(tp);
	bbr->min_rtt_stamp = tcp_jiffies32;
	bbr->ack_epoch_mstamp = tp->tcp_mstamp;
	bbr->mode = BBR_STARTUP;
	bbr_update_gains(bbr);
	bbr_reset_lt_bw(tp, bbr);
	bbr->has_seen_rtt = bbr_init_pacing_rate(sk, BBR_HIGH_GAIN);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* Data leaves after the application had nothing to send: at bw, the path is empty. */
CC_OP(void, bbr_cwnd_event, struct sock *sk, u32 event)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = cc_state(sk);

	if (event != CA_EVENT_TX_START || !tp->app_limited)
		return;
	bbr->idle_restart = 1;
	bbr->ack_epoch_mstamp = tp->tcp_mstamp;
	bbr->ack_epoch_acked = 0;
	if (bbr->mode == BBR_PROBE_BW)
		bbr_set_pacing_rate(sk, bbr_bw(bbr), BBR_UNIT);
	else if (bbr->mode == BBR_PROBE_RTT)
		bbr_check_probe_rtt_done(sk, tcp_jiffies32);
}

/* A timeout: the path may be another one now, and the round begins anew. */
CC_OP(void, bbr_set_state, struct sock *sk, u8 new_state)
{
	struct bbr *bbr = cc_state(sk);

	if (new_state != TCP_CA_Loss)
		return;
	bbr->prev_ca_state = TCP_CA_Loss;
	bbr->full_bw = 0;
	bbr->round_start = 1;
	bbr_lt_bw_sampling(sk, true, false);
}

/* It has no ssthresh: the window of recovery is that of bbr_recover_or_restore_cwnd. */
CC_OP(u32, bbr_ssthresh, struct sock *sk)
{
	bbr_save_cwnd(sk);
	return tcp_sk(sk)->snd_ssthresh;
}

/* The losses were none, so neither the plateau of STARTUP nor the policer may have been. */
CC_OP(u32, bbr_undo_cwnd, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = cc_state(sk);

	bbr->full_bw = 0;
	bbr->full_bw_cnt = 0;
	bbr_reset_lt_bw(tp, bbr);
	return tp->snd_cwnd;
}

CC_OP(u32, bbr_min_tso_segs, struct sock *sk)
{
	return bbr_least_tso_segs(sk);
}

/* While it recovers a window is in flight twice, and a third is being filled. */
CC_OP(u32, bbr_sndbuf_expand, struct sock *sk)
{
	return 3;
}

/* bw * mss * 10^6 is 2^62 at 3 Tbps. */
#define BBR_DIAG(D)								\
	D(mode, "STARTUP|DRAIN|PROBE_BW|PROBE_RTT", cc_state(sk)->mode)		\
	D(bw, "bytes/s", (u64)bbr_bw(cc_state(sk)) * tcp_sk(sk)->mss_cache *	\
	  1000000 >> BW_SCALE)							\
	D(min_rtt, "us", cc_state(sk)->min_rtt_us)				\
	D(pacing_gain, "1/256", cc_state(sk)->pacing_gain)			\
	D(cwnd_gain, "1/256", cc_state(sk)->cwnd_gain)
CC_DIAG(bbr, BBR_DIAG)

CC_ALGORITHM(bbr) = {
	.init = CC_FN(bbr_init),
	.cong_control = CC_FN(bbr_main),
	.cwnd_event = CC_FN(bbr_cwnd_event),
	.set_state = CC_FN(bbr_set_state),
	.ssthresh = CC_FN(bbr_ssthresh),
	.undo_cwnd = CC_FN(bbr_undo_cwnd),
	.min_tso_segs = CC_FN(bbr_min_tso_segs),
	.sndbuf_expand = CC_FN(bbr_sndbuf_expand),
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bbr",
};
