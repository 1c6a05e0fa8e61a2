"""Loops of HeavyHitters: counting, sums over panes, Space-Saving and the FSW sketches.

Imports ``kernels.core`` and its own folder only.
"""
