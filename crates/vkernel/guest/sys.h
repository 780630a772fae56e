/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls into the kernel, without a C library: the program has no floating
 * point, so that nothing depends on how a guest's registers are switched.
 */
#ifndef KNEE_GUEST_SYS_H
#define KNEE_GUEST_SYS_H

#include <asm/unistd.h>
#include <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#define NULL ((void *)0)

static inline long sys6(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

/* Each answers what the kernel does: below 0 it is an error's number. */
#define sys(name, a, b, c, d, e) \
	sys6(__NR_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define sys0(name) sys(name, 0, 0, 0, 0, 0)
#define sys1(name, a) sys(name, a, 0, 0, 0, 0)
#define sys2(name, a, b) sys(name, a, b, 0, 0, 0)
#define sys3(name, a, b, c) sys(name, a, b, c, 0, 0)
#define sys4(name, a, b, c, d) sys(name, a, b, c, d, 0)

void *memcpy(void *to, const void *from, unsigned long len);
void *memset(void *to, int byte, unsigned long len);
unsigned long strlen(const char *text);

/* Zeroed memory, for as long as the program runs. */
void *allocate(u64 bytes);

/* Ends the guest, with a reason for whoever started it. */
void fail(const char *what, long error) __attribute__((noreturn));

/* The same if the kernel refused. */
static inline long need(const char *what, long result)
{
	if (result < 0)
		fail(what, -result);
	return result;
}

#endif
