"""The papers' experiments: one module per paper, with ``reproduce(scale, out, progress)``.

``scale`` 1 stands for the paper's own sizes; ``SCALE`` is what ``skyband reproduce`` runs by
default. ``verdicts`` has the rule by which every claim is judged.
"""
