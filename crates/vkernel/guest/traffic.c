// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The applications of all hosts: one thread, one epoll, one clock, as time
 * stands still while anything computes.
 *
 * What they do is what the simulator's do. A transfer that is stopped is
 * aborted; one that is done stays open and idle.
 */
#include <linux/eventpoll.h>
#include <linux/in.h>
#include <linux/socket.h>
#include <linux/tcp.h>
#include <linux/time.h>
#include <linux/timerfd.h>
#include "guest.h"

#define AF_INET_ 2
#define STREAM_NONBLOCK (1 | 04000)
#define SOL_SOCKET_ 1
#define SO_REUSEADDR_ 2
#define SO_ERROR_ 4
#define SO_LINGER_ 13
#define SO_RCVLOWAT_ 18
#define SO_MAX_PACING_RATE_ 47
#define MSG_TRUNC_ 0x20
#define MSG_DONTWAIT_ 0x40
#define MSG_NOSIGNAL_ 0x4000
#define MSG_MORE_ 0x8000
#define EAGAIN_ 11
#define EINPROGRESS_ 115
#define NS_PER_S 1000000000ULL

#define WRITE_BYTES (1 << 18)
#define READ_BYTES (1 << 28)
#define INFO_BYTES 512
#define INSIDE_VALUES 32
#define EVENTS 64
/* Tokens of epoll: two for each flow; then pings; then the timer. */
#define FIRST_PING (1ULL << 32)
#define TIMER (~0ULL)

/* ---- what is due ---- */

enum due_kind { DUE_START, DUE_FIRST_WRITE, DUE_STOP, DUE_PING, DUE_FLOWS, DUE_GOODPUT,
		DUE_QUEUES, DUE_WINDOW, DUE_END };

struct due {
	u64 at_ns;
	u64 order;	/* of what is due at the same time the first asked for is first */
	u32 kind;
	u32 index;
};

static struct due *heap;
static u32 heap_len;
static u64 heap_order;

static int is_before(const struct due *a, const struct due *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

static void swap(struct due *a, struct due *b)
{
	struct due c = *a;

	*a = *b;
	*b = c;
}

static void push_due(u64 at_ns, enum due_kind kind, u32 index)
{
	u32 at = heap_len++;

	/* What is due at the end is done, too. */
	heap[at] = (struct due){ .at_ns = at_ns, .kind = kind, .index = index,
				 .order = kind == DUE_END ? NONE : heap_order++ };
	while (at && is_before(&heap[at], &heap[(at - 1) / 2])) {
		swap(&heap[at], &heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
}

static struct due pop_due(void)
{
	struct due first = heap[0];
	u32 at = 0;

	heap[0] = heap[--heap_len];
	for (;;) {
		u32 least = at, child = 2 * at + 1;

		if (child < heap_len && is_before(&heap[child], &heap[least]))
			least = child;
		if (child + 1 < heap_len && is_before(&heap[child + 1], &heap[least]))
			least = child + 1;
		if (least == at)
			return first;
		swap(&heap[at], &heap[least]);
		at = least;
	}
}

/* ---- flows ---- */

/* One end of a connection. */
struct side {
	long socket;		/* -1: none */
	u32 interest;		/* what epoll tells of it */
	u64 to_write;
	u64 connected_ns, established_ns, done_ns, stopped_ns;
	u64 read_bytes;
	u32 error;
	int is_over;
};

struct flow {
	struct side connecting, listening;
	long listener;		/* -1: it has its connection */
	int is_established;
	int writing_begun;
	int is_ready;		/* for its next request, and waits for others of its set */
	int is_over;
	u64 response_left;
	u64 request_left;
	u64 request_started_ns;
	u64 exchanges;
	u64 begin_ns;		/* NONE: its turn has not come */
	u64 sampled_bytes;	/* of what was received, those in samples of goodput */
	u32 low_water;
};

static struct flow *flows;
static u32 *ready_in_set, *set_sizes;
static int epoll, timer;
static long inside;		/* /proc/knee_inside */
static int is_over;
static u32 unfinished;
static u8 zeros[WRITE_BYTES];

static u32 index_of(const struct flow *flow)
{
	return flow - flows;
}

static const struct flow_plan *plan_of(const struct flow *flow)
{
	return &flow_plans[index_of(flow)];
}

static int ends(const struct flow_plan *of)
{
	return of->kind == FLOW_BULK ? of->request_bytes != NONE : of->count != NONE;
}

static void wait_for(long socket, u64 token, u32 *interest, u32 events)
{
	struct epoll_event event = { .events = events, .data = token };

	if (*interest == events)
		return;
	need("epoll", sys4(epoll_ctl, epoll, *interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket,
			   &event));
	*interest = events;
}

static void set_option(const char *what, long socket, int level, int name, const void *value,
		       u32 len)
{
	need(what, sys(setsockopt, socket, level, name, value, len));
}

static void set_int(const char *what, long socket, int level, int name, int value)
{
	set_option(what, socket, level, name, &value, sizeof(value));
}

static struct sockaddr_in address(const u8 *host, u32 port)
{
	struct sockaddr_in at = { .sin_family = AF_INET_ };

	at.sin_port = __builtin_bswap16(port);
	memcpy(&at.sin_addr, host, 4);
	return at;
}

/* A socket of a flow's side, bound to its address and port. */
static long open_side(u32 namespace, const u8 *host, u32 port, const char *algorithm, u32 tos,
		      u64 max_pacing_rate)
{
	static const int abort_when_closed[2] = { 1, 0 };
	struct sockaddr_in at = address(host, port);
	long socket;

	enter(namespace);
	socket = need("a socket", sys3(socket, AF_INET_, STREAM_NONBLOCK, 0));
	set_option(algorithm, socket, IPPROTO_TCP, TCP_CONGESTION, algorithm, strlen(algorithm));
	set_option("SO_LINGER", socket, SOL_SOCKET_, SO_LINGER_, abort_when_closed,
		   sizeof(abort_when_closed));
	set_int("SO_REUSEADDR", socket, SOL_SOCKET_, SO_REUSEADDR_, 1);
	if (tos)
		set_int("IP_TOS", socket, IPPROTO_IP, IP_TOS, tos);
	if (max_pacing_rate != NONE)
		set_option("SO_MAX_PACING_RATE", socket, SOL_SOCKET_, SO_MAX_PACING_RATE_,
			   &max_pacing_rate, sizeof(max_pacing_rate));
	need("bind", sys3(bind, socket, &at, sizeof(at)));
	return socket;
}

static u32 low_water(const struct flow_plan *of, u64 left)
{
	u64 at = of->read_at_bytes < left ? of->read_at_bytes : left;

	return at ? at : 1;
}

static void set_low_water(struct flow *flow, long socket, u32 bytes)
{
	if (flow->low_water != bytes)
		set_int("SO_RCVLOWAT", socket, SOL_SOCKET_, SO_RCVLOWAT_, bytes);
	flow->low_water = bytes;
}

static void prepare_flow(struct flow *flow)
{
	const struct flow_plan *of = plan_of(flow);
	struct side none = { .socket = -1, .connected_ns = NONE, .established_ns = NONE,
			     .done_ns = NONE, .stopped_ns = NONE };

	flow->connecting = flow->listening = none;
	flow->request_left = of->request_bytes;
	flow->listener = open_side(of->to, of->to_address, of->to_port, of->peer_algorithm,
				   of->peer_tos, of->max_pacing_rate);
	set_low_water(flow, flow->listener, low_water(of, of->request_bytes));
	need("listen", sys2(listen, flow->listener, 1));
	wait_for(flow->listener, index_of(flow) * 2 + 1, &flow->listening.interest, EPOLLIN);
	flow->connecting.socket = open_side(of->from, of->from_address, of->from_port,
					    of->algorithm, of->tos, of->max_pacing_rate);
	unfinished += ends(of);
	if (of->set)
		set_sizes[of->set - 1]++;
}

/* ---- ends ---- */

static void rest(struct side *side)
{
	struct epoll_event unused = { 0 };

	side->is_over = 1;
	if (side->socket >= 0 && side->interest)
		sys4(epoll_ctl, epoll, EPOLL_CTL_DEL, side->socket, &unused);
	side->interest = 0;
}

static void record_side(struct flow *flow, struct side *side, int listens)
{
	struct side_record what = { 0 };
	static u8 info[INFO_BYTES];
	u32 len = sizeof(info), name_len = sizeof(what.algorithm);

	what.connected_ns = side->connected_ns;
	what.established_ns = side->established_ns;
	what.done_ns = side->done_ns;
	what.stopped_ns = side->stopped_ns;
	what.read_bytes = side->read_bytes;
	what.flow = index_of(flow);
	what.listens = listens;
	what.error = side->error;
	if (side->socket >= 0)
		sys(getsockopt, side->socket, IPPROTO_TCP, TCP_CONGESTION, what.algorithm,
		    &name_len);
	if (side->socket < 0 || (!listens && side->connected_ns == NONE) ||
	    sys(getsockopt, side->socket, IPPROTO_TCP, TCP_INFO, info, &len) < 0)
		len = 0;
	what.info_len = len;
	record(RECORD_SIDE, &what, sizeof(what), info, len, NULL, 0);
}

/* Nothing more happens on a connection: how its ends stand is written down at the end of the run. */
static void leave(struct flow *flow)
{
	if (flow->is_over)
		return;
	flow->is_over = 1;
	rest(&flow->connecting);
	rest(&flow->listening);
	if (waits_for_turn(index_of(flow)))
		end_turn(index_of(flow), now_ns());
	if (ends(plan_of(flow)) && --unfinished == 0 && plan->until_done)
		is_over = 1;
}

static void fail_side(struct flow *flow, struct side *side, long error)
{
	side->error = -error;
	leave(flow);
}

/* ---- reading and writing ---- */

static void write_some(struct flow *flow, struct side *side, u64 token, int reads)
{
	u32 wanted = reads ? EPOLLIN : 0;

	while (side->to_write) {
		u64 len = side->to_write < WRITE_BYTES ? side->to_write : WRITE_BYTES;
		/* No segment is short where one write ends: the simulator's application writes all at once. */
		u32 flags = MSG_NOSIGNAL_ | MSG_DONTWAIT_ |
			    (side->to_write > len ? MSG_MORE_ : 0);
		long written = sys6(__NR_sendto, side->socket, (long)zeros, len, flags, 0, 0);

		if (written == -EAGAIN_) {
			wanted |= EPOLLOUT;
			break;
		}
		if (written < 0) {
			fail_side(flow, side, written);
			return;
		}
		if (side->to_write != NONE)
			side->to_write -= written;
	}
	/* Of neither nothing but errors is told. */
	wait_for(side->socket, token, &side->interest, wanted ? wanted : EPOLLERR);
}

static u64 read_all(struct flow *flow, struct side *side)
{
	/* The kernel drops the data and writes nothing. */
	long got = sys6(__NR_recvfrom, side->socket, 0, READ_BYTES, MSG_TRUNC_ | MSG_DONTWAIT_,
			0, 0);

	if (got == -EAGAIN_)
		return 0;
	if (got <= 0) {
		fail_side(flow, side, got ? got : -32 /* EPIPE: the other side has closed it */);
		return 0;
	}
	side->read_bytes += got;
	return got;
}

static void begin_request(struct flow *flow)
{
	const struct flow_plan *of = plan_of(flow);

	flow->request_started_ns = now_ns();
	flow->connecting.to_write = of->request_bytes;
	flow->response_left = of->kind == FLOW_RPC ? of->response_bytes : 0;
	write_some(flow, &flow->connecting, index_of(flow) * 2, of->kind == FLOW_RPC);
}

/* A flow could send its next request: it does when all of its set could. */
static void be_ready(struct flow *flow)
{
	u32 set = plan_of(flow)->set, i;

	if (!set) {
		begin_request(flow);
		return;
	}
	flow->is_ready = 1;
	if (++ready_in_set[set - 1] < set_sizes[set - 1])
		return;
	ready_in_set[set - 1] = 0;
	for (i = 0; i < plan->flows; i++) {
		if (flow_plans[i].set != set || !flows[i].is_ready)
			continue;
		flows[i].is_ready = 0;
		begin_request(&flows[i]);
	}
}

static void begin_writing(struct flow *flow)
{
	if (flow->writing_begun)
		return;
	flow->writing_begun = 1;
	be_ready(flow);
}

static void on_response(struct flow *flow)
{
	const struct flow_plan *of = plan_of(flow);
	u64 now = now_ns();
	struct rpc_record what = { .start_ns = flow->request_started_ns,
				   .latency_ns = now - flow->request_started_ns,
				   .flow = index_of(flow) };

	flow->exchanges++;
	record(RECORD_RPC, &what, sizeof(what), NULL, 0, NULL, 0);
	if (of->count != NONE && flow->exchanges >= of->count) {
		flow->connecting.done_ns = now;
		leave(flow);
	} else if (now >= of->stop_ns) {
		flow->connecting.stopped_ns = now;
		leave(flow);
	} else {
		be_ready(flow);
	}
}

static void read_response(struct flow *flow)
{
	u64 got = read_all(flow, &flow->connecting);

	if (!got || !flow->response_left)
		return;
	flow->response_left -= got < flow->response_left ? got : flow->response_left;
	if (!flow->response_left)
		on_response(flow);
}

static void on_request(struct flow *flow)
{
	const struct flow_plan *of = plan_of(flow);

	if (of->kind == FLOW_BULK) {
		flow->listening.done_ns = now_ns();
		/* A sender that waits for a delayed ACK sends the last segment again, as a probe. */
		set_int("TCP_QUICKACK", flow->listening.socket, IPPROTO_TCP, TCP_QUICKACK, 1);
		leave(flow);
		return;
	}
	flow->request_left = of->request_bytes;
	flow->listening.to_write += of->response_bytes;
	write_some(flow, &flow->listening, index_of(flow) * 2 + 1, 1);
}

static void read_request(struct flow *flow)
{
	u64 got = read_all(flow, &flow->listening);

	if (flow->request_left != NONE)
		flow->request_left -= got < flow->request_left ? got : flow->request_left;
	if (got && !flow->request_left)
		on_request(flow);
	if (!flow->is_over)
		set_low_water(flow, flow->listening.socket,
			      low_water(plan_of(flow), flow->request_left));
}

/* ---- events ---- */

static void start(struct flow *flow)
{
	const struct flow_plan *of = plan_of(flow);
	struct sockaddr_in to = address(of->to_address, of->to_port);
	struct side *side = &flow->connecting;
	long result;

	side->connected_ns = now_ns();
	result = sys3(connect, side->socket, &to, sizeof(to));
	if (result < 0 && result != -EINPROGRESS_)
		fail_side(flow, side, result);
	else
		wait_for(side->socket, index_of(flow) * 2, &side->interest, EPOLLOUT);
}

static void on_established(struct flow *flow)
{
	const struct flow_plan *of = plan_of(flow);
	struct side *side = &flow->connecting;
	int error = 0;
	u32 len = sizeof(error);

	sys(getsockopt, side->socket, SOL_SOCKET_, SO_ERROR_, &error, &len);
	if (error) {
		fail_side(flow, side, -error);
		return;
	}
	flow->is_established = 1;
	side->established_ns = now_ns();
	if (of->first_write_ns == NONE || of->first_write_ns <= side->established_ns)
		begin_writing(flow);
	else
		write_some(flow, side, index_of(flow) * 2, of->kind == FLOW_RPC);
}

static void on_connecting(struct flow *flow, u32 events)
{
	if (flow->connecting.is_over)
		return;
	if (!flow->is_established) {
		on_established(flow);
		return;
	}
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		read_response(flow);
	if (events & EPOLLOUT && !flow->is_over)
		write_some(flow, &flow->connecting, index_of(flow) * 2,
			   plan_of(flow)->kind == FLOW_RPC);
}

static void accept_connection(struct flow *flow)
{
	struct epoll_event unused = { 0 };
	long socket = sys4(accept4, flow->listener, NULL, NULL, 04000 /* SOCK_NONBLOCK */);

	if (socket == -EAGAIN_)
		return;
	need("accept", socket);
	sys4(epoll_ctl, epoll, EPOLL_CTL_DEL, flow->listener, &unused);
	sys1(close, flow->listener);
	flow->listener = -1;
	flow->listening.interest = 0;
	flow->listening.socket = socket;
	wait_for(socket, index_of(flow) * 2 + 1, &flow->listening.interest, EPOLLIN);
}

static void on_listening(struct flow *flow, u32 events)
{
	if (flow->listening.is_over)
		return;
	if (flow->listener >= 0) {
		accept_connection(flow);
		return;
	}
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		read_request(flow);
	if (events & EPOLLOUT && !flow->is_over)
		write_some(flow, &flow->listening, index_of(flow) * 2 + 1, 1);
}

/* Ends a transfer: what was written and not sent is never sent. Exchanges look at the time by themselves. */
static void stop(struct flow *flow)
{
	if (flow->is_over || plan_of(flow)->kind == FLOW_RPC)
		return;
	if (flow->listening.socket >= 0)
		read_request(flow);
	if (flow->is_over)
		return;
	flow->connecting.stopped_ns = flow->listening.stopped_ns = now_ns();
	leave(flow);
	record_side(flow, &flow->connecting, 0);
	sys1(close, flow->connecting.socket);
	flow->connecting.socket = -1;
}

/* ---- samples ---- */

/* As kernel/knee_inside.c has them. */
enum { INSIDE_VALUES_OF = 0x6b00, INSIDE_BASE_RTT };

struct inside_base_rtt {
	u32 port;
	u32 us;
};

struct inside_question {
	u64 values;
	u32 socket;
	u32 room;
};

/* Values inside the algorithm of a connection, if it is one of ours; how many. */
static u32 inside_of(long socket, u64 *values)
{
	struct inside_question question = { .values = (u64)values, .socket = socket,
					    .room = INSIDE_VALUES };

	return need("values inside", sys3(ioctl, inside, INSIDE_VALUES_OF, &question));
}

static void sample_flow(struct flow *flow)
{
	struct flow_sample what = { .at_ns = now_ns(), .flow = index_of(flow) };
	static u8 info[INFO_BYTES];
	static u64 values[INSIDE_VALUES];
	u32 info_len = sizeof(info);

	if (!plan_of(flow)->is_sampled || !flow->is_established || flow->connecting.is_over)
		return;
	need("TCP_INFO", sys(getsockopt, flow->connecting.socket, IPPROTO_TCP, TCP_INFO, info,
			     &info_len));
	what.info_len = info_len;
	what.inside_len = inside_of(flow->connecting.socket, values) * sizeof(u64);
	record(RECORD_FLOW_SAMPLE, &what, sizeof(what), info, info_len, values, what.inside_len);
}

/* Payload bytes that have arrived in order. */
static u64 received_bytes(const struct flow *flow)
{
	static u8 info[INFO_BYTES];
	u32 len = sizeof(info);

	if (flow->listening.socket < 0 ||
	    sys(getsockopt, flow->listening.socket, IPPROTO_TCP, TCP_INFO, info, &len) < 0)
		return flow->listening.read_bytes;
	return ((struct tcp_info *)info)->tcpi_bytes_received;
}

static void sample_goodput(struct flow *flow, u64 at_ns)
{
	u64 received;
	struct goodput_record what = { .at_ns = at_ns, .flow = index_of(flow) };

	if (flow->begin_ns == NONE || flow->begin_ns > at_ns)
		return;
	/* Of a flow that is over no more arrives. */
	received = flow->is_over ? flow->listening.read_bytes : received_bytes(flow);
	if (received > flow->sampled_bytes)
		what.bytes = received - flow->sampled_bytes;
	flow->sampled_bytes = received;
	record(RECORD_GOODPUT, &what, sizeof(what), NULL, 0, NULL, 0);
}

/* ---- the measured window ---- */

static u32 window_ends;		/* that have passed */

static void look(struct flow *flow, struct side *side, u32 listens, enum moment moment)
{
	struct look_record what = { .moment = moment, .flow = index_of(flow), .listens = listens };
	static u8 info[INFO_BYTES];
	u32 len = sizeof(info);

	if (side->socket < 0 || (!listens && side->connected_ns == NONE))
		return;
	need("TCP_INFO", sys(getsockopt, side->socket, IPPROTO_TCP, TCP_INFO, info, &len));
	what.info_len = len;
	record(RECORD_LOOK, &what, sizeof(what), info, len, NULL, 0);
}

/* The first time it begins, the second time it ends. */
static void look_at_window(u64 at_ns)
{
	enum moment moment = window_ends++ ? AT_WINDOW_END : AT_WINDOW_BEGIN;
	u32 i;

	for (i = 0; i < plan->flows; i++) {
		look(&flows[i], &flows[i].connecting, 0, moment);
		look(&flows[i], &flows[i].listening, 1, moment);
	}
	record_queues(at_ns, moment);
}

/* ---- the run ---- */

static void on_due(struct due due)
{
	u32 i;

	switch (due.kind) {
	case DUE_START:
		if (!flows[due.index].is_over)
			start(&flows[due.index]);
		break;
	case DUE_FIRST_WRITE:
		if (flows[due.index].is_established && !flows[due.index].is_over)
			begin_writing(&flows[due.index]);
		break;
	case DUE_STOP:
		stop(&flows[due.index]);
		break;
	case DUE_PING:
		send_ping(due.index);
		push_due(due.at_ns + ping_plans[due.index].interval_ns, DUE_PING, due.index);
		break;
	case DUE_FLOWS:
		for (i = 0; i < plan->flows; i++)
			sample_flow(&flows[i]);
		push_due(due.at_ns + plan->sample_flows_ns, DUE_FLOWS, 0);
		break;
	case DUE_GOODPUT:
		for (i = 0; i < plan->flows; i++)
			sample_goodput(&flows[i], due.at_ns);
		push_due(due.at_ns + plan->sample_goodput_ns, DUE_GOODPUT, 0);
		break;
	case DUE_QUEUES:
		record_queues(due.at_ns, AT_SAMPLE);
		push_due(due.at_ns + plan->sample_queues_ns, DUE_QUEUES, 0);
		break;
	case DUE_WINDOW:
		look_at_window(due.at_ns);
		break;
	case DUE_END:
		is_over = 1;
		break;
	}
}

static void arm_timer(void)
{
	u64 at_ns = heap[0].at_ns + zero_ns;
	struct __kernel_itimerspec at = { .it_value = { .tv_sec = at_ns / NS_PER_S,
							.tv_nsec = at_ns % NS_PER_S } };

	need("a timer", sys4(timerfd_settime, timer, TFD_TIMER_ABSTIME, &at, NULL));
}

static void on_event(u64 token, u32 events)
{
	if (token >= FIRST_PING)
		receive_pings(token - FIRST_PING);
	else if (token % 2)
		on_listening(&flows[token / 2], events);
	else
		on_connecting(&flows[token / 2], events);
}

static void tell_base_rtt(u32 port, u32 us)
{
	struct inside_base_rtt told = { .port = port, .us = us };

	if (us)
		need("base_rtt", sys3(ioctl, inside, INSIDE_BASE_RTT, &told));
}

/* It is a flow's turn, at this time. */
static void begin(u32 index, u64 at_ns)
{
	flows[index].begin_ns = at_ns + flow_plans[index].start_ns;
	push_due(flows[index].begin_ns, DUE_START, index);
}

void prepare_traffic(const u8 *lanes)
{
	struct epoll_event event = { .events = EPOLLIN, .data = TIMER };
	u32 i;

	epoll = need("epoll", sys1(epoll_create1, 0));
	timer = need("a timer", sys2(timerfd_create, 1 /* CLOCK_MONOTONIC */, 04000));
	need("epoll", sys4(epoll_ctl, epoll, EPOLL_CTL_ADD, timer, &event));
	flows = allocate(plan->flows * sizeof(*flows));
	ready_in_set = allocate(plan->sets * sizeof(*ready_in_set));
	set_sizes = allocate(plan->sets * sizeof(*set_sizes));
	/* Three times of a flow, one of a ping, three periods, two of the window, the end. */
	heap = allocate((3ULL * plan->flows + plan->pings + 6) * sizeof(*heap));
	inside = need("/proc/knee_inside",
		      sys4(openat, AT_FDCWD, "/proc/knee_inside", 0 /* O_RDONLY */, 0));
	for (i = 0; i < plan->flows; i++) {
		tell_base_rtt(flow_plans[i].from_port, flow_plans[i].base_rtt_us);
		tell_base_rtt(flow_plans[i].to_port, flow_plans[i].peer_base_rtt_us);
		prepare_flow(&flows[i]);
	}
	prepare_pings(epoll);
	prepare_turns(lanes, begin);
}

static void set_times(void)
{
	u32 i;

	for (i = 0; i < plan->flows; i++) {
		flows[i].begin_ns = waits_for_turn(i) ? NONE : flow_plans[i].start_ns;
		if (flows[i].begin_ns != NONE)
			push_due(flows[i].begin_ns, DUE_START, i);
		if (flow_plans[i].first_write_ns != NONE)
			push_due(flow_plans[i].first_write_ns, DUE_FIRST_WRITE, i);
		if (flow_plans[i].stop_ns != NONE)
			push_due(flow_plans[i].stop_ns, DUE_STOP, i);
	}
	for (i = 0; i < plan->pings; i++)
		push_due(ping_plans[i].start_ns + ping_plans[i].interval_ns, DUE_PING, i);
	if (plan->sample_flows_ns)
		push_due(plan->sample_flows_ns, DUE_FLOWS, 0);
	if (plan->sample_goodput_ns)
		push_due(plan->sample_goodput_ns, DUE_GOODPUT, 0);
	if (plan->sample_queues_ns)
		push_due(plan->sample_queues_ns, DUE_QUEUES, 0);
	for (i = 0; i < 2; i++)
		if (plan->window_ns[i] != NONE)
			push_due(plan->window_ns[i], DUE_WINDOW, 0);
	begin_turns();
	push_due(plan->end_ns, DUE_END, 0);
}

static void finish(void)
{
	u64 end_ns = now_ns();
	u32 i;

	if (end_ns > plan->end_ns)
		end_ns = plan->end_ns;
	if (window_ends == 1)
		look_at_window(end_ns);
	for (i = 0; i < plan->flows; i++) {
		struct flow *flow = &flows[i];

		if (flow->listening.socket >= 0 && !flow->is_over)
			read_request(flow);
		/* One that was stopped has told of this side. */
		if (flow->connecting.socket >= 0)
			record_side(flow, &flow->connecting, 0);
		record_side(flow, &flow->listening, 1);
	}
	record_lost_pings();
	record_queues(end_ns, AT_END);
	record(RECORD_END, &end_ns, sizeof(end_ns), &zero_ns, sizeof(zero_ns), NULL, 0);
}

void run_traffic(void)
{
	static struct epoll_event events[EVENTS];
	u64 armed_ns = NONE;

	set_times();
	while (!is_over) {
		long count, i;

		if (armed_ns != heap[0].at_ns)
			arm_timer();
		armed_ns = heap[0].at_ns;
		count = need("epoll", sys4(epoll_wait, epoll, events, EVENTS, -1));
		while (!is_over && heap[0].at_ns <= now_ns())
			on_due(pop_due());
		for (i = 0; i < count && !is_over; i++)
			if (events[i].data != TIMER)
				on_event(events[i].data, events[i].events);
	}
	finish();
}
