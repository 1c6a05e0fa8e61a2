# %% [markdown]
# # Objects that several routers report
#
# A flow passes two routers, and each router reports the load of the flow, between 0 and 1. No router knows all flows,
# and the reports of one flow arrive at different times. Which flows load the network most, over both routers, in the
# last minute? `FusedTopK` answers this: the score of a flow grows as its reports arrive and falls as they expire.

# %%
import numpy as np
import pyarrow as pa

import skyband as sb
from skyband import plot

rng = np.random.default_rng(12)
seconds, flow, router, load = [], [], [], []
for number in range(240):
    start = rng.uniform(0, 560)
    heavy = rng.beta(1.2, 4)
    for name in ("north", "south"):
        if rng.random() < 0.8:
            seconds.append(int(start + rng.uniform(0, 40)))
            flow.append(f"flow-{number}")
            router.append(name)
            load.append(round(float(np.clip(rng.normal(heavy, 0.08), 0, 1)), 3))
reports = pa.table({"second": seconds, "flow": flow, "router": router, "load": load})
reports = reports.sort_by("second")
reports.slice(0, 4).to_pylist()

# %% [markdown]
# `streams` lists the routers, and `bounds` gives the least and greatest possible value: a router that has not reported
# yet counts as the lower bound. `combine="sum"` adds the loads.

# %%
query = sb.FusedTopK(
    k=6,
    id="flow",
    stream="router",
    value="load",
    streams=("north", "south"),
    bounds=(0, 1),
    combine="sum",
    time="second",
    window=sb.TimeWindow(60, slide=20),
)
answers = list(sb.watch(reports, query))
answers[15]

# %%
plot.bump(answers, last=20, title="Flows by load over both routers")

# %% [markdown]
# A flow may be first with one report and be overtaken when the other router reports. The timeline shows how long each
# flow stayed in the top six; darker parts mean higher ranks.

# %%
plot.timeline(answers, top=12, last=20, title="Flows in the top six")

# %% [markdown]
# ## One source per router
#
# If each router is a source of its own, pass a mapping. Each source has its own watermark, and the slowest one decides
# when a window can be answered. The answers are the same.

# %%
by_router = {
    name: reports.filter(pa.compute.equal(reports["router"], name)).drop_columns("router")
    for name in ("north", "south")
}
sb.rank(by_router, query).equals(sb.rank(reports, query))

# %% [markdown]
# `combine` may also be `"mean"`, `"min"`, `"max"`, `"product"`, weights per stream, or your own function. See [fused
# objects](../fused.md).

# %% as a script
import matplotlib.pyplot as plt

for number in plt.get_fignums():
    plt.figure(number).savefig(f"routers-{number}.png")
    print(f"saved routers-{number}.png")
