"""What both engines share: intake, open panes, clocks, groups, the fold and the session.

Imports the families' contract and answers, never a family or an engine; ``embedded`` and ``spark``
import it.
"""
