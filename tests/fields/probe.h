/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Prints what a congestion control module can see, at each call: all fields of algorithms/include/fields.h that a
 * kernel has. The simulator and kernels in virtual time print the same lines (crates/vkernel/tests/fields.rs).
 *
 * One line is of one call and one struct: "end number operation struct name=value ...". The end is "client" or
 * "server". Sequence numbers count from the first byte of data, those of the peer from its first byte. Times are
 * ages: how long before the clock of this call. Zero stays "zero", which is no age. Values of 64 bits, or with all
 * ones, are printed as "-1".
 *
 * Lines have the level of an error, because a guest's console shows no others.
 */
#include <linux/module.h>
#include <net/tcp.h>

struct probe {
	u32 calls;
	u32 first_seq;		/* of this end's data */
	u32 first_rcv;		/* of the peer's data; 0: not known yet */
	u8 is_there;		/* the numbers above are set */
	u8 is_client;
};

#define MOST_CALLS 300

/* A value as it is; all ones of any width become -1. */
#define PLAIN(text, value) pr_cont(" " text "=%lld", \
	(u64)(value) == ~0ull || (u64)(value) == ~0u ? -1ll : (long long)(value))
/* A sequence number of this end, one of the peer, a time in us or ns, a time in jiffies. */
#define SEQ(text, value, first) do {						\
		if (value)							\
			pr_cont(" " text "=%d", (s32)((u32)(value) - (first)));	\
		else								\
			pr_cont(" " text "=zero");				\
	} while (0)
#define AGE(text, now, value) do {						\
		if (value)							\
			pr_cont(" " text "=%lld", (long long)((now) - (value)));	\
		else								\
			pr_cont(" " text "=zero");				\
	} while (0)

static struct probe *probe_begin(struct sock *sk)
{
	struct probe *probe = inet_csk_ca(sk);

	if (!probe->is_there) {
		probe->is_there = 1;
		probe->is_client = sk->sk_state == TCP_SYN_SENT;
		probe->first_seq = tcp_sk(sk)->snd_una;
	}
	if (!probe->first_rcv && tcp_sk(sk)->rcv_nxt)
		probe->first_rcv = tcp_sk(sk)->rcv_nxt;
	return probe;
}

static void probe_head(const struct probe *probe, const char *operation, const char *which)
{
	pr_err("PROBE %s %u %s %s", probe->is_client ? "client" : "server", probe->calls, operation, which);
}

/* Returns whether to print what the call itself was given, too. */
static bool probe_fields(struct sock *sk, const char *operation)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct probe *probe = probe_begin(sk);

	if (++probe->calls > MOST_CALLS)
		return false;

	probe_head(probe, operation, "sock");
	PLAIN("sk_state", sk->sk_state);
	PLAIN("sk_pacing_rate", sk->sk_pacing_rate);
	PLAIN("sk_max_pacing_rate", sk->sk_max_pacing_rate);
	PLAIN("sk_pacing_status", sk->sk_pacing_status);
	PLAIN("sk_gso_max_size", sk->sk_gso_max_size);
	PLAIN("sk_gso_max_segs", sk->sk_gso_max_segs);
	PLAIN("sk_pacing_shift", sk->sk_pacing_shift);
	PLAIN("sk_family", sk->sk_family);
	PLAIN("icsk_ca_state", icsk->icsk_ca_state);
	PLAIN("icsk_retransmits", icsk->icsk_retransmits);
	PLAIN("icsk_ack.pending", icsk->icsk_ack.pending);
	pr_cont("\n");

	probe_head(probe, operation, "window");
	PLAIN("snd_cwnd", tp->snd_cwnd);
	PLAIN("snd_cwnd_cnt", tp->snd_cwnd_cnt);
	PLAIN("snd_cwnd_clamp", tp->snd_cwnd_clamp);
	PLAIN("snd_ssthresh", tp->snd_ssthresh);
	PLAIN("prior_cwnd", tp->prior_cwnd);
	PLAIN("prior_ssthresh", tp->prior_ssthresh);
	PLAIN("snd_cwnd_used", tp->snd_cwnd_used);
	PLAIN("is_cwnd_limited", tp->is_cwnd_limited);
	PLAIN("max_packets_out", tp->max_packets_out);
	PLAIN("packets_out", tp->packets_out);
	PLAIN("sacked_out", tp->sacked_out);
	PLAIN("lost_out", tp->lost_out);
	PLAIN("retrans_out", tp->retrans_out);
	PLAIN("reordering", tp->reordering);
	PLAIN("is_sack_reneg", tp->is_sack_reneg);
	PLAIN("undo_retrans", tp->undo_retrans);
	PLAIN("mss_cache", tp->mss_cache);
	PLAIN("advmss", tp->advmss);
	PLAIN("snd_wnd", tp->snd_wnd);
	PLAIN("max_window", tp->max_window);
	PLAIN("ecn_flags", tp->ecn_flags);
	pr_cont("\n");

	probe_head(probe, operation, "counts");
	PLAIN("delivered", tp->delivered);
	PLAIN("delivered_ce", tp->delivered_ce);
	PLAIN("lost", tp->lost);
	PLAIN("app_limited", tp->app_limited);
	PLAIN("bytes_acked", tp->bytes_acked);
	PLAIN("data_segs_out", tp->data_segs_out);
	PLAIN("srtt_us", tp->srtt_us);
	PLAIN("min_rtt_us", tcp_min_rtt(tp));
	SEQ("snd_una", tp->snd_una, probe->first_seq);
	SEQ("snd_nxt", tp->snd_nxt, probe->first_seq);
	SEQ("write_seq", tp->write_seq, probe->first_seq);
	SEQ("pushed_seq", tp->pushed_seq, probe->first_seq);
	SEQ("high_seq", tp->high_seq, probe->first_seq);
	SEQ("tlp_high_seq", tp->tlp_high_seq, probe->first_seq);
	SEQ("undo_marker", tp->undo_marker, probe->first_seq);
	SEQ("rcv_nxt", tp->rcv_nxt, probe->first_rcv);
	/* Before the peer's first byte is known, only whether there is a number. */
	if (probe->first_rcv || !tp->snd_wl1)
		SEQ("snd_wl1", tp->snd_wl1, probe->first_rcv);
	else
		pr_cont(" snd_wl1=set");
	pr_cont("\n");

	probe_head(probe, operation, "times");
	AGE("lsndtime", tcp_jiffies32, tp->lsndtime);
	AGE("snd_cwnd_stamp", tcp_jiffies32, tp->snd_cwnd_stamp);
	AGE("delivered_mstamp", tp->tcp_mstamp, tp->delivered_mstamp);
	AGE("first_tx_mstamp", tp->tcp_mstamp, tp->first_tx_mstamp);
	/* In us: each reading of a guest's clock takes it 1 ns. */
	AGE("tcp_wstamp_ns", div_u64(tp->tcp_clock_cache, 1000), div_u64(tp->tcp_wstamp_ns, 1000));
	PLAIN("tcp_mstamp", (u64)tp->tcp_mstamp - div_u64(tp->tcp_clock_cache, 1000));
	/* Ticks of 1 ms. */
	AGE("rcv_tsecr", (u32)div_u64(tp->tcp_mstamp, 1000), tp->rx_opt.rcv_tsecr);
	pr_cont(" rcv_tsval=%s", tp->rx_opt.rcv_tsval ? "set" : "zero");
	pr_cont("\n");
	return true;
}

static u32 probe_ssthresh(struct sock *sk)
{
	probe_fields(sk, "ssthresh");
	return tcp_reno_ssthresh(sk);
}

static void probe_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct probe *probe = inet_csk_ca(sk);

	if (probe_fields(sk, "cong_avoid")) {
		probe_head(probe, "cong_avoid", "given");
		SEQ("ack", ack, probe->first_seq);
		PLAIN("acked", acked);
		pr_cont("\n");
	}
	tcp_reno_cong_avoid(sk, ack, acked);
}

static void probe_number(struct sock *sk, const char *operation, u32 number)
{
	struct probe *probe = inet_csk_ca(sk);

	if (!probe_fields(sk, operation))
		return;
	probe_head(probe, operation, "given");
	PLAIN("number", number);
	pr_cont("\n");
}

static void probe_set_state(struct sock *sk, u8 new_state)
{
	probe_number(sk, "set_state", new_state);
}

static void probe_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	probe_number(sk, "cwnd_event", event);
}

static void probe_in_ack_event(struct sock *sk, u32 flags)
{
	probe_number(sk, "in_ack_event", flags);
}

static void probe_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct probe *probe = inet_csk_ca(sk);

	if (!probe_fields(sk, "pkts_acked"))
		return;
	probe_head(probe, "pkts_acked", "given");
	PLAIN("pkts_acked", sample->pkts_acked);
	PLAIN("rtt_us", sample->rtt_us);
	PLAIN("in_flight", sample->in_flight);
	pr_cont("\n");
}

static void probe_sampled(struct sock *sk, const struct rate_sample *rs)
{
	struct probe *probe = inet_csk_ca(sk);

	if (!probe_fields(sk, "cong_control"))
		return;
	probe_head(probe, "cong_control", "sample");
	AGE("prior_mstamp", tcp_sk(sk)->tcp_mstamp, rs->prior_mstamp);
	PLAIN("prior_delivered", rs->prior_delivered);
	PLAIN("prior_delivered_ce", rs->prior_delivered_ce);
	PLAIN("delivered", rs->delivered);
	PLAIN("delivered_ce", rs->delivered_ce);
	PLAIN("interval_us", rs->interval_us);
	PLAIN("snd_interval_us", rs->snd_interval_us);
	PLAIN("rcv_interval_us", rs->rcv_interval_us);
	PLAIN("rtt_us", rs->rtt_us);
	PLAIN("losses", rs->losses);
	PLAIN("acked_sacked", rs->acked_sacked);
	PLAIN("prior_in_flight", rs->prior_in_flight);
	SEQ("last_end_seq", rs->last_end_seq, probe->first_seq);
	PLAIN("is_app_limited", rs->is_app_limited);
	PLAIN("is_retrans", rs->is_retrans);
	PLAIN("is_ack_delayed", rs->is_ack_delayed);
	pr_cont("\n");
}

static u32 probe_undo_cwnd(struct sock *sk)
{
	probe_fields(sk, "undo_cwnd");
	return tcp_reno_undo_cwnd(sk);
}

static void probe_init(struct sock *sk)
{
	probe_fields(sk, "init");
}

/* A listener has the module, too, and is released without having had a connection. */
static void probe_release(struct sock *sk)
{
	const struct probe *probe = inet_csk_ca(sk);

	if (probe->is_there)
		probe_fields(sk, "release");
}
