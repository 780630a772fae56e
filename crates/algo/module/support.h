/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the parts of a module's support have in common, and no module sees.
 */
#ifndef KNEE_SUPPORT_H
#define KNEE_SUPPORT_H

/* Room for what a parameter's callback writes: a page, as in a kernel. */
#define KNEE_PARAM_TEXT		4096

int knee_param_get(const struct knee_param *param, char *text);
int knee_param_set(const struct knee_param *param, const char *text);

/* Where what is printed goes; the simulator fills it. */
struct knee_sink {
	void *to;
	void (*print)(void *to, u64 at_ns, u32 flow, u32 level, const char *text, size_t bytes);
	u32 flow;			/* whose call it is */
	bool has_flow;
};

extern struct knee_sink knee_sink;

/* Of the C library. */
int vsnprintf(char *to, size_t bytes, const char *format, __builtin_va_list arguments);

#endif
