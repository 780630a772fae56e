// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * BBR, version 3: BBR's model of the path with bounds that loss and ECN set.
 *
 *   bw       = min(max of delivered / interval over this and the last cycle, bw_lo)
 *   min_rtt  = min of RTT over 10 s
 *   pacing rate = pacing_gain * bw * 99 %
 *   cwnd     = cwnd_gain * bw * min_rtt + what ACKs bring together, within
 *              inflight_hi   what the path took without much loss: of the long term
 *              inflight_lo   what it took in the last rounds: of the short term, as bw_lo
 *
 * "Too much" is a loss of more than 2 % of what was in flight, or (parameter ecn) half of it marked.
 *
 *   STARTUP    2.77 / 2      until bw grows by less than 25 % in three rounds, or too much is lost
 *      |
 *   DRAIN      0.34 / 2      until no more is in flight than the path holds
 *      |
 *   PROBE_BW   DOWN   0.91   until there is headroom of 15 % below inflight_hi
 *      ^       CRUISE 1      until 2 to 3 s, or as many rounds as packets in flight (63) have passed
 *      |       REFILL 1      for a round, without the bounds of the short term
 *      |       UP     1.25 / 2.25   until too much is lost or marked, or bw grows no more; inflight_hi
 *      |                     rises by 1, 2, 4 ... packets per round
 *   PROBE_RTT  1, half a BDP in flight for 200 ms and a round, every 5 s
 *
 * Sources: google/bbr, branch v3, whose constants these are; draft-ietf-ccwg-bbr; Cardwell et al.
 *
 * Deviations. A program for the kernel's table of operations does not see all that version 3 asks of its
 * own kernel, so it takes the nearest that it does see:
 *
 *   what was in flight when the sampled packet was sent: what was delivered or lost until it was. On a
 *     path that keeps the order that is the same;
 *   what was lost since it was sent: the count of losses at a mark taken at most an eighth of a window
 *     before that, of which sixteen are kept;
 *   the call for each packet marked lost: losses are looked at with the ACK, so the flight at which they
 *     became too many is that of the sample, not of the lost packet;
 *   whether this ACK carries ECE: whether packets were counted as marked since the ACK before;
 *   the end of a tail loss probe: a loss that a probe repaired is not seen.
 *
 * Core sizes bursts where version 3 has a call of its own for it. Before Linux 6.4 a program may not mark
 * samples as limited by the application: after PROBE_RTT bw may be low for a moment.
 *
 * The shortcut for ACKs that change nothing is left out: it saves time and not more. Where the
 * algorithm needs ECN it neither asks for it nor tells the receiver how to echo: ecn = on responds
 * where the connection has ECN, and measures marks well where the peer echoes each of them, as
 * DCTCP's receiver does; one of RFC 3168 repeats a mark for a round trip.
 */
#include "tcp.h"
#include "plb.h"
#include "bbr3.h"

CC_LARGE_STATE(bbr3, struct bbr3)

#define BBR3_PARAMS(P)								\
	P(ecn, 0, 0, 1, "off|on", "respond to ECN marks, where the connection has ECN") \
	PLB_PARAMS(P)
CC_PARAMS(bbr3, BBR3_PARAMS)

/* One ACK's sample, with what has to be inferred. */
struct bbr_ack {
	u32 bw;				/* of the sample; 0: none */
	u32 losses;			/* marked lost since the ACK before */
	u32 lost;			/* marked lost since the sampled packet was sent */
	u32 tx_in_flight;		/* packets in flight when it was */
};

/* ---- beginnings ---- */

/* Uniform over 0 to below - 1. */
static u32 bbr3_random_below(struct sock *sk, u32 below)
{
	return ((u64)cc_random_u32(sk) * below) >> 32;
}

/* Flows that share a path must not all probe at once. */
static void bbr3_pick_probe_wait(struct sock *sk, struct bbr3 *bbr)
{
	bbr->rounds_since_probe = bbr3_random_below(sk, BBR_PROBE_RAND_ROUNDS);
	bbr->probe_wait_us = BBR_PROBE_BASE_US + bbr3_random_below(sk, BBR_PROBE_RAND_US);
}

static void bbr3_start_down(struct sock *sk, struct bbr3 *bbr)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	bbr3_reset_congestion_signals(bbr);
	bbr->bw_probe_up_cnt = BBR_INFINITE;
	bbr3_pick_probe_wait(sk, bbr);
	bbr->cycle_mstamp = tp->tcp_mstamp;
	bbr->ack_phase = BBR_ACKS_PROBE_STOPPING;
	bbr3_start_round(tp, bbr);
	bbr->phase = BBR_DOWN;
}

static void bbr3_start_cruise(struct bbr3 *bbr)
{
	if (bbr->inflight_lo != BBR_INFINITE)
		bbr->inflight_lo = min_u32(bbr->inflight_lo, bbr->inflight_hi);
	bbr->phase = BBR_CRUISE;
}

static void bbr3_start_refill(const struct tcp_sock *tp, struct bbr3 *bbr, u32 up_rounds)
{
	bbr3_reset_lower_bounds(bbr);
	bbr->bw_probe_up_rounds = up_rounds;
	bbr->bw_probe_up_acks = 0;
	bbr->stopped_risky_probe = 0;
	bbr->ack_phase = BBR_ACKS_REFILLING;
	bbr3_start_round(tp, bbr);
	bbr->phase = BBR_REFILL;
}

/* inflight_hi is to rise by twice as much as in the round before. */
static void bbr3_raise_inflight_hi_slope(const struct tcp_sock *tp, struct bbr3 *bbr)
{
	u32 growth = 1U << min_u32(bbr->bw_probe_up_rounds, BBR_PROBE_UP_ROUNDS_MAX);

	bbr->bw_probe_up_rounds = min_u32(bbr->bw_probe_up_rounds + 1, BBR_PROBE_UP_ROUNDS_MAX);
	bbr->bw_probe_up_cnt = max_u32(tp->snd_cwnd / growth, 1);
}

static void bbr3_start_up(const struct tcp_sock *tp, struct bbr3 *bbr, const struct bbr_ack *ack)
{
	bbr->ack_phase = BBR_ACKS_PROBE_STARTING;
	bbr3_start_round(tp, bbr);
	bbr->cycle_mstamp = tp->tcp_mstamp;
	bbr3_reset_full_bw(bbr);
	bbr->full_bw = ack->bw;
	bbr->phase = BBR_UP;
	bbr3_raise_inflight_hi_slope(tp, bbr);
}

static void bbr3_save_cwnd(const struct tcp_sock *tp, struct bbr3 *bbr)
{
	if (bbr->prev_ca_state < TCP_CA_Recovery && bbr->mode != BBR_PROBE_RTT)
		bbr->prior_cwnd = tp->snd_cwnd;
	else
		bbr->prior_cwnd = max_u32(bbr->prior_cwnd, tp->snd_cwnd);
}

/* ---- what one ACK tells ---- */

static void bbr3_look(const struct tcp_sock *tp, struct bbr3 *bbr, const struct rate_sample *rs,
		      struct bbr_ack *ack)
{
	ack->bw = 0;
	ack->losses = tp->lost - bbr->last_lost;
	ack->lost = 0;
	ack->tx_in_flight = 0;
	bbr->last_lost = tp->lost;
	if (rs->delivered <= 0 || rs->interval_us <= 0)
		return;
	ack->bw = div64_u64(((u64)rs->delivered << BW_SCALE) + rs->interval_us - 1,
			    rs->interval_us);
	ack->lost = tp->lost - bbr3_lost_at(bbr, rs->prior_delivered);
	ack->tx_in_flight = rs->delivered + ack->lost;
	bbr3_take_mark(tp, bbr, rs->delivered);
}

static void bbr3_update_round(const struct tcp_sock *tp, struct bbr3 *bbr,
			      const struct rate_sample *rs)
{
	bbr->round_start = rs->interval_us > 0 && rs->delivered >= 0 &&
			   !before(rs->prior_delivered, bbr->next_rtt_delivered);
	if (!bbr->round_start)
		return;
	bbr3_start_round(tp, bbr);
	bbr->rounds_since_probe = min_u32(bbr->rounds_since_probe + 1, 0xff);
}

/* More is lost or marked than a path may lose that is used well. */
static bool bbr3_is_inflight_too_high(const struct bbr3 *bbr, const struct rate_sample *rs,
				      const struct bbr_ack *ack)
{
	if (ack->lost && ack->lost > ((u64)ack->tx_in_flight * BBR_LOSS_THRESH) >> BBR_SCALE)
		return true;
	return bbr->ecn_eligible && rs->delivered > 0 && rs->delivered_ce > 0 &&
	       (u32)rs->delivered_ce > ((u64)rs->delivered * BBR_ECN_THRESH) >> BBR_SCALE;
}

/* ---- the end of STARTUP ---- */

static void bbr3_queue_too_high_in_startup(const struct sock *sk, struct bbr3 *bbr)
{
	bbr->full_bw_reached = 1;
	bbr->inflight_hi = max_u32(bbr3_inflight(sk, bbr, bbr3_max_bw(bbr), BBR_UNIT),
				   bbr->inflight_latest);
}

static void bbr3_check_loss_in_startup(const struct sock *sk, struct bbr3 *bbr,
				       const struct rate_sample *rs, const struct bbr_ack *ack)
{
	if (bbr->full_bw_reached)
		return;
	if (ack->losses)
		bbr->loss_events_in_round = min_u32(bbr->loss_events_in_round + 1, 15);
	if (!bbr->loss_round_start)
		return;
	if (cc_ca_state(sk) == TCP_CA_Recovery &&
	    bbr->loss_events_in_round >= BBR_FULL_LOSS_CNT &&
	    bbr3_is_inflight_too_high(bbr, rs, ack))
		bbr3_queue_too_high_in_startup(sk, bbr);
	bbr->loss_events_in_round = 0;
}

static void bbr3_check_ecn_in_startup(const struct sock *sk, struct bbr3 *bbr, u32 ce_ratio)
{
	if (bbr->full_bw_reached || !bbr->ecn_eligible)
		return;
	bbr->startup_ecn_rounds = ce_ratio >= BBR_ECN_THRESH ? bbr->startup_ecn_rounds + 1 : 0;
	if (bbr->startup_ecn_rounds >= BBR_FULL_ECN_CNT)
		bbr3_queue_too_high_in_startup(sk, bbr);
}

/* Growth has stopped when three rounds do not bring a quarter more. */
static void bbr3_check_full_bw(struct bbr3 *bbr, const struct rate_sample *rs,
			       const struct bbr_ack *ack)
{
	if (bbr->full_bw_now || rs->is_app_limited)
		return;
	if (ack->bw >= ((u64)bbr->full_bw * BBR_FULL_BW_THRESH) >> BBR_SCALE) {
		bbr3_reset_full_bw(bbr);
		bbr->full_bw = ack->bw;
		return;
	}
	if (!bbr->round_start)
		return;
	bbr->full_bw_cnt++;
	if (bbr->full_bw_cnt >= BBR_FULL_BW_CNT) {
		bbr->full_bw_now = 1;
		bbr->full_bw_reached = 1;
	}
}

static void bbr3_check_drain(struct sock *sk, struct bbr3 *bbr)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 bdp;

	if (bbr->mode == BBR_STARTUP && bbr->full_bw_reached) {
		bbr->mode = BBR_DRAIN;
		/* For those who look: BBR does not go by it. */
		tp->snd_ssthresh = bbr3_inflight(sk, bbr, bbr3_max_bw(bbr), BBR_UNIT);
		bbr3_reset_congestion_signals(bbr);
	}
	if (bbr->mode != BBR_DRAIN)
		return;
	bdp = bbr3_inflight(sk, bbr, bbr3_max_bw(bbr), BBR_UNIT);
	if (bbr3_packets_in_net_at_edt(sk, bbr, tcp_packets_in_flight(tp)) <= bdp) {
		bbr->mode = BBR_PROBE_BW;
		bbr3_start_down(sk, bbr);
	}
}

/* ---- ECN ---- */

static bool bbr3_has_ecn(const struct sock *sk)
{
	return cc_ecn_negotiated(sk);
}

/* Once per round: alpha = 15/16 * alpha + 1/16 * marked / delivered. Gives that share to PLB, too. */
static void bbr3_update_ecn_alpha(struct sock *sk, struct bbr3 *bbr)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 delivered = tp->delivered - bbr->alpha_last_delivered;
	u32 marked = tp->delivered_ce - bbr->alpha_last_delivered_ce;
	u32 ce_ratio;

	if (!bbr3_has_ecn(sk))
		return;
	if (cc_params(sk)->ecn && bbr->min_rtt_us <= BBR_ECN_MAX_RTT_US)
		bbr->ecn_eligible = 1;
	if (!delivered || (!bbr->ecn_eligible && !cc_params(sk)->plb))
		return;
	ce_ratio = min_u32(((u64)marked << BBR_SCALE) / delivered, BBR_UNIT);
	bbr->ecn_alpha = min_u32((((BBR_UNIT - BBR_ECN_ALPHA_GAIN) * bbr->ecn_alpha) >> BBR_SCALE) +
				 ((BBR_ECN_ALPHA_GAIN * ce_ratio) >> BBR_SCALE), BBR_UNIT);
	bbr->alpha_last_delivered = tp->delivered;
	bbr->alpha_last_delivered_ce = tp->delivered_ce;
	bbr3_check_ecn_in_startup(sk, bbr, ce_ratio);
	plb_update(plb_params(sk), &bbr->plb, (s32)ce_ratio);
}

static void bbr3_note_ecn(struct sock *sk, struct bbr3 *bbr)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (bbr->round_start)
		bbr3_update_ecn_alpha(sk, bbr);
	if (bbr3_has_ecn(sk))
		plb_check(sk, plb_params(sk), &bbr->plb);
	if (bbr->ecn_eligible && tp->delivered_ce != bbr->last_delivered_ce)
		bbr->ecn_in_round = 1;
	bbr->last_delivered_ce = tp->delivered_ce;
}

/* ---- bounds of the short term ---- */

/* A loss begins a round of its own: after that comes what was sent when it was known. */
static void bbr3_note_losses(const struct tcp_sock *tp, struct bbr3 *bbr, const struct bbr_ack *ack)
{
	if (!ack->losses)
		return;
	if (!bbr->loss_in_round)
		bbr->loss_round_delivered = tp->delivered;
	bbr->loss_in_round = 1;
	bbr->loss_in_cycle = 1;
}

static void bbr3_update_latest(const struct tcp_sock *tp, struct bbr3 *bbr,
			       const struct rate_sample *rs, const struct bbr_ack *ack)
{
	bbr->loss_round_start = 0;
	if (!ack->bw || !rs->acked_sacked)
		return;
	bbr->bw_latest = max_u32(bbr->bw_latest, ack->bw);
	bbr->inflight_latest = max_u32(bbr->inflight_latest, rs->delivered);
	if (!before(rs->prior_delivered, bbr->loss_round_delivered)) {
		bbr->loss_round_delivered = tp->delivered;
		bbr->loss_round_start = 1;
	}
}

static bool bbr3_is_probing(const struct bbr3 *bbr)
{
	return bbr->mode == BBR_STARTUP ||
	       (bbr->mode == BBR_PROBE_BW &&
		(bbr->phase == BBR_REFILL || bbr->phase == BBR_UP));
}

/* inflight_lo * (1 - alpha / 3) */
static u32 bbr3_ecn_inflight_lo(const struct bbr3 *bbr)
{
	u32 kept = BBR_UNIT - ((bbr->ecn_alpha * BBR_ECN_FACTOR) >> BBR_SCALE);

	return ((u64)bbr->inflight_lo * kept) >> BBR_SCALE;
}

/*
 * 70 % of the bounds, or what the round after the loss has shown to get through. While it probes the bound of
 * the long term answers.
 */
static void bbr3_adapt_lower_bounds(const struct tcp_sock *tp, struct bbr3 *bbr)
{
	u32 ecn_inflight_lo = BBR_INFINITE;

	if (bbr3_is_probing(bbr) || !(bbr->ecn_in_round || bbr->loss_in_round))
		return;
	if (bbr->inflight_lo == BBR_INFINITE)
		bbr->inflight_lo = tp->snd_cwnd;
	if (bbr->ecn_in_round)
		ecn_inflight_lo = bbr3_ecn_inflight_lo(bbr);
	if (bbr->loss_in_round) {
		if (bbr->bw_lo == BBR_INFINITE)
			bbr->bw_lo = bbr3_max_bw(bbr);
		bbr->bw_lo = max_u32(bbr->bw_latest, ((u64)bbr->bw_lo * BBR_KEPT) >> BBR_SCALE);
		bbr->inflight_lo = max_u32(bbr->inflight_latest,
					   ((u64)bbr->inflight_lo * BBR_KEPT) >> BBR_SCALE);
	}
	bbr->inflight_lo = min_u32(bbr->inflight_lo, ecn_inflight_lo);
	bbr->bw_lo = max_u32(bbr->bw_lo, 1);
}

static void bbr3_update_congestion_signals(const struct tcp_sock *tp, struct bbr3 *bbr,
					   const struct rate_sample *rs, const struct bbr_ack *ack)
{
	if (!rs->is_app_limited || ack->bw >= bbr3_max_bw(bbr))
		bbr->bw_hi[1] = max_u32(bbr->bw_hi[1], ack->bw);
	if (!bbr->loss_round_start)
		return;
	bbr3_adapt_lower_bounds(tp, bbr);
	bbr->loss_in_round = 0;
	bbr->ecn_in_round = 0;
}

/* ---- PROBE_BW ---- */

/* The rate of the cycle before the last is forgotten, if this one has shown one. */
static void bbr3_advance_max_bw(struct bbr3 *bbr)
{
	if (!bbr->bw_hi[1])
		return;
	bbr->bw_hi[0] = bbr->bw_hi[1];
	bbr->bw_hi[1] = 0;
}

/* What was in flight was too much: that, and no less than 70 % of the target, is the bound. */
static void bbr3_inflight_too_high(struct sock *sk, struct bbr3 *bbr, const struct rate_sample *rs,
				   const struct bbr_ack *ack)
{
	u32 kept = ((u64)bbr3_target_inflight(sk, bbr) * BBR_KEPT) >> BBR_SCALE;

	bbr->prev_probe_too_high = 1;
	/* Once per probe. */
	bbr->bw_probe_samples = 0;
	if (!rs->is_app_limited)
		bbr->inflight_hi = max_u32(ack->tx_in_flight, kept);
	if (bbr->mode == BBR_PROBE_BW && bbr->phase == BBR_UP)
		bbr3_start_down(sk, bbr);
}

static bool bbr3_is_inflight_hi_used(const struct tcp_sock *tp, const struct bbr3 *bbr)
{
	return cc_cwnd_limited_flag(tp) && tp->snd_cwnd >= bbr->inflight_hi;
}

static void bbr3_probe_inflight_hi_upward(const struct tcp_sock *tp, struct bbr3 *bbr,
					  const struct rate_sample *rs)
{
	u32 raise;

	if (!bbr3_is_inflight_hi_used(tp, bbr))
		return;
	bbr->bw_probe_up_acks += rs->acked_sacked;
	if (bbr->bw_probe_up_acks >= bbr->bw_probe_up_cnt) {
		raise = bbr->bw_probe_up_acks / max_u32(bbr->bw_probe_up_cnt, 1);
		bbr->bw_probe_up_acks -= raise * bbr->bw_probe_up_cnt;
		bbr->inflight_hi += raise;
	}
	if (bbr->round_start)
		bbr3_raise_inflight_hi_slope(tp, bbr);
}

/* A round after the probe has stopped its effect is known. Whether the next probe has begun with this. */
static bool bbr3_end_probe(struct sock *sk, struct bbr3 *bbr, const struct rate_sample *rs)
{
	bbr->bw_probe_samples = 0;
	bbr->ack_phase = BBR_ACKS_INIT;
	if (bbr->mode != BBR_PROBE_BW)
		return false;
	if (!rs->is_app_limited)
		bbr3_advance_max_bw(bbr);
	/* It stopped out of caution, and nothing came of it. */
	if (!bbr->stopped_risky_probe || bbr->prev_probe_too_high)
		return false;
	bbr3_start_refill(tcp_sk(sk), bbr, 0);
	return true;
}

/* inflight_hi follows what is safe, and what is not. Whether a probe has begun with this. */
static bool bbr3_adapt_upper_bounds(struct sock *sk, struct bbr3 *bbr, const struct rate_sample *rs,
				    const struct bbr_ack *ack)
{
	if (bbr->ack_phase == BBR_ACKS_PROBE_STARTING && bbr->round_start)
		bbr->ack_phase = BBR_ACKS_PROBE_FEEDBACK;
	if (bbr->ack_phase == BBR_ACKS_PROBE_STOPPING && bbr->round_start &&
	    bbr3_end_probe(sk, bbr, rs))
		return true;
	if (bbr3_is_inflight_too_high(bbr, rs, ack)) {
		if (bbr->bw_probe_samples)
			bbr3_inflight_too_high(sk, bbr, rs, ack);
		return false;
	}
	if (bbr->inflight_hi == BBR_INFINITE)
		return false;
	bbr->inflight_hi = max_u32(bbr->inflight_hi, ack->tx_in_flight);
	if (bbr->mode == BBR_PROBE_BW && bbr->phase == BBR_UP)
		bbr3_probe_inflight_hi_upward(tcp_sk(sk), bbr, rs);
	return false;
}

static u32 bbr3_log2(u32 value)
{
	u32 log = 0, n;

	for (n = 0; n < 31; n++) {
		if (!(value >> (n + 1)))
			break;
		log = n + 1;
	}
	return log;
}

/*
 * Marks and no loss say that the queue is short: the probe goes on where it left off, at half of inflight_hi
 * per round. Else a probe begins after 2 to 3 s, or as soon as Reno would have grown by as much.
 */
static bool bbr3_check_time_to_probe(struct sock *sk, struct bbr3 *bbr)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rounds = min_u32(bbr3_target_inflight(sk, bbr), BBR_PROBE_MAX_ROUNDS);

	if (bbr->ecn_eligible && bbr->ecn_in_cycle && !bbr->loss_in_cycle &&
	    cc_ca_state(sk) == TCP_CA_Open) {
		u32 step = ((u64)bbr->inflight_hi * BBR_ECN_REPROBE_GAIN) >> BBR_SCALE;

		bbr3_start_refill(tp, bbr, bbr3_log2(step));
		return true;
	}
	if (tp->tcp_mstamp - bbr->cycle_mstamp <= bbr->probe_wait_us &&
	    bbr->rounds_since_probe < rounds)
		return false;
	bbr3_start_refill(tp, bbr, 0);
	return true;
}

static void bbr3_check_down(struct sock *sk, struct bbr3 *bbr, u32 inflight)
{
	if (bbr3_check_time_to_probe(sk, bbr))
		return;
	if (inflight <= bbr3_inflight_with_headroom(bbr) &&
	    inflight <= bbr3_inflight(sk, bbr, bbr3_max_bw(bbr), BBR_UNIT))
		bbr3_start_cruise(bbr);
}

static void bbr3_check_up(struct sock *sk, struct bbr3 *bbr, const struct bbr_ack *ack, u32 inflight)
{
	if (bbr->prev_probe_too_high && inflight >= bbr->inflight_hi) {
		bbr->stopped_risky_probe = 1;
	} else if (bbr3_is_inflight_hi_used(tcp_sk(sk), bbr)) {
		/* The bound, not the path, keeps bw from growing. */
		bbr3_reset_full_bw(bbr);
		bbr->full_bw = ack->bw;
		return;
	} else if (!bbr->full_bw_now) {
		return;
	}
	bbr->prev_probe_too_high = 0;
	bbr3_start_down(sk, bbr);
}

static void bbr3_update_cycle_phase(struct sock *sk, struct bbr3 *bbr, const struct rate_sample *rs,
				    const struct bbr_ack *ack)
{
	u32 inflight;

	if (!bbr->full_bw_reached || bbr3_adapt_upper_bounds(sk, bbr, rs, ack) ||
	    bbr->mode != BBR_PROBE_BW)
		return;
	inflight = bbr3_packets_in_net_at_edt(sk, bbr, rs->prior_in_flight);
	switch (bbr->phase) {
	case BBR_DOWN:
		bbr3_check_down(sk, bbr, inflight);
		break;
	case BBR_CRUISE:
		bbr3_check_time_to_probe(sk, bbr);
		break;
	case BBR_REFILL:
		if (bbr->round_start) {
			bbr->bw_probe_samples = 1;
			bbr3_start_up(tcp_sk(sk), bbr, ack);
		}
		break;
	case BBR_UP:
		bbr3_check_up(sk, bbr, ack, inflight);
		break;
	}
}

/* ---- min_rtt and PROBE_RTT ---- */

static void bbr3_check_probe_rtt_done(struct sock *sk, struct bbr3 *bbr, u32 now)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!bbr->probe_rtt_done_stamp || !after(now, bbr->probe_rtt_done_stamp))
		return;
	bbr->probe_rtt_min_stamp = now;
	tp->snd_cwnd = max_u32(tp->snd_cwnd, bbr->prior_cwnd);
	bbr3_reset_lower_bounds(bbr);
	if (!bbr->full_bw_reached) {
		bbr->mode = BBR_STARTUP;
		return;
	}
	bbr->mode = BBR_PROBE_BW;
	bbr3_start_down(sk, bbr);
	/* Nothing has to be drained. */
	bbr3_start_cruise(bbr);
}

static void bbr3_probe_rtt(struct sock *sk, struct bbr3 *bbr, u32 now)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 inflight = tcp_packets_in_flight(tp);

	/* These samples say nothing about bw. */
	cc_set_app_limited(sk, max_u32(tp->delivered + inflight, 1));
	if (!bbr->probe_rtt_done_stamp) {
		if (inflight > bbr3_probe_rtt_cwnd(bbr))
			return;
		bbr->probe_rtt_done_stamp = now + msecs_to_jiffies(BBR_PROBE_RTT_MODE_MS);
		bbr->probe_rtt_round_done = 0;
		bbr3_start_round(tp, bbr);
		return;
	}
	if (bbr->round_start)
		bbr->probe_rtt_round_done = 1;
	if (bbr->probe_rtt_round_done)
		bbr3_check_probe_rtt_done(sk, bbr, now);
}

static void bbr3_update_min_rtt(struct sock *sk, struct bbr3 *bbr, const struct rate_sample *rs)
{
	u32 now = tcp_jiffies32;
	bool is_expired = after(now, bbr->probe_rtt_min_stamp + BBR_PROBE_RTT_WIN_SEC * HZ);

	if (rs->rtt_us >= 0 &&
	    (rs->rtt_us < bbr->probe_rtt_min_us || (is_expired && !rs->is_ack_delayed))) {
		bbr->probe_rtt_min_us = (u32)rs->rtt_us;
		bbr->probe_rtt_min_stamp = now;
	}
	if (bbr->probe_rtt_min_us <= bbr->min_rtt_us ||
	    after(now, bbr->min_rtt_stamp + BBR_MIN_RTT_WIN_SEC * HZ)) {
		bbr->min_rtt_us = bbr->probe_rtt_min_us;
		bbr->min_rtt_stamp = bbr->probe_rtt_min_stamp;
	}
	if (is_expired && !bbr->idle_restart && bbr->mode != BBR_PROBE_RTT) {
		bbr->mode = BBR_PROBE_RTT;
		bbr3_save_cwnd(tcp_sk(sk), bbr);
		bbr->probe_rtt_done_stamp = 0;
		bbr->ack_phase = BBR_ACKS_PROBE_STOPPING;
		bbr3_start_round(tcp_sk(sk), bbr);
	}
	if (bbr->mode == BBR_PROBE_RTT)
		bbr3_probe_rtt(sk, bbr, now);
	if (rs->delivered > 0)
		bbr->idle_restart = 0;
}

/* ---- what follows from the model ---- */

static void bbr3_update_gains(struct bbr3 *bbr)
{
	bbr->cwnd_gain = BBR_CWND_GAIN;
	switch (bbr->mode) {
	case BBR_STARTUP:
		bbr->pacing_gain = BBR_STARTUP_PACING_GAIN;
		break;
	case BBR_DRAIN:
		bbr->pacing_gain = BBR_DRAIN_GAIN;
		break;
	case BBR_PROBE_BW:
		bbr->pacing_gain = BBR_UNIT;
		if (bbr->phase == BBR_UP) {
			bbr->pacing_gain = BBR_UP_GAIN;
			bbr->cwnd_gain = BBR_UP_CWND_GAIN;
		} else if (bbr->phase == BBR_DOWN) {
			bbr->pacing_gain = BBR_DOWN_GAIN;
		}
		break;
	case BBR_PROBE_RTT:
		bbr->pacing_gain = BBR_UNIT;
		bbr->cwnd_gain = BBR_UNIT;
		break;
	}
}

static u32 bbr3_next_cwnd(const struct sock *sk, const struct bbr3 *bbr, u32 acked)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd, target;

	if (!acked)
		return cwnd;
	target = bbr3_bdp(bbr, bbr3_bw(bbr), bbr->cwnd_gain) + bbr3_ack_aggregation_cwnd(bbr);
	target = bbr3_quantize_cwnd(sk, bbr, target);
	if (bbr->full_bw_reached)
		cwnd = min_u32(cwnd + acked, target);
	else if (cwnd < target || cwnd < 2 * bbr->init_cwnd)
		cwnd += acked;
	return max_u32(cwnd, BBR_CWND_MIN_TARGET);
}

/* What the bounds allow in this mode; never less than 4. */
static u32 bbr3_inflight_cap(const struct bbr3 *bbr)
{
	u32 cap = BBR_INFINITE;

	if (bbr->mode == BBR_PROBE_BW && bbr->phase != BBR_CRUISE)
		cap = bbr->inflight_hi;
	else if (bbr->mode == BBR_PROBE_BW || bbr->mode == BBR_PROBE_RTT)
		cap = bbr3_inflight_with_headroom(bbr);
	return max_u32(min_u32(cap, bbr->inflight_lo), BBR_CWND_MIN_TARGET);
}

static void bbr3_set_cwnd(struct sock *sk, const struct bbr3 *bbr, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = min_u32(bbr3_next_cwnd(sk, bbr, acked), tp->snd_cwnd_clamp);

	if (bbr->mode == BBR_PROBE_RTT)
		cwnd = min_u32(cwnd, bbr3_probe_rtt_cwnd(bbr));
	tp->snd_cwnd = min_u32(cwnd, bbr3_inflight_cap(bbr));
}

/* ---- entry points ---- */

static void bbr3_update_model(struct sock *sk, struct bbr3 *bbr, const struct rate_sample *rs,
			      const struct bbr_ack *ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	bbr3_update_congestion_signals(tp, bbr, rs, ack);
	bbr3_update_ack_aggregation(tp, bbr, rs);
	bbr3_check_loss_in_startup(sk, bbr, rs, ack);
	bbr3_check_full_bw(bbr, rs, ack);
	bbr3_check_drain(sk, bbr);
	bbr3_update_cycle_phase(sk, bbr, rs, ack);
	bbr3_update_min_rtt(sk, bbr, rs);
}

CC_OP(void, bbr3_main, struct sock *sk, u32 seq, s32 flag, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *bbr = cc_state(sk);
	struct bbr_ack ack;

	if (!bbr)
		return;
	bbr3_update_round(tp, bbr, rs);
	bbr3_note_ecn(sk, bbr);
	bbr3_look(tp, bbr, rs, &ack);
	bbr3_note_losses(tp, bbr, &ack);
	bbr3_update_latest(tp, bbr, rs, &ack);
	bbr3_update_model(sk, bbr, rs, &ack);

	bbr3_update_gains(bbr);
	bbr3_set_pacing_rate(sk, bbr, bbr->pacing_gain);
	bbr3_set_cwnd(sk, bbr, rs->acked_sacked);

	if (bbr->loss_round_start) {
		bbr->bw_latest = ack.bw;
		bbr->inflight_latest = rs->delivered;
	}
	bbr->prev_ca_state = cc_ca_state(sk);
	if (ack.lost)
		bbr->loss_in_cycle = 1;
	if (rs->delivered_ce > 0)
		bbr->ecn_in_cycle = 1;
}

CC_OP(void, bbr3_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *bbr = cc_state(sk);
	u32 i;

	if (!bbr)
		return;
	__builtin_memset(bbr, 0, sizeof(*bbr));
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	bbr->init_cwnd = min_u32(tp->snd_cwnd, BBR_INIT_CWND_MAX);
	bbr->next_rtt_delivered = tp->delivered;
	bbr->loss_round_delivered = tp->delivered + 1;
	bbr->min_rtt_us = cc_min_rtt_us(tp);
	bbr->min_rtt_stamp = tcp_jiffies32;
	bbr->probe_rtt_min_us = bbr->min_rtt_us;
	bbr->probe_rtt_min_stamp = bbr->min_rtt_stamp;
	bbr->inflight_hi = BBR_INFINITE;
	bbr3_reset_lower_bounds(bbr);
	bbr->bw_probe_up_cnt = BBR_INFINITE;
	bbr->ecn_alpha = BBR_UNIT;
	bbr->alpha_last_delivered = tp->delivered;
	bbr->alpha_last_delivered_ce = tp->delivered_ce;
	bbr->last_delivered_ce = tp->delivered_ce;
	bbr->last_lost = tp->lost;
	for (i = 0; i < BBR_MARKS; i++) {
		bbr->marks[i].delivered = tp->delivered;
		bbr->marks[i].lost = tp->lost;
	}
	bbr->ack_epoch_mstamp = tp->tcp_mstamp;
	bbr->mode = BBR_STARTUP;
	bbr3_update_gains(bbr);
	bbr->has_seen_rtt = bbr_init_pacing_rate(sk, BBR_STARTUP_PACING_GAIN);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

CC_OP(void, bbr3_cwnd_event, struct sock *sk, u32 event)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *bbr = cc_state(sk);

	if (!bbr || event != CA_EVENT_TX_START || !tp->app_limited)
		return;
	bbr->idle_restart = 1;
	bbr->ack_epoch_mstamp = tp->tcp_mstamp;
	bbr->ack_epoch_acked = 0;
	if (bbr->mode == BBR_PROBE_BW)
		bbr3_set_pacing_rate(sk, bbr, BBR_UNIT);
	else if (bbr->mode == BBR_PROBE_RTT)
		bbr3_check_probe_rtt_done(sk, bbr, tcp_jiffies32);
}

CC_OP(void, bbr3_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *bbr = cc_state(sk);

	if (!bbr)
		return;
	if (new_state == TCP_CA_Loss) {
		plb_on_rto(sk, plb_params(sk), &bbr->plb);
		bbr->prev_ca_state = TCP_CA_Loss;
		bbr3_reset_full_bw(bbr);
		if (!bbr3_is_probing(bbr) && bbr->inflight_lo == BBR_INFINITE)
			bbr->inflight_lo = max_u32(tp->snd_cwnd, bbr->prior_cwnd);
	} else if (bbr->prev_ca_state == TCP_CA_Loss) {
		tp->snd_cwnd = max_u32(tp->snd_cwnd, bbr->prior_cwnd);
	}
}

/* The model has its own answer to loss; what it was before is kept, should there have been none. */
CC_OP(u32, bbr3_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *bbr = cc_state(sk);

	if (bbr) {
		bbr3_save_cwnd(tp, bbr);
		bbr->undo_bw_lo = bbr->bw_lo;
		bbr->undo_inflight_lo = bbr->inflight_lo;
		bbr->undo_inflight_hi = bbr->inflight_hi;
	}
	return tp->snd_ssthresh;
}

CC_OP(u32, bbr3_undo_cwnd, struct sock *sk)
{
	struct bbr3 *bbr = cc_state(sk);

	if (!bbr)
		return tcp_sk(sk)->snd_cwnd;
	bbr3_reset_full_bw(bbr);
	bbr->loss_in_round = 0;
	bbr->bw_lo = max_u32(bbr->bw_lo, bbr->undo_bw_lo);
	bbr->inflight_lo = max_u32(bbr->inflight_lo, bbr->undo_inflight_lo);
	bbr->inflight_hi = max_u32(bbr->inflight_hi, bbr->undo_inflight_hi);
	return max_u32(bbr->prior_cwnd, BBR_CWND_MIN_TARGET);
}

CC_OP(u32, bbr3_sndbuf_expand, struct sock *sk)
{
	return 3;
}

/* bw * mss * 10^6 is 2^62 at 3 Tbps. */
#define BBR3_DIAG(D)								\
	D(mode, "STARTUP|DRAIN|PROBE_BW|PROBE_RTT", cc_state(sk) ? cc_state(sk)->mode : 0) \
	D(bw, "bytes/s", cc_state(sk) ? (u64)bbr3_bw(cc_state(sk)) *		\
	  tcp_sk(sk)->mss_cache * 1000000 >> BW_SCALE : 0)			\
	D(min_rtt, "us", cc_state(sk) ? cc_state(sk)->min_rtt_us : 0)	\
	D(pacing_gain, "1/256", cc_state(sk) ? cc_state(sk)->pacing_gain : 0)	\
	D(cwnd_gain, "1/256", cc_state(sk) ? cc_state(sk)->cwnd_gain : 0)	\
	D(phase, "UP|DOWN|CRUISE|REFILL", cc_state(sk) ? cc_state(sk)->phase : 0) \
	D(inflight_hi, "packets", cc_state(sk) ? cc_state(sk)->inflight_hi : 0)	\
	D(inflight_lo, "packets", cc_state(sk) ? cc_state(sk)->inflight_lo : 0)	\
	D(ecn_alpha, "1/256", cc_state(sk) ? cc_state(sk)->ecn_alpha : 0)
CC_DIAG(bbr3, BBR3_DIAG)

CC_ALGORITHM(bbr3) = {
	.init = CC_FN(bbr3_init),
	.cong_control = CC_FN(bbr3_main),
	.cwnd_event = CC_FN(bbr3_cwnd_event),
	.set_state = CC_FN(bbr3_set_state),
	.ssthresh = CC_FN(bbr3_ssthresh),
	.undo_cwnd = CC_FN(bbr3_undo_cwnd),
	.sndbuf_expand = CC_FN(bbr3_sndbuf_expand),
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bbr3",
};
