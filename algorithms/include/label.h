/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How often a connection has been moved to another path, in the socket's own storage: the algorithm
 * counts, the program at the device makes another IPv6 flow label of each count. The objects of both
 * declare the same map; whoever loads the second hands it the first one's.
 */
#ifndef KNEE_LABEL_H
#define KNEE_LABEL_H

#include "base_rtt.h"

struct cc_label {
	u32 generation;			/* 0: never moved, the kernel's own label stays */
};

/* Not cloned: what a listener accepts begins with the kernel's own label. */
#define CC_LABEL_MAP								\
	struct {								\
		__uint(type, CC_MAP_TYPE_SK_STORAGE);				\
		__uint(map_flags, CC_MAP_NO_PREALLOC);				\
		__type(key, int);						\
		__type(value, struct cc_label);					\
	} cc_label SEC(".maps")

#endif
