"""Arrow columns, keys, groups, the time axis, the total order, packing.

Imports ``query``, ``window``, ``kernels`` and ``errors``; everything that handles rows imports it.
"""
