/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A running kernel as host of a module's source: what of module_net.h is the simulator's there. The
 * sockets are views of the kernel's own (bpf.h of the contract), which BPF may read, and write only where the
 * kernel lets a congestion control.
 */
#ifndef KNEE_MODULE_BPF_H
#define KNEE_MODULE_BPF_H

#define cc_hz()			((u32)CONFIG_HZ)

/* What a call is given goes into its record, as of an algorithm on the contract; which socket's call it is, is known there (record.h). */
static __always_inline u32 knee_given(u32 kind, u32 value)
{
	cc_record_module_given(kind, value);
	return value;
}

static __always_inline u64 knee_given_u64(u32 kind, u64 value)
{
	knee_given(kind, (u32)value);
	knee_given(CC_GIVEN_UPPER_HALF, (u32)(value >> 32));
	return value;
}

#define knee_jiffies32()	knee_given(CC_GIVEN_JIFFIES, (u32)bpf_jiffies64())
#define knee_jiffies()		knee_given_u64(CC_GIVEN_JIFFIES, bpf_jiffies64())
#define knee_random_u32()	knee_given(CC_GIVEN_RANDOM, bpf_get_prandom_u32())

/* Where the kernel has it. */
#define sk_state		__sk_common.skc_state

static inline u64 tcp_clock_us(void)
{
	return knee_given_u64(CC_GIVEN_CLOCK_US, bpf_ktime_get_ns() / 1000);
}

/* Nobody reads counters of the network namespace here. */
#define NET_INC_STATS(net, field)		do { } while (0)
#define NET_ADD_STATS(net, field, value)	do { } while (0)
#define __NET_INC_STATS(net, field)		do { } while (0)

/* Of parameters with functions of their own the loader knows the bounds (src/module/for_bpf.rs), and calls nothing. */
#define kernel_param			knee_bpf_param
#define kernel_param_ops		knee_bpf_param_ops
#define param_set_uint_minmax(...)	0
#define param_get_int			knee_bpf_param_get
#define param_get_uint			knee_bpf_param_get
#undef module_param_cb
/* The compiler must not take the variable for a constant. */
#define module_param_cb(name, functions, variable, permissions)			\
	static void *const knee_param_of_##name __attribute__((used, section("knee_params"))) = variable

struct kernel_param {
	const char *name;
};

struct kernel_param_ops {
	int (*set)(const char *value, const struct kernel_param *param);
	int (*get)(char *value, const struct kernel_param *param);
};

static inline int knee_bpf_param_get(char *value, const struct kernel_param *param)
{
	return 0;
}

/* A module's own table of Reno to fall back to is the kernel's Reno. */
#define knee_fall_back_to_reno(icsk)	cc_fallback((struct sock *)(icsk), "reno")

/* No program of sock_ops is asked from here: none knows. */
static inline int tcp_call_bpf(struct sock *sk, int operation, u32 count, u32 *arguments)
{
	cc_record_given(sk, CC_GIVEN_BASE_RTT, 0);
	return -1;
}

/*
 * What the verifier must be shown of a module's source (src/module/shown.rs). What had to be stopped is counted,
 * alone in its section: an index beyond its array, which was taken for 0, and a loop of so many turns.
 */
#define KNEE_MOST_TURNS		65536

static struct knee_stopped {
	u64 indices;
	u64 loops;
	u64 none;			/* 0, which the verifier does not know: a count from a known number never ends for it */
} knee_stopped SEC(".data.stopped") = { 0 };

/* The empty asm keeps the compiler from knowing better, and so from leaving out what the verifier needs. */
static __always_inline u64 knee_index(u64 index, u64 count)
{
	asm volatile("" : "+r"(index));
	if (index >= count) {
		__sync_fetch_and_add(&knee_stopped.indices, 1);
		index = 0;
	}
	return index;
}

/* One of few elements, each by its constant offset. */
static __always_inline void *knee_element(void *first, u64 bytes, u64 count, u64 index)
{
	u64 at;

_Pragma("clang loop unroll(full)")
	for (at = 1; at < count; at++) {
		void *element = first + at * bytes;

		if (index == at) {
			asm volatile("" : "+r"(element));
			return element;
		}
	}
	return first;
}

/* Arrays alone have a size: of what is behind a pointer nobody knows it, and the verifier judges. */
#define KNEE_IS_ARRAY(a) (!__builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0])))
#define KNEE_AT(a, index)							\
	((a)[KNEE_IS_ARRAY(a) ? knee_index(index, ARRAY_SIZE(a)) : (u64)(index)])
#define KNEE_AREA_AT(a, index) (*(__typeof__(&(a)[0]))(KNEE_IS_ARRAY(a) ?	\
	knee_element((void *)&(a)[0], sizeof((a)[0]), ARRAY_SIZE(a),		\
		     knee_index(index, ARRAY_SIZE(a))) : (void *)&(a)[index]))

/*
 * Whether a loop goes on. The instruction may_goto (since Linux 6.9), which leaves a loop that has gone on for too
 * long, lets the verifier take one whose end it cannot see; assemblers before clang 19 do not know its name.
 */
static __always_inline bool knee_goes_on(u64 turns)
{
	if (turns < KNEE_MOST_TURNS) {
		asm goto("1: .byte 0xe5; .byte 0; .long ((%l[stopped] - 1b - 8) / 8) & 0xffff; .short 0"
			 : : : : stopped);
		return true;
	}
stopped:
	__sync_fetch_and_add(&knee_stopped.loops, 1);
	return false;
}

/* Programs may not write the field. The call sets ssthresh, too, which they may. */
static __always_inline void knee_set_cwnd_clamp(struct tcp_sock *tp, u32 packets)
{
	int clamp = packets;
	u32 ssthresh = tp->snd_ssthresh;

	if (!bpf_setsockopt(tp, SOL_TCP, 1002 /* TCP_BPF_SNDCWND_CLAMP */, &clamp, sizeof(clamp)))
		tp->snd_ssthresh = ssthresh;
}

#define KNEE_WHILE(condition...)						\
	for (u64 knee_turns_ = READ_ONCE(knee_stopped.none); (condition) && knee_goes_on(knee_turns_); knee_turns_++)

#endif
