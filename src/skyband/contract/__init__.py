"""What every algorithm keeps: the synopsis contract, and the rows, runs and windows it speaks of.

Imports only ``data``, ``query``, ``window``, ``kernels`` and ``errors``; families and engines
import it.
"""
