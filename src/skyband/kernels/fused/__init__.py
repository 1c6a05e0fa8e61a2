"""Loops of FusedTopK: live reports, sweeps, sorted lists, sketches, the guard.

Imports ``kernels.core`` and its own folder only.
"""
