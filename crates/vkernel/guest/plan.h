/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a guest is told, and what it tells: both files as they are, with the
 * host's byte order. crates/vkernel/src/guest has the other side of each.
 */
#ifndef KNEE_GUEST_PLAN_H
#define KNEE_GUEST_PLAN_H

#include "sys.h"

#define PLAN_MAGIC 0x334e414c5045454bULL	/* "KEEPLAN3" */
/* A time, count or size that there is not. */
#define NONE (~0ULL)

struct plan {
	u64 magic;
	u64 end_ns;		/* the run ends here at the latest */
	u64 until_done;		/* and when every transfer that can is complete */
	u64 sample_flows_ns;	/* periods; 0: no samples */
	u64 sample_goodput_ns;
	u64 sample_queues_ns;
	u64 window_ns[2];	/* beginning and end of the measured window; NONE: there is none */
	u32 namespaces;		/* the first of them are hosts; behind them is the guest's first */
	u32 hosts;
	u32 steps;
	u32 flows;
	u32 pings;
	u32 queues;
	u32 sets;		/* of flows that send their requests together */
	u32 lanes;		/* of flows that have their turn one after the other */
	u32 captures;		/* what went over cables is written down */
	u32 padding;
};

enum step_kind {
	STEP_WRITE,		/* `second` into the file `first` */
	STEP_NETLINK,		/* the request `first`; `second` says what it is for */
};

/* Both parts follow, each filled up to 8 bytes; they end with a zero byte. */
struct step {
	u32 kind;
	u32 namespace;
	u32 first_len;
	u32 second_len;
};

enum flow_kind { FLOW_BULK, FLOW_RPC };

struct flow_plan {
	u64 start_ns;
	u64 first_write_ns;	/* NONE: at once */
	u64 stop_ns;
	u64 request_bytes;	/* of a transfer: all of it */
	u64 response_bytes;
	u64 count;
	u64 max_pacing_rate;	/* bytes per second */
	u32 kind;
	u32 from;		/* namespaces */
	u32 to;
	u32 from_port;
	u32 to_port;
	u32 read_at_bytes;
	u32 is_sampled;
	u32 tos;
	u32 peer_tos;
	u32 set;		/* counted from 1; 0: it waits for nobody */
	u32 base_rtt_us;	/* 0: not known */
	u32 peer_base_rtt_us;
	u8 from_address[4];
	u8 to_address[4];
	char algorithm[16];
	char peer_algorithm[16];
};

struct ping_plan {
	u64 start_ns;
	u64 interval_ns;
	u32 from;
	u32 ip_bytes;
	u32 tos;
	u8 to_address[4];
};

/* The request that asks for a queue discipline or a device follows, filled up to 8 bytes. */
struct queue_plan {
	u32 namespace;
	u32 request_len;
	u32 only_counts;	/* not asked for at samples */
	u32 padding;
};

/*
 * Flows that have their turn one after the other, so many at once; their
 * indices follow, filled up to 8 bytes. Lanes of one round of a series begin
 * when all flows of the round before are done. Start times of their flows
 * count from their turn.
 */
struct lane_plan {
	u32 series;
	u32 round;
	u32 parallel;
	u32 flows;
};

enum record_kind {
	RECORD_ERROR = 1,	/* text */
	RECORD_FLOW_SAMPLE,	/* struct flow_sample, TCP_INFO, u64 values inside the algorithm */
	RECORD_QUEUE,		/* struct queue_record, the kernel's answer */
	RECORD_GOODPUT,		/* struct goodput_record */
	RECORD_RPC,		/* struct rpc_record */
	RECORD_PING,		/* struct ping_record */
	RECORD_SIDE,		/* struct side_record, TCP_INFO */
	RECORD_COUNTS,		/* struct counts_record, a file of /proc/net */
	RECORD_LOOK,		/* struct look_record, TCP_INFO */
	RECORD_END,		/* u64: when the run ended; u64: its time 0 on the kernel's clock */
};

/* Before each record; it is filled up to 8 bytes. */
struct record_header {
	u32 kind;
	u32 len;
};

struct flow_sample {
	u64 at_ns;
	u32 flow;
	u16 info_len;
	u16 inside_len;
};

/* Why something is looked at. */
enum moment { AT_SAMPLE, AT_END, AT_WINDOW_BEGIN, AT_WINDOW_END };

struct queue_record {
	u64 at_ns;
	u32 queue;
	u32 moment;
};

/* A side of a connection at an end of the measured window. */
struct look_record {
	u32 moment;
	u32 flow;
	u32 listens;
	u32 info_len;
};

struct goodput_record {
	u64 at_ns;
	u64 bytes;
	u32 flow;
	u32 padding;
};

struct rpc_record {
	u64 start_ns;
	u64 latency_ns;
	u32 flow;
	u32 padding;
};

struct ping_record {
	u64 sent_ns;
	u64 rtt_ns;		/* NONE: it never came back */
	u32 ping;
	u32 padding;
};

struct side_record {
	u64 connected_ns;
	u64 established_ns;
	u64 done_ns;
	u64 stopped_ns;
	u64 read_bytes;
	u32 flow;
	u32 listens;
	u32 error;
	u32 info_len;
	char algorithm[16];
};

struct counts_record {
	u32 namespace;
	u32 is_last;
};

#endif
