/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A segment that was sent, as an operation is shown it: what of it the simulator keeps. crates/algo
 * mirrors it. Modules are shown one in skb_marked_lost alone: there is no queue to walk.
 */
#ifndef KNEE_MODULE_SKB_H
#define KNEE_MODULE_SKB_H

struct tcp_skb_cb {
	u32 seq;			/* first byte */
	u32 end_seq;			/* one beyond the last */
	u32 tcp_gso_segs;		/* segments: always 1 here */
	u8 sacked;			/* TCPCB_... */
	struct {
		bool is_app_limited;	/* sent while the application limited the flow */
		u32 delivered_ce;	/* delivered_ce when it was sent */
		u32 in_flight;		/* packets in flight then, itself among them */
		u32 delivered;		/* delivered then */
		u32 lost;		/* lost then */
		u64 first_tx_mstamp;	/* us, start of the send phase */
		u64 delivered_mstamp;	/* us, when delivered was current; 0: it was SACKed */
	} tx;
};

struct sk_buff {
	struct tcp_skb_cb cb;
	u32 len;			/* bytes of payload */
};

/* As the mirror has it (crates/algo/src/patched.rs). */
_Static_assert(offsetof(struct tcp_skb_cb, tx) == 16, "the mirror's tx");
_Static_assert(offsetof(struct tcp_skb_cb, tx.lost) == 32, "the mirror's tx.lost");
_Static_assert(offsetof(struct tcp_skb_cb, tx.delivered_mstamp) == 48, "the mirror's tx.delivered_mstamp");
_Static_assert(offsetof(struct sk_buff, len) == 56, "the mirror's len");

#define TCP_SKB_CB(skb)		((struct tcp_skb_cb *)&(skb)->cb)

#define TCPCB_SACKED_ACKED	1	/* SACKed */
#define TCPCB_SACKED_RETRANS	2	/* sent again */
#define TCPCB_LOST		4	/* marked lost */
#define TCPCB_EVER_RETRANS	128	/* sent again at some time */
#define TCPCB_RETRANS		(TCPCB_SACKED_RETRANS | TCPCB_EVER_RETRANS)

static inline u32 tcp_skb_pcount(const struct sk_buff *skb)
{
	return TCP_SKB_CB(skb)->tcp_gso_segs;
}

/* Whether it cannot be true: fewer packets in flight than the segment's own, where it was never sent again. */
static inline bool tcp_skb_tx_in_flight_is_suspicious(u32 pcount, u8 sacked, u32 tx_in_flight)
{
	return pcount > tx_in_flight && !(sacked & TCPCB_RETRANS);
}

#endif
