"""The papers' experiments: a module a paper, each with ``reproduce(scale, out, progress)``."""
