"""What kernels of every family use: the jit wrapper, hashing, orders, passes over columns.

Imports nothing but ``errors``.
"""
