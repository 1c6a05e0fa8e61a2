"""Benchmarks, experiments and the papers' data: beside the package, never in the wheel.

``bench`` measures, ``benchmarks`` are what it measures, ``experiments`` rerun the papers' tables,
``datasets`` are their streams. ``skyband bench`` and ``skyband reproduce`` find this folder in a
checkout.
"""
