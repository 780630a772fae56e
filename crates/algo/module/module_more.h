/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * More names of linux/ headers that modules outside the kernel tree use: comparisons of times, conversions of
 * clocks, bits of words, counters, lists. All say the same as in the kernel.
 */
#ifndef KNEE_MODULE_MORE_H
#define KNEE_MODULE_MORE_H

/* ---- times against now, and of 64 bits ---- */

#define time_is_before_jiffies(t)	time_after(jiffies, t)
#define time_is_after_jiffies(t)	time_before(jiffies, t)
#define time_is_before_eq_jiffies(t)	time_after_eq(jiffies, t)
#define time_is_after_eq_jiffies(t)	time_before_eq(jiffies, t)
#define time_in_range(t, low, high)	(time_after_eq(t, low) && time_before_eq(t, high))
#define time_in_range_open(t, low, high) (time_after_eq(t, low) && time_before(t, high))
#define time_after64(a, b)		((s64)((u64)(b) - (u64)(a)) < 0)
#define time_before64(a, b)		time_after64(b, a)
#define time_after_eq64(a, b)		((s64)((u64)(a) - (u64)(b)) >= 0)
#define time_before_eq64(a, b)		time_after_eq64(b, a)

#define secs_to_jiffies(s)		((unsigned long)(s) * cc_hz())
#define jiffies_to_nsecs(j)		((u64)jiffies_to_usecs(j) * 1000)
#define jiffies64_to_nsecs(j)		((u64)(j) * 1000000000ull / cc_hz())
#define jiffies64_to_msecs(j)		((u64)(j) * 1000 / cc_hz())
#define nsecs_to_jiffies64(ns)		((u64)nsecs_to_jiffies(ns))
#define jiffies_delta_to_msecs(j)	jiffies_to_msecs(max(0L, (long)(j)))
#define USEC_PER_JIFFY			(1000000u / cc_hz())
#define TICK_NSEC			(1000000000u / cc_hz())

/* Time stands while a packet is worked on, so all clocks say the same. */
#define ktime_get_raw()			ktime_get()
#define ktime_get_coarse()		ktime_get()
#define ktime_get_raw_ns()		ktime_get_ns()
#define ktime_get_coarse_ns()		ktime_get_ns()
#define ktime_get_mono_fast_ns()	ktime_get_ns()
#define ktime_compare(a, b)		((a) < (b) ? -1 : (a) > (b))
#define ktime_divns(t, ns)		((s64)(t) / (s64)knee_divisor((s64)(ns)))
#define ktime_add_ms(t, ms)		((ktime_t)(t) + (s64)(ms) * NSEC_PER_MSEC)
#define ktime_sub_ns(t, ns)		((ktime_t)(t) - (s64)(ns))
#define ktime_sub_us(t, us)		((ktime_t)(t) - (s64)(us) * NSEC_PER_USEC)
#define ktime_sub_ms(t, ms)		((ktime_t)(t) - (s64)(ms) * NSEC_PER_MSEC)

/* ---- arithmetic ---- */

#define U8_C(n)			n##U
#define U16_C(n)		n##U
#define S32_C(n)		n
#define S8_MAX			((s8)(U8_MAX >> 1))
#define S8_MIN			((s8)(-S8_MAX - 1))
#define S16_MAX			((s16)(U16_MAX >> 1))
#define S16_MIN			((s16)(-S16_MAX - 1))
#define LONG_MIN		(-LONG_MAX - 1)
#define LLONG_MAX		((long long)(~0ULL >> 1))
#define LLONG_MIN		(-LLONG_MAX - 1)
#define ULLONG_MAX		(~0ULL)
#define SIZE_MAX		(~(size_t)0)
#define CHAR_BIT		8
#define PAGE_SIZE		4096UL
#define L1_CACHE_BYTES		64

#define sector_div(n, base)	do_div(n, base)
#define reciprocal_scale(x, n)	((u32)(((u64)(u32)(x) * (u32)(n)) >> 32))
#define rol32(x, n)		((u32)((u32)(x) << ((n) & 31) | (u32)(x) >> (-(n) & 31)))
#define ror32(x, n)		((u32)((u32)(x) >> ((n) & 31) | (u32)(x) << (-(n) & 31)))
#define rol64(x, n)		((u64)((u64)(x) << ((n) & 63) | (u64)(x) >> (-(n) & 63)))
#define ror64(x, n)		((u64)((u64)(x) >> ((n) & 63) | (u64)(x) << (-(n) & 63)))
#define FIELD_GET(mask, x)	(((x) & (mask)) >> (__builtin_ffsll(mask) - 1))
#define FIELD_PREP(mask, x)	(((__typeof__(mask))(x) << (__builtin_ffsll(mask) - 1)) & (mask))
#define hweight8(x)		hweight32((u8)(x))
#define hweight16(x)		hweight32((u16)(x))
#define hweight_long(x)		hweight64(x)
#define ffz(x)			__ffs(~(unsigned long)(x))
#define test_and_set_bit(bit, words) ({						\
	bool was_ = test_bit(bit, words);					\
	set_bit(bit, words);							\
	was_; })
#define test_and_clear_bit(bit, words) ({					\
	bool was_ = test_bit(bit, words);					\
	clear_bit(bit, words);							\
	was_; })

#ifndef __bpf__

static inline unsigned long gcd(unsigned long a, unsigned long b)
{
	while (b) {
		unsigned long rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static inline unsigned long lcm(unsigned long a, unsigned long b)
{
	return a && b ? a / gcd(a, b) * b : 0;
}

#endif

/* ---- the compiler, and checks ---- */

#define ACCESS_ONCE(x)		(*(volatile __typeof__(x) *)&(x))
#define BUILD_BUG_ON_ZERO(condition) ((int)(sizeof(struct { int : (-!!(condition)); })))
#define BUILD_BUG_ON_NOT_POWER_OF_2(n) BUILD_BUG_ON((n) == 0 || (((n) & ((n) - 1)) != 0))
#define might_sleep()		do { } while (0)
#define cpu_relax()		barrier()
#define prefetch(p)		((void)(p))
#define prefetchw(p)		((void)(p))
#define __bitwise
#define __nocast
#define __read_only
#define __cacheline_aligned
#define __randomize_layout
#define __nonstring
#define __same_type(a, b)	__builtin_types_compatible_p(__typeof__(a), __typeof__(b))
#define smp_mb__before_atomic()	barrier()
#define smp_mb__after_atomic()	barrier()

#define MAX_ERRNO		4095
#define IS_ERR_VALUE(x)		((unsigned long)(x) >= (unsigned long)-MAX_ERRNO)
#define IS_ERR(p)		IS_ERR_VALUE(p)
#define IS_ERR_OR_NULL(p)	(!(p) || IS_ERR(p))
#define PTR_ERR(p)		((long)(p))
#define ERR_PTR(error)		((void *)(long)(error))

#define EINTR			4
#define EIO			5
#define EAGAIN			11
#define EACCES			13
#define ENODEV			19
#define ENOSPC			28
#define EDOM			33
#define ENOSYS			38
#define ENODATA			61
#define EOVERFLOW		75
#define EMSGSIZE		90
#define ENOTSUPP		524

/* ---- counters, locks, and the one CPU ---- */

#define ATOMIC64_INIT(n)		{ (n) }
#define atomic_fetch_add(n, v)		(atomic_add_return(n, v) - (n))
#define atomic_fetch_sub(n, v)		(atomic_sub_return(n, v) + (n))
#define atomic_fetch_inc(v)		((v)->counter++)
#define atomic_fetch_dec(v)		((v)->counter--)
#define atomic_sub_return(n, v)		((v)->counter -= (n))
#define atomic_dec_and_test(v)		(--(v)->counter == 0)
#define atomic_inc_and_test(v)		(++(v)->counter == 0)
#define atomic_sub_and_test(n, v)	(atomic_sub_return(n, v) == 0)
#define atomic_xchg(v, n)		xchg(&(v)->counter, n)
#define atomic_cmpxchg(v, old, new_)	cmpxchg(&(v)->counter, old, new_)
#define atomic_add_unless(v, n, not) ({						\
	bool adds_ = (v)->counter != (not);					\
	if (adds_)								\
		(v)->counter += (n);						\
	adds_; })
#define atomic_inc_not_zero(v)		atomic_add_unless(v, 1, 0)
#define atomic_try_cmpxchg(v, old, new_) try_cmpxchg(&(v)->counter, old, new_)
#define atomic64_dec(v)			atomic_dec(v)
#define atomic64_sub(n, v)		atomic_sub(n, v)
#define atomic64_inc_return(v)		atomic_inc_return(v)
#define atomic64_dec_return(v)		atomic_dec_return(v)
#define atomic64_add_return(n, v)	atomic_add_return(n, v)
#define atomic64_sub_return(n, v)	atomic_sub_return(n, v)
#define atomic64_fetch_add(n, v)	atomic_fetch_add(n, v)
#define atomic64_xchg(v, n)		atomic_xchg(v, n)
#define atomic64_cmpxchg(v, old, new_)	atomic_cmpxchg(v, old, new_)
typedef atomic64_t atomic_long_t;
#define ATOMIC_LONG_INIT(n)		{ (n) }
#define atomic_long_read(v)		atomic_read(v)
#define atomic_long_set(v, n)		atomic_set(v, n)
#define atomic_long_inc(v)		atomic_inc(v)
#define atomic_long_dec(v)		atomic_dec(v)
#define atomic_long_add(n, v)		atomic_add(n, v)
#define atomic_long_sub(n, v)		atomic_sub(n, v)
#define atomic_long_inc_return(v)	atomic_inc_return(v)
#define try_cmpxchg(p, old, wanted) ({						\
	__typeof__(p) at_ = (p);						\
	bool is_ = *at_ == *(old);						\
	if (is_)								\
		*at_ = (wanted);						\
	else									\
		*(old) = *at_;							\
	is_; })
#define cmpxchg_relaxed(p, expected, wanted)	cmpxchg(p, expected, wanted)

#define spin_trylock(lock)		((void)(lock), 1)
#define spin_lock_irq(lock)		((void)(lock))
#define spin_unlock_irq(lock)		((void)(lock))
#define mutex_trylock(lock)		((void)(lock), 1)
#define local_bh_disable()		do { } while (0)
#define local_bh_enable()		do { } while (0)
#define preempt_disable()		do { } while (0)
#define preempt_enable()		do { } while (0)
#define rcu_read_lock_bh()		do { } while (0)
#define rcu_read_unlock_bh()		do { } while (0)
#define rcu_access_pointer(p)		(p)
#define rcu_dereference_protected(p, condition)	(p)
#define rcu_dereference_bh(p)		(p)
#define RCU_INIT_POINTER(p, v)		((void)((p) = (v)))

#define per_cpu_ptr(p, cpu)		((void)(cpu), (p))
#define raw_cpu_ptr(p)			(p)
#define get_cpu_ptr(p)			(p)
#define put_cpu_ptr(p)			((void)(p))
#define get_cpu()			0
#define put_cpu()			do { } while (0)
#define raw_smp_processor_id()		0
#define num_online_cpus()		1U
#define num_possible_cpus()		1U
#define nr_cpu_ids			1U
#define for_each_possible_cpu(cpu)	for ((cpu) = 0; (cpu) < 1; (cpu)++)
#define for_each_online_cpu(cpu)	for_each_possible_cpu(cpu)
#define __this_cpu_inc(variable)	this_cpu_inc(variable)
#define __this_cpu_add(variable, n)	this_cpu_add(variable, n)
#define __this_cpu_read(variable)	this_cpu_read(variable)
#define this_cpu_dec(variable)		((void)(variable)--)
#define this_cpu_write(variable, n)	((void)((variable) = (n)))
#define __this_cpu_write(variable, n)	this_cpu_write(variable, n)
#ifndef __bpf__
#define alloc_percpu(type)		((type *)knee_alloc(sizeof(type)))
#define free_percpu(p)			knee_free(p)
#endif

/* ---- lists ---- */

static inline void __list_del_entry(struct list_head *entry)
{
	list_del(entry);
}

static inline void list_move(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add(entry, head);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add_tail(entry, head);
}

static inline int list_is_last(const struct list_head *entry, const struct list_head *head)
{
	return entry->next == head;
}

static inline int list_is_singular(const struct list_head *head)
{
	return !list_empty(head) && head->next == head->prev;
}

#define list_first_entry_or_null(head, type, member)				\
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_prev_entry(at, member)	list_entry((at)->member.prev, __typeof__(*(at)), member)
#define list_for_each(at, head)							\
	for (at = (head)->next; at != (head); at = at->next)
#define list_for_each_safe(at, next_, head)					\
	for (at = (head)->next, next_ = at->next; at != (head); at = next_, next_ = at->next)
#define list_for_each_entry_reverse(at, head, member)				\
	for (at = list_last_entry(head, __typeof__(*at), member);		\
	     &at->member != (head); at = list_prev_entry(at, member))
#define list_for_each_entry_rcu(at, head, member, ...) list_for_each_entry(at, head, member)
#define list_add_rcu(entry, head)	list_add(entry, head)
#define list_add_tail_rcu(entry, head)	list_add_tail(entry, head)
#define list_del_rcu(entry)		list_del(entry)

#endif
