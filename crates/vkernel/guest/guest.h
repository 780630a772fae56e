/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef KNEE_GUEST_GUEST_H
#define KNEE_GUEST_GUEST_H

#include "plan.h"

/* Namespaces are open at these descriptors, one after the other. */
#define FIRST_NAMESPACE_FD 16

extern const struct plan *plan;
extern const struct flow_plan *flow_plans;
extern const struct ping_plan *ping_plans;

/* main.c */
void enter(u32 namespace);
u64 now_ns(void);		/* since time 0 of the run */
extern u64 zero_ns;		/* in CLOCK_MONOTONIC */

/* record.c: three parts of which any may be empty */
void record(enum record_kind kind, const void *first, u32 first_len, const void *second,
	    u32 second_len, const void *third, u32 third_len);
void write_records(void);
void record_queues(u64 at_ns, enum moment moment);
void record_counts(int is_last);
const u8 *prepare_queues(const u8 *plans);
void write_captures(void);

/* traffic.c */
void prepare_traffic(const u8 *lanes);
void run_traffic(void);

/* turns.c: flows that wait for others; `begin` is called when it is their turn */
void prepare_turns(const u8 *lanes, void (*begin)(u32 flow, u64 at_ns));
int waits_for_turn(u32 flow);
void begin_turns(void);
void end_turn(u32 flow, u64 at_ns);

/* ping.c */
void prepare_pings(int epoll);
void send_ping(u32 ping);
void receive_pings(u32 ping);
void record_lost_pings(void);

#endif
