"""The papers' experiments: one module per paper, with ``reproduce(scale, out, progress)``."""
