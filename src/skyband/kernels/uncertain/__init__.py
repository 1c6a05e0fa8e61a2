"""Loops of UncertainTopK: compact sets, probabilities, and the queues.

Imports ``kernels.core`` and its own folder only.
"""
