/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's filter of a maximum or minimum over a window of time (linux/win_minmax.h). */
#ifndef KNEE_MODULE_MINMAX_H
#define KNEE_MODULE_MINMAX_H

static inline u32 minmax_running(struct minmax *m, u32 window, u32 t, u32 value, bool largest)
{
	const struct minmax_sample now = { .t = t, .v = value };
	u32 age = t - m->s[0].t;
	int i;

#define BEATS(a, b) (largest ? (a) >= (b) : (a) <= (b))
	/* A new best, or nothing in the window any more, makes all else irrelevant. */
	if (BEATS(value, m->s[0].v) || t - m->s[2].t > window)
		return minmax_reset(m, t, value);
	if (BEATS(value, m->s[1].v))
		m->s[1] = m->s[2] = now;
	else if (BEATS(value, m->s[2].v))
		m->s[2] = now;
#undef BEATS
	if (age > window) {
		/* The best is too old: the next ones move up, twice if the second is too old as well. */
		for (i = 0; i < 2 && t - m->s[0].t > window; i++) {
			m->s[0] = m->s[1];
			m->s[1] = m->s[2];
			m->s[2] = now;
		}
	} else if (m->s[1].t == m->s[0].t && age > window / 4) {
		/* A quarter has passed without a second choice: one from the rest of the window. */
		m->s[1] = m->s[2] = now;
	} else if (m->s[2].t == m->s[1].t && age > window / 2) {
		m->s[2] = now;
	}
	return m->s[0].v;
}

static inline u32 minmax_running_max(struct minmax *m, u32 window, u32 t, u32 value)
{
	return minmax_running(m, window, t, value, true);
}

static inline u32 minmax_running_min(struct minmax *m, u32 window, u32 t, u32 value)
{
	return minmax_running(m, window, t, value, false);
}

#endif
