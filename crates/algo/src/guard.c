/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A call that a signal handler may abandon. Only frames of C lie between the two functions, so nothing is
 * left behind that would have to be tidied up.
 */
/* The checked longjmp does not know that a handler has a stack of its own. */
#undef _FORTIFY_SOURCE
#include <setjmp.h>

_Static_assert(sizeof(jmp_buf) <= 512, "guard.rs has room for 512 bytes");

/*
 * 0: `run` has returned; else it was abandoned. `calls` is odd while it can be: from when the buffer says
 * where to go on until `run` has returned, and not an instruction longer.
 */
int knee_guarded(void *env, unsigned long long *calls, void (*run)(void *), void *data)
{
	unsigned long long before = __atomic_load_n(calls, __ATOMIC_RELAXED);
	int abandoned = 1;

	if (_setjmp(*(jmp_buf *)env) == 0) {
		__atomic_store_n(calls, before + 1, __ATOMIC_RELEASE);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		run(data);
		abandoned = 0;
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(calls, before + 2, __ATOMIC_RELEASE);
	return abandoned;
}

/* Goes on behind the call. */
void knee_abandon(void *env)
{
	_longjmp(*(jmp_buf *)env, 1);
}
