/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef KNEE_CAPTURE_H
#define KNEE_CAPTURE_H

#include <linux/skbuff.h>

/* A time that has not come. */
#define KNEE_NEVER (~0ULL)

/*
 * Notes the beginning of a frame that went over a link, and when: it left its
 * queue then, and had come to the other end then. From the Ethernet header on.
 */
void knee_capture(u32 link, const struct sk_buff *skb, u64 left_ns, u64 came_ns);

/* Has every cable note what is on its way: nothing more will come. */
void knee_cables_note_flying(void);

#endif
