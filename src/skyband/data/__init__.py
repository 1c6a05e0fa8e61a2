"""Arrow columns, keys, groups, the time axis, the total order, packing.

Imports ``query``, ``window``, ``kernels`` and ``errors``; imported by all code that handles rows.
"""
