"""Loops of Skyline and SkylineJoin: dominance, StabSky, group skylines, iteration layers.

Imports ``kernels.core`` and its own folder only.
"""
