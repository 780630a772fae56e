/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What tcp_delay.c keeps for a connection. */
#ifndef TCP_DELAY_H
#define TCP_DELAY_H

struct delay {
	u32	begin_seq;	/* the round ends when this is acknowledged */
	u32	base_rtt_us;	/* smallest RTT ever */
	u32	min_rtt_us;	/* smallest RTT of this round */
	u16	rtt_count;	/* samples of this round */
	u8	enabled;	/* not while losses are repaired */
};

#endif
