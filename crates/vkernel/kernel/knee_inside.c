// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What knee's algorithms tell, and what they are told: ioctl of
 * /proc/knee_inside.
 *
 * KNEE_VALUES: all values inside the algorithm of a socket, 64 bits wide;
 * answers how many. TCP_CC_INFO has room for five of 32.
 * KNEE_BASE_RTT: the RTT without queues of all connections with this local
 * port, for which a host would have a BPF program.
 */
#include <linux/init.h>
#include <linux/net.h>
#include <linux/proc_fs.h>
#include <linux/uaccess.h>
#include <net/inet_connection_sock.h>
#include <linux/xarray.h>
#include <net/tcp.h>

/* Small numbers are of requests that every file has. */
enum { KNEE_VALUES = 0x6b00, KNEE_BASE_RTT };

/* CC_DIAG_ALL of linux.h. */
#define ALL_VALUES 0x6b6e6565
#define MOST_VALUES 32

struct question {
	u64 values;	/* where to */
	u32 socket;
	u32 room;	/* of values */
};

struct base_rtt {
	u32 port;
	u32 us;
};

static DEFINE_XARRAY(base_rtts);

int knee_base_rtt_us(const struct sock *sk);
int knee_base_rtt_us(const struct sock *sk)
{
	void *told = xa_load(&base_rtts, inet_sk(sk)->inet_num);

	return told ? xa_to_value(told) : -1;
}

static long set_base_rtt(const void __user *from)
{
	struct base_rtt told;

	if (copy_from_user(&told, from, sizeof(told)))
		return -EFAULT;
	return xa_err(xa_store(&base_rtts, told.port, xa_mk_value(told.us), GFP_KERNEL));
}

static long inside_of(const struct sock *sk, u64 *values)
{
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;
	int kind = 0;

	if (strncmp(ops->name, "knee_", 5) || !ops->get_info)
		return 0;
	return ops->get_info((struct sock *)sk, ALL_VALUES, &kind, (void *)values) / sizeof(u64);
}

static long tell_values(void __user *argument)
{
	u64 values[MOST_VALUES];
	struct question question;
	struct socket *socket;
	long count = -ENOTSOCK;
	int err;

	if (copy_from_user(&question, argument, sizeof(question)))
		return -EFAULT;
	socket = sockfd_lookup(question.socket, &err);
	if (!socket)
		return err;
	if (socket->sk->sk_protocol == IPPROTO_TCP)
		count = inside_of(socket->sk, values);
	sockfd_put(socket);
	if (count > question.room)
		return -ENOSPC;
	if (count > 0 && copy_to_user((void __user *)question.values, values,
				      count * sizeof(u64)))
		return -EFAULT;
	return count;
}

static long inside_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	switch (command) {
	case KNEE_VALUES:
		return tell_values((void __user *)argument);
	case KNEE_BASE_RTT:
		return set_base_rtt((void __user *)argument);
	default:
		return -ENOTTY;
	}
}

static const struct proc_ops inside_ops = {
	.proc_ioctl = inside_ioctl,
};

static int __init knee_inside_init(void)
{
	return proc_create("knee_inside", 0400, NULL, &inside_ops) ? 0 : -ENOMEM;
}
device_initcall(knee_inside_init);
