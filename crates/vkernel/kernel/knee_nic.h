/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef KNEE_NIC_H
#define KNEE_NIC_H

#include <linux/netdevice.h>
#include <linux/skbuff.h>

struct knee_nic;

/* What the time to an interrupt counts from. */
enum knee_nic_since {
	KNEE_NIC_FIRST,		/* the first frame that waits */
	KNEE_NIC_LAST,		/* the last one; DIM's mode CQE */
	KNEE_NIC_INTERRUPT,	/* the interrupt before; DIM's mode EQE */
};

/* How a device hands over what arrives. */
struct knee_nic_settings {
	u32 queues;	/* each with an interrupt of its own */
	u32 frames;	/* that raise it; 0: only the timer does */
	u64 time_ns;	/* from `since` to the interrupt */
	enum knee_nic_since since;
	bool moderates;	/* DIM changes frames and time */
	bool merges;	/* GRO */
};

/* Makes the receiving side of a device that is not registered yet. NULL: there is no memory. */
struct knee_nic *knee_nic_new(struct net_device *dev, const struct knee_nic_settings *settings);
void knee_nic_free(struct knee_nic *nic);
void knee_nic_open(struct knee_nic *nic);
void knee_nic_stop(struct knee_nic *nic);

/* Takes a frame that came at this time, as eth_type_trans leaves it. */
void knee_nic_receive(struct knee_nic *nic, struct sk_buff *skb, u64 came_ns);

#endif
