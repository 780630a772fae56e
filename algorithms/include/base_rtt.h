/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The base RTT that the host's owner declares for a connection, in the socket's own storage: the
 * policy program writes it before the connection is established, an algorithm reads it in init. The
 * objects of both declare the same map; whoever loads the second hands it the first one's.
 */
#ifndef KNEE_BASE_RTT_H
#define KNEE_BASE_RTT_H

/* The kernel's numbers (its own header would bring all its types). */
#define CC_MAP_TYPE_SK_STORAGE	24
#define CC_MAP_NO_PREALLOC	1
#define CC_MAP_CLONE		512	/* an accepted connection starts with its listener's */
#define CC_SK_STORAGE_CREATE	1

struct cc_base_rtt {
	u32 base_rtt_us;
};

#define CC_BASE_RTT_MAP								\
	struct {								\
		__uint(type, CC_MAP_TYPE_SK_STORAGE);				\
		__uint(map_flags, CC_MAP_NO_PREALLOC | CC_MAP_CLONE);		\
		__type(key, int);						\
		__type(value, struct cc_base_rtt);				\
	} cc_base_rtt SEC(".maps")

#endif
