/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * PLB, protective load balancing: a connection that meets congestion for many rounds in a row changes
 * its transmit hash, and switches that choose among equal paths by it send it another way.
 *
 *   round congested      marked / delivered >= plb_cong_thresh / 256
 *   rehash when idle     after plb_idle_rehash_rounds such rounds, nothing in flight: nothing reorders
 *   rehash when busy     after plb_rehash_rounds of them
 *   none                 for plb_suspend_rto_sec to twice that after a timeout: the path may be broken,
 *                        and a change would hide which one is
 *
 * A part of an algorithm, which adds PLB_PARAMS to its parameters and struct plb to its state, and calls,
 * with plb_params(sk),
 *
 *   plb_update   once per round, with the share of it that was marked
 *   plb_check    after that and when transmission starts with nothing in flight, or at every ACK: either
 *                will do, as it looks at whether anything is in flight by itself
 *   plb_on_rto   at a timeout
 *
 * Sources: Qureshi et al., SIGCOMM 2022; behaves as tcp_plb of Linux 6.2 and later, whose sysctls are
 * the parameters.
 */
#ifndef KNEE_PLB_H
#define KNEE_PLB_H

#include "tcp.h"

CC_REHASH

/* The share of marked packets, of which this is all. */
#define PLB_SHIFT		8
#define PLB_ALL			(1 << PLB_SHIFT)

/* The largest number of rounds that the two parameters may ask for. */
#define PLB_MAX_ROUNDS		31

struct plb {
	u32 cong_rounds;	/* congested rounds in a row, up to plb_rehash_rounds */
	u32 pause_until;	/* jiffies: no rehash before; 0: at any time */
};

/* Off by default, as in Linux. `plb` is the first of them. */
#define PLB_PARAMS(P)								\
	P(plb, 0, 0, 1, "off|on", "change path after congested rounds (IPv6)")	\
	P(plb_cong_thresh, 128, 0, 256, "", "share of marked packets of a congested round, in 1/256") \
	P(plb_idle_rehash_rounds, 3, 0, PLB_MAX_ROUNDS, "", "congested rounds before an idle rehash; 0: none") \
	P(plb_rehash_rounds, 12, 0, PLB_MAX_ROUNDS, "", "congested rounds before any rehash") \
	P(plb_suspend_rto_sec, 60, 0, 255, "", "least s without a rehash after a timeout")

struct plb_params { PLB_PARAMS(CC_PARAM_FIELD) };

/* They lie together among the algorithm's own, all u32. */
#define plb_params(sk) ((const struct plb_params *)&cc_params(sk)->plb)

/*
 * The share of marked packets of a round, in 1/256; negative: nothing was delivered. The product
 * passes 32 bits only above sixteen million packets in a round.
 */
static inline s32 plb_ratio(u32 marked, u32 delivered)
{
	return delivered ? (s32)((marked << PLB_SHIFT) / delivered) : -1;
}

/* A round has ended. */
static inline void plb_update(const struct plb_params *params, struct plb *plb, s32 ratio)
{
	if (!params->plb || ratio < 0)
		return;
	if ((u32)ratio < params->plb_cong_thresh)
		plb->cong_rounds = 0;
	else if (plb->cong_rounds < params->plb_rehash_rounds)
		plb->cong_rounds++;
}

/* Whether enough rounds were congested: for any sender, or for one with nothing in flight. */
static inline bool plb_is_due(const struct plb_params *params, const struct plb *plb, u32 packets_out)
{
	u32 idle_rounds = params->plb_idle_rehash_rounds;

	if (plb->cong_rounds >= params->plb_rehash_rounds)
		return true;
	return idle_rounds && !packets_out && plb->cong_rounds >= idle_rounds;
}

/*
 * Whether the pause goes on. One that ends later than any can was set before the clock wrapped. Two
 * times 255 s stay below half the clock's range up to four million ticks a second.
 */
static inline bool plb_is_paused(u32 pause_until, u32 now, u32 suspend)
{
	return before(now, pause_until) && !before(now + 2 * suspend, pause_until);
}

/* Asks for another path if it is time for one. */
static inline void plb_check(struct sock *sk, const struct plb_params *params, struct plb *plb)
{
	if (!params->plb || !plb_is_due(params, plb, tcp_sk(sk)->packets_out))
		return;
	if (plb->pause_until) {
		if (plb_is_paused(plb->pause_until, tcp_jiffies32, params->plb_suspend_rto_sec * HZ))
			return;
		plb->pause_until = 0;
	}
	cc_rehash(sk);
	plb->cong_rounds = 0;
}

/* Pauses for plb_suspend_rto_sec and a random part of it: many connections may share the failure. */
static inline void plb_on_rto(struct sock *sk, const struct plb_params *params, struct plb *plb)
{
	u32 suspend = params->plb_suspend_rto_sec * HZ;
	u32 extra;

	if (!params->plb)
		return;
	extra = ((u64)cc_random_u32(sk) * suspend) >> 32;
	plb->pause_until = tcp_jiffies32 + suspend + extra;
	plb->cong_rounds = 0;
}

#endif
