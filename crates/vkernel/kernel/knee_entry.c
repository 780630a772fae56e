// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The way into a queue: a device above another one, which loses a packet at
 * random, or has no memory for it, or hands it on.
 *
 * Whoever has sent a packet that is lost does not learn of it, and the queue
 * below has never seen it. A large segment is cut before it is decided on
 * each of its packets, unless bursts are lost whole.
 *
 * Memory is shared by the queues of several ports, with dynamic thresholds
 * (Choudhury and Hahne 1998): with B the memory, Q what waits in all of them
 * and q what waits in one, that takes a packet of len bytes if
 *
 *     q < alpha * (B - Q)  and  Q + len <= B
 *
 * Bytes set aside for each queue are in none of these.
 *
 * Where the discipline below has classes, the first whose condition a packet
 * meets is what it is told by the packet's priority.
 */
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/random.h>
#include <linux/tcp.h>
#include <linux/version.h>
#include <net/rtnetlink.h>
#include <net/sch_generic.h>

enum {
	KNEE_ENTRY_UNSPEC,
	KNEE_ENTRY_BELOW,	/* u32: index of the device below */
	KNEE_ENTRY_LOSS,	/* u64: share of all packets that is lost, in 1/2^32 */
	KNEE_ENTRY_BURSTS,	/* u32: what is sent as one is lost as one */
	KNEE_ENTRY_MEMORY,	/* u32: number of the memory; 0: the queue has its own alone */
	KNEE_ENTRY_SHARED,	/* u64: B, bytes */
	KNEE_ENTRY_RESERVED,	/* u64: bytes set aside for each queue */
	KNEE_ENTRY_ALPHA,	/* u64: in 1/65536 */
	KNEE_ENTRY_CLASSES,	/* struct knee_class, one after the other */
	KNEE_ENTRY_ATTRIBUTES
};

#define ALPHA_SHIFT 16
#define MOST_CLASSES 16

/* All that is asked for must be so. */
struct knee_class {
	u64 dscps;		/* one bit for each that is allowed */
	u32 only_acks;		/* pure ones: TCP without data, SYN, FIN and RST */
	u32 up_to_bytes;	/* at most so long, Ethernet header counted */
	u32 priority;		/* of its packets */
	u32 padding;
};

struct knee_entry {
	struct net_device *below;
	struct list_head list;
	u64 loss;
	u32 memory;
	u64 shared_bytes;
	u64 reserved_bytes;
	u64 alpha;
	u32 class_count;
	struct knee_class classes[MOST_CLASSES];
};

static LIST_HEAD(knee_entries);

/* What waits below, as its discipline counts it. */
static u64 waiting_bytes(const struct knee_entry *entry)
{
	return rcu_dereference_bh(netdev_get_tx_queue(entry->below, 0)->qdisc)->qstats.backlog;
}

static u64 beyond_reserve(const struct knee_entry *entry, u64 bytes)
{
	return bytes > entry->reserved_bytes ? bytes - entry->reserved_bytes : 0;
}

/* Whether there is memory for so much more. */
static bool has_room(const struct knee_entry *entry, u32 len)
{
	u64 waiting = waiting_bytes(entry), own = beyond_reserve(entry, waiting);
	u64 growth = beyond_reserve(entry, waiting + len) - own, used = 0, free;
	const struct knee_entry *other;

	list_for_each_entry(other, &knee_entries, list)
		if (other->memory == entry->memory)
			used += beyond_reserve(other, waiting_bytes(other));
	free = entry->shared_bytes > used ? entry->shared_bytes - used : 0;
	/* Of memories below 2^32 bytes the products fit: alpha is at most 2^16. */
	return !growth || (own << ALPHA_SHIFT < entry->alpha * free && growth <= free);
}

static bool is_pure_ack(const struct sk_buff *skb, const struct iphdr *ip)
{
	const struct tcphdr *tcp;
	struct tcphdr room;

	if (ip->protocol != IPPROTO_TCP)
		return false;
	tcp = skb_header_pointer(skb, skb_network_offset(skb) + ip->ihl * 4, sizeof(room), &room);
	return tcp && !tcp->syn && !tcp->fin && !tcp->rst &&
	       ntohs(ip->tot_len) == ip->ihl * 4 + tcp->doff * 4;
}

static void classify(const struct knee_entry *entry, struct sk_buff *skb)
{
	const struct iphdr *ip = ip_hdr(skb);
	u32 i;

	for (i = 0; i < entry->class_count; i++) {
		const struct knee_class *class = &entry->classes[i];

		if (!(class->dscps >> (ip->tos >> 2) & 1) || skb->len > class->up_to_bytes ||
		    (class->only_acks && !is_pure_ack(skb, ip)))
			continue;
		skb->priority = class->priority;
		return;
	}
}

static netdev_tx_t knee_entry_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct knee_entry *entry = netdev_priv(dev);

	if (entry->loss && get_random_u32() < entry->loss) {
		dev->stats.tx_dropped += max_t(u32, skb_shinfo(skb)->gso_segs, 1);
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	if (entry->memory && !has_room(entry, skb->len)) {
		dev->stats.tx_fifo_errors++;
		kfree_skb(skb);
		return NET_XMIT_DROP;
	}
	dev->stats.tx_packets++;
	dev->stats.tx_bytes += skb->len;
	classify(entry, skb);
	skb->dev = entry->below;
	return dev_queue_xmit(skb);
}

static int knee_entry_begin(struct net_device *dev)
{
	struct knee_entry *entry = netdev_priv(dev);

	dev_hold(entry->below);
	return 0;
}

static void knee_entry_end(struct net_device *dev)
{
	struct knee_entry *entry = netdev_priv(dev);

	dev_put(entry->below);
}

static const struct net_device_ops knee_entry_ops = {
	.ndo_start_xmit = knee_entry_xmit,
	.ndo_init = knee_entry_begin,
	.ndo_uninit = knee_entry_end,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static void knee_entry_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &knee_entry_ops;
	dev->needs_free_netdev = true;
	dev->max_mtu = ETH_MAX_MTU;
	dev->flags |= IFF_NOARP;
	dev->flags &= ~IFF_MULTICAST;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	dev->priv_flags |= IFF_NO_QUEUE;
	dev->features |= NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM | NETIF_F_HIGHDMA;
	eth_hw_addr_random(dev);
}

static u64 u64_or_0(struct nlattr *attribute)
{
	return attribute ? nla_get_u64(attribute) : 0;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
static int knee_entry_new(struct net_device *dev, struct rtnl_newlink_params *params,
			  struct netlink_ext_ack *extack)
{
	struct nlattr **data = params->data;
	struct net *net = rtnl_newlink_link_net(params);
#else
static int knee_entry_new(struct net *net, struct net_device *dev, struct nlattr *tb[],
			 struct nlattr *data[], struct netlink_ext_ack *extack)
{
#endif
	struct knee_entry *entry = netdev_priv(dev);
	int err;

	if (!data || !data[KNEE_ENTRY_BELOW]) {
		NL_SET_ERR_MSG(extack, "an entry needs a device below");
		return -EINVAL;
	}
	entry->below = __dev_get_by_index(net, nla_get_u32(data[KNEE_ENTRY_BELOW]));
	if (!entry->below)
		return -ENODEV;
	entry->loss = u64_or_0(data[KNEE_ENTRY_LOSS]);
	entry->shared_bytes = u64_or_0(data[KNEE_ENTRY_SHARED]);
	entry->reserved_bytes = u64_or_0(data[KNEE_ENTRY_RESERVED]);
	entry->alpha = u64_or_0(data[KNEE_ENTRY_ALPHA]);
	if (data[KNEE_ENTRY_CLASSES]) {
		u32 len = nla_len(data[KNEE_ENTRY_CLASSES]);

		if (len > sizeof(entry->classes))
			return -EINVAL;
		entry->class_count = len / sizeof(struct knee_class);
		memcpy(entry->classes, nla_data(data[KNEE_ENTRY_CLASSES]), len);
	}
	if (data[KNEE_ENTRY_MEMORY])
		entry->memory = nla_get_u32(data[KNEE_ENTRY_MEMORY]);
	if (data[KNEE_ENTRY_BURSTS] && nla_get_u32(data[KNEE_ENTRY_BURSTS]))
		dev->features |= NETIF_F_ALL_TSO;
	dev->hw_features = dev->features;
	err = register_netdevice(dev);
	if (!err)
		list_add_tail(&entry->list, &knee_entries);
	return err;
}

static void knee_entry_delete(struct net_device *dev, struct list_head *head)
{
	struct knee_entry *entry = netdev_priv(dev);

	list_del(&entry->list);
	unregister_netdevice_queue(dev, head);
}

static const struct nla_policy knee_entry_policy[KNEE_ENTRY_ATTRIBUTES] = {
	[KNEE_ENTRY_BELOW] = { .type = NLA_U32 },
	[KNEE_ENTRY_LOSS] = { .type = NLA_U64 },
	[KNEE_ENTRY_BURSTS] = { .type = NLA_U32 },
	[KNEE_ENTRY_MEMORY] = { .type = NLA_U32 },
	[KNEE_ENTRY_SHARED] = { .type = NLA_U64 },
	[KNEE_ENTRY_RESERVED] = { .type = NLA_U64 },
	[KNEE_ENTRY_ALPHA] = { .type = NLA_U64 },
	[KNEE_ENTRY_CLASSES] = { .type = NLA_BINARY },
};

static struct rtnl_link_ops knee_entry_link_ops = {
	.kind = "knee_entry",
	.priv_size = sizeof(struct knee_entry),
	.setup = knee_entry_setup,
	.newlink = knee_entry_new,
	.dellink = knee_entry_delete,
	.policy = knee_entry_policy,
	.maxtype = KNEE_ENTRY_ATTRIBUTES - 1,
};

static int __init knee_entry_init(void)
{
	return rtnl_link_register(&knee_entry_link_ops);
}
device_initcall(knee_entry_init);

MODULE_LICENSE("Dual BSD/GPL");
