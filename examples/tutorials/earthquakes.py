# %% [markdown]
# # Strong and shallow: a skyline of earthquakes
#
# An earthquake does more damage if it is strong, and if it is shallow. Which quakes of the last thirty days matter?
# There is no single score: is magnitude 6.1 at a depth of 80 km worse than 5.6 at 9 km? A *skyline* needs no weights.
# It holds the quakes that no other quake beats in both respects.
#
# The quakes are generated: magnitudes follow the law of Gutenberg and Richter, most quakes are shallow, and a strong
# one is followed by aftershocks.

# %%
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
from matplotlib import pyplot as plt

import skyband as sb
from skyband import plot

rng = np.random.default_rng(19)
rows = 3_000
days = np.sort(rng.uniform(0, 120, rows))
magnitude = 3.5 + rng.exponential(1 / 2.3, rows)
for day in days[magnitude > 6.2]:
    after = (days > day) & (days < day + 6)
    magnitude[after] += 0.5 * np.exp(-(days[after] - day))
depth = rng.choice([10.0, 35.0, 120.0, 400.0], rows, p=[0.5, 0.3, 0.15, 0.05])
start = datetime(2026, 3, 1)
quakes = pa.table(
    {
        "time": [start + timedelta(days=d) for d in days],
        "quake": [f"q{n}" for n in range(rows)],
        "magnitude": magnitude.round(1),
        "depth_km": (depth * rng.lognormal(0, 0.4, rows)).round(1),
    }
)
quakes.num_rows

# %% [markdown]
# `prefer` says what we want to see: greater magnitudes and smaller depths. The window is thirty days long and is
# answered every day.

# %%
window = sb.TimeWindow("30 days", slide="1 day")
query = sb.Skyline(
    prefer={"magnitude": "max", "depth_km": "min"}, id="quake", time="time", window=window
)
answers = list(sb.watch(quakes, query))
last = answers[-1]
print(f"{last.table.num_rows} of {last.total} quakes are in the skyline")
for row in last.table.to_pylist():
    print(f"{row['quake']:>6}  magnitude {row['magnitude']}  {row['depth_km']:>5} km")

# %% [markdown]
# The picture shows the skyline with its steps. Some quake of the skyline beats every quake above and to the left of the
# steps. Circles are quakes that were in the skyline of an earlier day.

# %%
recent = quakes.filter(pa.compute.greater_equal(quakes["time"], pa.scalar(last.start)))
figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.set_yscale("log")  # depths differ by a factor of a hundred
plot.skyline(answers, rows=recent, ax=ax, title="Strong and shallow, the last thirty days")

# %% [markdown]
# A quake leaves the skyline for one of two reasons: it is older than thirty days, or a stronger and shallower quake
# came. The timeline shows how long each quake was in the skyline.

# %%
plot.timeline(answers, top=15, title="Days in the skyline")

# %% [markdown]
# If you do have weights, write them as a score. A `TopK` by `"magnitude - depth_km / 100"` ranks quakes by one number,
# and shows it in a column of that name.

# %%
scored = sb.TopK(
    k=3,
    score="magnitude - depth_km / 100",
    id="quake",
    time="time",
    window=sb.TimeWindow("30 days"),
)
plot.bars(sb.rank(quakes, scored), title="The same by one score")

# %% [markdown]
# Whatever weights you choose, the winner is in the skyline. Next: [two trading streams](trades.md), where the columns
# come from different streams, or [all about skylines](../skyline.md).

# %% as a script
import matplotlib.pyplot as plt

for number in plt.get_fignums():
    plt.figure(number).savefig(f"earthquakes-{number}.png")
    print(f"saved earthquakes-{number}.png")
