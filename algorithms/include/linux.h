/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A Linux source tree as host: an algorithm file is compiled there, against the kernel's own headers,
 * and registers itself as knee_NAME beside the kernel's own, built in or as a module. So the structs
 * are the kernel's, what it calls is the kernel's, and nothing of it is declared here. Linux 6.1 and
 * later; scripts/builtin-kernel puts the files into a tree.
 *
 * Each file becomes a module of its own, hence the names below, which are the same in all of them.
 */
#ifndef KNEE_LINUX_H
#define KNEE_LINUX_H

#include <linux/inet_diag.h>
#include <linux/kstrtox.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <net/inet_ecn.h>
#include <net/tcp.h>

#define CC_OP(type, name, args...) static type name(args)
#define CC_FN(name) name

/* The operations as an algorithm names them; the kernel's own have grown others since 6.1. */
struct cc_operations {
	CC_OPERATIONS(CC_OPERATION_MEMBER)
	char name[TCP_CA_NAME_MAX];
	u32 flags;			/* TCP_CONG_... */
};

/*
 * What an algorithm file defines by its macros, after this header has used it. The table is constant,
 * so calls through it become direct ones.
 */
static const struct cc_operations cc_operations;
static inline void cc_state_begin(struct sock *sk);
static inline void cc_state_end(struct sock *sk);
static inline bool cc_state_is_allocated(void);
static size_t cc_linux_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info);

#define CC_ALGORITHM(algorithm) static const struct cc_operations cc_operations

/* ---- private state ---- */

#define CC_STATE(algorithm, type)						\
	static_assert(sizeof(type) <= ICSK_CA_PRIV_SIZE,			\
		      "state passes the kernel's private area");		\
	static inline type *cc_state(const struct sock *sk)			\
	{									\
		return inet_csk_ca(sk);						\
	}									\
	CC_STATE_IN_SOCKET

#define CC_NO_STATE(algorithm) CC_STATE_IN_SOCKET

#define CC_STATE_IN_SOCKET							\
	static inline void cc_state_begin(struct sock *sk) { }			\
	static inline void cc_state_end(struct sock *sk) { }			\
	static inline bool cc_state_is_there(const struct sock *sk) { return true; } \
	static inline bool cc_state_is_allocated(void) { return false; }

/*
 * A state that passes the private area is allocated when the connection begins; NULL: not begun yet,
 * or no memory. The private area holds where it is. The kernel clears that area before init, and a
 * listener, which others are cloned from, has none.
 */
#define CC_LARGE_STATE(algorithm, type)						\
	static inline type *cc_state(const struct sock *sk)			\
	{									\
		return *(type **)inet_csk_ca(sk);				\
	}									\
	static inline void cc_state_begin(struct sock *sk)			\
	{									\
		*(type **)inet_csk_ca(sk) = kzalloc(sizeof(type), GFP_ATOMIC);	\
	}									\
	static inline void cc_state_end(struct sock *sk)			\
	{									\
		kfree(cc_state(sk));						\
		*(type **)inet_csk_ca(sk) = NULL;				\
	}									\
	static inline bool cc_state_is_there(const struct sock *sk)		\
	{									\
		return cc_state(sk);						\
	}									\
	static inline bool cc_state_is_allocated(void) { return true; }

/* ---- parameters: /sys/module/knee_NAME/parameters ---- */

struct cc_linux_param {
	u32 *value;
	u32 min;
	u32 max;
	const char *name;
	const char *choices;		/* "reno|cubic": names of 0, 1, ...; empty: a number */
};

/* The name of one choice, and where it ends; NULL: there is no such. */
static inline const char *cc_choice(const char *choices, u32 wanted, size_t *len)
{
	for (; wanted; wanted--) {
		choices += strcspn(choices, "|");
		if (!*choices)
			return NULL;
		choices++;
	}
	*len = strcspn(choices, "|");
	return *len ? choices : NULL;
}

/* Whether the text is a number or a choice, and which number. */
static inline bool cc_param_parse(const struct cc_linux_param *param, const char *text, size_t text_len,
				  u32 *value)
{
	const char *choice;
	size_t len;

	if (!kstrtou32(text, 0, value))
		return true;
	for (*value = 0; (choice = cc_choice(param->choices, *value, &len)); ++*value)
		if (len == text_len && !memcmp(choice, text, len))
			return true;
	return false;
}

static inline int cc_param_set(const char *text, const struct kernel_param *kp)
{
	const struct cc_linux_param *param = kp->arg;
	size_t text_len = strcspn(text, "\n");
	u32 value;

	if (!cc_param_parse(param, text, text_len, &value) ||
	    value < param->min || value > param->max) {
		pr_err("%s.%s = \"%.*s\": allowed are %u to %u%s%s\n", KBUILD_MODNAME, param->name,
		       (int)min_t(size_t, text_len, 32), text, param->min, param->max,
		       *param->choices ? ", by name: " : "", param->choices);
		return -EINVAL;
	}
	*param->value = value;
	return 0;
}

static inline int cc_param_get(char *text, const struct kernel_param *kp)
{
	const struct cc_linux_param *param = kp->arg;
	size_t len;
	const char *choice = cc_choice(param->choices, *param->value, &len);

	if (choice)
		return scnprintf(text, PAGE_SIZE, "%.*s\n", (int)len, choice);
	return scnprintf(text, PAGE_SIZE, "%u\n", *param->value);
}

#define CC_PARAM_FIELD(name, value, min, max, choices, meaning) u32 name;
#define CC_PARAM_DEFAULT(name, value, min, max, choices, meaning) .name = value,
#define CC_PARAM_MODULE(name, value, min, max, choices, meaning)		\
	static const struct cc_linux_param cc_param_##name = {			\
		&cc_parameters.name, min, max, #name, choices			\
	};									\
	module_param_cb(name, &cc_param_ops, (void *)&cc_param_##name, 0644);	\
	MODULE_PARM_DESC(name, meaning);
#define CC_PARAMS(algorithm, LIST)						\
	struct algorithm##_params { LIST(CC_PARAM_FIELD) };			\
	static struct algorithm##_params cc_parameters __read_mostly = {	\
		LIST(CC_PARAM_DEFAULT)						\
	};									\
	static const struct kernel_param_ops cc_param_ops = {			\
		.set = cc_param_set,						\
		.get = cc_param_get,						\
	};									\
	LIST(CC_PARAM_MODULE)							\
	static inline const struct algorithm##_params *cc_params(const struct sock *sk) \
	{									\
		return &cc_parameters;						\
	}

#define CC_NO_PARAMS(algorithm)

/* ---- values to look at: getsockopt(TCP_CC_INFO), as many u32 as it has room for, in order ---- */

/* For netlink, where each kind has its number: one that no program takes for another's. */
#define CC_DIAG_KIND	0x3fff

/* What asks with this has room for all of them, as u64. */
#define CC_DIAG_ALL	0x6b6e6565

#define CC_DIAG_VALUE(name, unit, value)					\
	if (ext == CC_DIAG_ALL)							\
		all[count++] = (value);						\
	else if (count < sizeof(*info) / sizeof(u32))				\
		values[count++] = min_t(u64, value, U32_MAX);
#define CC_DIAG(algorithm, LIST)						\
	static size_t cc_linux_get_info(struct sock *sk, u32 ext, int *attr,	\
					union tcp_cc_info *info)		\
	{									\
		u32 *values = (u32 *)info;					\
		u64 *all = (u64 *)info;						\
		size_t count = 0;						\
										\
		if (!cc_state_is_there(sk))					\
			return 0;						\
		LIST(CC_DIAG_VALUE)						\
		*attr = CC_DIAG_KIND;						\
		return count * (ext == CC_DIAG_ALL ? sizeof(u64) : sizeof(u32)); \
	}

#define CC_NO_DIAG(algorithm)							\
	static size_t cc_linux_get_info(struct sock *sk, u32 ext, int *attr,	\
					union tcp_cc_info *info)		\
	{									\
		return 0;							\
	}

/* ---- what the host decides ---- */

#undef HZ
#define HZ ((u32)CONFIG_HZ)

/* Uniform over 32 bits. */
static inline u32 cc_random_u32(struct sock *sk)
{
	return get_random_u32();
}

/*
 * RTT without queues, us, as programs of sock_ops on the connection's cgroup answer it
 * (BPF_SOCK_OPS_BASE_RTT); 0: unknown. A kernel that is told otherwise has a knee_base_rtt_us of
 * its own, which answers below 0 where it does not know.
 */
int knee_base_rtt_us(const struct sock *sk);

#define CC_BASE_RTT								\
	int __weak knee_base_rtt_us(const struct sock *sk)			\
	{									\
		return -1;							\
	}									\
	static inline u32 cc_base_rtt_us(const struct sock *sk)			\
	{									\
		int told = knee_base_rtt_us(sk);				\
										\
		if (told < 0)							\
			told = tcp_call_bpf((struct sock *)sk, BPF_SOCK_OPS_BASE_RTT, 0, NULL); \
		return told > 0 ? told : 0;					\
	}

/* Change the connection's transmit hash, and so the path of its packets from now on (IPv6 only). */
#define CC_REHASH								\
	static inline void cc_rehash(struct sock *sk)				\
	{									\
		sk_rethink_txhash(sk);						\
	}

/* Rate samples count as limited by the application until so many packets are delivered. */
static inline void cc_set_app_limited(struct sock *sk, u32 delivered)
{
	tcp_sk(sk)->app_limited = delivered;
}

/* Newer kernels take flags of the ACK too. */
typedef void cc_linux_sender(struct sock *sk, u32 rcv_nxt);
typedef void cc_linux_flags_sender(struct sock *sk, u32 rcv_nxt, u16 flags);

static inline void cc_linux_send(cc_linux_sender *send, struct sock *sk, u32 rcv_nxt)
{
	send(sk, rcv_nxt);
}

static inline void cc_linux_send_flags(cc_linux_flags_sender *send, struct sock *sk, u32 rcv_nxt)
{
	send(sk, rcv_nxt, 0);
}

/* Send a pure ACK for everything below rcv_nxt, with ECE as ecn_flags is now. */
static inline void cc_send_ack(struct sock *sk, u32 rcv_nxt)
{
	_Generic(&__tcp_send_ack,
		 cc_linux_sender *: cc_linux_send,
		 cc_linux_flags_sender *: cc_linux_send_flags)(__tcp_send_ack, sk, rcv_nxt);
}

/* Reno in place of the algorithm, under its name: what is always there. */
static struct tcp_congestion_ops cc_linux_reno __read_mostly = {
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.name = KBUILD_MODNAME,
	.owner = THIS_MODULE,
};

/*
 * Leave this algorithm for another for the life of the connection, and stop sending ECT. Others can
 * be reached from within the kernel only: a module's connections become Reno's whatever is asked, as
 * do those whose route lets them have nothing else.
 */
static inline void cc_fallback(struct sock *sk, const char *name)
{
#ifndef MODULE
	if (!tcp_set_congestion_control(sk, name, false, true))
		return;
#endif
	cc_state_end(sk);
	inet_csk(sk)->icsk_ca_ops = &cc_linux_reno;
	INET_ECN_dontxmit(sk);
}

/* Kernels that know AccECN have two ways to have negotiated ECN. */
#ifdef TCP_ECN_MODE_ANY
#define CC_ECN_NEGOTIATED TCP_ECN_MODE_ANY
#else
#define CC_ECN_NEGOTIATED TCP_ECN_OK
#endif

/* Whether ECN was negotiated, or the connection does not exist yet and so cannot tell. */
static inline bool cc_ecn_negotiated(const struct sock *sk)
{
	return sk->sk_state == TCP_LISTEN || sk->sk_state == TCP_CLOSE ||
	       tcp_sk(sk)->ecn_flags & CC_ECN_NEGOTIATED;
}

/* ---- fields that the kernel keeps in its own way ---- */

static inline u8 cc_ca_state(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_state;
}

static inline bool cc_cwnd_limited_flag(const struct tcp_sock *tp)
{
	return tp->is_cwnd_limited;
}

/* Core's windowed minimum RTT, us. */
static inline u32 cc_min_rtt_us(const struct tcp_sock *tp)
{
	return tcp_min_rtt(tp);
}

/* ---- arithmetic that differs between the hosts ---- */

/* Quotient of two unsigned 64-bit values; 0 if the divisor is 0, where the kernel's own traps. */
static inline u64 cc_div64_u64(u64 dividend, u64 divisor)
{
	return divisor ? div64_u64(dividend, divisor) : 0;
}
#define div64_u64 cc_div64_u64

/* ---- the kernel's operations: each hands on to the algorithm's ---- */

static u32 cc_linux_ssthresh(struct sock *sk)
{
	return cc_operations.ssthresh(sk);
}

static void cc_linux_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	cc_operations.cong_avoid(sk, ack, acked);
}

static void cc_linux_set_state(struct sock *sk, u8 new_state)
{
	cc_operations.set_state(sk, new_state);
}

static void cc_linux_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	cc_operations.cwnd_event(sk, event);
}

static void cc_linux_in_ack_event(struct sock *sk, u32 flags)
{
	cc_operations.in_ack_event(sk, flags);
}

static void cc_linux_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	cc_operations.pkts_acked(sk, sample);
}

static u32 cc_linux_min_tso_segs(struct sock *sk)
{
	return cc_operations.min_tso_segs(sk);
}

static u32 cc_linux_undo_cwnd(struct sock *sk)
{
	return cc_operations.undo_cwnd(sk);
}

static u32 cc_linux_sndbuf_expand(struct sock *sk)
{
	return cc_operations.sndbuf_expand(sk);
}

static void cc_linux_init(struct sock *sk)
{
	cc_state_begin(sk);
	if (cc_operations.init)
		cc_operations.init(sk);
}

static void cc_linux_release(struct sock *sk)
{
	if (cc_operations.release)
		cc_operations.release(sk);
	cc_state_end(sk);
}

typedef void cc_linux_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
typedef void cc_linux_sample_control(struct sock *sk, const struct rate_sample *rs);

static __maybe_unused void cc_linux_cong_control(struct sock *sk, u32 ack, int flag,
						 const struct rate_sample *rs)
{
	cc_operations.cong_control(sk, ack, flag, rs);
}

/*
 * Kernels before 6.10 give the sample only. `ack` is what snd_una has become: of an ACK that is older
 * cong_control does not hear. The flag is nowhere to be had; a call for it that is still there when
 * the compiler has dropped what nobody uses ends the build.
 */
__attribute__((const, error("it looks at the flag of cong_control, which this kernel does not have")))
int cc_linux_no_flag(void);

static __maybe_unused void cc_linux_cong_control_of_sample(struct sock *sk,
							   const struct rate_sample *rs)
{
	cc_operations.cong_control(sk, tcp_sk(sk)->snd_una, cc_linux_no_flag(), rs);
}

#ifdef CC_LINUX_TX_START
/* An operation of its own in newer kernels, which call it instead of cwnd_event. */
static void cc_linux_tx_start(struct sock *sk)
{
	cc_operations.cwnd_event(sk, CA_EVENT_TX_START);
}
#endif

/* ---- registration ---- */

static struct tcp_congestion_ops cc_linux_operations __read_mostly = {
	.name = KBUILD_MODNAME,
	.owner = THIS_MODULE,
};

/* Those that the algorithm has not, the kernel must not see either. */
#define CC_LINUX_TAKE(operation)						\
	if (cc_operations.operation)						\
		cc_linux_operations.operation = cc_linux_##operation

static int __init cc_linux_register(void)
{
	CC_LINUX_TAKE(ssthresh);
	CC_LINUX_TAKE(cong_avoid);
	CC_LINUX_TAKE(set_state);
	CC_LINUX_TAKE(cwnd_event);
	CC_LINUX_TAKE(in_ack_event);
	CC_LINUX_TAKE(pkts_acked);
	CC_LINUX_TAKE(min_tso_segs);
	CC_LINUX_TAKE(undo_cwnd);
	CC_LINUX_TAKE(sndbuf_expand);
	if (cc_operations.cong_control)
		cc_linux_operations.cong_control =
			_Generic(cc_linux_operations.cong_control,
				 cc_linux_control *: cc_linux_cong_control,
				 cc_linux_sample_control *: cc_linux_cong_control_of_sample);
#ifdef CC_LINUX_TX_START
	if (cc_operations.cwnd_event)
		cc_linux_operations.cwnd_event_tx_start = cc_linux_tx_start;
#endif
	if (cc_operations.init || cc_state_is_allocated())
		cc_linux_operations.init = cc_linux_init;
	if (cc_operations.release || cc_state_is_allocated())
		cc_linux_operations.release = cc_linux_release;
	cc_linux_operations.get_info = cc_linux_get_info;
	cc_linux_operations.flags = cc_operations.flags;
	return tcp_register_congestion_control(&cc_linux_operations);
}

static void __exit cc_linux_unregister(void)
{
	tcp_unregister_congestion_control(&cc_linux_operations);
}

module_init(cc_linux_register);
module_exit(cc_linux_unregister);

MODULE_DESCRIPTION("TCP congestion control of knee");
MODULE_LICENSE("Dual BSD/GPL");

#endif
