# %% [markdown]
# # The same query on Spark, with Connect
#
# A query is the same object on Spark. This tutorial runs the ranking of [the first tutorial](flows.md) over a
# DataFrame, in a session of Spark Connect: the program is a thin client, and the server may be anywhere. Here the
# server runs on this machine. You need Java 17, and in a checkout `.venv/bin/pip install -e '.[connect,plots]'`.

# %% session
import os
import sys

from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable  # the Python that runs the workers
spark = (
    SparkSession.builder.remote("local[2]")
    .config("spark.sql.shuffle.partitions", "2")  # the state is small; the default is 200
    .getOrCreate()
)

# %% [markdown]
# First, write some minutes of generated flows to files that Spark can read:

# %%
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import skyband as sb
from skyband import plot
from skyband.cli.flows import flow_batches
from skyband.spark import files, rank

folder = Path(tempfile.mkdtemp())
(folder / "flows").mkdir()
for number, batch in enumerate(flow_batches(20, 500)):
    pq.write_table(batch, folder / "flows" / f"{number:02}.parquet")
len(list((folder / "flows").iterdir()))

# %% [markdown]
# Over a batch DataFrame, `rank` returns the same table as `sb.rank`, as a DataFrame:

# %%
window = sb.TimeWindow("5 minutes", slide="1 minute")
query = sb.HeavyHitters(k=6, item="host", weight="bytes", time="ts", window=window)
on_spark = rank(spark.read.parquet(str(folder / "flows")), query).toArrow()
here = sb.rank(str(folder / "flows" / "*.parquet"), query)
key = [("window_end", "ascending"), ("rank", "ascending")]
same = on_spark.sort_by(key)["host"].to_pylist() == here["host"].to_pylist()
print(f"{here.num_rows} rows, the same on both engines: {same}")

# %%
plot.bump(on_spark.sort_by(key), query=query, title="Hosts by bytes, answered on Spark")

# %% [markdown]
# ## As a stream
#
# With `files`, the workers read the files themselves, and new files are read as they appear. The result is a streaming
# DataFrame like any other: it has a checkpoint, and can be written to any sink.

# %%
answers = rank(files(spark, str(folder / "flows"), files_per_batch=10), query)
stream = (
    answers.writeStream.format("parquet")
    .option("path", str(folder / "answers"))
    .option("checkpointLocation", str(folder / "state"))
    .outputMode("append")
    .start()
)
stream.processAllAvailable()
stream.stop()
written = spark.read.parquet(str(folder / "answers")).toArrow()
ends = sorted(set(written["window_end"].to_pylist()))
print(f"{len(ends)} windows, the last ends at {ends[-1]:%H:%M}")

# %% [markdown]
# In a stream, the last windows wait for the watermark, because more rows may come. So the stream has answered fewer
# windows than the batch. See [Spark](../spark.md) for watermarks, restarts and changes, and
# [operations](../spark_operations.md) for metrics.

# %% as a script
import matplotlib.pyplot as plt

for number in plt.get_fignums():
    plt.figure(number).savefig(f"spark-{number}.png")
    print(f"saved spark-{number}.png")
