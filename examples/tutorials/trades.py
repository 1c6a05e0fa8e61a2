# %% [markdown]
# # Two trading streams, one skyline
#
# Trades arrive on one stream, each with a stock, a price and a volume. Assessments of the same stocks arrive on
# another, each with a risk and a cost. Which *pairs* are good: cheap, large, and with low risk and cost? The answer is
# the skyline of a join. Each side has its own window and its own watermark.

# %%
import numpy as np
import pyarrow as pa

import skyband as sb
from skyband import plot

rng = np.random.default_rng(8)
stocks = np.array(["ALFA", "BRAV", "CHAR", "DELT", "ECHO", "FOXT"])
value = rng.uniform(20, 80, len(stocks))


def some(rows: int) -> np.ndarray:
    return rng.integers(0, len(stocks), rows)


which = some(600)
trades = pa.table(
    {
        "second": np.sort(rng.integers(0, 600, 600)),
        "stock": stocks[which],
        "price": (value[which] * rng.lognormal(0, 0.15, 600)).round(2),
        "volume": rng.gamma(2, 400, 600).round(-1),
    }
)
which = some(240)
risks = pa.table(
    {
        "second": np.sort(rng.integers(0, 600, 240)),
        "stock": stocks[which],
        "risk": rng.beta(2, 5, 240).round(3),
        "cost": rng.uniform(1, 9, 240).round(2),
    }
)
trades.num_rows, risks.num_rows

# %% [markdown]
# The sources are passed as a mapping, and the query names them. `prefer` may use the columns of both sides.

# %%
query = sb.SkylineJoin(
    left="trades",
    right="risks",
    on="stock",
    time="second",
    prefer={"price": "min", "volume": "max", "risk": "min", "cost": "min"},
    window=sb.TimeWindow(120, slide=60),
)
answers = list(sb.watch({"trades": trades, "risks": risks}, query))
for answer in answers[-4:]:
    print(f"until {answer.end}: {answer.table.num_rows} pairs of {answer.total} rows")

# %% [markdown]
# With four preferences the skyline is large, because many pairs are best in *some* respect. With two, it is short
# enough to read.

# %%
few = sb.SkylineJoin(
    left="trades",
    right="risks",
    on="stock",
    time="second",
    prefer={"price": "min", "risk": "min"},
    window=sb.TimeWindow(120, slide=60),
)
pairs = list(sb.watch({"trades": trades, "risks": risks}, few))
for row in pairs[-2].table.to_pylist():
    print(f"{row['stock']}  price {row['price']:6.2f}  risk {row['risk']:.3f}")

# %%
ax = plot.skyline(pairs, end=pairs[-2].end, title="Cheap and safe pairs of the last two minutes")

# %% [markdown]
# The circles are pairs of earlier windows. The next picture shows the number of pairs in each window:

# %%
plot.totals(answers, title="Pairs in the skyline, four preferences")

# %% [markdown]
# The join is never computed as a whole: for each side and stock, Skyband keeps the rows that can still be part of a
# best pair. See [skylines](../skyline.md#two-streams-joined) and [the paper's experiments](../reproduction/lsj.md).

# %% as a script
import matplotlib.pyplot as plt

for number in plt.get_fignums():
    plt.figure(number).savefig(f"trades-{number}.png")
    print(f"saved trades-{number}.png")
