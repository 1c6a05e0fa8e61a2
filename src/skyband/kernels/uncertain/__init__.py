"""Kernels of UncertainTopK: one file a semantics, then rows, compact sets and the synopses."""
