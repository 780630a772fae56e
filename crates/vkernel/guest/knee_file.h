// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Before an algorithm of somebody's own file, which becomes a module of a guest's kernel: it registers under
 * the name that the run has for it, for another one of its own name may be there. The one table that counts is
 * the first, as in the simulator; and what a module exports, the kernel may export already.
 */
#include <linux/btf.h>
#include <linux/module.h>
#include <linux/string.h>
#include <net/tcp.h>

#ifndef __bpf_kfunc
#define __bpf_kfunc
#endif

static char *knee_name;
module_param(knee_name, charp, 0);

static int __init knee_register(struct tcp_congestion_ops *ops)
{
	static bool has_one;

	if (has_one)
		return 0;
	has_one = true;
	strscpy(ops->name, knee_name, sizeof(ops->name));
	return tcp_register_congestion_control(ops);
}

#define tcp_register_congestion_control knee_register
#undef EXPORT_SYMBOL
#undef EXPORT_SYMBOL_GPL
#define EXPORT_SYMBOL(name) struct knee_nothing
#define EXPORT_SYMBOL_GPL(name) struct knee_nothing
