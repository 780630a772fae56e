/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A call that a signal handler may abandon. Only frames of C lie between the two functions, so nothing is
 * left behind that would have to be tidied up.
 */
/* The checked longjmp does not know that a handler has a stack of its own. */
#undef _FORTIFY_SOURCE
#include <setjmp.h>

_Static_assert(sizeof(jmp_buf) <= 512, "guard.rs has room for 512 bytes");

/* 0: `run` has returned; else it was abandoned. */
int knee_guarded(void *env, void (*run)(void *), void *data)
{
	if (_setjmp(*(jmp_buf *)env))
		return 1;
	run(data);
	return 0;
}

/* Goes on behind the call. */
void knee_abandon(void *env)
{
	_longjmp(*(jmp_buf *)env, 1);
}
