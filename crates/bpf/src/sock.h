/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A socket as programs hand it to Rust: struct tcp_sock of native.h, flat. Its mirror is knee-algo's
 * TcpSock; tests compare the two by the BTF of the objects.
 */
#ifndef KNEE_SOCK_H
#define KNEE_SOCK_H

#define CC_FLAT_MEMBER(type, outer, name, ...) type outer##_##name;

struct proto;

struct cc_sock {
	CC_SOCK_FIELDS(CC_MEMBER, CC_MEMBER, CC_MEMBER)
	CC_SOCK_OWN_FIELDS(CC_MEMBER)
	CC_ICSK_FIELDS(CC_MEMBER, CC_FLAT_MEMBER, CC_MEMBER, CC_MEMBER)
	u64 icsk_ca_priv[13];
	CC_TCP_FIELDS(CC_MEMBER, CC_MEMBER)
};

/* Where the kernel keeps a field in its own way. */
static __always_inline u8 cc_ca_state(const struct sock *sk);
static __always_inline u32 cc_min_rtt_us(const struct tcp_sock *tp);
static __always_inline bool cc_cwnd_limited_flag(const struct tcp_sock *tp);

#define CC_TAKE_SOCK(type, name, ...) to->name = sk->name;
#define CC_LEAVE_SOCK(type, name, ...) to->name = 0;
#define CC_TAKE_ICSK(type, name, ...) to->name = icsk->name;
#define CC_TAKE_NESTED(type, outer, name, ...) to->outer##_##name = icsk->outer.name;
#define CC_TAKE_TCP(type, name, ...) to->name = tp->name;
#define CC_TAKE_VALUE(type, name, value, ...) to->name = (value);

static __always_inline void cc_take_sock(struct cc_sock *to, const struct sock *sk)
{
	const struct inet_connection_sock *icsk = (const struct inet_connection_sock *)sk;
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;

	CC_SOCK_FIELDS(CC_TAKE_SOCK, CC_TAKE_VALUE, CC_TAKE_VALUE)
	CC_SOCK_OWN_FIELDS(CC_LEAVE_SOCK)
	CC_ICSK_FIELDS(CC_TAKE_ICSK, CC_TAKE_NESTED, CC_TAKE_VALUE, CC_TAKE_VALUE)
	__builtin_memcpy(to->icsk_ca_priv, icsk->icsk_ca_priv, sizeof(to->icsk_ca_priv));
	CC_TCP_FIELDS(CC_TAKE_TCP, CC_TAKE_VALUE)
}

#endif
