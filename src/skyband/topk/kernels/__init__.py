"""The compiled loops of the family, one module per algorithm or part: arrays in, arrays out.

Imports ``arrays``, ``kernels`` and nothing else of the package.
"""
