"""Approximate top-k by PABF (Zhu et al. 2017), one module per part of its framework.

levels      what epsilon means: fixed steps of the score
filters     section 4: which rows of a pane may be among its best k
synopsis    section 3: the framework; its kernels are ``pabf_merge`` (section 5, the merges) and
            ``pabf_tahm`` (section 6, the answers) in ``skyband.kernels.topk``

Imports what ``topk`` imports; used by ``topk`` only through the registry.
"""

from __future__ import annotations

from skyband.topk.pabf.synopsis import Pabf

__all__ = ["Pabf"]
