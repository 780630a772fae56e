/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parameters of DCTCP's sender, which dctcp.c and dctcp_snd.c add to theirs. What they mean is in
 * dctcp.c; dctcp.h reads them.
 */
#ifndef KNEE_DCTCP_PARAMS_H
#define KNEE_DCTCP_PARAMS_H

/* `peer_default`: what a receiver is taken for. */
#define DCTCP_SENDER_PARAMS(P, peer_default)					\
	P(shift_g, 4, 0, 10, "", "gain of the average, g = 2^-shift_g")		\
	P(alpha_on_init, 1024, 0, 1024, "", "alpha of a new connection, in 1/1024") \
	P(fallback, 0, 0, 1, "reno|cubic", "algorithm for connections without ECN") \
	P(peer, peer_default, 0, 2, "auto|dctcp|classic", "whether the receiver latches ECE; auto finds out") \
	P(cwr, 1, 0, 1, "once|each", "to a receiver that latches: CWR once per cut, or all the time") \
	P(estimator, 0, 0, 1, "linux|freebsd", "counts packets, or bytes with FreeBSD's correction") \
	P(halve_first, 0, 0, 1, "", "1: the first mark of a connection halves cwnd, with alpha 1") \
	P(reset_after_idle, 0, 0, 1, "", "1: alpha starts again when the window restarts after idle") \
	P(loss, 0, 0, 1, "halve|alpha", "cut on loss: half, or by alpha as Linux before 2019")	\
	P(clamp_alpha_on_loss, 0, 0, 1, "", "1: a timeout sets alpha to 1, as Linux before 2019 could")

/* Values of `peer`. */
#define DCTCP_PEER_AUTO		0
#define DCTCP_PEER_DCTCP	1
#define DCTCP_PEER_CLASSIC	2

#endif
