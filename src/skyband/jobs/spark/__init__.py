"""Jobs on Spark: how one is started, what it reads, what it does with each batch."""
