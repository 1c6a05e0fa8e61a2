"""Marks for tests that call parts of kernels one by one, or listen to the calls between them.

Such tests run where the JIT is off. Compiling a part by itself would take longer than its test, and
compiled code does not look up the functions that it calls, so nobody can listen.
"""

from __future__ import annotations

import pytest

from support.unwritten import VISIBLE

PARTS = pytest.mark.skipif(
    not VISIBLE, reason="calls parts of kernels, which are not compiled alone"
)
"""For a test in a file that is marked with ``nojit`` already."""
UNCOMPILED = [pytest.mark.nojit, PARTS]
