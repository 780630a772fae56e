/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The recording build: bpf.h includes this when CC_RECORD is defined, the algorithm files do not know.
 *
 * Around each entry point it notes what the call was given, what the socket held before and after,
 * what the call asked of the host, and what it returned: enough to make the same call natively and
 * compare. Two sockets may be in the same program at once, and a softirq may interrupt one call with
 * another's, so a record grows in the storage of its own socket and goes to the ring when complete.
 *
 * The structs are mirrored by src/record.rs, which a test compares with the BTF of the objects.
 */
#ifndef KNEE_RECORD_H
#define KNEE_RECORD_H

/* From the kernel's user API. */
#define BPF_MAP_TYPE_SK_STORAGE		24
#define BPF_MAP_TYPE_RINGBUF		27
#define BPF_F_NO_PREALLOC		1
#define BPF_SK_STORAGE_GET_F_CREATE	1

/* Bytes of the ring: 43 thousand records of 768 bytes while the reader sleeps. */
#define CC_RING_BYTES			(1 << 25)

/*
 * struct tcp_sock of native.h, flat: F(type, name there, where the kernel has it). The private state
 * lies between the two lists.
 */
#define CC_SOCK_HEAD(F)								\
	F(u64, sk_pacing_rate, sk->sk_pacing_rate)				\
	F(u64, sk_max_pacing_rate, sk->sk_max_pacing_rate)			\
	F(u64, cc_params, 0)							\
	F(u32, sk_pacing_status, sk->sk_pacing_status)				\
	F(u32, sk_gso_max_size, sk->sk_gso_max_size)				\
	F(u8, icsk_ca_state, cc_ca_state(sk))					\
	F(u8, icsk_retransmits, icsk->icsk_retransmits)				\
	F(u8, icsk_ack_pending, icsk->icsk_ack.pending)

#define CC_SOCK_TAIL(F)								\
	F(u32, snd_una, tp->snd_una)						\
	F(u32, snd_nxt, tp->snd_nxt)						\
	F(u32, snd_cwnd, tp->snd_cwnd)						\
	F(u32, snd_cwnd_cnt, tp->snd_cwnd_cnt)					\
	F(u32, snd_cwnd_clamp, tp->snd_cwnd_clamp)				\
	F(u32, snd_ssthresh, tp->snd_ssthresh)					\
	F(u32, prior_cwnd, tp->prior_cwnd)					\
	F(u32, prior_ssthresh, tp->prior_ssthresh)				\
	F(u32, packets_out, tp->packets_out)					\
	F(u32, sacked_out, tp->sacked_out)					\
	F(u32, lost_out, tp->lost_out)						\
	F(u32, retrans_out, tp->retrans_out)					\
	F(u32, max_packets_out, tp->max_packets_out)				\
	F(u32, delivered, tp->delivered)					\
	F(u32, delivered_ce, tp->delivered_ce)					\
	F(u32, lost, tp->lost)							\
	F(u32, app_limited, tp->app_limited)					\
	F(u32, srtt_us, tp->srtt_us)						\
	F(u32, mss_cache, tp->mss_cache)					\
	F(u32, rcv_nxt, tp->rcv_nxt)						\
	F(u32, lsndtime, tp->lsndtime)						\
	F(u32, reordering, tp->reordering)					\
	F(u32, undo_marker, tp->undo_marker)					\
	F(u32, snd_cwnd_stamp, tp->snd_cwnd_stamp)				\
	F(u32, min_rtt_us, cc_min_rtt_us(tp))					\
	F(u8, ecn_flags, tp->ecn_flags)						\
	F(u8, is_cwnd_limited, cc_cwnd_limited_flag(tp))			\
	F(u64, tcp_mstamp, tp->tcp_mstamp)					\
	F(u64, delivered_mstamp, tp->delivered_mstamp)				\
	F(u64, first_tx_mstamp, tp->first_tx_mstamp)

#define CC_FIELD(type, name, value)	type name;
#define CC_TAKE(type, name, value)	to->name = (value);

struct cc_sock {
	CC_SOCK_HEAD(CC_FIELD)
	u64 icsk_ca_priv[13];
	CC_SOCK_TAIL(CC_FIELD)
};

/* One call of an entry point. */
struct cc_record {
	u64 flow;			/* number of the socket, from 1 in order of appearance */
	u64 call;			/* number of the call on this socket, from 0 */
	char function[32];		/* the entry point */
	u64 arguments[3];		/* those after sk; pointers have their samples below */
	u64 result;
	u64 random_state;		/* where the native generator must start to draw the same; */
	u64 random_now;			/* where it stands */
	u32 jiffies;			/* before; */
	u32 jiffies_after;		/* the clock may tick inside */
	u32 hz;
	u32 acks_asked;			/* all, even where the arrays below are full */
	u32 ack_rcv_nxt[2];
	u8 ack_ecn_flags[2];
	bool fallback_asked;
	char fallback_name[16];
	struct ack_sample ack_sample;	/* pkts_acked only */
	struct rate_sample rate_sample;	/* cong_control only */
	struct cc_sock before;
	struct cc_sock after;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cc_record);
} cc_open_records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, CC_RING_BYTES);
} cc_records SEC(".maps");

u64 cc_flows;				/* sockets seen */
/* Records that found no room. In a section, and so a map, of its own: the reader needs no offset. */
u64 cc_lost SEC(".data.lost") = 0;

static __always_inline u32 cc_jiffies32(void);
static __always_inline u8 cc_ca_state(const struct sock *sk);
static __always_inline u32 cc_min_rtt_us(const struct tcp_sock *tp);
static __always_inline bool cc_cwnd_limited_flag(const struct tcp_sock *tp);
extern unsigned long CONFIG_HZ __kconfig;

static __always_inline void cc_take_sock(struct cc_sock *to, struct sock *sk)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	CC_SOCK_HEAD(CC_TAKE)
	__builtin_memcpy(to->icsk_ca_priv, icsk->icsk_ca_priv, sizeof(to->icsk_ca_priv));
	CC_SOCK_TAIL(CC_TAKE)
}

static __always_inline struct cc_record *cc_record_begin(struct sock *sk)
{
	struct cc_record *record;

	record = bpf_sk_storage_get(&cc_open_records, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!record) {
		__sync_fetch_and_add(&cc_lost, 1);
		return NULL;
	}
	if (!record->flow)
		record->flow = __sync_fetch_and_add(&cc_flows, 1) + 1;
	record->random_state = (u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
	record->random_now = record->random_state;
	record->hz = CONFIG_HZ;
	record->acks_asked = 0;
	record->fallback_asked = false;
	cc_take_sock(&record->before, sk);
	record->jiffies = cc_jiffies32();
	return record;
}

static __always_inline void cc_record_end(struct cc_record *record, struct sock *sk, u64 result)
{
	if (!record)
		return;
	record->jiffies_after = cc_jiffies32();
	record->result = result;
	cc_take_sock(&record->after, sk);
	if (bpf_ringbuf_output(&cc_records, record, sizeof(*record), 0))
		__sync_fetch_and_add(&cc_lost, 1);
	record->call++;
	/*
	 * Else the compiler makes one instruction of this and a like one of the algorithm, on the way
	 * without a record, and the verifier takes no pointers of two kinds in one instruction.
	 */
	asm volatile("" ::: "memory");
}

/* One argument after sk: a number, or a sample to be copied. */
static __always_inline void cc_note_number(struct cc_record *record, u32 i, u64 value)
{
	record->arguments[i] = value;
}

static __always_inline void cc_note_ack_sample(struct cc_record *record, u32 i,
					       const struct ack_sample *from)
{
	struct ack_sample *to = &record->ack_sample;

	to->pkts_acked = from->pkts_acked;
	to->rtt_us = from->rtt_us;
	to->in_flight = from->in_flight;
}

static __always_inline void cc_note_rate_sample(struct cc_record *record, u32 i,
						const struct rate_sample *from)
{
	struct rate_sample *to = &record->rate_sample;

	to->prior_mstamp = from->prior_mstamp;
	to->prior_delivered = from->prior_delivered;
	to->prior_delivered_ce = from->prior_delivered_ce;
	to->delivered = from->delivered;
	to->delivered_ce = from->delivered_ce;
	to->interval_us = from->interval_us;
	to->snd_interval_us = from->snd_interval_us;
	to->rcv_interval_us = from->rcv_interval_us;
	to->rtt_us = from->rtt_us;
	to->losses = from->losses;
	to->acked_sacked = from->acked_sacked;
	to->prior_in_flight = from->prior_in_flight;
	to->last_end_seq = from->last_end_seq;
	to->is_app_limited = from->is_app_limited;
	to->is_retrans = from->is_retrans;
	to->is_ack_delayed = from->is_ack_delayed;
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

/* The body of a program: the call, between the two halves of its record. */
#define CC_RECORDED(name, call, args...)					\
	struct sock *sk = (struct sock *)ctx[0];				\
	struct cc_record *record = cc_record_begin(sk);				\
										\
	_Static_assert(sizeof(#name) <= sizeof(record->function),		\
		       #name ": too long a name for a record");			\
	if (record) {								\
		__builtin_memcpy(record->function, #name, sizeof(#name));	\
		CC_NOTES(args)							\
	}									\
	call

#define CC_RECORDED_void(name, call, args...)					\
	CC_RECORDED(name, call, args);						\
	cc_record_end(record, sk, 0)

#define CC_RECORDED_u32(name, call, args...)					\
	CC_RECORDED(name, u32 result = call, args);				\
	cc_record_end(record, sk, result);					\
	return result

/* ---- what a call asks of its host ---- */

static __always_inline struct cc_record *cc_open_record(struct sock *sk)
{
	return bpf_sk_storage_get(&cc_open_records, sk, NULL, 0);
}

static __always_inline void cc_record_ack(struct sock *sk, u32 rcv_nxt)
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

static __always_inline void cc_record_fallback(struct sock *sk, const char *name)
{
	struct cc_record *record = cc_open_record(sk);

	if (!record)
		return;
	record->fallback_asked = true;
	__builtin_memset(record->fallback_name, 0, sizeof(record->fallback_name));
	bpf_probe_read_kernel_str(record->fallback_name, sizeof(record->fallback_name), name);
}

/* The native generator (native.h, cc_random_u32) in place of the kernel's, whose state is not ours. */
static __always_inline u32 cc_record_random(struct sock *sk, u32 drawn)
{
	struct cc_record *record = cc_open_record(sk);
	u64 z;

	if (!record)
		return drawn;
	z = record->random_now += 0x9e3779b97f4a7c15ull;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (z ^ (z >> 31)) >> 32;
}

#endif
