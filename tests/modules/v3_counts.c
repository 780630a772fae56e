// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A control on the API of the kernels that BBR version 3 and Prague are developed on. It keeps cwnd near twice what was in
 * flight when the sampled packet left, and holds all that this API tells against what tcp_sock tells: whatever does not agree
 * ends the run (BUG_ON). Its counts are shown as BBR's.
 */
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/module.h>
#include <linux/inet_diag.h>
#include <linux/random.h>
#include <net/tcp.h>
#include <trace/events/tcp.h>
#include "tcp_dctcp.h"

struct counts {
	u32	lost_at_init;		/* tp->lost at init */
	u32	marked_lost;		/* calls of skb_marked_lost */
	u32	ce_events;		/* data segments with CE */
	u32	tlp_recoveries;
	u32	tso_calls;
	u32	samples;
	u32	ece_acks;
	u32	ce_state;
	u32	prior_rcv_nxt;
	u64	more_than_mainline[16];	/* the area is larger than 104 bytes */
};

static struct tcp_congestion_ops counts_reno;
static bool fall_back;
module_param(fall_back, bool, 0644);

static void counts_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct counts *counts = inet_csk_ca(sk);

	if (fall_back) {
		counts->more_than_mainline[15] = 0x600d;
		inet_csk(sk)->icsk_ca_ops = &counts_reno;
		return;
	}
	memset(counts, 0, sizeof(*counts));
	counts->lost_at_init = tp->lost;
	counts->prior_rcv_nxt = tp->rcv_nxt;
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	tp->fast_ack_mode = 1;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	if (tcp_ecn_mode_rfc3168(tp))
		tp->ecn_flags |= TCP_ECN_ECT_PERMANENT;
}

static u32 counts_tso_segs(struct sock *sk, unsigned int mss_now)
{
	struct counts *counts = inet_csk_ca(sk);

	BUG_ON(mss_now != tcp_sk(sk)->mss_cache);
	counts->tso_calls++;
	return max_t(u32, 3, sock_net(sk)->ipv4.sysctl_tcp_min_tso_segs);
}

static void counts_skb_marked_lost(struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct counts *counts = inet_csk_ca(sk);
	struct tcp_skb_cb *scb = TCP_SKB_CB(skb);

	counts->marked_lost += tcp_skb_pcount(skb);
	BUG_ON(counts->marked_lost != tp->lost - counts->lost_at_init);
	BUG_ON(!(scb->sacked & TCPCB_LOST) || (scb->sacked & TCPCB_SACKED_ACKED));
	BUG_ON(before(scb->seq, tp->snd_una) || after(scb->end_seq, tp->snd_nxt));
	BUG_ON(!scb->tx.in_flight || scb->tx.in_flight > tp->delivered + tp->packets_out + tp->lost);
	BUG_ON(before(tp->lost, scb->tx.lost + 1) || before(tp->delivered, scb->tx.delivered));
	BUG_ON(tcp_skb_tx_in_flight_is_suspicious(tcp_skb_pcount(skb), scb->sacked, scb->tx.in_flight));
}

static void counts_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct counts *counts = inet_csk_ca(sk);

	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE) {
		counts->ce_events += event == CA_EVENT_ECN_IS_CE;
		dctcp_ece_ack_update(sk, event, &counts->prior_rcv_nxt, &counts->ce_state);
		BUG_ON(counts->ce_state != (event == CA_EVENT_ECN_IS_CE));
	} else if (event == CA_EVENT_TLP_RECOVERY) {
		counts->tlp_recoveries++;
	}
}

static void counts_main(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct counts *counts = inet_csk_ca(sk);

	counts->ece_acks += rs->is_ece;
	BUG_ON(rs->ece_delta && !rs->is_ece);
	BUG_ON(rs->ece_delta > rs->acked_sacked);
	if (rs->delivered < 0 || rs->interval_us <= 0)
		return;
	counts->samples++;
	BUG_ON(rs->lost < 0 || rs->lost != tp->lost - rs->prior_lost);
	BUG_ON(!rs->tx_in_flight || rs->tx_in_flight > tp->data_segs_out);
	BUG_ON(rs->delivered_ce > rs->delivered);
	/* As much again as was out when the sampled packet left: it grows by a half each round trip, until losses are a 50th. */
	if ((u64)rs->lost * 50 <= rs->tx_in_flight)
		tcp_snd_cwnd_set(tp, clamp_t(u32, rs->tx_in_flight * 3 / 2, 4, tp->snd_cwnd_clamp));
	else
		tcp_snd_cwnd_set(tp, max_t(u32, rs->tx_in_flight / 2, 4));
	if (tp->srtt_us)
		sk->sk_pacing_rate = min_t(u64, sk->sk_max_pacing_rate,
					   div_u64((u64)tcp_snd_cwnd(tp) * tp->mss_cache * 9 * USEC_PER_SEC, tp->srtt_us));
}

static u32 counts_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

static u32 counts_undo_cwnd(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)), 4U);
}

static size_t counts_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct counts *counts = inet_csk_ca(sk);

	memset(&info->bbr, 0, sizeof(info->bbr));
	info->bbr.bbr_bw_lo = counts->marked_lost;
	info->bbr.bbr_min_rtt = counts->ce_events + counts->ece_acks;
	info->bbr.bbr_pacing_gain = counts->tlp_recoveries;
	info->bbr.bbr_cwnd_gain = counts->tso_calls;
	info->bbr.bbr_phase = BBR_PHASE_STARTUP;
	*attr = INET_DIAG_BBRINFO;
	return sizeof(info->bbr);
}

static u32 counts_reno_ssthresh(struct sock *sk)
{
	const struct counts *counts = inet_csk_ca(sk);

	/* The area is the connection's, whichever table it has. */
	BUG_ON(counts->more_than_mainline[15] != 0x600d);
	return tcp_reno_ssthresh(sk);
}

static struct tcp_congestion_ops counts __read_mostly = {
	.flags		= TCP_CONG_NON_RESTRICTED | TCP_CONG_WANTS_CE_EVENTS,
	.name		= "counts",
	.owner		= THIS_MODULE,
	.init		= counts_init,
	.cong_control	= counts_main,
	.skb_marked_lost = counts_skb_marked_lost,
	.tso_segs	= counts_tso_segs,
	.cwnd_event	= counts_cwnd_event,
	.ssthresh	= counts_ssthresh,
	.undo_cwnd	= counts_undo_cwnd,
	.get_info	= counts_get_info,
};

static struct tcp_congestion_ops counts_reno __read_mostly = {
	.name		= "counts-reno",
	.owner		= THIS_MODULE,
	.ssthresh	= counts_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init counts_register(void)
{
	BUILD_BUG_ON(sizeof(struct counts) > ICSK_CA_PRIV_SIZE);
	BUILD_BUG_ON(sizeof(struct counts) <= 104);
	return tcp_register_congestion_control(&counts);
}

static void __exit counts_unregister(void)
{
	tcp_unregister_congestion_control(&counts);
}

module_init(counts_register);
module_exit(counts_unregister);

MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("What the API of google/bbr v3 tells, held against tcp_sock");
