# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # A capture read
#
# Any capture of tcpdump will do. This one comes from a run in the simulator.

# %%
import knee

exp = knee.Experiment.from_toml(
    """
question = "What does a sender's capture show of an incast?"
cc = ["cubic"]

[network]
topology = "many-to-one"
senders = 8
access = { rate = "10 Gbps", delay = "5 us" }
bottleneck = { rate = "1 Gbps", queue = { kind = "droptail", limit = "30 pkts" } }

[[traffic]]
name = "burst"
kind = "bulk"
from = "s1..s8"
to = "r"
size = "100 kB"

[run]
duration = "2 s"
""",
    name="capture",
)
res = exp.run(captures=True)
files = sorted(res.dir.glob("s1-run-0.pcapng"))
cap = knee.pcap(*files)
cap

# %%
for finding in cap.findings:
    print(finding["severity"], finding["kind"], "-", finding["summary"])

# %%
for row in cap.flows:
    print(row["flow"], row["from"], row["to"], row["bytes"], row["retransmitted"], row["family"])

# %%
packets = cap.packets(1)
packets

# %%
assert len(packets) > 50
assert len(cap.rounds) > 0
