"""Answers: the result of each window, the changes since the previous one, and their tables.

Imports ``contract``, ``data`` and the layers below them; imported by both engines.
"""
