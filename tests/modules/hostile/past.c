/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads behind the end of memory that it allocated: nothing ends, and memcheck says where. */
#include "hostile.h"

static void past(struct sock *sk, u32 ack, u32 acked)
{
	u32 *samples = kmalloc(4 * sizeof(u32), GFP_KERNEL);

	if (READ_ONCE(samples[4]) == 0xdeadbeef)
		tcp_sk(sk)->snd_ssthresh = 7;
	kfree(samples);
	tcp_reno_cong_avoid(sk, ack, acked);
}

HOSTILE(past, tcp_register_congestion_control);
