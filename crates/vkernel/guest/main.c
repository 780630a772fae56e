// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The one program of a guest: it builds the network that its plan says, has
 * the applications of all hosts talk, writes down what came of it, and
 * switches the machine off.
 */
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/netlink.h>
#include <linux/reboot.h>
#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/socket.h>
#include <linux/time.h>
#include "guest.h"

#define AF_NETLINK_ 16
#define SOCK_RAW_ 3
/* From the end of the preparations to time 0 of the run. */
#define BEFORE_ZERO_NS 100000000ULL
#define NS_PER_S 1000000000ULL

const struct plan *plan;
const struct flow_plan *flow_plans;
const struct ping_plan *ping_plans;
u64 zero_ns;

void *memcpy(void *to, const void *from, unsigned long len)
{
	void *result = to;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(len) : : "memory");
	return result;
}

void *memset(void *to, int byte, unsigned long len)
{
	void *result = to;

	__asm__ volatile("rep stosb" : "+D"(to), "+c"(len) : "a"(byte) : "memory");
	return result;
}

unsigned long strlen(const char *text)
{
	unsigned long len = 0;

	while (text[len])
		len++;
	return len;
}

void *allocate(u64 bytes)
{
	long at = sys6(__NR_mmap, 0, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at < 0 && at > -4096)
		fail("memory", -at);
	return (void *)at;
}

static void switch_off(void) __attribute__((noreturn));
static void switch_off(void)
{
	write_records();
	sys3(reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF);
	sys1(exit_group, 0);
	__builtin_unreachable();
}

void fail(const char *what, long error)
{
	static const char between[] = ": error ";
	char number[24];
	char *at = number + sizeof(number);

	do {
		*--at = '0' + error % 10;
		error /= 10;
	} while (error);
	record(RECORD_ERROR, what, strlen(what), between, sizeof(between) - 1, at,
	       number + sizeof(number) - at);
	switch_off();
}

static u64 monotonic_ns(void)
{
	struct __kernel_timespec time;

	sys2(clock_gettime, 1 /* CLOCK_MONOTONIC */, &time);
	return (u64)time.tv_sec * NS_PER_S + time.tv_nsec;
}

u64 now_ns(void)
{
	return monotonic_ns() - zero_ns;
}

/* ---- namespaces ---- */

void enter(u32 namespace)
{
	static u32 current = ~0U;

	if (namespace == current)
		return;
	need("setns", sys2(setns, FIRST_NAMESPACE_FD + namespace, CLONE_NEWNET));
	current = namespace;
}

static void keep_namespace(u32 number)
{
	long fd = need("a namespace's file",
		       sys4(openat, AT_FDCWD, "/proc/self/ns/net", O_RDONLY, 0));

	need("its descriptor", sys2(dup2, fd, FIRST_NAMESPACE_FD + number));
	sys1(close, fd);
}

static void make_namespaces(void)
{
	struct rlimit64 limit;
	u64 files = FIRST_NAMESPACE_FD + 2ULL * plan->namespaces + 3ULL * plan->flows +
		    plan->pings + plan->queues + 64;
	u32 i;

	limit.rlim_cur = limit.rlim_max = files;
	need("room for files", sys4(prlimit64, 0, RLIMIT_NOFILE, &limit, NULL));
	/* The guest's first one, behind those of the plan. */
	keep_namespace(plan->namespaces);
	for (i = 0; i < plan->namespaces; i++) {
		need("a network namespace", sys1(unshare, CLONE_NEWNET));
		keep_namespace(i);
	}
}

/* ---- steps ---- */

static void write_file(const char *path, const char *text, u32 len)
{
	long fd = need(path, sys4(openat, AT_FDCWD, path, O_WRONLY, 0));

	need(path, sys3(write, fd, text, len));
	sys1(close, fd);
}

static void ask_kernel(u32 namespace, const void *request, u32 len, const char *what)
{
	static u8 answer[8192];
	static int *sockets;
	const struct nlmsghdr *head = (void *)answer;
	long got;

	if (!sockets)
		sockets = allocate(plan->namespaces * sizeof(*sockets));
	if (!sockets[namespace])
		sockets[namespace] = need("netlink", sys3(socket, AF_NETLINK_, SOCK_RAW_, 0));
	need(what, sys6(__NR_sendto, sockets[namespace], (long)request, len, 0, 0, 0));
	got = need(what, sys6(__NR_recvfrom, sockets[namespace], (long)answer, sizeof(answer),
			      0, 0, 0));
	if (got >= (long)NLMSG_LENGTH(sizeof(struct nlmsgerr)) && head->nlmsg_type == NLMSG_ERROR)
		need(what, ((struct nlmsgerr *)NLMSG_DATA(head))->error);
}

static u64 filled(u64 len)
{
	return (len + 7) & ~7ULL;
}

static const u8 *take_steps(const u8 *at)
{
	u32 i;

	for (i = 0; i < plan->steps; i++) {
		const struct step *step = (const void *)at;
		const u8 *first = at + sizeof(*step);
		const u8 *second = first + filled(step->first_len + 1);

		enter(step->namespace);
		if (step->kind == STEP_WRITE)
			write_file((const char *)first, (const char *)second, step->second_len);
		else
			ask_kernel(step->namespace, first, step->first_len,
				   (const char *)second);
		at = second + filled(step->second_len + 1);
	}
	return at;
}

static const u8 *read_plan(void)
{
	long fd = need("the plan", sys4(openat, AT_FDCWD, "/plan", O_RDONLY, 0));
	u64 len = need("the plan's length", sys3(lseek, fd, 0, 2 /* SEEK_END */));
	u8 *bytes = allocate(len);
	u64 at = 0;

	sys3(lseek, fd, 0, 0);
	while (at < len) {
		long got = need("the plan", sys3(read, fd, bytes + at, len - at));

		if (!got)
			fail("the plan is cut short", 0);
		at += got;
	}
	sys1(close, fd);
	plan = (const void *)bytes;
	if (len < sizeof(*plan) || plan->magic != PLAN_MAGIC)
		fail("the plan is of another version", 0);
	return bytes + sizeof(*plan);
}

void run(void);
void run(void)
{
	const u8 *at;

	need("/proc", sys(mount, "proc", "/proc", "proc", 0, NULL));
	at = read_plan();
	make_namespaces();
	at = take_steps(at);
	flow_plans = (const void *)at;
	at += plan->flows * sizeof(*flow_plans);
	ping_plans = (const void *)at;
	at += plan->pings * sizeof(*ping_plans);
	at = prepare_queues(at);
	prepare_traffic(at);
	if (plan->captures)
		write_file("/proc/knee_captures", "on", 2);
	record_counts(0);
	zero_ns = (monotonic_ns() / BEFORE_ZERO_NS + 2) * BEFORE_ZERO_NS;
	run_traffic();
	record_counts(1);
	if (plan->captures)
		write_captures();
	switch_off();
}

__asm__(".globl _start\n"
	"_start:\n"
	"	xor %ebp, %ebp\n"
	"	and $-16, %rsp\n"
	"	call run\n");
