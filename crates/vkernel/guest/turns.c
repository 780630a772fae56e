// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Flows that wait for others: lanes of so many at a time, in rounds that begin when the last is done. */
#include "guest.h"

struct lane {
	const struct lane_plan *plan;
	const u32 *flows;
	u32 taken;		/* flows that have had their turn */
};

struct series {
	u32 round;		/* that is under way */
	u32 left;		/* flows of it that are not done */
};

static struct lane *lanes;
static struct series *all_series;
static u32 series_count;
static struct lane **lane_of;	/* by flow; NULL: it waits for nobody */
static void (*begin_flow)(u32 flow, u64 at_ns);

void prepare_turns(const u8 *at, void (*begin)(u32 flow, u64 at_ns))
{
	u32 i, j;

	begin_flow = begin;
	lanes = allocate(plan->lanes * sizeof(*lanes));
	lane_of = allocate(plan->flows * sizeof(*lane_of));
	for (i = 0; i < plan->lanes; i++) {
		struct lane *lane = &lanes[i];

		lane->plan = (const void *)at;
		lane->flows = (const void *)(lane->plan + 1);
		at += sizeof(*lane->plan) + ((lane->plan->flows * sizeof(u32) + 7) & ~7UL);
		for (j = 0; j < lane->plan->flows; j++)
			lane_of[lane->flows[j]] = lane;
		if (lane->plan->series >= series_count)
			series_count = lane->plan->series + 1;
	}
	all_series = allocate(series_count * sizeof(*all_series));
}

int waits_for_turn(u32 flow)
{
	return lane_of[flow] != NULL;
}

static void take(struct lane *lane, u64 at_ns)
{
	begin_flow(lane->flows[lane->taken++], at_ns);
}

static void begin_round(u32 number, u32 round, u64 at_ns)
{
	struct series *series = &all_series[number];
	u32 i, j;

	series->round = round;
	series->left = 0;
	for (i = 0; i < plan->lanes; i++) {
		struct lane *lane = &lanes[i];

		if (lane->plan->series != number || lane->plan->round != round)
			continue;
		series->left += lane->plan->flows;
		for (j = 0; j < lane->plan->parallel && j < lane->plan->flows; j++)
			take(lane, at_ns);
	}
}

void begin_turns(void)
{
	u32 i;

	for (i = 0; i < series_count; i++)
		begin_round(i, 0, 0);
}

/* A flow that has had its turn is done. */
void end_turn(u32 flow, u64 at_ns)
{
	struct lane *lane = lane_of[flow];
	struct series *series = &all_series[lane->plan->series];

	if (--series->left == 0)
		begin_round(lane->plan->series, series->round + 1, at_ns);
	else if (lane->taken < lane->plan->flows)
		take(lane, at_ns);
}
