/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which connections get which congestion control, and ECN: by the prefix of the peer, the port of
 * the service, or the port listened on.
 *
 * An instance serves a cgroup and all below it. The kernel runs the programs of the innermost cgroup
 * first, all on one context, so the first that has a rule claims the event in the reply, which the
 * kernel reads for NEEDS_ECN only (and there nothing but 1 means yes).
 *
 * The algorithm is set when the connection is established: by then it is known whether ECN was
 * negotiated, so that one without it keeps the host's default, and init runs once.
 */
#include "bpf_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "base_rtt.h"

/* From the kernel's user API. */
#define BPF_MAP_TYPE_HASH			1
#define BPF_MAP_TYPE_ARRAY			2
#define BPF_MAP_TYPE_PERCPU_ARRAY		6
#define BPF_MAP_TYPE_LPM_TRIE			11
#define BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB	4
#define BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB	5
#define BPF_SOCK_OPS_NEEDS_ECN			6
#define BPF_SOCK_OPS_TCP_LISTEN_CB		11
#define AF_INET		2
#define AF_INET6	10
#define SOL_TCP		6
#define TCP_CONGESTION	13
#define TCP_ECN_OK	1

/* The beginning of the kernel's context, which is user API; only what is named here is used. */
struct bpf_sock_ops {
	u32 op;
	u32 reply;
	u32 other_replies[3];
	u32 family;
	u32 remote_ip4;			/* network order, as the next and the port */
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port;
	u32 local_port;			/* host order */
	u32 is_fullsock;		/* 0: the request of a connection to be accepted */
	u32 before_ecn_flags[10];
	u32 ecn_flags;
	u32 before_received[12];
	u64 bytes_received;
	u64 bytes_acked;
	struct bpf_sock *sk;
};

struct inet_connection_sock___bits {
	u8 icsk_ca_setsockopt:1;	/* a program chose the algorithm, or a policy did */
} __attribute__((preserve_access_index));

/* Rules: mirrored by src/policy/attach.rs. */
#define RULE_ECN_CONNECT	1	/* connections opened from here ask for ECN, with ECT on the SYN */
#define RULE_ECN_ACCEPT		2	/* those accepted are granted it */
#define RULE_NEEDS_ECN		4	/* its algorithm is for connections with ECN only */
#define RULE_YIELDS		8	/* to what the program chose for its socket */

struct rule {
	char algorithm[16];		/* empty: what the host has */
	char name[32];			/* for people */
	u32 base_rtt_us;		/* 0: unknown */
	u32 flags;
};

/* How often a rule decided. */
struct hits {
	u64 connected;
	u64 accepted;
	u64 listened;
	u64 without_ecn;		/* the algorithm needs it and it was not negotiated */
	u64 yielded;
	u64 failed;			/* the kernel refused the algorithm: it is gone, or locked out */
};

/* Family and port are always compared in full; port 0: the rule is for all. */
struct peer {
	u32 prefixlen;			/* bits, of all that follows */
	u16 family;
	u16 port;
	u32 address[4];			/* network order; IPv4 in the first */
};

struct target {
	u32 rule;
	u32 prefixlen;			/* of the address alone */
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, CC_MAP_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct peer);
	__type(value, struct target);
} peers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);		/* port; 0: all that have no entry */
	__type(value, u32);		/* rule */
} listeners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rule);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hits);
} rule_hits SEC(".maps");

CC_BASE_RTT_MAP;

/* Set before the load. */
const volatile struct {
	u64 deadline_boot_ns;		/* by CLOCK_BOOTTIME; 0: none */
	u64 netns_cookie;		/* 0: every network namespace */
} settings SEC(".rodata.policy") = {};

#define CLAIMED		0x6b6e6565

static __always_inline bool is_claimed(const struct bpf_sock_ops *ctx)
{
	return ctx->reply == CLAIMED || (ctx->op == BPF_SOCK_OPS_NEEDS_ECN && ctx->reply == 1);
}

static __always_inline bool is_out_of_scope(struct bpf_sock_ops *ctx)
{
	if (settings.deadline_boot_ns && bpf_ktime_get_boot_ns() >= settings.deadline_boot_ns)
		return true;
	return settings.netns_cookie && bpf_get_netns_cookie(ctx) != settings.netns_cookie;
}

/* The peer's address; false: not of IP. An IPv4 peer of an IPv6 socket counts as IPv4. */
static __always_inline bool read_peer(const struct bpf_sock_ops *ctx, struct peer *peer)
{
	if (ctx->family == AF_INET) {
		peer->family = AF_INET;
		peer->address[0] = ctx->remote_ip4;
	} else if (ctx->family == AF_INET6) {
		peer->family = AF_INET6;
		peer->address[0] = ctx->remote_ip6[0];
		peer->address[1] = ctx->remote_ip6[1];
		peer->address[2] = ctx->remote_ip6[2];
		peer->address[3] = ctx->remote_ip6[3];
		if (!peer->address[0] && !peer->address[1] &&
		    peer->address[2] == bpf_htonl(0xffff)) {
			peer->family = AF_INET;
			peer->address[0] = peer->address[3];
			peer->address[2] = 0;
			peer->address[3] = 0;
		}
	} else {
		return false;
	}
	peer->prefixlen = 8 * (sizeof(*peer) - sizeof(peer->prefixlen));
	return true;
}

/* The longest prefix; of two equal ones that which names the port. */
static __always_inline const struct target *find_peer(const struct bpf_sock_ops *ctx, u16 port)
{
	struct target *by_port, *any;
	struct peer peer = {};

	if (!read_peer(ctx, &peer))
		return NULL;
	any = bpf_map_lookup_elem(&peers, &peer);
	peer.port = port;
	by_port = bpf_map_lookup_elem(&peers, &peer);
	if (!by_port)
		return any;
	return any && any->prefixlen > by_port->prefixlen ? any : by_port;
}

/*
 * Whether the socket's program has chosen an algorithm for it. One that is the rule's anyway tells
 * nothing: an accepted connection has what its listener was given, and by whom is not known.
 */
static __always_inline bool program_has_chosen(struct bpf_sock_ops *ctx, const struct rule *rule)
{
	const struct inet_connection_sock___bits *icsk;
	struct bpf_sock *sk = ctx->sk;
	char algorithm[16] = {};

	if (!sk)
		return false;
	icsk = (const void *)bpf_skc_to_tcp_sock(sk);
	if (!icsk || !BPF_CORE_READ_BITFIELD(icsk, icsk_ca_setsockopt))
		return false;
	bpf_getsockopt(ctx, SOL_TCP, TCP_CONGESTION, algorithm, sizeof(algorithm));
	return __builtin_memcmp(algorithm, rule->algorithm, sizeof(algorithm));
}

static __always_inline void set_base_rtt(struct bpf_sock_ops *ctx, u32 base_rtt_us)
{
	struct bpf_sock *sk = ctx->sk;
	struct cc_base_rtt *storage;

	if (!sk)
		return;
	storage = bpf_sk_storage_get(&cc_base_rtt, sk, NULL,
				     base_rtt_us ? CC_SK_STORAGE_CREATE : 0);
	if (storage)
		storage->base_rtt_us = base_rtt_us;
}

/* The counters are of this CPU, but a listen can be interrupted by a connection. */
static __always_inline void count(u64 *hits)
{
	__sync_fetch_and_add(hits, 1);
}

/* Carries out a rule; false: it leaves the socket as it is. */
static __always_inline bool set_algorithm(struct bpf_sock_ops *ctx, const struct rule *rule,
					  struct hits *hits)
{
	if (rule->flags & RULE_YIELDS && program_has_chosen(ctx, rule)) {
		count(&hits->yielded);
		return false;
	}
	if (rule->flags & RULE_NEEDS_ECN && ctx->op != BPF_SOCK_OPS_TCP_LISTEN_CB &&
	    !(ctx->ecn_flags & TCP_ECN_OK)) {
		count(&hits->without_ecn);
		return false;
	}
	set_base_rtt(ctx, rule->base_rtt_us);
	if (rule->algorithm[0] && bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION,
						 (void *)rule->algorithm, sizeof(rule->algorithm))) {
		count(&hits->failed);
		return false;
	}
	return true;
}

static __always_inline void at_needs_ecn(struct bpf_sock_ops *ctx)
{
	bool accepts = !ctx->is_fullsock;
	const struct target *target =
		find_peer(ctx, accepts ? ctx->local_port : bpf_ntohl(ctx->remote_port));
	const struct rule *rule = target ? bpf_map_lookup_elem(&rules, &target->rule) : NULL;

	if (!rule)
		return;
	ctx->reply = rule->flags & (accepts ? RULE_ECN_ACCEPT : RULE_ECN_CONNECT) ? 1 : CLAIMED;
}

static __always_inline void at_established(struct bpf_sock_ops *ctx)
{
	bool accepts = ctx->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB;
	const struct target *target =
		find_peer(ctx, accepts ? ctx->local_port : bpf_ntohl(ctx->remote_port));
	const struct rule *rule;
	struct hits *hits;

	if (!target)
		return;
	rule = bpf_map_lookup_elem(&rules, &target->rule);
	hits = bpf_map_lookup_elem(&rule_hits, &target->rule);
	if (!rule || !hits)
		return;
	ctx->reply = CLAIMED;
	if (!set_algorithm(ctx, rule, hits))
		return;
	count(accepts ? &hits->accepted : &hits->connected);
}

static __always_inline void at_listen(struct bpf_sock_ops *ctx)
{
	u32 port = ctx->local_port, all = 0;
	const struct rule *rule;
	struct hits *hits;
	u32 *index;

	index = bpf_map_lookup_elem(&listeners, &port);
	if (!index)
		index = bpf_map_lookup_elem(&listeners, &all);
	if (!index)
		return;
	rule = bpf_map_lookup_elem(&rules, index);
	hits = bpf_map_lookup_elem(&rule_hits, index);
	if (!rule || !hits)
		return;
	ctx->reply = CLAIMED;
	if (set_algorithm(ctx, rule, hits))
		count(&hits->listened);
}

SEC("sockops") int policy(struct bpf_sock_ops *ctx)
{
	if (is_claimed(ctx))
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_NEEDS_ECN:
		if (!is_out_of_scope(ctx))
			at_needs_ecn(ctx);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		if (!is_out_of_scope(ctx))
			at_established(ctx);
		break;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		if (!is_out_of_scope(ctx))
			at_listen(ctx);
		break;
	}
	return 1;
}

char policy_license[] SEC("license") = "Dual BSD/GPL";
