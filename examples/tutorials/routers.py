# %% [markdown]
# # Objects that several routers report
#
# A flow passes two routers, and each reports what it saw of it: its load, between 0 and 1. No router knows all flows, and
# the reports of one flow arrive at different times. Which flows load the network most, over both routers, in the last
# minute? The score of a flow grows as its reports come and falls as they expire: `FusedTopK`.

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
# `streams` lists the routers, `bounds` says what a value can be: a router that has not reported yet counts as the lower
# bound. `combine="sum"` adds the loads.

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
# A flow may stand first with one report and be overtaken when the other router speaks. The timeline shows how long each
# stayed, dark where it ranked high.

# %%
plot.timeline(answers, top=12, last=20, title="Flows in the top six")

# %% [markdown]
# ## One source per router
#
# If each router is a stream of its own, give a mapping. Each stream has its own watermark, and the slowest decides when a
# window can be answered. The answers are the same.

# %%
by_router = {
    name: reports.filter(pa.compute.equal(reports["router"], name)).drop_columns("router")
    for name in ("north", "south")
}
sb.rank(by_router, query).equals(sb.rank(reports, query))

# %% [markdown]
# `combine` may also be `"min"`, `"max"`, `"product"`, weights per stream, or a function of your own. See
# [fused objects](../fused.md).

# %% as a script
import matplotlib.pyplot as plt

for number in plt.get_fignums():
    plt.figure(number).savefig(f"routers-{number}.png")
    print(f"saved routers-{number}.png")
