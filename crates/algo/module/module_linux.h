/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a congestion-control module uses of linux/ headers, for a module's source that is compiled for the
 * simulator. Names and meanings are the kernel's. What the simulator has nothing for is not here, so
 * that its use is an error of the compiler and never a value that means nothing.
 */
#ifndef KNEE_MODULE_LINUX_H
#define KNEE_MODULE_LINUX_H

#ifdef __bpf__
#include <knee/tcp.h>
#else
#include <knee/native_types.h>

typedef int8_t s8;
typedef int16_t s16;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s8 __s8;
typedef s16 __s16;
typedef s32 __s32;
typedef s64 __s64;
#endif

typedef unsigned char u_char;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned short ushort;
typedef s64 ktime_t;
typedef u32 gfp_t;

/* ---- the compiler ---- */

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define __pure		__attribute__((pure))
#define __attribute_const__ __attribute__((const))
#define __cold		__attribute__((cold))
#define __weak		__attribute__((weak))
#define __noreturn	__attribute__((noreturn))
#define __printf(a, b)	__attribute__((format(printf, a, b)))
#define __init
#define __exit
#define __initdata
#define __read_mostly
#define __ro_after_init
#ifndef __always_inline
#define __always_inline	inline __attribute__((always_inline))
#endif
#define noinline	__attribute__((noinline))
#define __maybe_unused	__attribute__((unused))
#define __always_unused	__attribute__((unused))
#define __used		__attribute__((used))
#define __packed	__attribute__((packed))
#define __aligned(n)	__attribute__((aligned(n)))
#define __must_check
#define __force
#define __user
#define __rcu
#define __percpu
#define ____cacheline_aligned
#define ____cacheline_aligned_in_smp
#define notrace
#define asmlinkage
#define fallthrough	__attribute__((fallthrough))
#define barrier()	__asm__ __volatile__("" : : : "memory")

/* One socket's calls never run side by side here, so plain accesses do. */
#define READ_ONCE(x)		(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value)	(*(volatile __typeof__(x) *)&(x) = (value))
#define smp_mb()		barrier()
#define smp_rmb()		barrier()
#define smp_wmb()		barrier()
#define smp_load_acquire(p)	READ_ONCE(*(p))
#define smp_store_release(p, v)	WRITE_ONCE(*(p), v)
#define cmpxchg(p, expected, wanted) ({						\
	__typeof__(p) p_ = (p);							\
	__typeof__(*p_) was_ = *p_;						\
	if (was_ == (__typeof__(*p_))(expected))				\
		*p_ = (__typeof__(*p_))(wanted);				\
	was_; })
#define xchg(p, value) ({							\
	__typeof__(p) p_ = (p);							\
	__typeof__(*p_) was_ = *p_;						\
	*p_ = (__typeof__(*p_))(value);						\
	was_; })

#define IS_ENABLED(option)	0
#define IS_BUILTIN(option)	0
#define IS_MODULE(option)	0
#define IS_REACHABLE(option)	0

/* ---- checks ---- */

#define BUILD_BUG_ON(condition)	_Static_assert(!(condition), "BUILD_BUG_ON: " #condition)
#define BUILD_BUG_ON_MSG(condition, message) _Static_assert(!(condition), message)
#define BUILD_BUG()		_Static_assert(0, "BUILD_BUG")
#define static_assert(condition, ...) _Static_assert(condition, #condition)

/* In support.c: one sentence on standard error, and the end. A kernel's BPF has neither, and goes on. */
#ifdef __bpf__
#define knee_bug(...)		do { } while (0)
#define memset			__builtin_memset
#define memcpy			__builtin_memcpy
#else
void knee_bug(const char *file, int line, const char *what) __attribute__((noreturn));
#endif

#define BUG()			knee_bug(__FILE__, __LINE__, "BUG")
#define BUG_ON(condition) do {							\
	if (unlikely(condition))						\
		knee_bug(__FILE__, __LINE__, "BUG_ON(" #condition ")");		\
} while (0)

#include <knee/module_print.h>

/* ---- arithmetic ---- */

#define U8_MAX		((u8)~0U)
#define U16_MAX		((u16)~0U)
#define U32_MAX		((u32)~0U)
#define S32_MAX		((s32)(U32_MAX >> 1))
#define S32_MIN		((s32)(-S32_MAX - 1))
#define U64_MAX		((u64)~0ULL)
#define S64_MAX		((s64)(U64_MAX >> 1))
#define S64_MIN		((s64)(-S64_MAX - 1))
#define U32_C(n)	n##U
#define U64_C(n)	n##ULL
#define S64_C(n)	n##LL
#define UINT_MAX	(~0U)
#define INT_MAX		((int)(~0U >> 1))
#define INT_MIN		(-INT_MAX - 1)
#define ULONG_MAX	(~0UL)
#define LONG_MAX	((long)(~0UL >> 1))
#define USHRT_MAX	((unsigned short)~0U)

#define BIT(n)			(1UL << (n))
#define BIT_ULL(n)		(1ULL << (n))
#define BITS_PER_BYTE		8
#define BITS_PER_TYPE(type)	(sizeof(type) * BITS_PER_BYTE)
#define BITS_PER_LONG		64
#define BITS_PER_LONG_LONG	64
#define GENMASK_ULL(high, low)	((~0ULL << (low)) & (~0ULL >> (63 - (high))))
#define GENMASK(high, low)	((~0UL << (low)) & (~0UL >> (8 * sizeof(long) - 1 - (high))))
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define sizeof_field(type, field) sizeof(((type *)0)->field)
#define FIELD_SIZEOF(type, field) sizeof_field(type, field)
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))

#define knee_pick(a, op, b) ({							\
	__typeof__(a) a_ = (a);							\
	__typeof__(b) b_ = (b);							\
	a_ op b_ ? a_ : b_; })
#define min(a, b)		knee_pick(a, <, b)
#define max(a, b)		knee_pick(a, >, b)
#define min_t(type, a, b)	knee_pick((type)(a), <, (type)(b))
#define max_t(type, a, b)	knee_pick((type)(a), >, (type)(b))
#define min3(a, b, c)		({ __typeof__(a) x_ = min(a, b); min(x_, c); })
#define max3(a, b, c)		({ __typeof__(a) x_ = max(a, b); max(x_, c); })
#define umin(a, b)		min_t(u64, a, b)
#define umax(a, b)		max_t(u64, a, b)
#define min_not_zero(a, b) ({							\
	__typeof__(a) x_ = (a);							\
	__typeof__(b) y_ = (b);							\
	x_ == 0 ? y_ : (y_ == 0 ? x_ : (x_ < y_ ? x_ : y_)); })
#define clamp_t(type, value, low, high) ({					\
	type low_ = (low), high_ = (high), value_ = (value);			\
	value_ < low_ ? low_ : (value_ > high_ ? high_ : value_); })
#define clamp(value, low, high)	clamp_t(__typeof__(value), value, low, high)
#define clamp_val(value, low, high) clamp(value, low, high)
#define swap(a, b) do { __typeof__(a) t_ = (a); (a) = (b); (b) = t_; } while (0)
/* As the kernel's: an unsigned number is taken for the signed one of its width, so abs(a - b) of two u32 is how far they are apart. */
static inline s32 knee_abs32(s32 x) { return x < 0 ? (s32)(0U - (u32)x) : x; }
static inline s64 knee_abs64(s64 x) { return x < 0 ? (s64)(0ULL - (u64)x) : x; }
#define abs(x) __builtin_choose_expr(sizeof(x) == 8, knee_abs64((s64)(x)),	\
	__builtin_choose_expr(sizeof(x) == 4, knee_abs32((s32)(x)),		\
	__builtin_choose_expr(sizeof(x) == 2, knee_abs32((short)(x)), knee_abs32((signed char)(x)))))
#define abs_diff(a, b) ({							\
	__typeof__(a) a_ = (a);							\
	__typeof__(b) b_ = (b);							\
	a_ > b_ ? a_ - b_ : b_ - a_; })

#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define DIV_ROUND_UP_ULL(n, d)	(((u64)(n) + (d) - 1) / (d))
/* Of a negative quotient, too. */
#define DIV_ROUND_CLOSEST(n, d) ({						\
	__typeof__(n) n_ = (n);							\
	__typeof__(d) d_ = (d);							\
	(__typeof__(n))-1 > 0 || (__typeof__(d))-1 > 0 || (n_ > 0) == (d_ > 0) ? \
		(n_ + d_ / 2) / d_ : (n_ - d_ / 2) / d_; })
#define roundup(n, step)	(((n) + (step) - 1) / (step) * (step))
#define rounddown(n, step)	((n) - (n) % (step))
#define round_up(n, power)	((((n) - 1) | ((__typeof__(n))((power) - 1))) + 1)
#define round_down(n, power)	((n) & ~((__typeof__(n))((power) - 1)))
#define ALIGN(n, power)		round_up(n, power)
#define mult_frac(x, n, d) ({							\
	__typeof__(x) whole_ = (x) / (d), rest_ = (x) % (d);			\
	whole_ * (n) + rest_ * (n) / (d); })

/* The kernel stops at a division by zero; so does this, and says where. */
#define knee_divisor(d) ({							\
	__typeof__(d) d_ = (d);							\
	if (unlikely(!d_))							\
		knee_bug(__FILE__, __LINE__, "division by zero: " #d);		\
	d_; })
#define do_div(n, base) ({							\
	u32 base_ = knee_divisor((u32)(base));					\
	u32 rest_ = (u32)((u64)(n) % base_);					\
	(n) = (u64)(n) / base_;							\
	rest_; })
#define div_u64(n, d)		((u64)(n) / knee_divisor((u32)(d)))
#define div64_u64(n, d)		((u64)(n) / knee_divisor((u64)(d)))
#define div64_ul(n, d)		((u64)(n) / knee_divisor((unsigned long)(d)))
#define div64_long(n, d)	((s64)(n) / knee_divisor((long)(d)))
#define div_s64(n, d)		((s64)(n) / knee_divisor((s32)(d)))
#define div64_s64(n, d)		((s64)(n) / knee_divisor((s64)(d)))
#define div_u64_rem(n, d, rest) ({						\
	u64 n_ = (n);								\
	u32 by_ = knee_divisor((u32)(d));					\
	*(rest) = (u32)(n_ % by_);						\
	n_ / by_; })
#define div64_u64_rem(n, d, rest) ({						\
	u64 n_ = (n), by_ = knee_divisor((u64)(d));				\
	*(rest) = n_ % by_;							\
	n_ / by_; })
#define mul_u32_u32(a, b)	((u64)(u32)(a) * (u32)(b))
#define mul_u64_u32_shr(a, b, shift) ((u64)(((unsigned __int128)(u64)(a) * (u32)(b)) >> (shift)))
#define mul_u64_u64_shr(a, b, shift) ((u64)(((unsigned __int128)(u64)(a) * (u64)(b)) >> (shift)))
#define mul_u64_u32_div(a, b, d) ((u64)((unsigned __int128)(u64)(a) * (u32)(b) / knee_divisor((u32)(d))))
#define mul_u64_u64_div_u64(a, b, d)						\
	((u64)((unsigned __int128)(u64)(a) * (u64)(b) / knee_divisor((u64)(d))))
#define div_s64_rem(n, d, rest) ({						\
	s64 n_ = (n);								\
	s32 by_ = knee_divisor((s32)(d));					\
	*(rest) = (s32)(n_ % by_);						\
	n_ / by_; })
#define DIV64_U64_ROUND_UP(n, d) ({						\
	u64 by_ = (d);								\
	div64_u64((n) + by_ - 1, by_); })
#define DIV_U64_ROUND_UP(n, d)	DIV64_U64_ROUND_UP(n, (u32)(d))
#define DIV64_U64_ROUND_CLOSEST(n, d) ({					\
	u64 by_ = (d);								\
	div64_u64((n) + by_ / 2, by_); })
#define DIV_U64_ROUND_CLOSEST(n, d) DIV64_U64_ROUND_CLOSEST(n, (u32)(d))
#define DIV_ROUND_CLOSEST_ULL(n, d) DIV64_U64_ROUND_CLOSEST(n, d)
#define DIV_ROUND_DOWN_ULL(n, d) div64_u64(n, d)
#define check_add_overflow(a, b, to)	__builtin_add_overflow(a, b, to)
#define check_sub_overflow(a, b, to)	__builtin_sub_overflow(a, b, to)
#define check_mul_overflow(a, b, to)	__builtin_mul_overflow(a, b, to)
#define in_range(value, start, count)	((value) - (start) < (count))
#define lower_32_bits(n)	((u32)(n))
#define upper_32_bits(n)	((u32)((u64)(n) >> 32))

static inline int fls(u32 x)
{
	return x ? 32 - __builtin_clz(x) : 0;
}

static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

static inline int ffs(int x)
{
	return __builtin_ffs(x);
}

#define __fls(x)		((unsigned long)fls64(x) - 1)
#define __ffs(x)		((unsigned long)__builtin_ctzl(x))
#define hweight32(x)		((unsigned int)__builtin_popcount(x))
#define hweight64(x)		((unsigned long)__builtin_popcountll(x))
/* Also of a constant in a table: the loop of fls() would be none there. */
#define ilog2(x)		((int)(63 - __builtin_clzll((u64)(x) | 1)))
#define order_base_2(x)		((x) > 1 ? fls64((u64)(x) - 1) : 0)
#define bits_per(x)		((x) ? fls64(x) : 1)
#define is_power_of_2(x)	((x) != 0 && ((x) & ((x) - 1)) == 0)
#define roundup_pow_of_two(x)	((x) <= 1 ? 1UL : 1UL << fls64((x) - 1))
#define rounddown_pow_of_two(x)	(1UL << (fls64(x) - 1))

/* Largest r with r * r <= x. */
static inline unsigned long int_sqrt(unsigned long x)
{
	unsigned long root = 0;
	int bit;

	for (bit = 31; bit >= 0; bit--) {
		unsigned long next = root | (1UL << bit);

		if (next <= x / next)
			root = next;
	}
	return root;
}

#define int_sqrt64(x)		((u32)int_sqrt(x))

static inline u64 int_pow(u64 base, unsigned int exponent)
{
	u64 product = 1;

	for (; exponent; exponent >>= 1, base *= base)
		if (exponent & 1)
			product *= base;
	return product;
}

/* ---- bits of words ---- */

#define BITS_TO_LONGS(bits)	DIV_ROUND_UP(bits, BITS_PER_LONG)
#define DECLARE_BITMAP(name, bits) unsigned long name[BITS_TO_LONGS(bits)]
#define set_bit(bit, words)	((void)((words)[(bit) / BITS_PER_LONG] |= BIT((bit) % BITS_PER_LONG)))
#define clear_bit(bit, words)	((void)((words)[(bit) / BITS_PER_LONG] &= ~BIT((bit) % BITS_PER_LONG)))
#define test_bit(bit, words)	(!!((words)[(bit) / BITS_PER_LONG] & BIT((bit) % BITS_PER_LONG)))
#define __set_bit(bit, words)	set_bit(bit, words)
#define __clear_bit(bit, words)	clear_bit(bit, words)

/* ---- errors ---- */

#define EPERM		1
#define ENOENT		2
#define ENOMEM		12
#define EBUSY		16
#define EEXIST		17
#define EINVAL		22
#define ERANGE		34
#define EOPNOTSUPP	95
#define ENOBUFS		105

/* ---- time units ---- */

#define MSEC_PER_SEC	1000L
#define USEC_PER_MSEC	1000L
#define NSEC_PER_USEC	1000L
#define NSEC_PER_MSEC	1000000L
#define USEC_PER_SEC	1000000L
#define NSEC_PER_SEC	1000000000L

#define time_after(a, b)	((long)((b) - (a)) < 0)
#define time_before(a, b)	time_after(b, a)
#define time_after_eq(a, b)	((long)((a) - (b)) >= 0)
#define time_before_eq(a, b)	time_after_eq(b, a)
#define time_after32(a, b)	((s32)((u32)(b) - (u32)(a)) < 0)
#define time_before32(a, b)	time_after32(b, a)
#define time_between32(t, low, high) ((u32)(high) - (u32)(low) >= (u32)(t) - (u32)(low))

#define ktime_to_ns(t)		((s64)(t))
#define ktime_to_us(t)		((s64)(t) / NSEC_PER_USEC)
#define ktime_to_ms(t)		((s64)(t) / NSEC_PER_MSEC)
#define ns_to_ktime(ns)		((ktime_t)(ns))
#define us_to_ktime(us)		((ktime_t)(us) * NSEC_PER_USEC)
#define ms_to_ktime(ms)		((ktime_t)(ms) * NSEC_PER_MSEC)
#define ktime_set(s, ns)	((ktime_t)(s) * NSEC_PER_SEC + (ns))
#define ktime_add(a, b)		((ktime_t)(a) + (b))
#define ktime_sub(a, b)		((ktime_t)(a) - (b))
#define ktime_add_us(t, us)	((ktime_t)(t) + (s64)(us) * NSEC_PER_USEC)
#define ktime_add_ns(t, ns)	((ktime_t)(t) + (s64)(ns))
#define ktime_us_delta(a, b)	ktime_to_us(ktime_sub(a, b))
#define ktime_ms_delta(a, b)	ktime_to_ms(ktime_sub(a, b))
#define ktime_after(a, b)	((a) > (b))
#define ktime_before(a, b)	((a) < (b))

/* ---- memory: given back when the module goes, at the latest ---- */

#ifndef __bpf__
void *knee_alloc(size_t bytes);
void knee_free(const void *p);
#endif

#define GFP_KERNEL	0u
#define GFP_ATOMIC	0u
#define GFP_NOWAIT	0u
#define __GFP_NOWARN	0u
#define __GFP_ZERO	0u
#define kmalloc(bytes, flags)		((void)(flags), knee_alloc(bytes))
#define kzalloc(bytes, flags)		((void)(flags), knee_alloc(bytes))
#define kcalloc(n, bytes, flags)	((void)(flags), knee_alloc((size_t)(n) * (bytes)))
#define kmalloc_array(n, bytes, flags)	kcalloc(n, bytes, flags)
#define kvmalloc(bytes, flags)		kmalloc(bytes, flags)
#define kvzalloc(bytes, flags)		kzalloc(bytes, flags)
#define vmalloc(bytes)			knee_alloc(bytes)
#define vzalloc(bytes)			knee_alloc(bytes)
/* By the type, or a value of it; newer kernels leave the flags out where they are the usual ones. */
#define kmalloc_obj(object, ...)	((__typeof__(object) *)knee_alloc(sizeof(__typeof__(object))))
#define kzalloc_obj(object, ...)	kmalloc_obj(object)
#define kmalloc_objs(object, n, ...)						\
	((__typeof__(object) *)knee_alloc((size_t)(n) * sizeof(__typeof__(object))))
#define kzalloc_objs(object, n, ...)	kmalloc_objs(object, n)
#define kmemdup(from, bytes, flags) ({						\
	size_t bytes_ = (bytes);						\
	void *copy_ = kmalloc(bytes_, flags);					\
	copy_ ? memcpy(copy_, from, bytes_) : NULL; })
#define struct_size(p, member, n) (sizeof(*(p)) + sizeof((p)->member[0]) * (n))
#define kfree(p)			knee_free(p)
#define kvfree(p)			knee_free(p)
#define vfree(p)			knee_free(p)
#define kfree_sensitive(p)		knee_free(p)
#define kfree_rcu(p, ...)		knee_free(p)

/* ---- counters that a module may share among connections ---- */

typedef struct { int counter; } atomic_t;
typedef struct { s64 counter; } atomic64_t;

#define ATOMIC_INIT(n)		{ (n) }
#define atomic_read(v)		((v)->counter)
#define atomic_set(v, n)	((void)((v)->counter = (n)))
#define atomic_inc(v)		((void)(v)->counter++)
#define atomic_dec(v)		((void)(v)->counter--)
#define atomic_add(n, v)	((void)((v)->counter += (n)))
#define atomic_sub(n, v)	((void)((v)->counter -= (n)))
#define atomic_inc_return(v)	(++(v)->counter)
#define atomic_dec_return(v)	(--(v)->counter)
#define atomic_add_return(n, v)	((v)->counter += (n))
#define atomic64_read(v)	atomic_read(v)
#define atomic64_set(v, n)	atomic_set(v, n)
#define atomic64_inc(v)		atomic_inc(v)
#define atomic64_add(n, v)	atomic_add(n, v)

typedef struct { int held; } spinlock_t;

#define DEFINE_SPINLOCK(name)	spinlock_t name = { 0 }
#define spin_lock_init(lock)	((void)(lock))
#define spin_lock(lock)		((void)(lock))
#define spin_unlock(lock)	((void)(lock))
#define spin_lock_bh(lock)	((void)(lock))
#define spin_unlock_bh(lock)	((void)(lock))
#define spin_lock_irqsave(lock, flags)		((void)(lock), (void)((flags) = 0))
#define spin_unlock_irqrestore(lock, flags)	((void)(lock), (void)(flags))

struct mutex {
	int held;
};

#define DEFINE_MUTEX(name)	struct mutex name = { 0 }
#define mutex_init(lock)	((void)(lock))
#define mutex_lock(lock)	((void)(lock))
#define mutex_unlock(lock)	((void)(lock))
#define rcu_dereference(p)	(p)
#define rcu_assign_pointer(p, v) ((void)((p) = (v)))
#define synchronize_rcu()	do { } while (0)

/* One socket's calls never run side by side, so one of each is enough. */
#define DEFINE_PER_CPU(type, name)	__typeof__(type) name
#define DECLARE_PER_CPU(type, name)	extern __typeof__(type) name
#define this_cpu_ptr(p)		(p)
#define this_cpu_inc(variable)	((void)(variable)++)
#define this_cpu_add(variable, n) ((void)((variable) += (n)))
#define this_cpu_read(variable)	(variable)
#define per_cpu(variable, cpu)	(*((void)(cpu), &(variable)))
#define smp_processor_id()	0
#define rcu_read_lock()		do { } while (0)
#define rcu_read_unlock()	do { } while (0)

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD_INIT(name)	{ &(name), &(name) }
#define LIST_HEAD(name)		struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list->prev = list;
}

static inline void knee_list_put(struct list_head *entry, struct list_head *prev, struct list_head *next)
{
	entry->prev = prev;
	entry->next = next;
	prev->next = next->prev = entry;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	knee_list_put(entry, head, head->next);
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	knee_list_put(entry, head->prev, head);
}

static inline void list_del(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
}

static inline void list_del_init(struct list_head *entry)
{
	list_del(entry);
	INIT_LIST_HEAD(entry);
}

static inline int list_empty(const struct list_head *head)
{
	return head->next == head;
}

#define list_entry(p, type, member)	container_of(p, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member) list_entry((head)->prev, type, member)
#define list_next_entry(at, member)	list_entry((at)->member.next, __typeof__(*(at)), member)
#define list_for_each_entry(at, head, member)					\
	for (at = list_first_entry(head, __typeof__(*at), member);		\
	     &at->member != (head); at = list_next_entry(at, member))
#define list_for_each_entry_safe(at, next_, head, member)			\
	for (at = list_first_entry(head, __typeof__(*at), member),		\
	     next_ = list_next_entry(at, member);				\
	     &at->member != (head); at = next_, next_ = list_next_entry(next_, member))

#include <knee/module_more.h>
#include <knee/module_param.h>

#endif
