/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Uses what no kernel has. */
#include <net/no_such_header.h>
#include "hostile.h"

static struct no_such_struct kept;

static void missing(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	no_such_type now = no_such_function(tp);

	if (now > NO_SUCH_CONSTANT)
		tp->no_such_field = no_such_function(tp);
	tcp_reno_cong_avoid(sk, ack, acked);
}

HOSTILE(missing, tcp_register_congestion_control);
