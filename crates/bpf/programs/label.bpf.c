/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Another IPv6 flow label for connections that an algorithm has moved to another path (cc_rehash): no
 * program may write a socket's transmit hash, but one at the device's egress may write the label.
 *
 * The kernel's own label stays the base, so that what the kernel changes by itself (at timeouts)
 * still counts. Whoever is never moved keeps it unchanged; of those that are, each count has another
 * label than the one before. The label is in no checksum.
 */
#include "bpf_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "label.h"

#define ETH_P_IPV6	0x86dd
#define ETHERNET_BYTES	14
#define LABEL_BITS	20
#define LABEL_MASK	((1U << LABEL_BITS) - 1)

/* What comes after, other programs and filters of the host's, decides about the packet. */
#define TCX_NEXT	(-1)

struct bpf_sock;

/* The kernel's context, which is user API; only what is named here is used. */
struct __sk_buff {
	u32 before_protocol[4];
	u32 protocol;			/* network order */
	u32 before_flow_keys[31];
	u64 flow_keys;
	u64 tstamp;
	u32 wire_len;
	u32 gso_segs;
	struct bpf_sock *sk;
};

_Static_assert(__builtin_offsetof(struct __sk_buff, sk) == 168, "user API");

CC_LABEL_MAP;

/* Set before the load. */
const volatile struct {
	u64 deadline_boot_ns;		/* by CLOCK_BOOTTIME; 0: none */
} settings SEC(".rodata.label") = {};

/* Multiplying by an odd number spreads the counts; the upper bits are the good ones. */
static __always_inline u32 relabel(u32 label, u32 generation)
{
	return (label ^ ((generation * 0x9e3779b1U) >> (32 - LABEL_BITS))) & LABEL_MASK;
}

SEC("tc/egress") int knee_label(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct cc_label *moved;
	u32 word;

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || !sk)
		return TCX_NEXT;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return TCX_NEXT;
	moved = bpf_sk_storage_get(&cc_label, sk, NULL, 0);
	if (!moved || !moved->generation)
		return TCX_NEXT;
	if (settings.deadline_boot_ns && bpf_ktime_get_boot_ns() >= settings.deadline_boot_ns)
		return TCX_NEXT;
	/* Version, traffic class and label share the first word of the header. */
	if (bpf_skb_load_bytes(skb, ETHERNET_BYTES, &word, sizeof(word)))
		return TCX_NEXT;
	word = bpf_ntohl(word);
	word = (word & ~LABEL_MASK) | relabel(word & LABEL_MASK, moved->generation);
	word = bpf_htonl(word);
	bpf_skb_store_bytes(skb, ETHERNET_BYTES, &word, sizeof(word), 0);
	return TCX_NEXT;
}

char label_license[] SEC("license") = "Dual BSD/GPL";
