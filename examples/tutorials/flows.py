# %% [markdown]
# # Top talkers of a network
#
# Who sends most, right now, and who did a minute ago? This tutorial takes half an hour of network flows and answers
# that every minute, over the last five minutes. The flows are generated.

# %%
import skyband as sb
from skyband import plot
from skyband.cli.flows import flows

stream = flows(rows=30_000, minutes=30)
for row in stream.slice(0, 3).to_pylist():
    print(*row.values(), sep="  ")

# %% [markdown]
# A row is a flow that has just ended. To rank *hosts* by the bytes of all their flows, ask for heavy hitters: items
# (here hosts) with the greatest total weight (here bytes). The window is five minutes long and is answered every
# minute.

# %%
window = sb.TimeWindow("5 minutes", slide="1 minute")
talkers = sb.HeavyHitters(k=6, item="host", weight="bytes", time="ts", window=window)
answers = list(sb.watch(stream, talkers))
answers[-1]

# %% [markdown]
# `watch` gives one answer per window, as soon as the window has ended. An answer holds the rows (`table`), what entered,
# left or moved (`changes`), and how much there was in all (`total`). So you can tell how much of the traffic the six
# hosts explain:

# %%
for answer in answers[-3:]:
    shown = sum(answer.table["count"].to_pylist())
    print(f"{answer.end:%H:%M}  {shown / answer.total:.0%} of {answer.total / 1e6:,.0f} MB")

# %% [markdown]
# Ranks over time are a bump chart. Colours and labels belong to the hosts of the last window; grey ones have left.

# %%
plot.bump(answers, title="Hosts by bytes in five minutes")

# %% [markdown]
# How much each of them sent, and what nobody in the answer sent:

# %%
plot.totals(answers, title="Bytes in five minutes")

# %% [markdown]
# ## One ranking per service
#
# `by` splits the stream into groups, and each has its own ranking. `where` leaves out rows that do not count. `rank`
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
# ## Only what is new
#
# For an alert, the changes are enough. `only="changes"` gives those answers in which something entered or left, each
# with its rows.

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
