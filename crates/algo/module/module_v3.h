/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernels on which BBR version 3 (google/bbr, branch v3) and TCP Prague (L4STeam/linux) are
 * developed have beyond mainline's, for modules that are written against it: the API `v3`. Names and meanings
 * are those kernels'; numbers that the two give to different things are this header's own, as a module
 * only ever says the names. The simulator's TCP fills the fields and calls the operations for these modules alone.
 */
#ifndef KNEE_MODULE_V3_H
#define KNEE_MODULE_V3_H

/* ---- flags and events ---- */

#define TCP_CONG_WANTS_CE_EVENTS	0x4	/* the two events of ECN, without NEEDS_ECN */
#define TCP_CONG_NEEDS_ACCECN		0x8	/* feedback of how many packets were marked (RFC 9768) */
#define TCP_CONG_ECT_1_NEGOTIATION	0x10
#define TCP_CONG_NO_FALLBACK_RFC3168	0x20

/* A tail loss probe repaired a loss. */
#define CA_EVENT_TLP_RECOVERY		((enum tcp_ca_event)6)

/* ecn_flags */
#define TCP_ECN_LOW			16	/* the route says: marks mean a shallow threshold */
#define TCP_ECN_ECT_PERMANENT		32	/* ECT on every packet, ACKs and retransmissions too */
#define TCP_ECN_ECT_1			64	/* ECT(1) where it would be ECT(0) */
#define TCP_ECN_MODE_RFC3168		TCP_ECN_OK
#define TCP_ECN_MODE_ACCECN		128
#define TCP_ECN_MODE_ANY		(TCP_ECN_MODE_RFC3168 | TCP_ECN_MODE_ACCECN)

static inline bool tcp_ecn_mode_any(const struct tcp_sock *tp)
{
	return tp->ecn_flags & TCP_ECN_MODE_ANY;
}

static inline bool tcp_ecn_mode_accecn(const struct tcp_sock *tp)
{
	return tp->ecn_flags & TCP_ECN_MODE_ACCECN;
}

static inline bool tcp_ecn_mode_rfc3168(const struct tcp_sock *tp)
{
	return tcp_ecn_mode_any(tp) && !tcp_ecn_mode_accecn(tp);
}

static inline bool tcp_ecn_disabled(const struct tcp_sock *tp)
{
	return !tcp_ecn_mode_any(tp);
}

/* Their private area is larger than mainline's, and beside the socket here. */
#undef ICSK_CA_PRIV_SIZE
#define ICSK_CA_PRIV_SIZE		(27 * sizeof(u64))

static inline void *inet_csk_ca(const struct sock *sk)
{
	(void)sk;
	return cc_host->storage;
}

/* ---- what get_info tells there ---- */

#define INET_DIAG_PRAGUEINFO		17

enum tcp_bbr_phase {
	BBR_PHASE_INVALID = 0,
	BBR_PHASE_STARTUP = 1,
	BBR_PHASE_DRAIN = 2,
	BBR_PHASE_PROBE_RTT = 3,
	BBR_PHASE_PROBE_BW_UP = 4,
	BBR_PHASE_PROBE_BW_DOWN = 5,
	BBR_PHASE_PROBE_BW_CRUISE = 6,
	BBR_PHASE_PROBE_BW_REFILL = 7,
};

#define KNEE_BBR_INFO_V3							\
	u32 bbr_bw_hi_lsb;							\
	u32 bbr_bw_hi_msb;							\
	u32 bbr_bw_lo_lsb;							\
	u32 bbr_bw_lo_msb;							\
	u8 bbr_mode;								\
	u8 bbr_phase;								\
	u8 unused1;								\
	u8 bbr_version;								\
	u32 bbr_inflight_lo;							\
	u32 bbr_inflight_hi;							\
	u32 bbr_extra_acked;

struct tcp_prague_info {
	u64 prague_alpha;
	u64 prague_frac_cwnd;
	u64 prague_rate_bytes;
	u64 prague_ai_ack_increase;
	u32 prague_max_burst;
	u32 prague_round;
	u32 prague_rtt_target;
	u8 prague_enabled : 1, prague_rtt_indep : 3;
};

#endif
