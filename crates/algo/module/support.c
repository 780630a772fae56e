/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Linked into every module that is compiled for the simulator: what its headers declare, and the one
 * symbol that the simulator looks for. All of it is the loaded copy's own.
 */
#include <knee/module_net.h>
#include <knee/support.h>

struct sock *knee_sk;
u64 knee_mibs[__LINUX_MIB_MAX];
struct net knee_net;

/* The host's ticks only go forward, so what is below the last ones seen has wrapped since. */
u64 knee_jiffies(void)
{
	static u64 last;

	last += (u32)(tcp_jiffies32 - (u32)last);
	return (u64)cc_given_value(knee_sk, CC_GIVEN_UPPER_HALF, (u32)(last >> 32)) << 32 | (u32)last;
}

/* Of the C library. */
void *calloc(size_t n, size_t bytes);
void free(void *p);

/* What guard.rs looks at when a call of this copy has failed. */
__attribute__((visibility("default"))) char knee_said[512];
__attribute__((visibility("default"))) volatile u32 knee_is_allocating;

/* What is said at once, so that two threads do not talk into each other. */
struct sentence {
	char text[512];
	size_t length;
};

static void say(struct sentence *sentence, const char *text)
{
	while (*text && sentence->length < sizeof(sentence->text) - 1)
		sentence->text[sentence->length++] = *text++;
}

/* The kernel would stop here as well, and nothing sound can follow. */
void knee_bug(const char *file, int line, const char *what)
{
	struct sentence sentence = { .length = 0 };
	char digits[12];
	int n = sizeof(digits) - 1;

	digits[n] = 0;
	do {
		digits[--n] = (char)('0' + line % 10);
		line /= 10;
	} while (line && n > 0);
	say(&sentence, "stopped at ");
	say(&sentence, file);
	if (digits[n] != '0') {
		say(&sentence, ":");
		say(&sentence, digits + n);
	}
	say(&sentence, ": ");
	say(&sentence, what);
	say(&sentence, ", where the kernel would have stopped too");
	memcpy(knee_said, sentence.text, sentence.length);
	knee_said[sentence.length] = 0;
	__builtin_trap();
}

/* ---- memory ---- */

/* What is in use has the mark; 32 bytes keep what follows aligned. */
#define BLOCK_MARK 0x6b6e65656b6e6565ull

struct block {
	struct block *next, *prev;
	u64 mark, unused;
};

static struct block blocks = { .next = &blocks, .prev = &blocks };

void *knee_alloc(size_t bytes)
{
	struct block *block;

	knee_is_allocating = 1;
	block = calloc(1, sizeof(*block) + bytes);
	knee_is_allocating = 0;
	if (!block)
		return NULL;
	block->next = blocks.next;
	block->prev = &blocks;
	block->next->prev = block;
	block->mark = BLOCK_MARK;
	blocks.next = block;
	return block + 1;
}

void knee_free(const void *p)
{
	struct block *block = (struct block *)p - 1;

	if (!p)
		return;
	if (block->mark != BLOCK_MARK)
		knee_bug("kfree", 0, "it is given memory that is not allocated");
	block->mark = 0;
	block->next->prev = block->prev;
	block->prev->next = block->next;
	knee_is_allocating = 1;
	free(block);
	knee_is_allocating = 0;
}

static void free_all(void)
{
	while (blocks.next != &blocks)
		knee_free(blocks.next + 1);
}

/* ---- what is registered ---- */

struct tcp_congestion_ops tcp_reno = {
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "reno",
};

/* What modules copy to replace: nobody calls through either. */
struct proto tcp_prot = { .name = "TCP" };
struct proto tcpv6_prot = { .name = "TCPv6" };

#define MAX_REGISTERED 8

static struct tcp_congestion_ops *registered[MAX_REGISTERED];
static u32 registered_len;
/* How many of them were there before the first file's module_init ran: those are of files that it needs. */
static u32 registered_before;

/* The host's ticks per second, set around each call. */
int knee_hz = 1000;

#if KNEE_LINUX_VERSION < KERNEL_VERSION(4, 10, 0)
/* What kernels did for a control without this operation, before they demanded it. */
static u32 undo_cwnd_of_old(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return max(tp->snd_cwnd, tp->snd_ssthresh << 1);
}
#define NEEDS_UNDO_CWND		0
#else
#define undo_cwnd_of_old	NULL
#define NEEDS_UNDO_CWND		1
#endif

/* As the kernel has it: one that lacks what every algorithm needs is refused. */
int tcp_register_congestion_control(struct tcp_congestion_ops *ops)
{
	if (!ops->ssthresh || (!ops->undo_cwnd && NEEDS_UNDO_CWND) || !(ops->cong_avoid || ops->cong_control))
		return -EINVAL;
	if (registered_len == MAX_REGISTERED)
		return -ENOMEM;
	registered[registered_len++] = ops;
	return 0;
}

void tcp_unregister_congestion_control(struct tcp_congestion_ops *ops)
{
	u32 i;

	for (i = 0; i < registered_len; i++)
		if (registered[i] == ops)
			registered[i] = registered[--registered_len];
}

/* Those of the first file come first. */
static const struct tcp_congestion_ops *registered_at(u32 index)
{
	u32 own = registered_len - registered_before;

	if (index >= registered_len)
		return NULL;
	return index < own ? registered[registered_before + index] : registered[index - own];
}

/* A table in the contract's form, for calls that know the types. */
#define KNEE_OPERATION(type, name, ...) void (*name)(void);
#define KNEE_TAKE_OPERATION(type, name, ...) out->name = (void (*)(void))ops->name;

struct knee_operations {
	CC_OPERATIONS(KNEE_OPERATION)
	char name[TCP_CA_NAME_MAX];
	u32 flags;
};

/* Kernels that have this operation call it in place of the other for one event, and the other for the rest. */
static void cwnd_event_in_parts(struct sock *sk, u32 event)
{
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;

	if (event == CA_EVENT_TX_START)
		ops->cwnd_event_tx_start(sk);
	else if (ops->cwnd_event)
		ops->cwnd_event(sk, (enum tcp_ca_event)event);
}

#if KNEE_LINUX_VERSION < KERNEL_VERSION(4, 7, 0)
/* Kernels before 4.7 tell of the sample two numbers. */
static void pkts_acked_of_two(struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;

	ops->pkts_acked(sk, sample->pkts_acked, sample->rtt_us);
}
#endif

#if KNEE_CONG_CONTROL_ARGUMENTS == 2
/* Kernels before 6.10 tell neither ACK nor flag. */
static void cong_control_of_two(struct sock *sk, u32 ack, s32 flag, const struct rate_sample *rs)
{
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;

	(void)ack;
	(void)flag;
	ops->cong_control(sk, rs);
}
#endif

static void operations_of(const struct tcp_congestion_ops *ops, struct knee_operations *out)
{
	CC_OPERATIONS(KNEE_TAKE_OPERATION)
	/* Where there is cong_control the kernel never asks cong_avoid. */
	if (ops->cong_control)
		out->cong_avoid = NULL;
	if (!ops->undo_cwnd)
		out->undo_cwnd = (void (*)(void))undo_cwnd_of_old;
	if (ops->cwnd_event_tx_start)
		out->cwnd_event = (void (*)(void))cwnd_event_in_parts;
#if KNEE_LINUX_VERSION < KERNEL_VERSION(4, 7, 0)
	if (ops->pkts_acked)
		out->pkts_acked = (void (*)(void))pkts_acked_of_two;
#endif
#if KNEE_CONG_CONTROL_ARGUMENTS == 2
	if (ops->cong_control)
		out->cong_control = (void (*)(void))cong_control_of_two;
#endif
	memcpy(out->name, ops->name, sizeof(out->name));
	out->name[TCP_CA_NAME_MAX - 1] = 0;
	out->flags = ops->flags;
}

/* The operations that patched kernels have besides, and old ones. */
struct knee_patched_operations {
	void (*tso_segs)(void);
	void (*skb_marked_lost)(void);
};

#ifndef KNEE_API_V3
/* What kernels before 4.17 asked: the same without the size of a segment. */
static u32 tso_segs_of_goal(struct sock *sk, unsigned int mss_now)
{
	(void)mss_now;
	return inet_csk(sk)->icsk_ca_ops->tso_segs_goal(sk);
}
#endif

static void patched_operations_of(const struct tcp_congestion_ops *ops,
				  struct knee_patched_operations *out)
{
	memset(out, 0, sizeof(*out));
#ifdef KNEE_API_V3
	out->tso_segs = (void (*)(void))ops->tso_segs;
	out->skb_marked_lost = (void (*)(void))ops->skb_marked_lost;
#else
	if (ops->tso_segs_goal)
		out->tso_segs = (void (*)(void))tso_segs_of_goal;
#endif
}

/* What get_info tells of a connection; 0: nothing, or of another kind than `attr`. */
static u32 info_of(const struct sock *sk, int attr, u64 *out)
{
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;
	union tcp_cc_info info;
	int got = 0;

	memset(&info, 0, sizeof(info));
	if (!ops->get_info || !ops->get_info((struct sock *)sk, ~0u, &got, &info) || got != attr)
		return 0;
	switch (attr) {
	case INET_DIAG_VEGASINFO:
		out[0] = info.vegas.tcpv_enabled;
		out[1] = info.vegas.tcpv_rttcnt;
		out[2] = info.vegas.tcpv_rtt;
		out[3] = info.vegas.tcpv_minrtt;
		return 4;
	case INET_DIAG_DCTCPINFO:
		out[0] = info.dctcp.dctcp_alpha;
		out[1] = info.dctcp.dctcp_ce_state;
		out[2] = info.dctcp.dctcp_ab_ecn;
		out[3] = info.dctcp.dctcp_ab_tot;
		return 4;
	case INET_DIAG_BBRINFO:
		out[0] = (u64)info.bbr.bbr_bw_hi << 32 | info.bbr.bbr_bw_lo;
		out[1] = info.bbr.bbr_min_rtt;
		out[2] = info.bbr.bbr_pacing_gain;
		out[3] = info.bbr.bbr_cwnd_gain;
		return 4;
	}
	return 0;
}

/* The bounds of sections, by the linker; one entry of each kind sees to it that there are such. */
static const struct knee_init no_init
__attribute__((used, aligned(8), section("knee_inits"))) = { NULL, 0 };
static const struct knee_param no_param
__attribute__((used, aligned(8), section("knee_params"))) = { NULL, NULL, 0, 0, NULL };
static const struct knee_param_meaning no_meaning
__attribute__((used, aligned(8), section("knee_meanings"))) = { NULL, NULL };
extern const struct knee_param __start_knee_params[], __stop_knee_params[];
extern const struct knee_param_meaning __start_knee_meanings[], __stop_knee_meanings[];

extern const struct knee_init __start_knee_inits[], __stop_knee_inits[];

/* Of the files the last begins: as in a kernel, those that are needed are there before those that need them. */
static int start(u32 files)
{
	u32 file;
	bool is_there = false;

	for (file = files; file > 0; file--) {
		const struct knee_init *init;

		registered_before = registered_len;
		for (init = __start_knee_inits; init < __stop_knee_inits; init++) {
			int failed;

			if (!init->function || init->file != file)
				continue;
			is_there = true;
			failed = init->function();
			if (failed)
				return failed;
		}
	}
	return is_there ? 0 : -EOPNOTSUPP;
}

/* The counters and sysctls by name. */
#define KNEE_MIB_NAME(constant, name) "TcpExt" #name,
#define KNEE_SYSCTL_ROW(type, name) { #name, &knee_net.ipv4.name, sizeof(knee_net.ipv4.name) },

static const char *const mib_names[] = { KNEE_TCP_EXT_MIBS(KNEE_MIB_NAME) };
static const struct sysctl {
	const char *name;
	void *value;
	size_t bytes;
} sysctls[] = { KNEE_SYSCTLS(KNEE_SYSCTL_ROW) };

__attribute__((visibility("default"))) const struct knee_module {
	struct cc_host **host;
	struct sock **sk;
	const struct knee_param *params, *params_end;
	const struct knee_param_meaning *meanings, *meanings_end;
	int (*start)(u32 files);
	const struct tcp_congestion_ops *(*registered_at)(u32 index);
	void (*operations_of)(const struct tcp_congestion_ops *ops, struct knee_operations *out);
	u32 (*info_of)(const struct sock *sk, int attr, u64 *out);
	void (*free_all)(void);
	int (*param_get)(const struct knee_param *param, char *text);
	int (*param_set)(const struct knee_param *param, const char *text);
	const char *const *mib_names;
	const u64 *mibs;
	size_t mibs_len;
	const struct sysctl *sysctls;
	size_t sysctls_len;
	struct knee_sink *sink;
	void (*patched_operations_of)(const struct tcp_congestion_ops *ops,
				      struct knee_patched_operations *out);
	int *hz;
} knee_module = {
	&cc_host,
	&knee_sk,
	__start_knee_params,
	__stop_knee_params,
	__start_knee_meanings,
	__stop_knee_meanings,
	start,
	registered_at,
	operations_of,
	info_of,
	free_all,
	knee_param_get,
	knee_param_set,
	mib_names,
	knee_mibs,
	__LINUX_MIB_MAX,
	sysctls,
	ARRAY_SIZE(sysctls),
	&knee_sink,
	patched_operations_of,
	&knee_hz,
};
