"""Numba leaf: arrays in, arrays out, no validation; `jit.py` is the one place for jit flags."""
