/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Linked with an algorithm file on the contract that is compiled when an experiment names it: the one
 * symbol that the simulator looks for, with what the macros of native.h made of the file.
 */
#include <knee/tcp.h>

#define PASTE(a, b) a##b
#define OF(what, name) PASTE(what, name)
#define OPS OF(cc_ops_, KNEE_ALGORITHM)
#define STATE_BYTES OF(cc_state_bytes_, KNEE_ALGORITHM)
#define PARAMS OF(cc_params_, KNEE_ALGORITHM)
#define PARAMS_LEN OF(cc_params_len_, KNEE_ALGORITHM)
#define DIAG OF(cc_diag_, KNEE_ALGORITHM)
#define DIAG_LEN OF(cc_diag_len_, KNEE_ALGORITHM)
#define DIAG_READ OF(cc_diag_read_, KNEE_ALGORITHM)

extern const struct tcp_congestion_ops OPS;
extern const u32 STATE_BYTES, PARAMS_LEN, DIAG_LEN;
extern const struct cc_param PARAMS[];
extern const struct cc_diag DIAG[];
void DIAG_READ(const struct sock *sk, u64 *out);

__attribute__((visibility("default"))) const struct knee_file {
	struct cc_host **host;
	const struct tcp_congestion_ops *ops;
	const u32 *state_bytes;
	const struct cc_param *params;
	const u32 *params_len;
	const struct cc_diag *diag;
	const u32 *diag_len;
	void (*diag_read)(const struct sock *sk, u64 *out);
} knee_file = {
	&cc_host, &OPS, &STATE_BYTES, PARAMS, &PARAMS_LEN, DIAG, &DIAG_LEN, DIAG_READ,
};
