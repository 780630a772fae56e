// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The receiving side of a host's device: queues whose interrupts wait for
 * more frames, and NAPI, which hands the frames of an interrupt to GRO.
 *
 * When an interrupt comes, and to which queue a frame goes, is the model's:
 * `frames` waiting, or a time after the first. Polling, merging and all
 * behind them is the kernel's own.
 *
 * For kernels with one CPU: softirqs do not run beside each other there.
 */
#include <linux/hrtimer.h>
#include <linux/ip.h>
#include <linux/jhash.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <net/ip.h>
#include "knee_nic.h"

struct queue {
	const struct knee_nic *nic;
	struct napi_struct napi;
	struct sk_buff_head waiting;	/* for the interrupt */
	struct hrtimer timer;
};

struct knee_nic {
	struct knee_nic_settings settings;
	u32 key;	/* of the hash that picks a queue, as drivers draw one */
	struct queue queues[];
};

static int poll(struct napi_struct *napi, int budget)
{
	struct queue *queue = container_of(napi, struct queue, napi);
	struct sk_buff *skb;
	int taken = 0;

	while (taken < budget && (skb = __skb_dequeue(&queue->waiting))) {
		taken++;
		/*
		 * The sender may keep the other clone for retransmissions, and GRO
		 * takes the data out of what they share. No wire hands over clones.
		 */
		if (skb_unclone(skb, GFP_ATOMIC))
			kfree_skb(skb);
		else if (queue->nic->settings.merges)
			napi_gro_receive(napi, skb);
		else
			netif_receive_skb(skb);
	}
	if (taken < budget)
		napi_complete_done(napi, taken);
	return taken;
}

/*
 * Polls at once, as of a device whose interrupt is now. From NET_RX, which would
 * run behind this softirq of timers, packets would come behind timers whose slack
 * has begun: on a machine nothing but their own interrupt runs those.
 */
static void interrupt(struct queue *queue)
{
	if (!napi_schedule_prep(&queue->napi))
		return;
	while (poll(&queue->napi, NAPI_POLL_WEIGHT) == NAPI_POLL_WEIGHT)
		;
}

static enum hrtimer_restart time_is_over(struct hrtimer *timer)
{
	interrupt(container_of(timer, struct queue, timer));
	return HRTIMER_NORESTART;
}

/* A number of a frame's connection and direction; of its addresses, if it has no ports. */
static u32 hash(const struct sk_buff *skb, u32 key)
{
	const struct iphdr *ip;
	u32 ports = 0;

	if (skb->protocol != htons(ETH_P_IP) || skb_headlen(skb) < sizeof(*ip))
		return 0;
	ip = (const struct iphdr *)skb->data;
	if ((ip->protocol == IPPROTO_TCP || ip->protocol == IPPROTO_UDP) &&
	    !(ip->frag_off & htons(IP_OFFSET)) && skb_headlen(skb) >= ip->ihl * 4 + sizeof(ports))
		memcpy(&ports, skb->data + ip->ihl * 4, sizeof(ports));
	return jhash_3words((__force u32)ip->saddr, (__force u32)ip->daddr, ports,
			    key ^ ip->protocol);
}

void knee_nic_receive(struct knee_nic *nic, struct sk_buff *skb, u64 came_ns)
{
	struct queue *queue = &nic->queues[hash(skb, nic->key) % nic->settings.queues];
	u32 waiting;

	__skb_queue_tail(&queue->waiting, skb);
	waiting = skb_queue_len(&queue->waiting);
	if (!nic->settings.time_ns || waiting == nic->settings.frames) {
		hrtimer_try_to_cancel(&queue->timer);
		interrupt(queue);
	} else if (waiting == 1) {
		hrtimer_start(&queue->timer, ns_to_ktime(came_ns + nic->settings.time_ns),
			      HRTIMER_MODE_ABS_SOFT);
	}
}

static void set_up(struct queue *queue)
{
	__skb_queue_head_init(&queue->waiting);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&queue->timer, time_is_over, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
#else
	hrtimer_init(&queue->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	queue->timer.function = time_is_over;
#endif
}

struct knee_nic *knee_nic_new(struct net_device *dev, const struct knee_nic_settings *settings)
{
	struct knee_nic *nic = kzalloc(struct_size(nic, queues, settings->queues), GFP_KERNEL);
	u32 i;

	if (!nic)
		return NULL;
	nic->settings = *settings;
	nic->key = get_random_u32();
	for (i = 0; i < settings->queues; i++) {
		struct queue *queue = &nic->queues[i];

		queue->nic = nic;
		set_up(queue);
		netif_napi_add(dev, &queue->napi, poll);
	}
	return nic;
}

void knee_nic_free(struct knee_nic *nic)
{
	u32 i;

	if (!nic)
		return;
	for (i = 0; i < nic->settings.queues; i++)
		netif_napi_del(&nic->queues[i].napi);
	kfree(nic);
}

void knee_nic_open(struct knee_nic *nic)
{
	u32 i;

	for (i = 0; nic && i < nic->settings.queues; i++)
		napi_enable(&nic->queues[i].napi);
}

void knee_nic_stop(struct knee_nic *nic)
{
	u32 i;

	for (i = 0; nic && i < nic->settings.queues; i++) {
		struct queue *queue = &nic->queues[i];

		hrtimer_cancel(&queue->timer);
		napi_disable(&queue->napi);
		__skb_queue_purge(&queue->waiting);
	}
}
