"""The engine inside a Python process: Monitor, sources, ``rank`` and ``watch``.

Imports ``engine`` and the layers below it; ``spark`` and ``cli`` may import it.
"""
