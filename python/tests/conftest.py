"""What tests share."""

from __future__ import annotations

import pytest

import knee

SHORT = """\
question = "How long do transfers take beside others?"

[network]
topology = "many-to-one"
senders = 4
access = { rate = "10 Gbps", delay = "5 us" }
bottleneck = { rate = "1 Gbps", queue = { kind = "step", limit = "100 pkts", k = "20 pkts" } }

[[traffic]]
name = "short"
kind = "bulk"
from = "s1..s4"
to = "r"
size = "20 kB"
start_jitter = "100 us"

[run]
duration = "20 ms"
repeat = 2

[[case]]
name = "cubic"
cc = "cubic"

[[case]]
name = "dctcp"
cc = "dctcp"
"""

ENDLESS = SHORT.replace('size = "20 kB"\n', "").replace("20 ms", "3600 s")

FOO = """\
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <linux/module.h>
#include <net/tcp.h>

#ifndef WINDOW
#define WINDOW 4
#endif

static u32 foo_ssthresh(struct sock *sk) { return WINDOW; }
static void foo_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	tcp_sk(sk)->snd_cwnd = WINDOW;
	BODY
}
static u32 foo_undo(struct sock *sk) { return WINDOW; }

static struct tcp_congestion_ops foo __read_mostly = {
	.ssthresh = foo_ssthresh,
	.cong_avoid = foo_cong_avoid,
	.undo_cwnd = foo_undo,
	.name = "foo",
	.owner = THIS_MODULE,
};
static int __init foo_register(void) { return tcp_register_congestion_control(&foo); }
static void __exit foo_unregister(void) { tcp_unregister_congestion_control(&foo); }
module_init(foo_register);
module_exit(foo_unregister);
MODULE_LICENSE("Dual BSD/GPL");
"""


@pytest.fixture
def short() -> knee.Experiment:
    """Eight transfers of 20 kB, four runs of a millisecond."""
    return knee.Experiment.from_toml(SHORT, name="short")


@pytest.fixture
def endless() -> knee.Experiment:
    """Runs that nobody waits for."""
    return knee.Experiment.from_toml(ENDLESS, name="endless").cc("dctcp").with_(repeat=40)


def foo(window: int = 4, body: str = "") -> str:
    """A module whose window is always so large."""
    return FOO.replace("WINDOW 4", f"WINDOW {window}").replace("BODY", body)
