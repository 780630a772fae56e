# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Which K for a rack?
#
# A switch marks packets above a threshold K. A small K keeps the queue short; a K that is too small costs throughput. Here are two bulk
# transfers and short ones through one port of 10 Gbps, for several K.

# %%
import os

import knee

# Continuous integration runs this at a small scale.
REPEAT = int(os.environ.get("KNEE_NOTEBOOK_REPEAT", "10"))

exp = knee.Experiment.from_toml(
    """
question = "Which K keeps the queue short and the link full?"
cc = ["dctcp"]

[network]
topology = "many-to-one"
senders = 4
access = { rate = "10 Gbps", delay = "10 us" }
bottleneck = { rate = "10 Gbps", queue = { kind = "step", limit = "1000 pkts", k = "65 pkts" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..s2"
to = "r"
start_jitter = "1 ms"

[[traffic]]
name = "short"
kind = "rpc"
from = "r"
to = "s3..s4"
request = "100 B"
response = "20 kB"
arrivals_per_sec = 1000
stop = "90 ms"

[run]
duration = "100 ms"
measure_from = "20 ms"
""",
    name="choose-k",
)
exp = exp.with_(repeat=REPEAT).vary(
    k=["2 pkts", "10 pkts", "20 pkts", "40 pkts", "65 pkts", "120 pkts", "200 pkts"],
    at="network.bottleneck.queue.k",
)
exp

# %%
print(exp.cost())

# %%
res = exp.run()
res

# %% [markdown]
# One table has it all. Any reader of Arrow takes it; here is plain Python.

# %%
K = "network.bottleneck.queue.k_pkts"
latency = {
    row[K]: row["p95"]
    for row in res.summary
    if (row["subject"], row["metric"]) == ("short", "latency")
}
goodput = {
    row[K]: row["mean"]
    for row in res.summary
    if (row["subject"], row["metric"]) == ("bulk", "goodput")
}
for k in latency:
    print(
        f"K = {k:3.0f} packets: p95 of latency {latency[k] * 1e6:6.1f} us, goodput {goodput[k] / 1e9:.2f} Gbps"
    )

# %% [markdown]
# Both at once: each point is a K.

# %%
figure = res.plot.tradeoff(("bulk", "goodput", "mean"), ("short", "latency", "p95"))
figure

# %%
# What the text above says must hold.
assert goodput[2.0] < goodput[65.0]
assert latency[20.0] < latency[200.0]
