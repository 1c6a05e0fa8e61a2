"""What kernels of every family use: the jit wrapper, hashing, orders, passes over columns.

Imports only ``errors`` and ``arrays``.
"""
