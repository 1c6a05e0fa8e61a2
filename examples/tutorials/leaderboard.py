# %% [markdown]
# # A leaderboard service
#
# A game posts its scores over HTTP, players look at the board in a browser, and nothing may be lost if the service is
# killed. All this takes is `skyband serve` and one job file. You need the extras `cli`, `serve` and `plots` (in a
# checkout: `.venv/bin/pip install -e '.[cli,serve,plots]'`).
#
# `distinct = "latest"` shows each player once, with the latest score of the last hour.

# %%
import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

JOB = """
name = "game"
engine = "local"
checkpoint = "state"

[source]
kind = "http"
schema = "second bigint, player string, score bigint"

[queries.board]
kind = "TopK"
k = 5
score = "score"
id = "player"
distinct = "latest"
time = "second"
window = { size = 3600, slide = 300 }
"""
folder = Path(tempfile.mkdtemp())
(folder / "game.toml").write_text(JOB)
command = [sys.executable, "-m", "skyband", "serve", str(folder / "game.toml"), "--port", "0"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
address = re.search(r"http://\S+", server.stdout.readline())[0]

# %% [markdown]
# Open `address` in a browser to see the page. Then post scores, one line of JSON per score. The reply comes once the
# rows are safe on disk. The key makes it safe to send a request again after a broken connection.

# %%
import numpy as np

rng = np.random.default_rng(2)
players = ["Ada", "Bela", "Cleo", "Dora", "Emil", "Fay", "Gus", "Hana"]
skill = rng.normal(0, 30, len(players))
scores = np.full(len(players), 1_000.0)
for hour in range(4):
    lines = []
    for second in range(hour * 3600, (hour + 1) * 3600, 90):
        who = int(rng.integers(len(players)))
        scores[who] += rng.normal(skill[who], 60)
        row = {"second": second, "player": players[who], "score": int(scores[who])}
        lines.append(json.dumps(row) + "\n")
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"hour-{hour}"}
    request = urllib.request.Request(f"{address}api/rows/rows", "".join(lines).encode(), headers)
    print(f"hour {hour}: {urllib.request.urlopen(request).read().decode()}")

# %% [markdown]
# If you send the rows again with the same key, they are not counted twice:

# %%
print(urllib.request.urlopen(request).read().decode())

# %% [markdown]
# The answers are kept, and any program can read them:

# %%
found = json.load(urllib.request.urlopen(f"{address}api/answers/board?last=40"))["answers"]
for row in found[-1]["rows"]:
    print(row["rank"], row["player"], row["score"])

# %% [markdown]
# `plot` takes tables with the columns of an answer, so you can draw the history:

# %%
import pyarrow as pa

from skyband import plot

rows = [
    {
        "window_start": each["start"],
        "window_end": each["end"],
        "rank": row["rank"],
        "player": row["player"],
        "score": row["score"],
    }
    for each in found
    for row in each["rows"]
]
plot.bump(pa.Table.from_pylist(rows), title="The last hours of the game")

# %% [markdown]
# ## After a crash
#
# Acknowledged rows are on disk. Kill the service and start it again: the board is the same.

# %%
server.kill()
_ = server.communicate()
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
address = re.search(r"http://\S+", server.stdout.readline())[0]
again = json.load(urllib.request.urlopen(f"{address}api/answers/board?last=1"))["answers"]
print("the same after a restart:", again[-1]["rows"] == found[-1]["rows"])

# %%
server.terminate()
_ = server.communicate()

# %% [markdown]
# See [the board in a browser](../serve.md) for events and status codes, and [running the board](../serve_operations.md)
# for tokens.

# %% as a script
import matplotlib.pyplot as plt

for number in plt.get_fignums():
    plt.figure(number).savefig(f"leaderboard-{number}.png")
    print(f"saved leaderboard-{number}.png")
