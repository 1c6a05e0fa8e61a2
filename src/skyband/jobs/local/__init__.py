"""Jobs in this process: the same job file without Spark.

May be imported by the command line and by ``serve``; needs no PySpark.
"""
