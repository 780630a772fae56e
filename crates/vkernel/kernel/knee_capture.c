// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What went over cables since somebody wrote to /proc/knee_captures, in memory
 * until somebody reads it.
 *
 * No socket captures: to hand a frame to one copies it, which is seen by the
 * TCP that sent it, and wakes a process, whose calls take time. To write into
 * memory takes none.
 */
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/list.h>
#include <linux/proc_fs.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include "knee_capture.h"

/* Of a frame. It ends with its last byte that is not zero: applications send zeros. */
#define SNAP_BYTES 128
#define CHUNK_ORDER 6
#define CHUNK_BYTES ((PAGE_SIZE << CHUNK_ORDER) - sizeof(struct chunk))
/* Half of a guest's memory. */
#define MOST_BYTES (1ULL << 30)

struct chunk {
	struct list_head list;
	u64 len;
	u8 bytes[];
};

/* Filled up to 8 bytes behind it. */
struct frame {
	u64 left_ns;
	u64 came_ns;
	u32 link;
	u32 original_len;
	u32 captured_len;
	u32 padding;
	u8 bytes[SNAP_BYTES];
};

static LIST_HEAD(chunks);
static u64 all_bytes;
static u64 left_out;	/* frames for which there was no memory */
static bool is_on;

static void *room(u32 len)
{
	struct chunk *chunk = list_last_entry(&chunks, struct chunk, list);

	if (list_empty(&chunks) || chunk->len + len > CHUNK_BYTES) {
		if (all_bytes + CHUNK_BYTES > MOST_BYTES)
			return NULL;
		chunk = (void *)__get_free_pages(GFP_ATOMIC | __GFP_NOWARN, CHUNK_ORDER);
		if (!chunk)
			return NULL;
		chunk->len = 0;
		all_bytes += CHUNK_BYTES;
		list_add_tail(&chunk->list, &chunks);
	}
	chunk->len += len;
	return chunk->bytes + chunk->len - len;
}

void knee_capture(u32 link, const struct sk_buff *skb, u64 left_ns, u64 came_ns)
{
	struct frame frame = {
		.left_ns = left_ns, .came_ns = came_ns, .link = link,
		.original_len = skb->len,
	};
	u32 len = min_t(u32, skb->len, SNAP_BYTES);
	void *to;

	if (!is_on || skb_copy_bits(skb, 0, frame.bytes, len))
		return;
	while (len && !frame.bytes[len - 1])
		len--;
	frame.captured_len = len;
	len = ALIGN(offsetof(struct frame, bytes) + len, 8);
	to = room(len);
	if (to)
		memcpy(to, &frame, len);
	else
		left_out++;
}

/* How many were left out, then chunk by chunk, from the offset on. */
static ssize_t captures_read(struct file *file, char __user *to, size_t size, loff_t *offset)
{
	u64 before = *offset;
	struct chunk *chunk;

	if (size < sizeof(left_out))
		return -EINVAL;
	if (!before) {
		knee_cables_note_flying();
		*offset = sizeof(left_out);
		return copy_to_user(to, &left_out, sizeof(left_out)) ? -EFAULT : *offset;
	}
	before -= sizeof(left_out);
	list_for_each_entry(chunk, &chunks, list) {
		u64 len;

		if (before >= chunk->len) {
			before -= chunk->len;
			continue;
		}
		len = min_t(u64, size, chunk->len - before);
		if (copy_to_user(to, chunk->bytes + before, len))
			return -EFAULT;
		*offset += len;
		return len;
	}
	return 0;
}

static ssize_t captures_write(struct file *file, const char __user *from, size_t size,
			      loff_t *offset)
{
	is_on = true;
	return size;
}

static const struct proc_ops captures_ops = {
	.proc_write = captures_write,
	.proc_read = captures_read,
};

static int __init knee_capture_init(void)
{
	return proc_create("knee_captures", 0600, NULL, &captures_ops) ? 0 : -ENOMEM;
}
device_initcall(knee_capture_init);
