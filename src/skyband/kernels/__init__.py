"""What kernels of every family use: the jit wrapper, hashing, orders, passes over columns.

Loops that one family uses alone are beside its algorithms, in ``topk/kernels/`` and so on.
"""
