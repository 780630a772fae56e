/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A running kernel as host: the structs below are views of the kernel's own, by name. Where a field
 * lies is found when the object is loaded (CO-RE), so one object fits kernels that lay it out
 * differently. What is a bit-field in the kernel is not declared here: it has an accessor.
 *
 * Each entry point is a BPF program of its own, which takes its arguments from an array; CC_OP hides
 * that, and that each leaves a record of the call while somebody traces (crates/bpf/src/record.h).
 */
#ifndef KNEE_BPF_H
#define KNEE_BPF_H

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "base_rtt.h"
#include "label.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	volatile u8 skc_state;		/* TCP_... */
};

struct sock {
	struct sock_common __sk_common;
	CC_SOCK_FIELDS(CC_MEMBER, CC_NO_MEMBER, CC_NO_MEMBER)
	u16 sk_gso_max_segs;
	u8 sk_pacing_shift;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	CC_ICSK_FIELDS(CC_MEMBER, CC_NESTED_MEMBER, CC_NO_MEMBER, CC_NO_MEMBER)
#ifdef KNEE_MODULE
	/* Of Linux modules, which read it as it stands: in every kernel the first bits of their byte. */
	u8 icsk_ca_state:5;
	const void *icsk_ca_ops;
#endif
	u64 icsk_ca_priv[13];		/* the algorithm's own 104 bytes */
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	CC_TCP_FIELDS(CC_MEMBER, CC_NO_MEMBER)
	struct minmax rtt_min;		/* us: see cc_min_rtt_us */
};

/* Only the bit-fields; the part of the name from ___ on is no part of the kernel's. */
struct inet_connection_sock___bits {
	u8 icsk_ca_state:5;
};

struct tcp_sock___bits {
	u8 is_cwnd_limited:1;
};

struct ack_sample {
	CC_ACK_SAMPLE_FIELDS(CC_MEMBER)
};

struct rate_sample {
	CC_RATE_SAMPLE_FIELDS(CC_MEMBER)
};

#pragma clang attribute pop

/* The operations. libbpf brings them into the running kernel's order, by name. */
struct tcp_congestion_ops {
	CC_OPERATIONS(CC_OPERATION_MEMBER)
	char name[16];
	u32 flags;			/* TCP_CONG_... */
	/* Kernels that have it call it instead of cwnd_event(CA_EVENT_TX_START). */
	void (*cwnd_event_tx_start)(struct sock *sk);
};

/* The kernel takes struct_ops programs under a licence compatible with its own only. */
char cc_license[] SEC("license") = "Dual BSD/GPL";

/*
 * Of an algorithm that is none of knee's own: the file that it was compiled from. Alone in its section, and
 * so in a map, which tells it of what is loaded.
 */
#ifdef CC_SOURCE_SHA256
const struct cc_source {
	char sha256[65];
	char file[64];
	u8 kind;			/* 1: looks at the flag of cong_control (see CC_BARE); 2: a Linux module */
} cc_source SEC(".rodata.source") = { CC_SOURCE_SHA256, CC_SOURCE_FILE, CC_SOURCE_KIND };
#endif

/* Without: for programs that look at sockets and are no algorithm. */
#ifndef CC_BARE
#include "record.h"
#else
#define CC_LOAD(i) kernel_ctx[i]
#define CC_RECORDED_void(name, call, args...) call
#define CC_RECORDED_u32(name, call, args...) return call
#define cc_record_ack(sk, rcv_nxt)		do { } while (0)
#define cc_record_rehash(sk)			do { } while (0)
#define cc_record_fallback(sk, name)		do { } while (0)
#define cc_record_given(sk, kind, value)	do { } while (0)
#define cc_record_module_given(kind, value)	do { } while (0)
#endif

/*
 * An entry point is an ordinary function, and a program that unpacks the arguments for it. Numbers
 * and pointers come as u64 alike, hence the silenced conversion; the function's own types apply.
 */
#define CC_ARGS1			(struct sock *)ctx[0]
#define CC_ARGS2			CC_ARGS1, ctx[1]
#define CC_ARGS3			CC_ARGS2, ctx[2]
#define CC_ARGS4			CC_ARGS3, ctx[3]
#define CC_ARGS(args...)		___bpf_apply(CC_ARGS, ___bpf_narg(args))
#define CC_LOADS1			CC_LOAD(0)
#define CC_LOADS2			CC_LOADS1, CC_LOAD(1)
#define CC_LOADS3			CC_LOADS2, CC_LOAD(2)
#define CC_LOADS4			CC_LOADS3, CC_LOAD(3)
#define CC_LOADS(args...)		___bpf_apply(CC_LOADS, ___bpf_narg(args))
#define CC_OP(type, name, args...)						\
	static __always_inline type name(args);					\
	_Pragma("clang diagnostic push")					\
	_Pragma("clang diagnostic ignored \"-Wint-conversion\"")		\
	SEC("struct_ops/" #name) __attribute__((always_inline)) type name##_prog(u64 *kernel_ctx) \
	{									\
		u64 ctx[] = { CC_LOADS(args) };					\
										\
		CC_RECORDED_##type(name, name(CC_ARGS(args)), args);		\
	}									\
	_Pragma("clang diagnostic pop")						\
	static __always_inline type name(args)

#define CC_FN(name) (void *)name##_prog

/*
 * What the flag of cong_control is where the kernel has none. With CC_BARE, the build that is only
 * looked at, it is a number that stays among the instructions if the algorithm looks at the flag: the
 * asm is not volatile. The build script looks for it.
 */
#define CC_NO_FLAG 0x67616c665f6f6e20
static __always_inline u64 cc_no_flag(void)
{
	u64 flag = 0;

#ifdef CC_BARE
	asm("%0 = %1 ll" : "=r"(flag) : "i"(CC_NO_FLAG));
#endif
	return flag;
}

/*
 * Where a kernel's operations differ from the contract, the loader puts these programs in their
 * place (crates/bpf/src/table.rs); else they are not loaded. They hand on to the operation that the
 * table names: it is constant, so the compiler sees which one and puts it in.
 *
 *   cc_tx_start  cwnd_event_tx_start(sk), which newer kernels have split off from cwnd_event
 *   cc_rs_only   cong_control(sk, rs) of kernels before 6.10. `ack` is what snd_una has become: of
 *                an ACK that is older cong_control does not hear.
 *   cc_note_init init(sk), for whoever asks which connections had one: it leaves a mark in the
 *                socket's storage. The map is made only where the program is loaded.
 */
#define CC_ALGORITHM(algorithm)							\
	extern const struct tcp_congestion_ops cc_ops_##algorithm;		\
	struct {								\
		__uint(type, CC_MAP_TYPE_SK_STORAGE);				\
		__uint(map_flags, CC_MAP_NO_PREALLOC);				\
		__type(key, int);						\
		__type(value, u32);						\
	} cc_init_called SEC(".maps");						\
	SEC("?struct_ops/cc_note_init") void cc_note_init_prog(u64 *ctx)	\
	{									\
		void (*init)(u64 *ctx) = (void *)cc_ops_##algorithm.init;	\
										\
		bpf_sk_storage_get(&cc_init_called, (struct sock *)ctx[0],	\
				   NULL, CC_SK_STORAGE_CREATE);			\
		if (init)							\
			init(ctx);						\
	}									\
	SEC("?struct_ops/cc_tx_start") void cc_tx_start_prog(u64 *ctx)		\
	{									\
		u64 full[] = { ctx[0], CA_EVENT_TX_START };			\
		void (*cwnd_event)(u64 *ctx) = (void *)cc_ops_##algorithm.cwnd_event; \
										\
		if (cwnd_event)							\
			cwnd_event(full);					\
	}									\
	SEC("?struct_ops/cc_rs_only") void cc_rs_only_prog(u64 *ctx)		\
	{									\
		u64 full[] = { ctx[0], ((struct tcp_sock *)ctx[0])->snd_una,	\
			       cc_no_flag(), ctx[1] };				\
		void (*cong_control)(u64 *ctx) = (void *)cc_ops_##algorithm.cong_control; \
										\
		if (cong_control)						\
			cong_control(full);					\
	}									\
	SEC(".struct_ops.link") const struct tcp_congestion_ops cc_ops_##algorithm

/*
 * Keeps the type of the state in the object's type information, through which others find its fields
 * in a loaded program; clang drops a type that is only cast to. libbpf loads nothing of this section.
 */
#define CC_STATE_LAYOUT(type) type cc_state_layout SEC("cc_state");

/* What a record holds of a state: all of one in socket storage, else nothing beside the private area. */
#ifndef CC_BARE
#define CC_SMALL_STATE_RECORDED							\
	static __always_inline void cc_take_large_state(u64 *to, struct sock *sk) \
	{									\
	}									\
	static __always_inline u32 cc_record_bytes(void)			\
	{									\
		return offsetof(struct cc_record, large_before);		\
	}
/* Zeroes until it exists. */
#define CC_LARGE_STATE_RECORDED(algorithm, state_type)				\
	_Static_assert(sizeof(state_type) <= CC_LARGE_STATE_MAX,		\
		       "state passes what a record has room for");		\
	static __always_inline void cc_take_large_state(u64 *to, struct sock *sk) \
	{									\
		const state_type *state =					\
			bpf_sk_storage_get(&cc_storage_##algorithm, sk, 0, 0);	\
										\
		if (state)							\
			__builtin_memcpy(to, state, sizeof(state_type));	\
		else								\
			__builtin_memset(to, 0, sizeof(state_type));		\
	}									\
	static __always_inline u32 cc_record_bytes(void)			\
	{									\
		return sizeof(struct cc_record);				\
	}
#else
#define CC_SMALL_STATE_RECORDED
#define CC_LARGE_STATE_RECORDED(algorithm, state_type)
#endif

#define CC_STATE(algorithm, type)						\
	CC_SMALL_STATE_RECORDED							\
	_Static_assert(sizeof(type) <= 104, "state passes the kernel's private area"); \
	CC_STATE_LAYOUT(type)							\
	static __always_inline type *cc_state(const struct sock *sk)		\
	{									\
		return (type *)((struct inet_connection_sock *)sk)->icsk_ca_priv; \
	}

/* A state that passes the private area lives in socket storage; NULL: none could be had. */
#define CC_LARGE_STATE(algorithm, state_type)					\
	struct {								\
		__uint(type, CC_MAP_TYPE_SK_STORAGE);				\
		__uint(map_flags, CC_MAP_NO_PREALLOC);				\
		__type(key, int);						\
		__type(value, state_type);					\
	} cc_storage_##algorithm SEC(".maps");					\
	CC_LARGE_STATE_RECORDED(algorithm, state_type)				\
	CC_STATE_LAYOUT(state_type)						\
	static __always_inline state_type *cc_state(const struct sock *sk)	\
	{									\
		return bpf_sk_storage_get(&cc_storage_##algorithm, (void *)sk, 0,	\
					  CC_SK_STORAGE_CREATE);		\
	}

#define CC_NO_STATE(algorithm) CC_SMALL_STATE_RECORDED

/* RTT without queues, us, as a policy says it; 0: unknown. */
#define CC_BASE_RTT								\
	CC_BASE_RTT_MAP;							\
	static __always_inline u32 cc_base_rtt_us(const struct sock *sk)	\
	{									\
		const struct cc_base_rtt *told =				\
			bpf_sk_storage_get(&cc_base_rtt, (void *)sk, NULL, 0);	\
		u32 base_rtt_us = told ? told->base_rtt_us : 0;			\
										\
		cc_record_given(sk, CC_GIVEN_BASE_RTT, base_rtt_us);		\
		return base_rtt_us;						\
	}

/*
 * Change the connection's transmit hash. The kernel lets no congestion control do so: what is counted
 * here becomes another IPv6 flow label in the program at the device (crates/bpf/programs/label.bpf.c).
 * The socket is locked, so nobody else counts.
 */
#define CC_REHASH								\
	CC_LABEL_MAP;								\
	static __always_inline void cc_rehash(struct sock *sk)			\
	{									\
		struct cc_label *label =					\
			bpf_sk_storage_get(&cc_label, sk, NULL, CC_SK_STORAGE_CREATE);	\
										\
		cc_record_rehash(sk);						\
		if (label)							\
			label->generation++;					\
	}

/*
 * What a loader is told of the parameters, which may know nothing of the algorithm but this object: of each
 * default, bounds and, with a zero behind each, name, choices and meaning (crates/bpf/src/outside). libbpf
 * loads nothing of this section.
 */
#define CC_PARAM_TEXTS(name, choices, meaning) #name "\0" choices "\0" meaning
#define CC_PARAM_TOLD(name, value, min, max, choices, meaning)			\
	struct {								\
		u32 numbers[3];							\
		char texts[sizeof(CC_PARAM_TEXTS(name, choices, meaning))];	\
	} __attribute__((packed)) name;
#define CC_PARAM_TELL(name, value, min, max, choices, meaning)			\
	{ { value, min, max }, CC_PARAM_TEXTS(name, choices, meaning) },
#define CC_PARAMS_TOLD(LIST)							\
	const struct { LIST(CC_PARAM_TOLD) } __attribute__((packed))		\
		cc_params_told SEC("cc_params") = { LIST(CC_PARAM_TELL) };

/*
 * Parameters are read-only data, in a section of their own that holds nothing else: the loader
 * writes them before the load, the verifier then knows them. The empty asm keeps the compiler from
 * believing the defaults.
 */
#define CC_PARAM_FIELD(name, value, min, max, choices, meaning) u32 name;
#define CC_PARAM_DEFAULT(name, value, min, max, choices, meaning) value,
#define CC_PARAMS(algorithm, LIST)						\
	CC_PARAMS_TOLD(LIST)							\
	struct algorithm##_params { LIST(CC_PARAM_FIELD) };			\
	const struct algorithm##_params cc_parameters SEC(".rodata.params") = {	\
		LIST(CC_PARAM_DEFAULT)						\
	};									\
	static __always_inline const struct algorithm##_params *cc_params(const struct sock *sk) \
	{									\
		const struct algorithm##_params *params = &cc_parameters;	\
										\
		asm volatile("" : "+r"(params));				\
		return params;							\
	}

#define CC_NO_PARAMS(algorithm)

/* Inside views are read from the private state by whoever looks; nothing runs per ACK for them. */
#define CC_DIAG(algorithm, LIST)
#define CC_NO_DIAG(algorithm)

/* ---- what the host decides ---- */

extern unsigned long CONFIG_HZ __kconfig;
#define HZ ((u32)CONFIG_HZ)

static __always_inline u32 cc_jiffies32(const struct sock *sk)
{
	u32 jiffies = (u32)bpf_jiffies64();

	cc_record_given(sk, CC_GIVEN_JIFFIES, jiffies);
	return jiffies;
}
#define tcp_jiffies32 cc_jiffies32(sk)

/* Uniform over 32 bits. */
static __always_inline u32 cc_random_u32(struct sock *sk)
{
	u32 drawn = bpf_get_prandom_u32();

	cc_record_given(sk, CC_GIVEN_RANDOM, drawn);
	return drawn;
}

/* Send a pure ACK for everything below rcv_nxt, with ECE as ecn_flags is now. */
static __always_inline void cc_send_ack(struct sock *sk, u32 rcv_nxt)
{
	cc_record_ack(sk, rcv_nxt);
	bpf_tcp_send_ack(sk, rcv_nxt);
}

#define SOL_TCP		6
#define TCP_CONGESTION	13

/*
 * Whom connections that leave are handed to, if the loader says so (the host's own default, so that
 * they lose nothing); empty: whom the algorithm names. And how many there were. Each in a section of
 * its own, as the parameters; objects whose algorithm never leaves have neither.
 */
static const volatile char cc_fallback_name[16] SEC(".rodata.default") = "";
static u64 cc_fallbacks SEC(".data.fallbacks") = 0;

/*
 * Leave this algorithm for another for the life of the connection, and stop sending ECT. Whoever the
 * loader named may be gone by now: then the algorithm's own choice, and what every kernel has.
 */
static __always_inline void cc_fallback(struct sock *sk, const char *name)
{
	long refused = 1;

	cc_record_fallback(sk, name);
	if (cc_fallback_name[0])
		refused = bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, (void *)cc_fallback_name,
					 sizeof(cc_fallback_name));
	if (refused)
		refused = bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, (void *)name,
					 __builtin_strlen(name) + 1);
	if (refused)
		refused = bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, "reno", sizeof("reno"));
	if (!refused)
		__sync_fetch_and_add(&cc_fallbacks, 1);
}

/* From Linux 6.4 on, the release in which programs may write app_limited. */
struct bpf_struct_ops_link;

/*
 * Rate samples count as limited by the application until so many packets are delivered. Before Linux
 * 6.4 this does nothing: the verifier never comes to see the write.
 */
static __always_inline void cc_set_app_limited(struct sock *sk, u32 delivered)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (bpf_core_type_exists(struct bpf_struct_ops_link))
		tp->app_limited = delivered;
	cc_record_given(sk, CC_GIVEN_APP_LIMITED, tp->app_limited);
}

#define TCP_CLOSE	7
#define TCP_LISTEN	10

/* ecn_flags of Linux 6.18 and later: accurate ECN was negotiated, instead of TCP_ECN_OK. */
#define TCP_ECN_MODE_ACCECN	16

/* Whether ECN was negotiated, or the connection does not exist yet and so cannot tell. */
static __always_inline bool cc_ecn_negotiated(const struct sock *sk)
{
	u8 state = sk->__sk_common.skc_state;

	return state == TCP_LISTEN || state == TCP_CLOSE ||
	       ((const struct tcp_sock *)sk)->ecn_flags & (TCP_ECN_OK | TCP_ECN_MODE_ACCECN);
}

/* ---- fields that the kernel keeps in its own way ---- */

static __always_inline u8 cc_ca_state(const struct sock *sk)
{
	const struct inet_connection_sock___bits *icsk = (const void *)sk;

	return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
}

static __always_inline bool cc_cwnd_limited_flag(const struct tcp_sock *tp)
{
	const struct tcp_sock___bits *bits = (const void *)tp;

	return BPF_CORE_READ_BITFIELD(bits, is_cwnd_limited);
}

/* Core's windowed minimum RTT, us. */
static __always_inline u32 cc_min_rtt_us(const struct tcp_sock *tp)
{
	return tp->rtt_min.s[0].v;
}

/* ---- kernel functions ---- */

extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked) __ksym;
extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;

/* What each gave goes into the record: from here on its name means the call and that. */
#define tcp_slow_start(tp, acked)						\
	cc_given_by(tp, CC_GIVEN_SLOW_START, tcp_slow_start(tp, acked))
#define tcp_cong_avoid_ai(tp, w, acked)						\
	(tcp_cong_avoid_ai(tp, w, acked), (void)cc_given_by(tp, CC_GIVEN_CONG_AVOID_AI, 0))
#define tcp_reno_ssthresh(sk)							\
	cc_given_by(sk, CC_GIVEN_RENO_SSTHRESH, tcp_reno_ssthresh(sk))
#define tcp_reno_undo_cwnd(sk)							\
	cc_given_by(sk, CC_GIVEN_RENO_UNDO_CWND, tcp_reno_undo_cwnd(sk))
#define tcp_reno_cong_avoid(sk, ack, acked)					\
	(tcp_reno_cong_avoid(sk, ack, acked), (void)cc_given_by(sk, CC_GIVEN_RENO_CONG_AVOID, 0))

static __always_inline u32 cc_given_by(const void *sk, u32 kind, u32 value)
{
	cc_record_given(sk, kind, value);
	return value;
}

/* ---- arithmetic that differs between the hosts ---- */

/* Quotient of two unsigned 64-bit values; 0 if the divisor is 0. */
static __always_inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return divisor ? dividend / divisor : 0;
}

static __always_inline u32 usecs_to_jiffies(u32 us)
{
	return ((u64)us * HZ + 999999) / 1000000;
}

static __always_inline u32 msecs_to_jiffies(u32 ms)
{
	return ((u64)ms * HZ + 999) / 1000;
}

#endif
