"""Pictures of answers, drawn with matplotlib (extra ``plots``).

Every function takes what ``rank`` or ``watch`` returns, draws on ``ax`` (or on a new figure) and
returns the axes. Lines, bars and points are labelled where they end, so no legend is needed, and
the colours suit readers who are colour-blind.

>>> import pyarrow as pa, skyband as sb
>>> from skyband import plot
>>> flows = pa.table({"ts": [1, 2, 3, 4], "host": ["a", "b", "b", "a"], "bytes": [5, 7, 9, 20]})
>>> query = sb.HeavyHitters(
...     k=2, item="host", weight="bytes", time="ts", window=sb.TimeWindow(4, slide=2)
... )
>>> ax = plot.bump(sb.rank(flows, query))
>>> [line.get_label() for line in ax.get_lines()]
['a', 'b']

Imports ``answers``, ``query`` and the layers below them, but no engine; imported by ``cli``.
"""

from __future__ import annotations

from skyband.plot.charts import bars, bump, skyline, timeline, totals
from skyband.plot.files import KINDS, kind_of, save

__all__ = ["KINDS", "bars", "bump", "kind_of", "save", "skyline", "timeline", "totals"]
