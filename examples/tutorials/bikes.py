# %% [markdown]
# # The busiest stations of a bike network
#
# Which stations are busy *now*? A window of an hour counts a ride from 59 minutes ago fully and one from 61 minutes ago
# not at all. With a decay window, a ride loses half of its weight every half-life, so old rides fade instead of
# dropping out.
#
# The rides are generated. There are ten stations, with a morning rush at Central, lunch at the market, and a concert in
# the park that ends at eight in the evening.

# %%
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa

import skyband as sb
from skyband import plot

names = [
    "Central",
    "Market",
    "Park",
    "Harbour",
    "Museum",
    "Library",
    "Hill",
    "Bridge",
    "Zoo",
    "Mill",
]
base = np.array([9, 7, 4, 5, 4, 4, 3, 3, 2, 2], float)
rng = np.random.default_rng(4)
day = datetime(2026, 5, 9, 6)
when, where = [], []
for minute in range(16 * 60):  # from 6:00 to 22:00
    hour = 6 + minute / 60
    rate = base.copy()
    rate[0] *= 1 + 3 * np.exp(-(((hour - 8) / 0.8) ** 2))
    rate[1] *= 1 + 3 * np.exp(-(((hour - 12.5) / 0.7) ** 2))
    rate[2] *= 1 + 14 * np.exp(-(((hour - 20.2) / 0.35) ** 2))
    for station, rides in enumerate(rng.poisson(rate / 12)):
        seconds = rng.uniform(0, 60, rides)
        when += [day + timedelta(minutes=minute, seconds=float(s)) for s in seconds]
        where += [names[station]] * rides
order = np.argsort(np.array(when, "datetime64[us]"), kind="stable")
rides = pa.table({"time": when, "station": where}).take(order)
rides.num_rows

# %% [markdown]
# A `DecayWindow` has a half-life, and a slide that says how often it is answered. The count of a station is the decayed
# number of its rides.

# %%
window = sb.DecayWindow("10 minutes", slide="15 minutes")
demand = sb.HeavyHitters(k=5, item="station", time="time", window=window)
answers = list(sb.watch(rides, demand))
for answer in answers[-8:-3]:
    rows = answer.table.to_pylist()
    print(f"{answer.end:%H:%M}", ", ".join(f"{r['station']} {r['count']:.1f}" for r in rows[:3]))

# %% [markdown]
# A bump chart shows the day: Central leads in the morning, the market at noon, and the park after the concert.

# %%
plot.bump(answers, title="Stations in demand, half-life 10 minutes")

# %% [markdown]
# ## Compared with a plain window
#
# In the same ranking over a plain window of an hour, the park comes first later, and stays first for longer.

# %%
hour = sb.TimeWindow("1 hour", slide="15 minutes")
plain = list(sb.watch(rides, sb.HeavyHitters(k=5, item="station", time="time", window=hour)))
for name, found in (("decay", answers), ("one hour", plain)):
    first = [f"{a.end:%H:%M}" for a in found if a.table["station"][0].as_py() == "Park"]
    print(f"{name:>9}: the park is first from {first[0]} to {first[-1]}")

# %%
plot.totals(answers, top=5, title="Decayed rides of the five stations")

# %% [markdown]
# Every count shrinks at the same rate, so the order changes only when rides come. [Windows](../windows.md) says what
# decay means exactly, and [this recipe](../recipes/popular.md) has a short form.

# %% as a script
import matplotlib.pyplot as plt

for number in plt.get_fignums():
    plt.figure(number).savefig(f"bikes-{number}.png")
    print(f"saved bikes-{number}.png")
