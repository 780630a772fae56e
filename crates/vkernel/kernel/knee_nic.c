// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The receiving side of a host's device: queues whose interrupts wait for
 * more frames, and NAPI, which hands the frames of an interrupt to GRO.
 *
 * When an interrupt comes, and to which queue a frame goes, is the model's:
 * `frames` waiting, or a time after the first or last of them, or after the
 * interrupt before. Polling, merging and all behind them is the kernel's own,
 * and so is DIM, which changes frames and time.
 *
 * For kernels with one CPU: softirqs do not run beside each other there.
 */
#include <linux/dim.h>
#include <linux/hrtimer.h>
#include <linux/if_ether.h>
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
	u32 frames;
	u64 time_ns;
	u64 due_ns;	/* the interrupt */
	u64 last_ns;	/* the interrupt before */
	/* Counters for DIM. */
	u16 interrupts;
	u64 polled;
	u64 polled_bytes;
	struct dim dim;
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
		queue->polled++;
		queue->polled_bytes += skb->len + ETH_HLEN;
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

static void moderate(struct queue *queue)
{
	struct dim_sample sample = {};

	if (!queue->nic->settings.moderates)
		return;
	dim_update_sample(++queue->interrupts, queue->polled, queue->polled_bytes, &sample);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	net_dim(&queue->dim, &sample);
#else
	net_dim(&queue->dim, sample);
#endif
}

/* DIM has chosen another level: work, as drivers do it. */
static void change_level(struct work_struct *work)
{
	struct dim *dim = container_of(work, struct dim, work);
	struct queue *queue = container_of(dim, struct queue, dim);
	struct dim_cq_moder level = net_dim_get_rx_moderation(dim->mode, dim->profile_ix);

	local_bh_disable();
	queue->frames = level.pkts;
	queue->time_ns = level.usec * NSEC_PER_USEC;
	dim->state = DIM_START_MEASURE;
	local_bh_enable();
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
	moderate(queue);
}

static enum hrtimer_restart time_is_over(struct hrtimer *timer)
{
	struct queue *queue = container_of(timer, struct queue, timer);

	queue->last_ns = queue->due_ns;
	interrupt(queue);
	return HRTIMER_NORESTART;
}

/* What the time to the interrupt counts from, for a frame that comes now. */
static u64 since(const struct queue *queue, u64 came_ns)
{
	return queue->nic->settings.since == KNEE_NIC_INTERRUPT ? queue->last_ns : came_ns;
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
	if (waiting == 1 || nic->settings.since == KNEE_NIC_LAST)
		queue->due_ns = queue->time_ns + since(queue, came_ns);
	if (queue->due_ns <= came_ns || (queue->frames && waiting >= queue->frames)) {
		hrtimer_try_to_cancel(&queue->timer);
		queue->last_ns = came_ns;
		interrupt(queue);
	} else if (waiting == 1 || nic->settings.since == KNEE_NIC_LAST) {
		hrtimer_start(&queue->timer, ns_to_ktime(queue->due_ns), HRTIMER_MODE_ABS_SOFT);
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

/* As a driver makes a queue anew whenever its device is opened. */
static void begin(struct queue *queue)
{
	const struct knee_nic_settings *settings = &queue->nic->settings;

	queue->frames = settings->frames;
	queue->time_ns = settings->time_ns;
	queue->due_ns = 0;
	queue->last_ns = 0;
	queue->interrupts = 0;
	queue->polled = 0;
	queue->polled_bytes = 0;
	queue->dim = (struct dim){
		.mode = settings->since == KNEE_NIC_LAST ?
			DIM_CQ_PERIOD_MODE_START_FROM_CQE :
			DIM_CQ_PERIOD_MODE_START_FROM_EQE,
	};
	INIT_WORK(&queue->dim.work, change_level);
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

	for (i = 0; nic && i < nic->settings.queues; i++) {
		begin(&nic->queues[i]);
		napi_enable(&nic->queues[i].napi);
	}
}

void knee_nic_stop(struct knee_nic *nic)
{
	u32 i;

	for (i = 0; nic && i < nic->settings.queues; i++) {
		struct queue *queue = &nic->queues[i];

		hrtimer_cancel(&queue->timer);
		if (nic->settings.moderates)
			cancel_work_sync(&queue->dim.work);
		napi_disable(&queue->napi);
		__skb_queue_purge(&queue->waiting);
	}
}
