"""Numba leaf, one folder per family: arrays in, arrays out, no validation.

Imports nothing of the package but ``errors``; ``core/jit.py`` is the one place for jit flags.
"""
