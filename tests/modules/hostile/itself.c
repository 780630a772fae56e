/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Includes itself twice at each level: some 2^200 times. */
#include "itself.c"
#include "itself.c"
#include "hostile.h"

static void itself(struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

HOSTILE(itself, tcp_register_congestion_control);
