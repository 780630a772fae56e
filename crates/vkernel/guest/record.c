// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What comes of a run, written to the file /result. */
#include <linux/fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include "guest.h"

#define BUFFER_BYTES (1 << 20)
#define COUNTS_BYTES (1 << 16)

static u8 buffer[BUFFER_BYTES];
static u64 buffered;
static long result_fd = -1;

void flush_records(void)
{
	u64 at = 0;

	if (result_fd < 0)
		result_fd = sys4(openat, AT_FDCWD, "/result", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	while (at < buffered) {
		long written = sys3(write, result_fd, buffer + at, buffered - at);

		/* There is nobody to tell: the end of the file is missing, and that is seen. */
		if (written <= 0)
			break;
		at += written;
	}
	buffered = 0;
}

void record(enum record_kind kind, const void *first, u32 first_len, const void *second,
	    u32 second_len, const void *third, u32 third_len)
{
	struct record_header *header;
	u32 len = first_len + second_len + third_len;
	u64 all = sizeof(*header) + ((len + 7) & ~7U);
	u8 *to;

	if (all > BUFFER_BYTES)
		fail("a record is too long", 0);
	if (buffered + all > BUFFER_BYTES)
		flush_records();
	header = (void *)(buffer + buffered);
	header->kind = kind;
	header->len = len;
	to = (u8 *)(header + 1);
	memcpy(to, first, first_len);
	memcpy(to + first_len, second, second_len);
	memcpy(to + first_len + second_len, third, third_len);
	memset(to + len, 0, all - sizeof(*header) - len);
	buffered += all;
}

/* ---- queues ---- */

struct queue {
	const struct queue_plan *plan;
	long socket;
};

static struct queue *queues;

void prepare_queues(const u8 *plans)
{
	u32 i;

	queues = allocate(plan->queues * sizeof(*queues));
	for (i = 0; i < plan->queues; i++) {
		queues[i].plan = (const void *)plans;
		enter(queues[i].plan->namespace);
		queues[i].socket = need("netlink", sys3(socket, 16 /* AF_NETLINK */, 3, 0));
		plans += sizeof(struct queue_plan) + ((queues[i].plan->request_len + 7) & ~7U);
	}
}

void record_queues(u64 at_ns, int is_last)
{
	static u8 answer[8192];
	const struct nlmsghdr *head = (void *)answer;
	u32 i;

	for (i = 0; i < plan->queues; i++) {
		const struct queue_plan *queue = queues[i].plan;
		struct queue_record what = { .at_ns = at_ns, .queue = i, .is_last = is_last };
		long len;

		need("a queue", sys6(__NR_sendto, queues[i].socket, (long)(queue + 1),
				     queue->request_len, 0, 0, 0));
		len = need("a queue", sys6(__NR_recvfrom, queues[i].socket, (long)answer,
					   sizeof(answer), 0, 0, 0));
		if (head->nlmsg_type != RTM_NEWQDISC)
			fail("a queue is not told", 0);
		record(RECORD_QUEUE, &what, sizeof(what), answer, len, NULL, 0);
	}
}

/* ---- what hosts count ---- */

void record_counts(int is_last)
{
	static const char *const files[] = { "/proc/self/net/snmp", "/proc/self/net/netstat" };
	static u8 text[COUNTS_BYTES];
	u32 i, file;

	for (i = 0; i < plan->hosts; i++) {
		struct counts_record what = { .namespace = i, .is_last = is_last };

		enter(i);
		for (file = 0; file < 2; file++) {
			long fd = need(files[file],
				       sys4(openat, AT_FDCWD, files[file], O_RDONLY, 0));
			long got, len = 0;

			do {
				got = need(files[file],
					   sys3(read, fd, text + len, sizeof(text) - len));
				len += got;
			} while (got);
			sys1(close, fd);
			record(RECORD_COUNTS, &what, sizeof(what), text, len, NULL, 0);
		}
	}
}
