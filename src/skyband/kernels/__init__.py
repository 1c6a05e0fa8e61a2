"""What compiled loops share: the compiler, hashing, orders, passes over columns.

Loops that one family uses alone stand beside its algorithms, in ``topk/kernels`` and so on.
Imports only ``errors`` and ``arrays``.
"""
