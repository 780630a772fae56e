// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Random loss before a queue: a device above another one, which loses a
 * packet or hands it on.
 *
 * Whoever has sent a packet that is lost does not learn of it, and the queue
 * below has never seen it. A large segment is cut before it is decided on
 * each of its packets, unless bursts are lost whole.
 */
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/random.h>
#include <net/rtnetlink.h>

enum {
	KNEE_LOSS_UNSPEC,
	KNEE_LOSS_BELOW,	/* u32: index of the device below */
	KNEE_LOSS_SHARE,	/* u64: of all packets, in 1/2^32 */
	KNEE_LOSS_BURSTS,	/* u32: what is sent as one is lost as one */
	KNEE_LOSS_ATTRIBUTES
};

struct knee_loss {
	struct net_device *below;
	u64 share;
};

static netdev_tx_t knee_loss_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct knee_loss *loss = netdev_priv(dev);

	if (get_random_u32() < loss->share) {
		dev->stats.tx_dropped++;
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	dev->stats.tx_packets++;
	dev->stats.tx_bytes += skb->len;
	skb->dev = loss->below;
	return dev_queue_xmit(skb);
}

static int knee_loss_begin(struct net_device *dev)
{
	struct knee_loss *loss = netdev_priv(dev);

	dev_hold(loss->below);
	return 0;
}

static void knee_loss_end(struct net_device *dev)
{
	struct knee_loss *loss = netdev_priv(dev);

	dev_put(loss->below);
}

static const struct net_device_ops knee_loss_ops = {
	.ndo_start_xmit = knee_loss_xmit,
	.ndo_init = knee_loss_begin,
	.ndo_uninit = knee_loss_end,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static void knee_loss_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &knee_loss_ops;
	dev->needs_free_netdev = true;
	dev->max_mtu = ETH_MAX_MTU;
	dev->flags |= IFF_NOARP;
	dev->flags &= ~IFF_MULTICAST;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	dev->priv_flags |= IFF_NO_QUEUE;
	dev->features |= NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM | NETIF_F_HIGHDMA;
	eth_hw_addr_random(dev);
}

static int knee_loss_new(struct net *net, struct net_device *dev, struct nlattr *tb[],
			 struct nlattr *data[], struct netlink_ext_ack *extack)
{
	struct knee_loss *loss = netdev_priv(dev);

	if (!data || !data[KNEE_LOSS_BELOW] || !data[KNEE_LOSS_SHARE]) {
		NL_SET_ERR_MSG(extack, "a loss needs a device below and a share");
		return -EINVAL;
	}
	loss->below = __dev_get_by_index(net, nla_get_u32(data[KNEE_LOSS_BELOW]));
	if (!loss->below)
		return -ENODEV;
	loss->share = nla_get_u64(data[KNEE_LOSS_SHARE]);
	if (data[KNEE_LOSS_BURSTS] && nla_get_u32(data[KNEE_LOSS_BURSTS]))
		dev->features |= NETIF_F_ALL_TSO;
	dev->hw_features = dev->features;
	return register_netdevice(dev);
}

static const struct nla_policy knee_loss_policy[KNEE_LOSS_ATTRIBUTES] = {
	[KNEE_LOSS_BELOW] = { .type = NLA_U32 },
	[KNEE_LOSS_SHARE] = { .type = NLA_U64 },
	[KNEE_LOSS_BURSTS] = { .type = NLA_U32 },
};

static struct rtnl_link_ops knee_loss_link_ops = {
	.kind = "knee_loss",
	.priv_size = sizeof(struct knee_loss),
	.setup = knee_loss_setup,
	.newlink = knee_loss_new,
	.policy = knee_loss_policy,
	.maxtype = KNEE_LOSS_ATTRIBUTES - 1,
};

static int __init knee_loss_init(void)
{
	return rtnl_link_register(&knee_loss_link_ops);
}
device_initcall(knee_loss_init);

MODULE_LICENSE("Dual BSD/GPL");
