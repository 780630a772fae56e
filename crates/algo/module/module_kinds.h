/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Small things that modules outside the kernel tree use: names of connections for what they print, sizes of
 * packets, the table of socket calls that some replace. docs/modules.md names what of them cannot act here.
 */
#ifndef KNEE_MODULE_KINDS_H
#define KNEE_MODULE_KINDS_H

/* ---- sizes: with the headers of IPv4 and TCP, bytes; timestamps are counted in the MSS ---- */

#define KNEE_HEADER_BYTES	52

static inline int tcp_mss_to_mtu(const struct sock *sk, int mss)
{
	(void)sk;
	return mss + KNEE_HEADER_BYTES;
}

static inline int tcp_mtu_to_mss(const struct sock *sk, int mtu)
{
	(void)sk;
	return mtu - KNEE_HEADER_BYTES;
}

#ifndef __bpf__

/* ---- the connection's name: IPv4, and numbers of the run's sockets in place of addresses and ports ---- */

#define AF_INET			2
#define AF_INET6		10
#define IPPROTO_TCP		6
#define INET_ADDRSTRLEN		16
#define INET6_ADDRSTRLEN	48

static inline struct inet_sock *inet_sk(const struct sock *sk)
{
	return (struct inet_sock *)sk;
}

#define sk_v6_daddr		sk_daddr
#define sk_v6_rcv_saddr		sk_rcv_saddr
#define inet_dport		sk.sk_dport
#define inet_sport		sk.sk_sport
#define inet_daddr		sk.sk_daddr
#define inet_saddr		sk.sk_rcv_saddr

#ifndef ntohs
#define ntohs(n)		__builtin_bswap16(n)
#define htons(n)		__builtin_bswap16(n)
#define ntohl(n)		__builtin_bswap32(n)
#define htonl(n)		__builtin_bswap32(n)
#endif

/* ---- the table of a socket's calls: it may be copied and replaced, but nobody calls through it ---- */

#define _LINUX_SOCKPTR_H

#ifndef EFAULT
#define EFAULT			14
#endif

typedef struct { void *user; } sockptr_t;

struct proto {
	char name[32];
	int (*setsockopt)(struct sock *sk, int level, int optname, sockptr_t optval,
			  unsigned int optlen);
	int (*getsockopt)(struct sock *sk, int level, int optname, char *optval, int *optlen);
};

/* In support.c. */
extern struct proto tcp_prot, tcpv6_prot;

/* Of a call that never comes. */
static inline int copy_from_sockptr(void *to, sockptr_t from, size_t bytes)
{
	(void)to;
	(void)from;
	(void)bytes;
	return -EFAULT;
}

static inline unsigned long copy_from_user(void *to, const void *from, unsigned long bytes)
{
	(void)to;
	(void)from;
	return bytes;
}

static inline unsigned long copy_to_user(void *to, const void *from, unsigned long bytes)
{
	(void)to;
	(void)from;
	return bytes;
}

#endif
#endif
