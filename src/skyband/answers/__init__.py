"""Answers: what a window gave, what changed since the last, and the tables they are views of.

Imports ``contract``, ``data`` and what stands below them; both engines import it.
"""
