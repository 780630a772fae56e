# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Your own algorithm
#
# An algorithm is one C file: a Linux module, or a file of `knee new algorithm`. Edit it, and run the cell again: it is compiled again.

# %%
import os
import tempfile
from pathlib import Path

import knee

REPEAT = int(os.environ.get("KNEE_NOTEBOOK_REPEAT", "10"))
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "tcp_slow.c"
CODE = """
#include <linux/module.h>
#include <net/tcp.h>

static u32 slow_ssthresh(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd >> 1U, 2U);
}

static void slow_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_in_slow_start(tp))
		tcp_slow_start(tp, acked);
	else
		tcp_cong_avoid_ai(tp, tp->snd_cwnd * FACTOR, acked);
}

static struct tcp_congestion_ops slow __read_mostly = {
	.ssthresh = slow_ssthresh,
	.cong_avoid = slow_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.name = "slow",
	.owner = THIS_MODULE,
};

static int __init slow_register(void) { return tcp_register_congestion_control(&slow); }
static void __exit slow_unregister(void) { tcp_unregister_congestion_control(&slow); }
module_init(slow_register);
module_exit(slow_unregister);
MODULE_LICENSE("GPL");
"""
path.write_text(CODE)

# %%
exp = knee.Experiment.from_toml(
    """
question = "How fast does it take the link that Reno leaves?"
cc = ["reno"]

[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps", delay = "20 us" }
return = { delay = "5 ms" }
bottleneck = { rate = "100 Mbps", queue = { kind = "droptail", limit = "50 pkts" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..s2"
to = "r"
start_jitter = "10 ms"

[run]
duration = "4 s"
""",
    name="own-algorithm",
)
exp = exp.with_(repeat=REPEAT, module={"define": ["FACTOR=4"]}).cc("reno", path)
res = exp.run()
res.compare("tcp_slow", "reno")

# %% [markdown]
# Every call of the algorithm, with every field before and after it:

# %%
run = exp.run_one(case="tcp_slow", trace="bulk")
calls = run.calls("bulk")
calls

# %%
print(sorted(set(calls.to_dict()["operation"])))
assert len(calls) > 100
