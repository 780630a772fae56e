// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A delay-based control after Vegas (Brakmo and Peterson): keeps between alpha and beta packets of
 * its own in the queue, as it estimates them once per round trip from the RTT.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <linux/inet_diag.h>

#include <net/tcp.h>

#include "tcp_delay.h"

static int alpha = 2;
static int beta  = 4;
static int gamma = 1;

module_param(alpha, int, 0644);
MODULE_PARM_DESC(alpha, "lower bound of packets in network");
module_param(beta, int, 0644);
MODULE_PARM_DESC(beta, "upper bound of packets in network");
module_param(gamma, int, 0644);
MODULE_PARM_DESC(gamma, "limit on increase (scale by 2)");

static void delay_enable(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct delay *ca = inet_csk_ca(sk);

	ca->enabled = 1;
	ca->begin_seq = tp->snd_nxt;
	ca->rtt_count = 0;
	ca->min_rtt_us = 0x7fffffff;
}

static void delay_init(struct sock *sk)
{
	struct delay *ca = inet_csk_ca(sk);

	ca->base_rtt_us = 0x7fffffff;
	delay_enable(sk);
}

static void delay_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct delay *ca = inet_csk_ca(sk);
	u32 rtt_us;

	if (sample->rtt_us < 0)
		return;
	rtt_us = sample->rtt_us + 1;
	ca->base_rtt_us = min(ca->base_rtt_us, rtt_us);
	ca->min_rtt_us = min(ca->min_rtt_us, rtt_us);
	ca->rtt_count++;
}

static void delay_state(struct sock *sk, u8 ca_state)
{
	struct delay *ca = inet_csk_ca(sk);

	if (ca_state == TCP_CA_Open)
		delay_enable(sk);
	else
		ca->enabled = 0;
}

static void delay_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START)
		delay_init(sk);
}

static void delay_round(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct delay *ca = inet_csk_ca(sk);
	u32 rtt = ca->min_rtt_us;
	u64 target;
	u32 diff;

	/* cwnd * base / rtt is what would be in flight without a queue. */
	target = (u64)tcp_snd_cwnd(tp) * ca->base_rtt_us;
	do_div(target, rtt);
	diff = tcp_snd_cwnd(tp) * (rtt - ca->base_rtt_us) / ca->base_rtt_us;

	if (diff > gamma && tcp_in_slow_start(tp)) {
		tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp), (u32)target + 1));
		tp->snd_ssthresh = min(tp->snd_ssthresh, tcp_snd_cwnd(tp) - 1);
	} else if (tcp_in_slow_start(tp)) {
		tcp_slow_start(tp, 1);
	} else if (diff > beta) {
		tcp_snd_cwnd_set(tp, tcp_snd_cwnd(tp) - 1);
	} else if (diff < alpha) {
		tcp_snd_cwnd_set(tp, tcp_snd_cwnd(tp) + 1);
	}
	tcp_snd_cwnd_set(tp, clamp(tcp_snd_cwnd(tp), 2U, tp->snd_cwnd_clamp));
}

static void delay_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct delay *ca = inet_csk_ca(sk);

	if (!ca->enabled) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	if (after(ack, ca->begin_seq)) {
		ca->begin_seq = tp->snd_nxt;
		if (ca->rtt_count <= 2)
			tcp_reno_cong_avoid(sk, ack, acked);
		else
			delay_round(sk);
		ca->rtt_count = 0;
		ca->min_rtt_us = 0x7fffffff;
	} else if (tcp_in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
	}
}

static size_t delay_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct delay *ca = inet_csk_ca(sk);

	if (!(ext & (1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	info->vegas.tcpv_enabled = ca->enabled;
	info->vegas.tcpv_rttcnt = ca->rtt_count;
	info->vegas.tcpv_rtt = ca->base_rtt_us;
	info->vegas.tcpv_minrtt = ca->min_rtt_us;
	*attr = INET_DIAG_VEGASINFO;
	return sizeof(struct tcpvegas_info);
}

static struct tcp_congestion_ops tcp_delay __read_mostly = {
	.init		= delay_init,
	.ssthresh	= tcp_reno_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= delay_cong_avoid,
	.pkts_acked	= delay_pkts_acked,
	.set_state	= delay_state,
	.cwnd_event	= delay_cwnd_event,
	.get_info	= delay_get_info,

	.owner		= THIS_MODULE,
	.name		= "delay",
};

static int __init tcp_delay_register(void)
{
	BUILD_BUG_ON(sizeof(struct delay) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&tcp_delay);
}

static void __exit tcp_delay_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_delay);
}

module_init(tcp_delay_register);
module_exit(tcp_delay_unregister);

MODULE_AUTHOR("The knee authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Delay-based control");
