"""Benchmarks, experiments and the papers' data: next to the package, never in the wheel.

``bench`` is the harness, ``benchmarks`` holds what it measures, ``experiments`` rerun the papers'
tables, and ``datasets`` provide their streams. ``skyband bench`` and ``skyband reproduce`` find
this folder in a checkout.
"""
