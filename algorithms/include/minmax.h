/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The largest value of a window of time in constant memory (Kathleen Nichols). Three samples are kept,
 * ever newer and ever smaller: the best of the window, the best since that one, and the best since
 * the second. When the best falls out of the window, the next takes its place. So that there is one,
 * the second must come from after the first quarter of the window and the third from after the half.
 */
#ifndef KNEE_MINMAX_H
#define KNEE_MINMAX_H

struct max_sample {
	u32 at;				/* in units of the window */
	u32 value;
};

struct max_filter {
	struct max_sample best, second, third;
};

static inline void max_filter_reset(struct max_filter *filter, u32 now, u32 value)
{
	struct max_sample sample = { now, value };

	filter->best = sample;
	filter->second = sample;
	filter->third = sample;
}

/* The samples grow old. */
static inline void max_filter_age(struct max_filter *filter, u32 window, struct max_sample sample)
{
	u32 age = sample.at - filter->best.at;

	if (age > window) {
		filter->best = filter->second;
		filter->second = filter->third;
		filter->third = sample;
		if (sample.at - filter->best.at > window) {
			filter->best = filter->second;
			filter->second = filter->third;
			filter->third = sample;
		}
	} else if (filter->second.at == filter->best.at && age > window / 4) {
		filter->second = sample;
		filter->third = sample;
	} else if (filter->third.at == filter->second.at && age > window / 2) {
		filter->third = sample;
	}
}

/* Takes a sample in; time may wrap, but not run backwards. */
static inline void max_filter_update(struct max_filter *filter, u32 window, u32 now, u32 value)
{
	struct max_sample sample = { now, value };

	if (value >= filter->best.value || now - filter->third.at > window) {
		max_filter_reset(filter, now, value);
		return;
	}
	if (value >= filter->second.value) {
		filter->second = sample;
		filter->third = sample;
	} else if (value >= filter->third.value) {
		filter->third = sample;
	}
	max_filter_age(filter, window, sample);
}

#endif
