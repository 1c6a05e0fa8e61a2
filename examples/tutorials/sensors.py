# %% [markdown]
# # Likely winners among uncertain readings
#
# A radar sees vehicles, but not every echo is one: each reading exists only with some probability. Which were the three
# fastest in the last minute? A reading of 190 km/h with probability 0.1 is probably a ghost. A plain ranking by speed
# shows it first; a ranking by speed times probability means nothing. `UncertainTopK` asks for the probability of being
# *among the top three*, over all the worlds in which readings exist or not.

# %%
import numpy as np
import pyarrow as pa

import skyband as sb
from skyband import plot

rng = np.random.default_rng(3)
rows = 400
ghost = rng.random(rows) < 0.15
speed = np.where(ghost, rng.uniform(120, 200, rows), rng.normal(95, 12, rows)).round(0)
readings = pa.table(
    {
        "second": np.sort(rng.integers(0, 600, rows)),
        "car": [f"{'?' if g else 'car'}{n}" for n, g in enumerate(ghost)],
        "speed": speed,
        "p": np.where(ghost, rng.uniform(0.02, 0.25, rows), rng.uniform(0.7, 1.0, rows)).round(2),
    }
)
readings.slice(0, 3).to_pylist()

# %% [markdown]
# Names with a question mark are the ghosts; the query does not know that. First, the plain ranking of the last minute:

# %%
window = sb.TimeWindow(60, slide=20)
plain = sb.TopK(k=3, score="speed", id="car", time="second", window=window)
print([row["car"] for row in list(sb.watch(readings, plain))[-2].table.to_pylist()])

# %% [markdown]
# Then the likeliest. `topk_probability` is the probability that a reading exists and is among the top three.

# %%
likely = sb.UncertainTopK(
    k=3, score="speed", probability="p", id="car", time="second", window=window
)
answers = list(sb.watch(readings, likely))
for row in answers[-2].table.to_pylist():
    print(
        f"{row['car']:>7}  {row['speed']:.0f} km/h  p {row['p']:.2f}  top 3: {row['topk_probability']:.2f}"
    )

# %%
plot.bars(answers, end=answers[-2].end, title="Probability of being among the three fastest")

# %% [markdown]
# ## Four meanings
#
# There is more than one sensible question. `pk-topk` ranks by that probability. `pt-k` returns all readings whose
# probability reaches a threshold. `u-kranks` gives the likeliest winner of each rank, and `u-topk` the likeliest
# top three as a whole.

# %%
for semantics in ("pk-topk", "pt-k", "u-kranks", "u-topk"):
    threshold = 0.5 if semantics == "pt-k" else None
    query = sb.UncertainTopK(
        k=3,
        score="speed",
        probability="p",
        id="car",
        time="second",
        window=window,
        semantics=semantics,
        threshold=threshold,
    )
    found = list(sb.watch(readings, query))[-2].table
    cars = zip(found["car"].to_pylist(), found["topk_probability"].to_pylist(), strict=True)
    print(f"{semantics:>9}  " + ", ".join(f"{car} {p:.2f}" for car, p in cars))

# %% [markdown]
# All answers are exact. Skyband keeps the *compact set*, the few rows that can still enter an answer, instead of the
# whole window. See [uncertain rows](../uncertain.md) for the algorithms and
# [the experiments of the paper](../reproduction/uncertain.md).

# %% as a script
import matplotlib.pyplot as plt

for number in plt.get_fignums():
    plt.figure(number).savefig(f"sensors-{number}.png")
    print(f"saved sensors-{number}.png")
