/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What ECE means when the receiver latches it (RFC 3168), and how to tell that it does.
 *
 * A receiver of DCTCP echoes each packet: ECE says whether what the ACK covers was marked. A classic
 * one turns ECE on at the first mark and off when a segment with CWR arrives, whatever was marked in
 * between:
 *
 *   packets   . . . . m ? ? ? ? ? ? ? ? C . . . .      m marked, C carries CWR
 *   ECE       0 0 0 0 1 1 1 1 1 1 1 1 1 0 0 0 0 0      about one round trip of ones
 *                     |<--- hidden --->|
 *
 * A latch undone. ECE then says of one round trip that something was marked. But CWR clears the latch
 * wherever it stands, and is looked at before the mark of its own segment: the ACK of a segment with
 * CWR says whether that one was marked. A sender that puts CWR on the first new segment after every
 * ACK (ecn_echo_unlatch) hears of each of these, and since Linux answers CWR at once, soon nearly every
 * segment is such a one: the ACKs of a classic receiver then tell as much as those of DCTCP's.
 *
 * The marks, if CWR is sent once per reduction as RFC 3168 has it. Of a latched echo one knows the
 * packet that began it, those before it (not marked), and the one with CWR: ECE on its ACK means that
 * it, or one right behind it, was marked again. Everything between is hidden, and estimated from what
 * a queue above a threshold does. It marks until the reduction that the first mark brought about
 * arrives, and that is the segment with CWR: so all of it was marked. If CWR was marked too, the
 * reduction has only begun there, and a next echo follows, in which the queue falls by one packet for
 * each `drain` packets sent. It had risen by one per flow in the round trip before, so that `drain`
 * packets were marked of that, if CWR then finds it below.
 *
 * The peer. The sender knows where CWR is: on the first new segment after a reduction, which begins at
 * what snd_nxt is then.
 *
 *   An ACK without ECE, after one with it and before CWR can have arrived, proves that the receiver
 *   does not latch: it is refuted.
 *   An echo that lasts until CWR and ends exactly there makes it likely that it does, the more ACKs
 *   there were that might have shown the contrary. But flows that share a queue react together, and
 *   then the marks themselves often end there. So, when it has become likely:
 *   a test holds CWR back for half a window. Marks still end with the reduction, a latched echo only
 *   with CWR. That costs a classic peer one more cut for each test, and one of DCTCP nothing.
 */
#ifndef KNEE_ECN_ECHO_H
#define KNEE_ECN_ECHO_H

/* So many ACKs with ECE, and none to the contrary, make it likely; more, if it was refuted before. */
#define ECN_ECHO_LIKELY		48
#define ECN_ECHO_LIKELY_AGAIN	(8 * ECN_ECHO_LIKELY)
/* One echo gives at most so many: however long, it is one chance. */
#define ECN_ECHO_LIKELY_EACH	16
/* Tests that it has to stand. */
#define ECN_ECHO_TESTS		2

struct ecn_echo {
	u32 una;		/* snd_una at the ACK before */
	u32 delivered;		/* packets delivered at the ACK before */
	u32 cwr_seq;		/* the segment that begins here carries CWR; or is_held: is held until here */
	u32 seen;		/* packets whose mark is known or was estimated */
	u32 marked;		/* of these */
	u32 hidden;		/* packets of the echo that goes on */
	u32 likely;		/* ACKs that spoke for a latch, of echoes that ended with CWR */
	u16 echoed;		/* ACKs of this echo that a receiver of DCTCP might have sent without ECE */
	u8 tests;		/* stood */
	u8 windows;		/* windows that ended since `seen` was last used */
	/* Yes or no: no bool, since a recording may bring a state from elsewhere, and a bool is nothing but 0 or 1. */
	u8 is_on;		/* ECE is on, and the CWR that may end it has not arrived */
	u8 is_next;		/* the echo began with the CWR that should have ended one */
	u8 is_cwr_out;	/* CWR was sent or is to be, and is not acknowledged */
	u8 is_clear;		/* no other CWR was on its way when the echo began: it can be judged */
	u8 is_test;		/* CWR of this echo is late */
	u8 is_held;		/* and not sent yet */
	u8 is_refuted;	/* an ACK proved that the peer does not latch */
	u8 is_latched;	/* the tests proved that it does */
};

static inline void ecn_echo_init(struct ecn_echo *echo, const struct tcp_sock *tp)
{
	*echo = (struct ecn_echo){ .una = tp->snd_una, .delivered = tp->delivered };
}

/* The first new segment after this ACK has CWR, whatever the ACK says; core takes the flag back then. */
static inline void ecn_echo_unlatch(struct tcp_sock *tp)
{
	tp->ecn_flags |= TCP_ECN_QUEUE_CWR;
}

/* Core reduces, and asks for CWR on the first new segment. `ece`: for the ECE of this ACK. */
static inline void ecn_echo_reduced(struct ecn_echo *echo, const struct tcp_sock *tp, bool ece)
{
	if (echo->is_test)
		return;
	echo->is_clear = ece && !echo->is_cwr_out;
	echo->is_cwr_out = true;
	echo->cwr_seq = tp->snd_nxt;
	echo->echoed = 0;
}

/*
 * The state is CWR now; core has asked for CWR, which a test takes back. But the CWR of a test may still
 * wait for new data when the next reduction begins: to take back that one would leave ECE on for good.
 */
static inline void ecn_echo_test(struct ecn_echo *echo, struct tcp_sock *tp)
{
	u32 enough = echo->is_refuted ? ECN_ECHO_LIKELY_AGAIN : ECN_ECHO_LIKELY;

	if (!echo->is_test) {
		if (echo->is_latched || echo->likely < enough || !echo->is_clear)
			return;
		echo->is_test = true;
		echo->is_held = true;
		echo->is_cwr_out = false;
		echo->cwr_seq = tp->snd_una + (tp->snd_nxt - tp->snd_una) / 2;
	}
	if (echo->is_held || after(tp->snd_nxt, echo->cwr_seq))
		tp->ecn_flags &= ~TCP_ECN_QUEUE_CWR;
}

static inline void ecn_echo_send_cwr(struct ecn_echo *echo, struct tcp_sock *tp)
{
	tp->ecn_flags |= TCP_ECN_QUEUE_CWR;
	echo->is_held = false;
	echo->is_cwr_out = true;
	echo->cwr_seq = tp->snd_nxt;
}

/* An echo that can be judged has ended, with CWR or without. */
static inline void ecn_echo_judge(struct ecn_echo *echo, bool is_answered)
{
	if (!is_answered) {
		echo->is_refuted = true;
		echo->is_latched = false;
		echo->likely = 0;
		echo->tests = 0;
	} else if (echo->is_test) {
		echo->tests++;
		echo->is_latched = echo->tests >= ECN_ECHO_TESTS;
	} else {
		echo->likely += min_u32(echo->echoed, ECN_ECHO_LIKELY_EACH);
		echo->likely = min_u32(echo->likely, ECN_ECHO_LIKELY_AGAIN);
	}
}

/* The hidden packets are known now as far as they ever will be: `marked` of them. */
static inline void ecn_echo_reveal(struct ecn_echo *echo, u32 marked)
{
	echo->seen += echo->hidden;
	echo->marked += marked;
	echo->hidden = 0;
}

/*
 * One ACK. Only in CWR do losses and reordering not explain what is seen. `drain`: packets that are
 * sent while the reduction in progress takes one from the flight.
 */
static inline void ecn_echo_ack(struct ecn_echo *echo, struct tcp_sock *tp, bool ece, u8 ca_state,
				u32 drain)
{
	u32 delivered = tp->delivered - echo->delivered;
	bool is_new = after(tp->snd_una, echo->una);
	bool is_judged = echo->is_clear && ca_state == TCP_CA_CWR && is_new && !tp->sacked_out;
	bool is_answered, was_test = echo->is_test;

	echo->una = tp->snd_una;
	echo->delivered = tp->delivered;
	if (echo->is_held && (!ece || ca_state > TCP_CA_CWR || after(tp->snd_una, echo->cwr_seq)))
		ecn_echo_send_cwr(echo, tp);
	else if (tp->ecn_flags & TCP_ECN_QUEUE_CWR)
		ecn_echo_send_cwr(echo, tp);
	is_answered = echo->is_cwr_out && after(tp->snd_una, echo->cwr_seq);
	if (is_answered)
		echo->is_cwr_out = false;
	/* What goes on in a test that a loss has upset, or that CWR found marked again, is no test. */
	if (is_answered || ca_state > TCP_CA_CWR)
		echo->is_test = false;

	if (!echo->is_on) {
		echo->seen += delivered;
		if (ece) {
			/* It began somewhere in what this ACK covers: mostly one packet, or two. */
			echo->marked += (delivered + 1) / 2;
			echo->is_on = true;
			echo->is_next = false;
		}
		return;
	}
	if (ece) {
		echo->hidden += delivered;
		echo->echoed += is_judged && echo->echoed < ECN_ECHO_LIKELY_EACH;
		if (is_answered) {
			ecn_echo_reveal(echo, echo->hidden);
			echo->is_next = true;
		}
		return;
	}
	if (!is_new)
		return;
	if (is_judged) {
		echo->is_test = was_test;
		ecn_echo_judge(echo, is_answered);
	}
	echo->is_test = false;
	ecn_echo_reveal(echo, echo->is_next ? min_u32(echo->hidden, drain) : echo->hidden);
	echo->seen += delivered;
	echo->is_on = false;
}

#endif
