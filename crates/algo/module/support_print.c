/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * printk and its kin: what a module prints goes into the run's log.
 */
#include <knee/module_net.h>
#include <knee/support.h>

struct knee_sink knee_sink;

enum {
	LEVEL_WARNING = 4,		/* without another, as in a kernel */
	LEVEL_CONTINUED = 8,		/* belongs to the line before */
	LONGEST_LINE = 1024,		/* bytes, as in a kernel */
	NO_FLOW = ~0u,
};

static void print(u32 level, const char *text, size_t bytes)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)knee_sk;

	if (!knee_sink.print)
		return;
	knee_is_allocating = 1;
	knee_sink.print(knee_sink.to, tp ? tp->tcp_clock_cache : 0,
			knee_sink.has_flow ? knee_sink.flow : NO_FLOW, level, text, bytes);
	knee_is_allocating = 0;
}

int knee_printk(const char *format, ...)
{
	char text[LONGEST_LINE];
	u32 level = LEVEL_WARNING;
	__builtin_va_list arguments;
	int length;

	if (format[0] == KERN_SOH[0] && format[1]) {
		level = format[1] == 'c' ? LEVEL_CONTINUED : (u32)(format[1] - '0') % 8;
		format += 2;
	}
	__builtin_va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	__builtin_va_end(arguments);
	if (length < 0)
		return length;
	print(level, text, min_t(size_t, (size_t)length, sizeof(text) - 1));
	return length;
}

void knee_warn(const char *file, int line, const char *what)
{
	knee_printk(KERN_WARNING "%s:%d: %s\n", file, line, what);
}
