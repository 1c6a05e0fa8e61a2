"""The synopsis contract that every algorithm implements, and its types: rows, runs and windows.

Imports only ``data``, ``query``, ``window``, ``kernels`` and ``errors``; imported by the families
and the engines.
"""
