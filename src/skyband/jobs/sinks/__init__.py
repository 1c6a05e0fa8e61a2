"""Sinks of jobs: files, Kafka, PostgreSQL, HTTP, and those that only Spark writes.

Imports the rest of ``jobs``; a client library only when a sink of its kind is opened.
"""
