# %% [markdown]
# # Top talkers of a network
#
# Which hosts send the most bytes, right now and a minute ago? This tutorial takes half an hour of network flows and
# answers this question every minute, over the last five minutes. The flows are generated.

# %%
import skyband as sb
from skyband import plot
from skyband.cli.flows import flows

stream = flows(rows=30_000, minutes=30)
for row in stream.slice(0, 3).to_pylist():
    print(*row.values(), sep="  ")

# %% [markdown]
# A row is a flow that has just ended. To rank *hosts* by the bytes of all their flows, use `HeavyHitters`: it ranks
# items (here hosts) by their total weight (here bytes). The window is five minutes long and is answered every minute.

# %%
window = sb.TimeWindow("5 minutes", slide="1 minute")
talkers = sb.HeavyHitters(k=6, item="host", weight="bytes", time="ts", window=window)
answers = list(sb.watch(stream, talkers))
answers[-1]

# %% [markdown]
# `watch` yields one answer per window, as soon as the window has ended. An answer holds the rows (`table`), the rows
# that entered, left or moved (`changes`), and the total of the window (`total`). So you can see which share of the
# traffic comes from the six hosts:

# %%
for answer in answers[-3:]:
    shown = sum(answer.table["count"].to_pylist())
    print(f"{answer.end:%H:%M}  {shown / answer.total:.0%} of {answer.total / 1e6:,.0f} MB")

# %% [markdown]
# A bump chart shows ranks over time. The hosts of the last window have colours and labels; hosts that have left are
# grey.

# %%
plot.bump(answers, title="Hosts by bytes in five minutes")

# %% [markdown]
# This chart shows how much each of them sent, and how much all other hosts sent:

# %%
plot.totals(answers, title="Bytes in five minutes")

# %% [markdown]
# ## One ranking per service
#
# `by` splits the stream into groups, each with its own ranking. `where` leaves out rows that do not count. `rank`
# returns all windows as one table, and `show` shows the last of them:

# %%
per_service = sb.HeavyHitters(
    k=3,
    item="host",
    weight="bytes",
    time="ts",
    window=window,
    by=("service",),
    where={"service": ["video", "sync"]},
)
ranked = sb.rank(stream, per_service)
sb.show(ranked, last=2)

# %%
plot.bump(ranked, last=15, title="Hosts by bytes, per service")

# %% [markdown]
# ## Alerts
#
# For an alert, the changes are enough. `only="changes"` yields only the answers in which a row entered or left, with
# these rows in `changes`.

# %%
largest = sb.TopK(k=3, score="bytes", id="flow", time="ts", window=window)
for answer in list(sb.watch(stream, largest, only="changes"))[-3:]:
    for row in answer.changes.to_pylist():
        print(f"{answer.end:%H:%M}", row["change"], row["flow"])

# %% [markdown]
# Next: [the same on Spark](spark.md), or [a board](../boards.md) with several such queries over one read of the stream.

# %% as a script
import matplotlib.pyplot as plt

for number in plt.get_fignums():
    plt.figure(number).savefig(f"flows-{number}.png")
    print(f"saved flows-{number}.png")
