"""Mutants: kernels and synopses changed in one place, to see whether the tests notice.

    targets.py    which modules are changed, and which algorithms and tests cover each
    changes.py    every change that is made: comparisons, operators, constants, truth values
    runner.py     one process per mutant: import the changed module, run what covers it
    report.py     docs/mutation.md

``make mutants`` runs them; ``MUTANT_ARGS="--sample 20"`` tries 20 per module. No existing tool
fits: mutmut skips functions with a decorator, which all kernels have, and cosmic-ray starts a new
interpreter and pytest for each mutant. Here a process that has loaded numpy, numba and pyarrow is
forked, so that a mutant costs only the import of Skyband and the tests up to the first failure.
Kernels run uncompiled.
"""
