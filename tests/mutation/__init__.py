"""Mutants: kernels and synopses changed in one place, to see whether the tests notice.

    targets.py    which modules are changed, and which algorithms and tests cover each
    changes.py    every change that is made: comparisons, operators, constants, truth values
    runner.py     a process a mutant: import the changed module, run what covers it
    report.py     docs/mutation.md

``make mutants`` runs them; ``MUTANT_ARGS="--sample 20"`` takes 20 of each module. No existing tool
does: mutmut leaves out functions with a decorator, which all kernels have, and cosmic-ray starts
the interpreter and pytest anew for each mutant. Here a process that has loaded numpy, numba and
pyarrow is forked, so that a mutant costs the import of Skyband and the tests up to the first that
fails. Kernels run uncompiled.
"""
