/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sender of DCTCP, which dctcp.c and dctcp_snd.c have in common: how alpha follows the marks, and
 * what marks and losses do to the window, and to the path. The header of dctcp.c has the model.
 *
 * It is included after CC_PARAMS: it reads those of the file.
 */
#ifndef KNEE_DCTCP_H
#define KNEE_DCTCP_H

#include "ecn_echo.h"
#include "plb.h"

/* alpha and the marked share are fractions of this: 1024 is all. */
#define DCTCP_ALPHA_SHIFT	10
#define DCTCP_MAX_ALPHA		(1U << DCTCP_ALPHA_SHIFT)

/* Values of `fallback`, `loss`, `estimator`, `cwr`. */
#define DCTCP_LOSS_ALPHA	1
#define DCTCP_ESTIMATOR_FREEBSD	1
#define DCTCP_FALLBACK_CUBIC	1
#define DCTCP_CWR_EACH		1

struct dctcp {
	u32 old_delivered;	/* packets delivered when the observation window began */
	u32 old_delivered_ce;	/* of these, marked */
	u32 prior_rcv_nxt;	/* rcv_nxt after the data segment before this one */
	u32 alpha;		/* average share of marked packets, in 1/1024 */
	u32 next_seq;		/* the observation window ends when this is acknowledged */
	u32 loss_cwnd;		/* packets: cwnd before the last reduction, for undo */
	u8 ce_state;		/* 1 if the last data segment carried CE */
	u8 ece;			/* the last ACK carried ECE */
	u8 was_congested;	/* there was a mark or a loss since the beginning, or since idle */
	struct ecn_echo echo;	/* not for peer = dctcp; of it FreeBSD's estimator counts bytes */
	struct plb plb;
};

static inline bool dctcp_peer_latches(const struct sock *sk, const struct dctcp *ca)
{
	u32 peer = cc_params(sk)->peer;

	return peer == DCTCP_PEER_CLASSIC ||
	       (peer == DCTCP_PEER_AUTO && ca->echo.is_latched);
}

/* CWR goes out all the time, so that a receiver that latches ECE tells of each packet. */
static inline bool dctcp_unlatches(const struct sock *sk, const struct dctcp *ca)
{
	return cc_params(sk)->cwr == DCTCP_CWR_EACH && dctcp_peer_latches(sk, ca);
}

static inline void dctcp_start_window(const struct tcp_sock *tp, struct dctcp *ca)
{
	ca->next_seq = tp->snd_nxt;
	ca->old_delivered = tp->delivered;
	ca->old_delivered_ce = tp->delivered_ce;
}

/*
 * A window is a round of PLB, which has the share of this window alone, not alpha, and as core counts it:
 * of a peer that latches ECE it is more than was marked.
 */
static inline void dctcp_end_window(struct sock *sk, struct dctcp *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 delivered = tp->delivered - ca->old_delivered;

	if (delivered) {
		plb_update(plb_params(sk), &ca->plb,
			   plb_ratio(tp->delivered_ce - ca->old_delivered_ce, delivered));
		plb_check(sk, plb_params(sk), &ca->plb);
	}
	dctcp_start_window(tp, ca);
}

/* Nothing is known of the path: at the beginning, and perhaps after idle. */
static inline void dctcp_start(const struct sock *sk, struct dctcp *ca)
{
	ca->alpha = min_u32(cc_params(sk)->alpha_on_init, DCTCP_MAX_ALPHA);
	ca->ece = false;
	ca->was_congested = false;
	ca->echo.seen = 0;
	ca->echo.marked = 0;
	dctcp_start_window(tcp_sk(sk), ca);
}

/* A connection begins; false: it has no ECN, and another algorithm has it now. */
static inline bool dctcp_begin(struct sock *sk, struct dctcp *ca)
{
	if (!cc_ecn_negotiated(sk)) {
		if (cc_params(sk)->fallback == DCTCP_FALLBACK_CUBIC)
			cc_fallback(sk, "cubic");
		else
			cc_fallback(sk, "reno");
		return false;
	}
	ca->loss_cwnd = 0;
	ca->plb = (struct plb){ 0 };
	ecn_echo_init(&ca->echo, tcp_sk(sk));
	dctcp_start(sk, ca);
	return true;
}

/*
 * alpha = (1 - g) * alpha + g * F, all in 1/1024, for F = marked / total. A decay that rounds to
 * nothing takes all of alpha instead, or it would stay at 2^shift_g - 1 for ever. marked << 10 passes
 * 32 bits only above four million packets in a window.
 */
static inline u32 dctcp_next_alpha(u32 alpha, u32 marked, u32 total, u32 shift_g)
{
	u32 decay = alpha >> shift_g;

	alpha -= decay ? decay : alpha;
	if (marked)
		alpha += (marked << (DCTCP_ALPHA_SHIFT - shift_g)) / max_u32(total, 1);
	return min_u32(alpha, DCTCP_MAX_ALPHA);
}

static inline u32 dctcp_shift_g(const struct sock *sk)
{
	return min_u32(cc_params(sk)->shift_g, DCTCP_ALPHA_SHIFT);
}

/* Once per window of data: F by the counts of core, which trusts every ECE. So does who unlatches it. */
static inline void dctcp_update_alpha(struct sock *sk, struct dctcp *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (before(tp->snd_una, ca->next_seq))
		return;
	ca->alpha = dctcp_next_alpha(ca->alpha, tp->delivered_ce - ca->old_delivered_ce,
				     tp->delivered - ca->old_delivered, dctcp_shift_g(sk));
	ca->echo.seen = 0;
	ca->echo.marked = 0;
	ca->echo.windows = 0;
	dctcp_end_window(sk, ca);
}

/*
 * The same against a latched echo, which hides marks until its end. A window that ends before waits
 * for the next, and both are then given the F of what is known of the two.
 */
static inline void dctcp_update_alpha_latched(struct sock *sk, struct dctcp *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct ecn_echo *echo = &ca->echo;
	u32 shift_g = dctcp_shift_g(sk);

	if (before(tp->snd_una, ca->next_seq))
		return;
	dctcp_end_window(sk, ca);
	echo->windows++;
	if (echo->hidden && echo->windows < 2)
		return;
	/* No CWR leaves without new data. */
	if (!echo->seen)
		ecn_echo_reveal(echo, echo->hidden);
	ca->alpha = dctcp_next_alpha(ca->alpha, echo->marked, echo->seen, shift_g);
	if (echo->windows > 1)
		ca->alpha = dctcp_next_alpha(ca->alpha, echo->marked, echo->seen, shift_g);
	echo->seen = 0;
	echo->marked = 0;
	echo->windows = 0;
}

/*
 * FreeBSD's: bytes instead of packets, and alpha stays at 2^shift_g - 1 when the marks have ended. Its
 * receiver sends one ACK where CE changes; of two segments one is then of the state before, which
 * takes an MSS from the marked bytes at the beginning of a run and adds one at its end.
 */
static inline void dctcp_count_bytes(const struct tcp_sock *tp, struct dctcp *ca, bool ece)
{
	u32 bytes = tp->snd_una - ca->echo.una;
	bool is_mixed = ece != ca->ece && bytes > tp->mss_cache;

	ca->echo.una = tp->snd_una;
	ca->echo.seen += bytes;
	if (ece)
		ca->echo.marked += is_mixed ? bytes - tp->mss_cache : bytes;
	else if (is_mixed)
		ca->echo.marked += tp->mss_cache;
}

static inline void dctcp_update_alpha_bytes(struct sock *sk, struct dctcp *ca)
{
	u32 shift_g = dctcp_shift_g(sk);
	u64 marked = (u64)ca->echo.marked << (DCTCP_ALPHA_SHIFT - shift_g);

	ca->alpha -= ca->alpha >> shift_g;
	ca->alpha = min_u32(ca->alpha + (u32)div64_u64(marked, max_u32(ca->echo.seen, 1)),
			    DCTCP_MAX_ALPHA);
	ca->echo.seen = 0;
	ca->echo.marked = 0;
	dctcp_end_window(sk, ca);
}

/* A cut by alpha / 2, spread over a window by PRR, takes one packet of each so many. */
static inline u32 dctcp_drain(const struct dctcp *ca)
{
	return (2U << DCTCP_ALPHA_SHIFT) / max_u32(ca->alpha, 1);
}

/* What an ACK tells about marks, before this ACK's own reaction to congestion. */
static inline void dctcp_learn(struct sock *sk, struct dctcp *ca, bool ece)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (cc_params(sk)->estimator == DCTCP_ESTIMATOR_FREEBSD) {
		dctcp_count_bytes(tp, ca, ece);
		if (cc_ca_state(sk) < TCP_CA_Recovery && after(tp->snd_una, ca->next_seq))
			dctcp_update_alpha_bytes(sk, ca);
	} else if (dctcp_unlatches(sk, ca)) {
		ecn_echo_unlatch(tp);
		dctcp_update_alpha(sk, ca);
	} else {
		if (cc_params(sk)->peer != DCTCP_PEER_DCTCP)
			ecn_echo_ack(&ca->echo, tp, ece, cc_ca_state(sk), dctcp_drain(ca));
		if (dctcp_peer_latches(sk, ca))
			dctcp_update_alpha_latched(sk, ca);
		else
			dctcp_update_alpha(sk, ca);
	}
	ca->ece = ece;
}

/* cwnd * (1 - alpha / 2). Products stay below 32 bits up to a cwnd of 2^22 packets. */
static inline u32 dctcp_cut(const struct tcp_sock *tp, const struct dctcp *ca)
{
	return max_u32(tp->snd_cwnd - ((tp->snd_cwnd * ca->alpha) >> (DCTCP_ALPHA_SHIFT + 1)), 2);
}

/*
 * A reduction. Core asks before every one, for marks as for losses; a loss is heard of again at once
 * (dctcp_react_to_loss), and may say otherwise.
 */
static inline u32 dctcp_reduce(const struct sock *sk, struct dctcp *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	ca->loss_cwnd = tp->snd_cwnd;
	if (cc_params(sk)->peer != DCTCP_PEER_DCTCP)
		ecn_echo_reduced(&ca->echo, tp, ca->ece);
	if (cc_params(sk)->halve_first && !ca->was_congested && ca->ece) {
		dctcp_start(sk, ca);
		ca->alpha = DCTCP_MAX_ALPHA;
		ca->ece = true;
	}
	ca->was_congested = true;
	return dctcp_cut(tp, ca);
}

/* As any TCP: half. Before 2019 Linux left it at the cut by alpha. */
static inline void dctcp_react_to_loss(struct sock *sk, struct dctcp *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (cc_params(sk)->loss == DCTCP_LOSS_ALPHA)
		return;
	ca->loss_cwnd = tp->snd_cwnd;
	tp->snd_ssthresh = max_u32(tp->snd_cwnd >> 1, 2);
}

/*
 * A timeout's halving comes as an event instead of a state, so as not to halve twice. The clamp is
 * Linux's of before 2019: the cuts after a timeout are halves, until alpha has decayed.
 */
static inline void dctcp_enter_state(struct sock *sk, struct dctcp *ca, u8 new_state)
{
	if (new_state == TCP_CA_Recovery && new_state != cc_ca_state(sk))
		dctcp_react_to_loss(sk, ca);
	if (new_state == TCP_CA_CWR && cc_params(sk)->peer == DCTCP_PEER_AUTO)
		ecn_echo_test(&ca->echo, tcp_sk(sk));
	if (new_state == TCP_CA_Loss && cc_params(sk)->clamp_alpha_on_loss)
		ca->alpha = DCTCP_MAX_ALPHA;
}

static inline void dctcp_on_timeout(struct sock *sk, struct dctcp *ca)
{
	plb_on_rto(sk, plb_params(sk), &ca->plb);
	dctcp_react_to_loss(sk, ca);
	if (cc_params(sk)->estimator == DCTCP_ESTIMATOR_FREEBSD)
		dctcp_update_alpha_bytes(sk, ca);
}

/* The path may have changed since: FreeBSD begins again, Linux goes on with what it had. */
static inline void dctcp_after_idle(const struct sock *sk, struct dctcp *ca)
{
	if (cc_params(sk)->reset_after_idle)
		dctcp_start(sk, ca);
}

#endif
