// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reno that calls, in its init, what modules outside the kernel tree call of the kernel's headers, and holds the values
 * against what they must be. It is written for kernels that ask tso_segs_goal, and counts how often they do.
 */
#include <linux/module.h>
#include <linux/version.h>
#include <linux/bitfield.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>
#include <asm/byteorder.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

struct more {
	u32	goals;
	u32	resets;
	struct list_head entry;
};

static LIST_HEAD(all);
static DEFINE_PER_CPU(u64, inits);
static DEFINE_SPINLOCK(lock);
static atomic64_t total = ATOMIC64_INIT(5);

#if HZ > 1
#error "HZ counts as 0 here"
#endif

static void more_arithmetic(struct sock *sk)
{
	u64 big = 1ull << 40;
	u64 rest;

	BUG_ON(rol32(0x80000001u, 1) != 3 || ror32(3, 1) != 0x80000001u || rol64(1, 63) >> 63 != 1 || rol32(7, 0) != 7);
	BUG_ON(FIELD_GET(GENMASK(7, 4), 0xabc) != 0xb || FIELD_PREP(GENMASK(7, 4), 0xb) != 0xb0);
	BUG_ON(gcd(12, 18) != 6 || lcm(4, 6) != 12 || lcm(0, 3) != 0 || reciprocal_scale(0x80000000u, 10) != 5);
	BUG_ON(mul_u64_u64_shr(big, big, 40) != big || mul_u64_u32_shr(big, 3, 1) != 3 * (big >> 1));
	BUG_ON(BITS_PER_TYPE(u16) != 16 || S16_MIN != -32768 || S8_MAX != 127 || LLONG_MAX < S64_MAX);
	BUG_ON(div64_u64_rem(17, 5, &rest) != 3 || rest != 2 || ffz(7) != 3 || hweight8(0x1ff) != 8);
	BUG_ON(TCP_RTO_MIN * 5 != HZ || tcp_ca_needs_ecn(sk));
	BUG_ON(tcp_mtu_to_mss(sk, tcp_mss_to_mtu(sk, 1000)) != 1000);
}

static void more_times(struct sock *sk)
{
	unsigned long now = jiffies;

	BUG_ON(time_is_before_jiffies(now + 1) || !time_is_before_jiffies(now - 1));
	BUG_ON(time_is_after_jiffies(now) || !time_is_after_jiffies(now + 1) || !time_is_before_eq_jiffies(now));
	BUG_ON(!time_in_range(now, now, now) || time_in_range_open(now, now - 1, now));
	BUG_ON(time_after64(1, 2) || !time_before64(1, 2) || !time_after_eq64(2, 2) || !time_before_eq64(2, 2));
	BUG_ON(secs_to_jiffies(2) != 2 * HZ || jiffies_to_nsecs(HZ) != NSEC_PER_SEC);
	BUG_ON(jiffies_delta_to_msecs(-5) != 0 || USEC_PER_JIFFY * HZ != USEC_PER_SEC);
	BUG_ON(ktime_compare(1, 2) != -1 || ktime_divns(10, 3) != 3 || ktime_get_raw_ns() != ktime_get_ns());
}

static void more_counters(struct more *more)
{
	atomic_t v = ATOMIC_INIT(1);
	int old = 7;
	unsigned long word = 0;

	BUG_ON(atomic_fetch_add(2, &v) != 1 || atomic_read(&v) != 3 || atomic_xchg(&v, 7) != 3);
	BUG_ON(!atomic_try_cmpxchg(&v, &old, 8) || atomic_try_cmpxchg(&v, &old, 9) || old != 8);
	BUG_ON(atomic_add_unless(&v, 1, 8) || !atomic_inc_not_zero(&v) || atomic_dec_and_test(&v));
	BUG_ON(atomic64_fetch_add(3, &total) < 5 || test_and_set_bit(3, &word) || !test_and_clear_bit(3, &word));
	BUG_ON(!spin_trylock(&lock) || num_online_cpus() != 1);
	spin_unlock(&lock);
	this_cpu_inc(inits);
	BUG_ON(*per_cpu_ptr(&inits, get_cpu()) != this_cpu_read(inits));
	put_cpu();
	BUG_ON(!IS_ERR(ERR_PTR(-EAGAIN)) || PTR_ERR(ERR_PTR(-EAGAIN)) != -EAGAIN || IS_ERR_OR_NULL(more));
	BUG_ON(BUILD_BUG_ON_ZERO(0));
}

static void more_lists(struct more *more)
{
	struct more *other;
	struct list_head *at, *next;
	u32 forward = 0, back = 0;

	list_add_tail(&more->entry, &all);
	list_for_each(at, &all)
		forward++;
	list_for_each_entry_reverse(other, &all, entry)
		back++;
	BUG_ON(forward != back || !list_is_last(&more->entry, &all));
	list_move(&more->entry, &all);
	BUG_ON(list_first_entry_or_null(&all, struct more, entry) != more);
	list_for_each_safe(at, next, &all)
		back--;
	BUG_ON(back || list_is_singular(&all) != (forward == 1));
}

static void more_init(struct sock *sk)
{
	struct more *more = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	tp->snd_cwnd_clamp = min_t(u32, tp->snd_cwnd_clamp, 50);
	sk_pacing_shift_update(sk, 9);
	BUG_ON(sk->sk_pacing_shift != 9 || tcp_wnd_end(tp) != tp->snd_una + tp->snd_wnd);
	more_arithmetic(sk);
	more_times(sk);
	more_counters(more);
	more_lists(more);
}

static void more_release(struct sock *sk)
{
	struct more *more = inet_csk_ca(sk);

	list_del(&more->entry);
}

static u32 more_tso_segs_goal(struct sock *sk)
{
	struct more *more = inet_csk_ca(sk);

	more->goals++;
	return 3;
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(4, 7, 0)
static void more_pkts_acked(struct sock *sk, u32 acked, s32 rtt_us)
{
}
#else
static void more_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
}
#endif

static struct tcp_congestion_ops more_names __read_mostly = {
	.init		= more_init,
	.release	= more_release,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.pkts_acked	= more_pkts_acked,
	.tso_segs_goal	= more_tso_segs_goal,
	.owner		= THIS_MODULE,
	.name		= "more_names",
};

static int __init more_register(void)
{
	BUILD_BUG_ON(sizeof(struct more) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&more_names);
}

static void __exit more_unregister(void)
{
	tcp_unregister_congestion_control(&more_names);
}

module_init(more_register);
module_exit(more_unregister);
MODULE_LICENSE("Dual BSD/GPL");
