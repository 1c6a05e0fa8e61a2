"""The largest transfers of a stream on Spark, as notebook cells.

Run it with: python examples/spark_streaming.py. It needs the spark extra and Java 17. It writes a
few files, streams them, and prints the last answer.
"""

# %% A session whose workers run this interpreter
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from skyband.spark import rank, session
from skyband.spark.checkpoint import read_state

spark = session("local[2]", **{"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"})
spark.sparkContext.setLogLevel("ERROR")
folder = Path(tempfile.mkdtemp())

# %% Write six files, one minute of rows each: time, flow, bytes
rng = np.random.default_rng(1)
for minute in range(6):
    rows = 20_000
    seconds = np.sort(rng.uniform(60 * minute, 60 * (minute + 1), rows))
    table = pa.table(
        {
            "ts": pa.array((seconds * 1e6).astype(np.int64) + 1_700_000_000_000_000).cast(
                pa.timestamp("us", tz="UTC")
            ),
            "flow": pa.array([f"flow{n}" for n in np.minimum(rng.zipf(1.3, rows), 500)]),
            "bytes": pa.array(rng.lognormal(8, 2, rows)),
        }
    )
    (folder / "in").mkdir(exist_ok=True)
    pq.write_table(table, folder / "in" / f"{minute}.parquet")

# %% The query: the ten largest transfers of the last two minutes, every thirty seconds
window = sb.TimeWindow("2 minutes", slide="30 seconds", lateness="5 seconds")
query = sb.TopK(k=10, score="bytes", id="flow", time="ts", window=window)

# %% Run it as a stream, one file per micro-batch
schema = spark.read.parquet(str(folder / "in")).schema
flows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
stream = (
    rank(flows, query)
    .writeStream.format("memory")
    .queryName("largest")
    .option("checkpointLocation", str(folder / "state"))
    .outputMode("append")
    .start()
)
stream.processAllAvailable()
stream.stop()
last = spark.sql("SELECT * FROM largest WHERE window_end = (SELECT max(window_end) FROM largest)")
last.orderBy("rank").show(truncate=False)

# %% Show what the checkpoint keeps, by bucket and shard, as `skyband state` does
kept = read_state(spark, str(folder / "state"))
spark.createDataFrame(kept).select("bucket", "shard", "panes", "retained", "state_bytes").show()

# %% The same call on a batch DataFrame answers the last windows too
rank(spark.read.parquet(str(folder / "in")), query).groupBy("window_end").count().orderBy(
    "window_end"
).show(20)
spark.stop()
