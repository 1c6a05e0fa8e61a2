"""Sinks of jobs: files, Kafka, PostgreSQL, addresses of HTTP, and those that only Spark writes."""
