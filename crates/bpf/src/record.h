/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Recording, a part of every entry point; the algorithm files do not know. While cc_trace.state is
 * CC_TRACE_OFF it costs one load and a branch at the entry and at each value that the host gives.
 *
 * Around each call it notes what the call was given, what the socket held before and after, what the
 * call asked of the host, and what it returned: enough to make the same call natively and compare. Two
 * sockets may be in the same program at once, and a softirq may interrupt one call with another's, so a
 * record grows in the storage of its own socket and goes to the ring when complete.
 *
 * A record is whole or it is not sent: it belongs to the recording (cc_trace.number) in which its call
 * began, and where that is over when the call ends, the record is dropped and counted.
 *
 * The structs are mirrored by src/trace/raw.rs, which a test compares with the BTF of the objects.
 */
#ifndef KNEE_RECORD_H
#define KNEE_RECORD_H

#include "sock.h"

/* From the kernel's user API. */
#define BPF_MAP_TYPE_PERCPU_ARRAY	6
#define BPF_MAP_TYPE_ARRAY_OF_MAPS	12
#define BPF_MAP_TYPE_SK_STORAGE		24
#define BPF_MAP_TYPE_RINGBUF		27
#define BPF_F_NO_PREALLOC		1
#define BPF_SK_STORAGE_GET_F_CREATE	1
#define CC_AF_INET			2
#define CC_AF_INET6			10

enum cc_trace_state {
	CC_TRACE_OFF = 0,
	CC_TRACE_ON = 1,
	CC_TRACE_CLOSING = 2,		/* no new records; calls that are being recorded go on */
};

/*
 * The tracer's side, alone in its section, and so in a map, which the tracer maps into its memory. The
 * programs write `flows`, the counts of what was lost, and once the lease is over `state`.
 */
struct cc_trace {
	u32 state;
	u32 family;			/* of recorded sockets: CC_AF_...; 0: both */
	u64 owner;			/* during the lease: the tracer's process */
	u64 lease_ns;			/* monotonic clock: after that the tracer is taken for dead */
	u64 number;			/* of the recording */
	u64 flows;			/* sockets seen in it */
	u32 local_port;			/* of recorded sockets; 0: all */
	u32 remote_port;
	u32 remote[4];			/* prefix of the remote address, network order, IPv4 mapped; */
	u32 remote_mask[4];		/* its mask */
	u64 lost_ring_full;
	u64 lost_no_memory;		/* no room for the record of a socket */
	u64 lost_nested;		/* calls within a recorded call of the same socket */
	u64 lost_interrupted;		/* calls during which the recording ended */
};

volatile struct cc_trace cc_trace SEC(".data.trace") = { 0 };

/* Bytes of a state in socket storage that a record has room for. */
#define CC_LARGE_STATE_MAX		512

/* One call of an entry point. */
struct cc_record {
	u64 flow;			/* number of the socket, from 1 in order of appearance */
	u64 call;			/* number of the call on this socket, from 0 */
	char function[32];		/* the entry point */
	u64 arguments[3];		/* those after sk; pointers have their samples below */
	u64 result;
	u64 recording;			/* cc_trace.number when the call began */
	u64 serial;			/* of Linux modules: which call of this CPU it is */
	u32 missed;			/* calls since, within this one, that were not recorded */
	u32 acks_asked;			/* all, even where the arrays below are full */
	u32 ack_rcv_nxt[2];
	u8 ack_ecn_flags[2];
	u8 rehashes_asked;
	bool is_open;			/* between the beginning of a call and its end */
	bool fallback_asked;
	char fallback_name[16];
	struct ack_sample ack_sample;	/* pkts_acked only */
	struct rate_sample rate_sample;	/* cong_control only */
	struct cc_sock before;
	struct cc_sock after;
	u32 jiffies;			/* when the call began */
	struct cc_given_log given;
	/* A state in socket storage; of algorithms without one the record ends before. */
	u64 large_before[CC_LARGE_STATE_MAX / 8];
	u64 large_after[CC_LARGE_STATE_MAX / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cc_record);
} cc_open_records SEC(".maps");

struct cc_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 12);
};

/* Empty while nobody traces: the ring is the tracer's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct cc_ring);
} cc_ring_slot SEC(".maps");

#ifdef KNEE_MODULE
/*
 * The functions of a Linux module read the clock without saying for which socket. So what a call of a module is given
 * is noted by CPU, and put into the record at the end. A call that another one came between, on the same CPU, does not
 * know what is its own: `serial` is then not its own, and its record counts as not comparable.
 */
struct cc_module_given {
	u64 serial;			/* of the call that began last */
	u64 task;			/* in which it began */
	struct cc_given_log log;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cc_module_given);
} cc_module_given SEC(".maps");
#endif

/* Defined where the algorithm says what its state is. */
static __always_inline void cc_take_large_state(u64 *to, struct sock *sk);
static __always_inline u32 cc_record_bytes(void);

#define cc_unlikely(condition)	__builtin_expect(!!(condition), 0)

static __always_inline bool cc_tracing(void)
{
	return cc_unlikely(cc_trace.state != CC_TRACE_OFF);
}

static __always_inline void cc_trace_count(volatile u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

static __always_inline u16 cc_ntohs(u16 value)
{
	return __builtin_bswap16(value);
}

static __always_inline u32 cc_htonl(u32 value)
{
	return __builtin_bswap32(value);
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr___peer {
	union {
		u32 u6_addr32[4];	/* network order */
	} in6_u;
};

/* With it every socket begins. */
struct sock_common___peer {
	u16 skc_family;
	u16 skc_num;			/* local port */
	u16 skc_dport;			/* remote port, network order */
	u32 skc_daddr;			/* remote address, network order */
	struct in6_addr___peer skc_v6_daddr;
};

#pragma clang attribute pop

/* An IPv4 connection of an IPv6 socket counts as the IPv4 connection that it is. */
static __always_inline bool cc_trace_wants(const struct sock *sk)
{
	const struct sock_common___peer *common = (const void *)sk;
	u32 family = CC_AF_INET, remote[4] = { 0, 0, cc_htonl(0xffff), 0 };

	if (cc_trace.local_port && cc_trace.local_port != common->skc_num)
		return false;
	if (cc_trace.remote_port && cc_trace.remote_port != cc_ntohs(common->skc_dport))
		return false;
	if (common->skc_family == CC_AF_INET6 && bpf_core_field_exists(common->skc_v6_daddr)) {
		const u32 *address = common->skc_v6_daddr.in6_u.u6_addr32;

		if (address[0] | address[1] | (address[2] ^ cc_htonl(0xffff)))
			family = CC_AF_INET6;
		remote[0] = address[0];
		remote[1] = address[1];
		remote[2] = address[2];
		remote[3] = address[3];
	} else {
		remote[3] = common->skc_daddr;
	}
	if (cc_trace.family && cc_trace.family != family)
		return false;
	return !(((remote[0] ^ cc_trace.remote[0]) & cc_trace.remote_mask[0]) |
		 ((remote[1] ^ cc_trace.remote[1]) & cc_trace.remote_mask[1]) |
		 ((remote[2] ^ cc_trace.remote[2]) & cc_trace.remote_mask[2]) |
		 ((remote[3] ^ cc_trace.remote[3]) & cc_trace.remote_mask[3]));
}

/*
 * The socket's storage if it takes part in this recording. Whether it does is decided when storage
 * would be created; a socket that does not take part gets none. NULL also where there is no memory.
 */
static __always_inline struct cc_record *cc_record_of(struct sock *sk, struct cc_record *record,
						      u64 number)
{
	if (record && record->recording == number)
		return record;
	if (!cc_trace_wants(sk))
		return NULL;
	if (!record)
		record = bpf_sk_storage_get(&cc_open_records, sk, NULL,
					    BPF_SK_STORAGE_GET_F_CREATE);
	if (!record) {
		cc_trace_count(&cc_trace.lost_no_memory);
		return NULL;
	}
	record->recording = number;
	record->flow = __sync_fetch_and_add(&cc_trace.flows, 1) + 1;
	record->call = 0;
	return record;
}

#ifdef KNEE_MODULE
static __always_inline struct cc_module_given *cc_given_of_cpu(void)
{
	u32 slot = 0;

	return bpf_map_lookup_elem(&cc_module_given, &slot);
}

/* Of every call, whether it is recorded or not. */
static __always_inline u64 cc_begin_given(void)
{
	struct cc_module_given *given = cc_given_of_cpu();
	u64 serial;

	if (!given)
		return 0;
	serial = __sync_fetch_and_add(&given->serial, 1) + 1;
	given->task = bpf_get_current_task();
	given->log.count = 0;
	return serial;
}

static __always_inline void cc_end_given(struct cc_record *record)
{
	const struct cc_module_given *given = cc_given_of_cpu();

	if (given && given->serial == record->serial)
		__builtin_memcpy(&record->given, &given->log, sizeof(record->given));
	else
		record->given.count = CC_GIVEN_MAX + 1;
}
#else
static __always_inline u64 cc_begin_given(void)
{
	return 0;
}

static __always_inline void cc_end_given(struct cc_record *record)
{
}
#endif

static __noinline struct cc_record *cc_record_begin(struct sock *sk)
{
	struct cc_record *record = bpf_sk_storage_get(&cc_open_records, sk, NULL, 0);
	u64 number = cc_trace.number, serial;

	/* A change of algorithm releases this one from within its own init. */
	if (record && record->is_open) {
		record->missed++;
		cc_trace_count(&cc_trace.lost_nested);
		return NULL;
	}
	serial = cc_begin_given();
	if (cc_trace.state != CC_TRACE_ON)
		return NULL;
	/*
	 * Nobody is there any more to switch off, so this does. A tracer that was only slow finds it
	 * off, and goes on with another number.
	 */
	if (bpf_ktime_get_ns() > cc_trace.lease_ns) {
		cc_trace.state = CC_TRACE_OFF;
		return NULL;
	}
	record = cc_record_of(sk, record, number);
	if (!record)
		return NULL;
	record->serial = serial;
	record->missed = 0;
	record->acks_asked = 0;
	record->rehashes_asked = 0;
	record->fallback_asked = false;
	record->given.count = 0;
	record->is_open = true;
	record->jiffies = (u32)bpf_jiffies64();
	cc_take_sock(&record->before, sk);
	cc_take_large_state(record->large_before, sk);
	return record;
}

static __noinline void cc_record_end(struct cc_record *record, struct sock *sk, u64 result)
{
	u32 slot = 0;
	void *ring;

	if (!record)
		return;
	record->result = result;
	cc_end_given(record);
	cc_take_sock(&record->after, sk);
	cc_take_large_state(record->large_after, sk);
	record->is_open = false;
	if (cc_trace.state == CC_TRACE_OFF || cc_trace.number != record->recording) {
		cc_trace_count(&cc_trace.lost_interrupted);
	} else {
		ring = bpf_map_lookup_elem(&cc_ring_slot, &slot);
		if (!ring || bpf_ringbuf_output(ring, record, cc_record_bytes(), 0))
			cc_trace_count(&cc_trace.lost_ring_full);
	}
	record->call += 1 + record->missed;
}

/* One argument after sk: a number, or a sample to be copied. */
static __always_inline void cc_note_number(struct cc_record *record, u32 i, u64 value)
{
	record->arguments[i] = value;
}

#define CC_COPY(type, name, ...) to->name = from->name;

static __always_inline void cc_note_ack_sample(struct cc_record *record, u32 i,
					       const struct ack_sample *from)
{
	struct ack_sample *to = &record->ack_sample;

	CC_ACK_SAMPLE_FIELDS(CC_COPY)
}

static __always_inline void cc_note_rate_sample(struct cc_record *record, u32 i,
						const struct rate_sample *from)
{
	struct rate_sample *to = &record->rate_sample;

	CC_RATE_SAMPLE_FIELDS(CC_COPY)
}

/* Which of these it is follows from the declaration, as the parameter of a function type. */
#define CC_NOTE(declaration, i)							\
	_Generic((void (*)(declaration))0,					\
		 void (*)(const struct ack_sample *): cc_note_ack_sample,	\
		 void (*)(const struct rate_sample *): cc_note_rate_sample,	\
		 default: cc_note_number)(record, i, ctx[i + 1])
#define CC_NOTES1(sk)
#define CC_NOTES2(sk, a)		CC_NOTE(a, 0);
#define CC_NOTES3(sk, a, b)		CC_NOTES2(sk, a) CC_NOTE(b, 1);
#define CC_NOTES4(sk, a, b, c)		CC_NOTES3(sk, a, b) CC_NOTE(c, 2);
#define CC_NOTES(args...)		___bpf_apply(CC_NOTES, ___bpf_narg(args))(args)

/*
 * An argument as the kernel gives it. It is used in the record and in the call, and read once, before
 * either: of the place where the arguments lie the verifier allows no arithmetic.
 */
#define CC_LOAD(i) (*(volatile u64 *)(kernel_ctx + i))

/* The body of a program: the call, between the two halves of its record. */
#define CC_RECORDED(name, call, args...)					\
	struct sock *sk = (struct sock *)ctx[0];				\
	struct cc_record *record = cc_tracing() ? cc_record_begin(sk) : NULL;	\
										\
	_Static_assert(sizeof(#name) <= sizeof(record->function),		\
		       #name ": too long a name for a record");			\
	if (cc_unlikely(record)) {						\
		__builtin_memcpy(record->function, #name, sizeof(#name));	\
		CC_NOTES(args)							\
	}									\
	call

#define CC_RECORDED_void(name, call, args...)					\
	CC_RECORDED(name, call, args);						\
	if (cc_unlikely(record))						\
		cc_record_end(record, sk, 0)

#define CC_RECORDED_u32(name, call, args...)					\
	CC_RECORDED(name, u32 result = call, args);				\
	if (cc_unlikely(record))						\
		cc_record_end(record, sk, result);				\
	return result

/* ---- what a call asks of its host, and is given ---- */

static __always_inline struct cc_record *cc_open_record(const struct sock *sk)
{
	struct cc_record *record = bpf_sk_storage_get(&cc_open_records, (void *)sk, NULL, 0);

	return record && record->is_open ? record : NULL;
}

static __noinline void cc_note_ack(struct sock *sk, u32 rcv_nxt)
{
	struct cc_record *record = cc_open_record(sk);
	u32 n;

	if (!record)
		return;
	n = record->acks_asked++;
	if (n < 2) {
		record->ack_rcv_nxt[n] = rcv_nxt;
		record->ack_ecn_flags[n] = ((struct tcp_sock *)sk)->ecn_flags;
	}
}

static __always_inline void cc_record_ack(struct sock *sk, u32 rcv_nxt)
{
	if (cc_tracing())
		cc_note_ack(sk, rcv_nxt);
}

static __noinline void cc_note_rehash(struct sock *sk)
{
	struct cc_record *record = cc_open_record(sk);

	if (record)
		record->rehashes_asked++;
}

static __always_inline void cc_record_rehash(struct sock *sk)
{
	if (cc_tracing())
		cc_note_rehash(sk);
}

/* The name is a constant: nothing is read from the kernel, which it may forbid (lockdown). */
static __always_inline void cc_record_fallback(struct sock *sk, const char *name)
{
	struct cc_record *record = cc_tracing() ? cc_open_record(sk) : NULL;

	if (!record)
		return;
	record->fallback_asked = true;
	__builtin_memset(record->fallback_name, 0, sizeof(record->fallback_name));
	__builtin_memcpy(record->fallback_name, name, __builtin_strlen(name));
}

#ifdef KNEE_MODULE
/* `snd_cwnd` is 0 where it is not known whose call it is. */
static __noinline void cc_note_module_given(u32 kind, u32 value, u32 snd_cwnd, u32 snd_cwnd_cnt)
{
	struct cc_module_given *given = cc_given_of_cpu();
	u32 n;

	if (!given)
		return;
	/* The task of the call was interrupted by another one, whose call it is not. */
	if (given->task != bpf_get_current_task())
		__sync_fetch_and_add(&given->serial, 1);
	n = given->log.count++;
	if (n < CC_GIVEN_MAX) {
		given->log.given[n].kind = kind;
		given->log.given[n].value = value;
		given->log.given[n].snd_cwnd = snd_cwnd;
		given->log.given[n].snd_cwnd_cnt = snd_cwnd_cnt;
	}
}

static __always_inline void cc_record_module_given(u32 kind, u32 value)
{
	if (cc_tracing())
		cc_note_module_given(kind, value, 0, 0);
}

static __always_inline void cc_note_given(const struct sock *sk, u32 kind, u32 value)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;

	cc_note_module_given(kind, value, tp->snd_cwnd, tp->snd_cwnd_cnt);
}
#else
static __noinline void cc_note_given(const struct sock *sk, u32 kind, u32 value)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;
	struct cc_record *record = cc_open_record(sk);
	struct cc_given *given;
	u32 n;

	if (!record)
		return;
	n = record->given.count++;
	if (n >= CC_GIVEN_MAX)
		return;
	given = &record->given.given[n];
	given->kind = kind;
	given->value = value;
	given->snd_cwnd = tp->snd_cwnd;
	given->snd_cwnd_cnt = tp->snd_cwnd_cnt;
}
#endif

static __always_inline void cc_record_given(const struct sock *sk, u32 kind, u32 value)
{
	if (cc_tracing())
		cc_note_given(sk, kind, value);
}

#endif
