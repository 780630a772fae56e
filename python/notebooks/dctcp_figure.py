# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # A figure of the DCTCP paper again
#
# `queue-buildup` is a built-in experiment: 20 kB transfers beside two bulk ones at 1 Gbps. The paper has a median of 1 ms with DCTCP.

# %%
import os

import knee

quick = "KNEE_NOTEBOOK_REPEAT" in os.environ
exp = knee.experiment("queue-buildup")
if quick and "quick" in exp.to_toml():
    exp = exp.with_(quick=True)
exp

# %%
res = exp.run()

# %%
entry = next(
    row["subject"] for row in res.distributions if row["metric"] in ("latency", "completion")
)
metric = next(row["metric"] for row in res.distributions if row["subject"] == entry)
res.plot.cdf(entry, metric)

# %% [markdown]
# What was published stands beside what is found.

# %%
published = [row for row in res.summary if row["published"] is not None]
for row in published:
    stat = row["published_stat"] or "mean"
    print(
        f"{row['case']}: {stat} of {row['metric']}: published {row['published']:g}, here {row[stat]:g} {row['unit']}"
    )
assert published

# %% [markdown]
# Each claim of the file is judged.

# %%
for claim in res.manifest["claims"]:
    print(claim["verdict"], "-", claim["text"] if "text" in claim else claim["name"])
