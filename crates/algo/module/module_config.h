/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In the place of the kernel_config.h that the build of some modules generates by trying what the headers of a
 * kernel have: what these headers have, under the names that such lists give it. One beside the file counts instead.
 */
#ifndef KNEE_MODULE_CONFIG_H
#define KNEE_MODULE_CONFIG_H

#if KNEE_CONG_CONTROL_ARGUMENTS == 4
#define TCP_CONGESTION_OPS_CONG_CONTROL_HAS_4_ARGS	1
#endif

#ifdef KNEE_API_V3
#define TCP_CONGESTION_OPS_HAS_TSO_SEGS			1
#define TCP_CONGESTION_OPS_HAS_SKB_MARKED_LOST		1
#define HAVE_TCP_ECN_LOW				1
#define HAVE_TCP_ECN_ECT_PERMANENT			1
#define HAVE_TCP_CONG_WANTS_CE_EVENTS			1
#define HAVE_CA_EVENT_TLP_RECOVERY			1
#define HAVE_RATE_SAMPLE_LOST				1
#define HAVE_RATE_SAMPLE_TX_IN_FLIGHT			1
#define HAVE_RATE_SAMPLE_IS_ACKING_TLP_RETRANS_SEQ	1
#define HAVE_RATE_SAMPLE_IS_ECE				1
#define HAVE_TCP_SOCK_FAST_ACK_MODE			1
#define HAVE_TCP_SOCK_TLP_ORIG_DATA_APP_LIMITED		1
#define HAVE_SKB_CB_TX_IN_FLIGHT			1
#define HAVE_SKB_CB_TX_LOST				1
#define HAVE_TCP_BBR_PHASE				1
#define HAVE_TCP_BBR_INFO_V2				1
#endif

#define HAVE_TCP_ECN_OK				1
#define HAVE_TCP_CONG_NEEDS_ECN			1
#define HAVE_CA_EVENT_ECN_IS_CE			1
#define HAVE_RATE_SAMPLE_LOSSES			1
#define HAVE_RATE_SAMPLE_PRIOR_IN_FLIGHT	1
#define HAVE_RATE_SAMPLE_DELIVERED_CE		1
#define HAVE_TCP_SOCK_DELIVERED_CE		1
#define HAVE_TCP_SOCK_LOST			1
#define HAVE_TCP_SOCK_LOST_OUT			1
#define HAVE_TCP_SOCK_PRIOR_CWND		1
#define HAVE_TCP_SOCK_TCP_CLOCK_CACHE		1
#define HAVE_TCP_SOCK_ECN_FLAGS			1
#define HAVE_TCP_SOCK_SND_CWND			1
#define HAVE_SKB_CB_TX_DELIVERED_MSTAMP		1
#define HAVE_SKB_CB_TX_IS_APP_LIMITED		1
#define HAVE_TCP_SND_CWND			1
#define HAVE_TCP_SND_CWND_SET			1
#define HAVE_TCP_STAMP_US_DELTA			1
#define HAVE_TCP_MIN_RTT			1
#define HAVE___TCP_SEND_ACK			1
#define HAVE_GET_RANDOM_U32_BELOW		1
#define HAVE_PRANDOM_U32_MAX			1
#define HAVE_TCP_PLB_STATE			1
#define HAVE_TCP_PLB_SCALE			1
#define HAVE_TCP_PLB_UPDATE_STATE		1
#define HAVE_TCP_PLB_CHECK_REHASH		1
#define HAVE_TCP_PLB_UPDATE_STATE_UPON_RTO	1
#define HAVE_SYSCTL_TCP_PLB_ENABLED		1
#define HAVE_ICSK_CA_PRIV			1

#endif
