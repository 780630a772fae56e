// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* ICMP echoes at regular times. */
#include <linux/eventpoll.h>
#include <linux/icmp.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/socket.h>
#include "guest.h"

#define FIRST_PING (1ULL << 32)
#define IP_HEADER_BYTES 20
/* Echoes that can be on their way: a number has 16 bits. */
#define SENT_AT_ONCE 65536

struct ping {
	long socket;
	u64 *sent_ns;	/* by number; NONE: it is back */
	u32 numbers;	/* given so far */
	u8 *packet;
};

static struct ping *pings;

void prepare_pings(int epoll)
{
	u32 i;

	pings = allocate(plan->pings * sizeof(*pings));
	for (i = 0; i < plan->pings; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data = FIRST_PING + i };
		const struct ping_plan *of = &ping_plans[i];
		struct sockaddr_in to = { .sin_family = 2 /* AF_INET */ };
		u32 tos = of->tos;
		/* All but echoes stay away. */
		u32 filter = ~(1U << ICMP_ECHOREPLY);

		memcpy(&to.sin_addr, of->to_address, 4);
		enter(of->from);
		pings[i].socket = need("a ping's socket",
				       sys3(socket, 2, 3 | 04000 /* SOCK_RAW */, IPPROTO_ICMP));
		need("ICMP_FILTER", sys(setsockopt, pings[i].socket, 255 /* SOL_RAW */, 1, &filter,
					sizeof(filter)));
		need("IP_TOS", sys(setsockopt, pings[i].socket, IPPROTO_IP, IP_TOS, &tos,
				   sizeof(tos)));
		need("a ping's address", sys3(connect, pings[i].socket, &to, sizeof(to)));
		need("epoll", sys4(epoll_ctl, epoll, EPOLL_CTL_ADD, pings[i].socket, &event));
		pings[i].sent_ns = allocate(SENT_AT_ONCE * sizeof(u64));
		pings[i].packet = allocate(of->ip_bytes);
	}
}

/* RFC 1071. */
static u16 checksum(const u8 *bytes, u32 len)
{
	u32 sum = 0, i;

	for (i = 0; i < len; i += 2)
		sum += bytes[i] | (i + 1 < len ? bytes[i + 1] << 8 : 0);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static void record_ping(u32 ping, u64 sent_ns, u64 rtt_ns)
{
	struct ping_record what = { .sent_ns = sent_ns, .rtt_ns = rtt_ns, .ping = ping };

	record(RECORD_PING, &what, sizeof(what), NULL, 0, NULL, 0);
}

void send_ping(u32 index)
{
	struct ping *ping = &pings[index];
	struct icmphdr *head = (void *)ping->packet;
	u32 len = ping_plans[index].ip_bytes - IP_HEADER_BYTES;
	u16 number = ping->numbers;

	/* The one that had this number before has had its time. */
	if (ping->numbers >= SENT_AT_ONCE && ping->sent_ns[number] != NONE)
		record_ping(index, ping->sent_ns[number], NONE);
	head->type = ICMP_ECHO;
	head->un.echo.id = __builtin_bswap16(index);
	head->un.echo.sequence = __builtin_bswap16(number);
	head->checksum = 0;
	head->checksum = checksum(ping->packet, len);
	ping->sent_ns[number] = now_ns();
	ping->numbers++;
	/* What the host itself does not take counts as sent and lost. */
	sys6(__NR_sendto, ping->socket, (long)ping->packet, len, 0, 0, 0);
}

void receive_pings(u32 index)
{
	static u8 packet[65536];
	struct ping *ping = &pings[index];
	const struct icmphdr *head = (void *)(packet + IP_HEADER_BYTES);
	long len;

	while ((len = sys6(__NR_recvfrom, ping->socket, (long)packet, sizeof(packet), 0, 0, 0)) >=
	       (long)(IP_HEADER_BYTES + sizeof(*head))) {
		u16 number = __builtin_bswap16(head->un.echo.sequence);

		if (head->un.echo.id != __builtin_bswap16(index) ||
		    ping->sent_ns[number] == NONE || number >= ping->numbers)
			continue;
		record_ping(index, ping->sent_ns[number], now_ns() - ping->sent_ns[number]);
		ping->sent_ns[number] = NONE;
	}
}

void record_lost_pings(void)
{
	u32 i, number;

	for (i = 0; i < plan->pings; i++)
		for (number = 0; number < SENT_AT_ONCE && number < pings[i].numbers; number++)
			if (pings[i].sent_ns[number] != NONE)
				record_ping(i, pings[i].sent_ns[number], NONE);
}
