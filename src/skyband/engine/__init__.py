"""What both engines share: intake, open panes, clocks, groups, the fold and the session.

Imports ``contract`` and ``answers``, but no family and no engine; imported by ``embedded`` and
``spark``.
"""
