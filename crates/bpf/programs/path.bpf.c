/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A network path that misbehaves by the count of its packets, so that a short transfer meets all
 * that a congestion control reacts to. It sits on the receiving side's ingress: a drop at egress
 * would be told to the sender.
 */
#include "bpf_types.h"
#include <bpf/bpf_helpers.h>

#define TC_ACT_OK	0
#define TC_ACT_SHOT	2
/* Longer than any pure ACK: headers and options of TCP over IPv6 over Ethernet take 114 at most. */
#define DATA_BYTES	120

/* Those of Ethernet and IPv6; of IPv4 and its TCP they are less. */
#define HEADER_BYTES	54

/* The beginning of the kernel's context; the rest is not needed. */
struct __sk_buff {
	u32 len;
};

/* Set before the load; a period or a count of 0 is never. Packets are those with data. */
const volatile struct {
	u32 mark_period;	/* of each so many, */
	u32 mark_burst;		/* the first so many get CE */
	u32 drop_period;	/* of each so many, the last is dropped */
	u32 outage_at;		/* from this packet on nothing passes, */
	u32 outage_ms;		/* for so long */
	u32 count_acks;		/* 1: packets are pure ACKs instead */
} settings SEC(".rodata.path") = {};

u64 outage_ends_ns;
u32 packets;

SEC("tc") int path(struct __sk_buff *skb)
{
	u64 now_ns = bpf_ktime_get_ns();
	u32 n;

	if (now_ns < outage_ends_ns)
		return TC_ACT_SHOT;
	if ((skb->len > DATA_BYTES) == settings.count_acks)
		return TC_ACT_OK;
	n = __sync_fetch_and_add(&packets, 1) + 1;
	if (n == settings.outage_at) {
		outage_ends_ns = now_ns + settings.outage_ms * 1000000ull;
		return TC_ACT_SHOT;
	}
	if (settings.drop_period && n % settings.drop_period == 0)
		return TC_ACT_SHOT;
	if (settings.mark_period && n % settings.mark_period < settings.mark_burst) {
		/* Of its own, where a capture has the same bytes: else it could not be marked. */
		bpf_skb_pull_data(skb, HEADER_BYTES);
		bpf_skb_ecn_set_ce(skb);
	}
	return TC_ACT_OK;
}

char path_license[] SEC("license") = "Dual BSD/GPL";
