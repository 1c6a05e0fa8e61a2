# %% [markdown]
# # Likely winners among uncertain readings
#
# A radar sees vehicles, but not every echo is a vehicle: each reading is real only with some probability. Which were
# the three fastest vehicles in the last minute? A reading of 190 km/h with probability 0.1 is probably a ghost. A plain
# ranking by speed shows it first, and a ranking by speed times probability means nothing. `UncertainTopK` ranks
# readings by the probability of being *among the top three*, over all the worlds in which readings exist or not.

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
# Next, the most likely winners. `topk_probability` is the probability that a reading exists and is among the top three.

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
# ## Four kinds of question
#
# There is more than one sensible question. `pk-topk` ranks readings by this probability. `pt-k` returns all readings
# whose probability reaches a threshold. `u-kranks` returns the most likely winner of each rank, and `u-topk` the most
# likely top three as a whole.

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
# All answers are exact. Instead of the whole window, Skyband keeps *compact sets*: the few rows that can still enter an
# answer. See [uncertain rows](../uncertain.md) for the algorithms and [the report](../reproduction/uncertain.md) for
# the experiments of the paper.

# %% as a script
import matplotlib.pyplot as plt

for number in plt.get_fignums():
    plt.figure(number).savefig(f"sensors-{number}.png")
    print(f"saved sensors-{number}.png")
