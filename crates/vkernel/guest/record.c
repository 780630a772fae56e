// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What comes of a run, written to the file /result. */
#include <linux/fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include "guest.h"

#define CHUNK_BYTES (1 << 20)
#define COUNTS_BYTES (1 << 16)

/*
 * Records stay in memory until the run is over: to write a file reads the
 * clock, and that takes time, so that what is recorded would change the run.
 */
struct chunk {
	struct chunk *next;
	u64 len;
	u8 bytes[CHUNK_BYTES];
};

static struct chunk *first_chunk, *last_chunk;

void write_records(void)
{
	long fd = sys4(openat, AT_FDCWD, "/result", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	const struct chunk *chunk;

	for (chunk = first_chunk; chunk; chunk = chunk->next) {
		u64 at = 0;

		while (at < chunk->len) {
			long written = sys3(write, fd, chunk->bytes + at, chunk->len - at);

			/* There is nobody to tell: the end of the file is missing, and that is seen. */
			if (written <= 0)
				return;
			at += written;
		}
	}
}

/* Room for so many bytes. */
static u8 *room(u64 len)
{
	struct chunk *chunk = last_chunk;

	if (!chunk || chunk->len + len > CHUNK_BYTES) {
		chunk = allocate(sizeof(*chunk));
		if (last_chunk)
			last_chunk->next = chunk;
		else
			first_chunk = chunk;
		last_chunk = chunk;
	}
	chunk->len += len;
	return chunk->bytes + chunk->len - len;
}

void record(enum record_kind kind, const void *first, u32 first_len, const void *second,
	    u32 second_len, const void *third, u32 third_len)
{
	struct record_header header = { .kind = kind, .len = first_len + second_len + third_len };
	u8 *to = room(sizeof(header) + ((header.len + 7) & ~7U));

	/* New memory is zero: so is what fills it up. */
	memcpy(to, &header, sizeof(header));
	to += sizeof(header);
	memcpy(to, first, first_len);
	memcpy(to + first_len, second, second_len);
	memcpy(to + first_len + second_len, third, third_len);
}

/* ---- queues ---- */

struct queue {
	const struct queue_plan *plan;
	long socket;
};

static struct queue *queues;

const u8 *prepare_queues(const u8 *plans)
{
	u32 i;

	queues = allocate(plan->queues * sizeof(*queues));
	for (i = 0; i < plan->queues; i++) {
		queues[i].plan = (const void *)plans;
		enter(queues[i].plan->namespace);
		queues[i].socket = need("netlink", sys3(socket, 16 /* AF_NETLINK */, 3, 0));
		plans += sizeof(struct queue_plan) + ((queues[i].plan->request_len + 7) & ~7U);
	}
	return plans;
}

void record_queues(u64 at_ns, enum moment moment)
{
	static u8 answer[8192];
	const struct nlmsghdr *head = (void *)answer;
	u32 i;

	for (i = 0; i < plan->queues; i++) {
		const struct queue_plan *queue = queues[i].plan;
		struct queue_record what = { .at_ns = at_ns, .queue = i, .moment = moment };
		long len;

		if (queue->only_counts && moment == AT_SAMPLE)
			continue;
		need("a queue", sys6(__NR_sendto, queues[i].socket, (long)(queue + 1),
				     queue->request_len, 0, 0, 0));
		len = need("a queue", sys6(__NR_recvfrom, queues[i].socket, (long)answer,
					   sizeof(answer), 0, 0, 0));
		if (head->nlmsg_type != RTM_NEWQDISC && head->nlmsg_type != RTM_NEWLINK)
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

/* ---- captures ---- */

/* What the kernel has of them becomes a file of its own: the run is over, and this may take time. */
void write_captures(void)
{
	static const char file[] = "/proc/knee_captures";
	static u8 bytes[CHUNK_BYTES];
	long from = need(file, sys4(openat, AT_FDCWD, file, O_RDONLY, 0));
	long to = need("the captures", sys4(openat, AT_FDCWD, "/captures",
					    O_WRONLY | O_CREAT | O_TRUNC, 0644));
	long got;

	while ((got = need(file, sys3(read, from, bytes, sizeof(bytes))))) {
		long at = 0;

		while (at < got)
			at += need("the captures", sys3(write, to, bytes + at, got - at));
	}
}
