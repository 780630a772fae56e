// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A cable with an Ethernet device at either end, each with a rate and a
 * delay: what lies between hosts and switches of a virtual network.
 *
 * The time that a packet takes is the model's, everything before and behind
 * it is the kernel's own: what waits, waits in the device's queue discipline,
 * which is asked for the next packet when the last bit of the one before has
 * left. A device without a rate takes packets at once and has no queue.
 *
 * Ends are made one by one, each in its own namespace; two with the same
 * number are joined. There is no ARP: both ends have the same address.
 *
 * For kernels with one CPU: softirqs do not run beside each other there.
 */
#include <linux/etherdevice.h>
#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/random.h>
#include <linux/version.h>
#include <net/rtnetlink.h>
#include "knee_capture.h"
#include "knee_nic.h"

#define PS_PER_NS 1000ULL
#define PS_PER_S 1000000000000ULL
/*
 * So late the kernel may learn that a device is free: times of timers are
 * rounded up to ns, and User Mode Linux adds one. Who has waited for it has
 * not begun later for that.
 */
#define LATE_PS (3 * PS_PER_NS)

enum {
	KNEE_CABLE_UNSPEC,
	KNEE_CABLE_NUMBER,	/* u32: which cable it is an end of */
	KNEE_CABLE_RATE,	/* u64: bits per second; 0: without a rate */
	KNEE_CABLE_DELAY,	/* u64: from the last bit's leaving to its arrival, ps */
	KNEE_CABLE_JITTER,	/* u64: at most this much more, uniform, ps */
	KNEE_CABLE_LINK,	/* u32: captures have what leaves here as that of this link, from 1 */
	KNEE_CABLE_OVERHEAD,	/* u32: bytes beside each frame that take time as the frame's own do */
	KNEE_CABLE_QUEUES,	/* u32: receive queues; 0: what arrives is handed over at once */
	KNEE_CABLE_FRAMES,	/* u32: frames that raise a queue's interrupt; 0: only the timer does */
	KNEE_CABLE_TIME,	/* u64: until the interrupt, ns */
	KNEE_CABLE_MERGES,	/* u32: whether GRO gets the frames of an interrupt */
	KNEE_CABLE_SINCE,	/* u32: enum knee_nic_since */
	KNEE_CABLE_MODERATES,	/* u32: whether DIM changes frames and time */
	KNEE_CABLE_ATTRIBUTES
};

struct knee_cable {
	struct net_device *dev;
	struct knee_cable *peer;	/* NULL: there is no other end yet */
	struct list_head list;
	u32 number;
	u64 rate_bps;
	u32 overhead;		/* bytes beside each frame that take time */
	u64 delay_ps;
	u64 jitter_ps;
	u32 link;		/* 0: it is not captured */
	u64 free_ps;			/* when the last bit leaves */
	struct sk_buff *sending;
	struct hrtimer sent;
	struct sk_buff_head flying;	/* in the order of their arrival */
	struct hrtimer arrival;
	struct knee_nic *nic;		/* NULL: what arrives is handed over at once */
};

static LIST_HEAD(knee_cables);

/* Of a packet that the device has. */
struct way {
	u64 taken_ns;		/* when it left the queue */
	u64 arrival_ps;
};

static struct way *way(struct sk_buff *skb)
{
	return (struct way *)skb->cb;
}

static u64 *arrival_ps(struct sk_buff *skb)
{
	return &way(skb)->arrival_ps;
}

static u64 now_ps(void)
{
	return ktime_get_ns() * PS_PER_NS;
}

static ktime_t to_ktime(u64 ps)
{
	return ns_to_ktime(DIV64_U64_ROUND_UP(ps, PS_PER_NS));
}

static void note(const struct knee_cable *cable, struct sk_buff *skb, u64 came_ns)
{
	if (cable->link)
		knee_capture(cable->link - 1, skb, way(skb)->taken_ns, came_ns);
}

/* Hands a packet to the other end, as from its wire. */
static void knee_cable_arrive(struct knee_cable *cable, struct sk_buff *skb, u64 at_ps)
{
	struct knee_cable *other = cable->peer;
	struct net_device *peer;

	note(cable, skb, at_ps / PS_PER_NS);
	if (!other) {
		kfree_skb(skb);
		return;
	}
	peer = other->dev;
	/* A device that is going down has emptied its queues. */
	if (!netif_running(peer)) {
		kfree_skb(skb);
		return;
	}
	/* No wire carries these. */
	skb_clear_hash(skb);
	skb->queue_mapping = 0;
	if (__dev_forward_skb(peer, skb) != NET_RX_SUCCESS)
		return;
	peer->stats.rx_packets++;
	peer->stats.rx_bytes += skb->len + ETH_HLEN;
	if (other->nic)
		knee_nic_receive(other->nic, skb, at_ps / PS_PER_NS);
	else
		netif_receive_skb(skb);
}

/* Sends a packet on its way that has left at this time. */
static void knee_cable_fly(struct knee_cable *cable, struct sk_buff *skb, u64 left_ps)
{
	struct sk_buff *before;
	u64 at_ps = left_ps + cable->delay_ps;

	if (cable->jitter_ps)
		at_ps += mul_u64_u32_shr(cable->jitter_ps, get_random_u32(), 32);
	*arrival_ps(skb) = at_ps;
	/* It has left the host: its socket may send more. */
	skb_orphan(skb);
	skb_queue_reverse_walk(&cable->flying, before)
		if (*arrival_ps(before) <= at_ps)
			break;
	__skb_queue_after(&cable->flying, before, skb);
	if (skb_peek(&cable->flying) == skb)
		hrtimer_start(&cable->arrival, to_ktime(at_ps), HRTIMER_MODE_ABS_SOFT);
}

static enum hrtimer_restart knee_cable_arrivals(struct hrtimer *timer)
{
	struct knee_cable *cable = container_of(timer, struct knee_cable, arrival);
	u64 now = now_ps();
	struct sk_buff *skb;

	while ((skb = skb_peek(&cable->flying)) && *arrival_ps(skb) <= now) {
		__skb_unlink(skb, &cable->flying);
		knee_cable_arrive(cable, skb, *arrival_ps(skb));
	}
	if (!skb)
		return HRTIMER_NORESTART;
	hrtimer_set_expires(timer, to_ktime(*arrival_ps(skb)));
	return HRTIMER_RESTART;
}

static enum hrtimer_restart knee_cable_sent(struct hrtimer *timer)
{
	struct knee_cable *cable = container_of(timer, struct knee_cable, sent);
	struct sk_buff *skb = cable->sending;

	cable->sending = NULL;
	netif_wake_queue(cable->dev);
	if (cable->delay_ps || cable->jitter_ps) {
		knee_cable_fly(cable, skb, cable->free_ps);
	} else {
		skb_orphan(skb);
		knee_cable_arrive(cable, skb, cable->free_ps);
	}
	return HRTIMER_NORESTART;
}

static netdev_tx_t knee_cable_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct knee_cable *cable = netdev_priv(dev);
	u64 now = now_ps();

	dev->stats.tx_packets++;
	dev->stats.tx_bytes += skb->len;
	skb_tx_timestamp(skb);
	if (cable->rate_bps) {
		if (now > cable->free_ps + LATE_PS)
			cable->free_ps = now;
		way(skb)->taken_ns = cable->free_ps / PS_PER_NS;
		/* Of a frame below 2 MB the bits fit, in ps times bit/s. */
		cable->free_ps += div64_u64((skb->len + cable->overhead) * 8 * PS_PER_S,
					    cable->rate_bps);
		cable->sending = skb;
		netif_stop_queue(dev);
		hrtimer_start(&cable->sent, to_ktime(cable->free_ps), HRTIMER_MODE_ABS_SOFT);
	} else {
		way(skb)->taken_ns = now / PS_PER_NS;
		knee_cable_fly(cable, skb, now);
	}
	return NETDEV_TX_OK;
}

void knee_cables_note_flying(void)
{
	struct knee_cable *cable;
	struct sk_buff *skb;

	rtnl_lock();
	list_for_each_entry(cable, &knee_cables, list) {
		local_bh_disable();
		skb_queue_walk(&cable->flying, skb)
			note(cable, skb, KNEE_NEVER);
		if (cable->sending)
			note(cable, cable->sending, KNEE_NEVER);
		local_bh_enable();
	}
	rtnl_unlock();
}

static int knee_cable_open(struct net_device *dev)
{
	struct knee_cable *cable = netdev_priv(dev);

	knee_nic_open(cable->nic);
	netif_start_queue(dev);
	return 0;
}

static int knee_cable_stop(struct net_device *dev)
{
	struct knee_cable *cable = netdev_priv(dev);

	netif_stop_queue(dev);
	hrtimer_cancel(&cable->sent);
	hrtimer_cancel(&cable->arrival);
	knee_nic_stop(cable->nic);
	kfree_skb(cable->sending);
	cable->sending = NULL;
	__skb_queue_purge(&cable->flying);
	return 0;
}

static void knee_cable_free(struct net_device *dev)
{
	struct knee_cable *cable = netdev_priv(dev);

	knee_nic_free(cable->nic);
	cable->nic = NULL;
}

static const struct net_device_ops knee_cable_ops = {
	.ndo_uninit = knee_cable_free,
	.ndo_open = knee_cable_open,
	.ndo_stop = knee_cable_stop,
	.ndo_start_xmit = knee_cable_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static void set_up(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *))
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	timer->function = function;
#endif
}

static void knee_cable_setup(struct net_device *dev)
{
	struct knee_cable *cable = netdev_priv(dev);

	ether_setup(dev);
	dev->netdev_ops = &knee_cable_ops;
	dev->needs_free_netdev = true;
	dev->max_mtu = ETH_MAX_MTU;
	dev->flags |= IFF_NOARP;
	dev->flags &= ~IFF_MULTICAST;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	dev->features |= NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM | NETIF_F_HIGHDMA;
	dev->hw_features = dev->features;
	eth_hw_addr_random(dev);
	cable->dev = dev;
	INIT_LIST_HEAD(&cable->list);
	__skb_queue_head_init(&cable->flying);
	set_up(&cable->sent, knee_cable_sent);
	set_up(&cable->arrival, knee_cable_arrivals);
}

static u64 u64_or_0(struct nlattr *attribute)
{
	return attribute ? nla_get_u64(attribute) : 0;
}

static u32 u32_or_0(struct nlattr *attribute)
{
	return attribute ? nla_get_u32(attribute) : 0;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
static int knee_cable_new(struct net_device *dev, struct rtnl_newlink_params *params,
			  struct netlink_ext_ack *extack)
{
	struct nlattr **data = params->data;
#else
static int knee_cable_new(struct net *net, struct net_device *dev, struct nlattr *tb[],
			  struct nlattr *data[], struct netlink_ext_ack *extack)
{
#endif
	struct knee_cable *cable = netdev_priv(dev), *other;
	struct knee_nic_settings nic;
	int err;

	if (!data || !data[KNEE_CABLE_NUMBER]) {
		NL_SET_ERR_MSG(extack, "a cable needs a number");
		return -EINVAL;
	}
	cable->number = nla_get_u32(data[KNEE_CABLE_NUMBER]);
	cable->rate_bps = u64_or_0(data[KNEE_CABLE_RATE]);
	cable->delay_ps = u64_or_0(data[KNEE_CABLE_DELAY]);
	cable->jitter_ps = u64_or_0(data[KNEE_CABLE_JITTER]);
	cable->overhead = u32_or_0(data[KNEE_CABLE_OVERHEAD]);
	cable->link = u32_or_0(data[KNEE_CABLE_LINK]);
	nic = (struct knee_nic_settings){
		.queues = u32_or_0(data[KNEE_CABLE_QUEUES]),
		.frames = u32_or_0(data[KNEE_CABLE_FRAMES]),
		.time_ns = u64_or_0(data[KNEE_CABLE_TIME]),
		.merges = u32_or_0(data[KNEE_CABLE_MERGES]),
		.since = u32_or_0(data[KNEE_CABLE_SINCE]),
		.moderates = u32_or_0(data[KNEE_CABLE_MODERATES]),
	};
	list_for_each_entry(other, &knee_cables, list) {
		if (other->number != cable->number)
			continue;
		if (other->peer) {
			NL_SET_ERR_MSG(extack, "this cable has two ends already");
			return -EEXIST;
		}
		cable->peer = other;
	}
	if (!cable->rate_bps)
		dev->priv_flags |= IFF_NO_QUEUE;
	if (nic.queues) {
		cable->nic = knee_nic_new(dev, &nic);
		if (!cable->nic)
			return -ENOMEM;
	}
	err = register_netdevice(dev);
	if (err) {
		knee_cable_free(dev);
		return err;
	}
	if (cable->peer)
		cable->peer->peer = cable;
	list_add(&cable->list, &knee_cables);
	return 0;
}

static void knee_cable_delete(struct net_device *dev, struct list_head *head)
{
	struct knee_cable *cable = netdev_priv(dev);

	if (cable->peer)
		cable->peer->peer = NULL;
	list_del(&cable->list);
	unregister_netdevice_queue(dev, head);
}

static const struct nla_policy knee_cable_policy[KNEE_CABLE_ATTRIBUTES] = {
	[KNEE_CABLE_NUMBER] = { .type = NLA_U32 },
	[KNEE_CABLE_RATE] = { .type = NLA_U64 },
	[KNEE_CABLE_DELAY] = { .type = NLA_U64 },
	[KNEE_CABLE_JITTER] = { .type = NLA_U64 },
	[KNEE_CABLE_LINK] = { .type = NLA_U32 },
	[KNEE_CABLE_OVERHEAD] = { .type = NLA_U32 },
	[KNEE_CABLE_QUEUES] = { .type = NLA_U32 },
	[KNEE_CABLE_FRAMES] = { .type = NLA_U32 },
	[KNEE_CABLE_TIME] = { .type = NLA_U64 },
	[KNEE_CABLE_MERGES] = { .type = NLA_U32 },
	[KNEE_CABLE_SINCE] = NLA_POLICY_MAX(NLA_U32, KNEE_NIC_INTERRUPT),
	[KNEE_CABLE_MODERATES] = { .type = NLA_U32 },
};

static struct rtnl_link_ops knee_cable_link_ops = {
	.kind = "knee_cable",
	.priv_size = sizeof(struct knee_cable),
	.setup = knee_cable_setup,
	.newlink = knee_cable_new,
	.dellink = knee_cable_delete,
	.policy = knee_cable_policy,
	.maxtype = KNEE_CABLE_ATTRIBUTES - 1,
};

static int __init knee_cable_init(void)
{
	return rtnl_link_register(&knee_cable_link_ops);
}
device_initcall(knee_cable_init);

MODULE_LICENSE("Dual BSD/GPL");
