"""Jobs on Spark: how one is started, what it reads, what it does with each batch.

Imports ``spark`` and PySpark; used by ``jobs`` only when a job runs there.
"""
