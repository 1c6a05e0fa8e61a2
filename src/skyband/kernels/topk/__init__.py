"""Loops of TopK: choosing the best rows, the k-skyband, MinTopK, SMA, PABF.

Imports ``kernels.core`` and its own folder only.
"""
