"""Mutants: kernels and synopses changed in one place, to see whether the tests notice.

    targets.py     which modules are changed, and which algorithms and tests cover each
    changes.py     every change that is made: comparisons, operators, constants, truth values
    checks.py      what runs against a mutant, how long it takes and which lines it executes
    runner.py      one process per mutant: put in the changed code, run what executes its line
    log.py         the results so far, so that a run can be continued
    report.py      docs/internals/mutation.md
    survivors.txt  survivors that were looked at, each with the reason why no test fails
    killed.txt     mutants that ``make test`` tries

``make mutants`` runs them. ``MUTANT_ARGS="--sample 20"`` tries 20 per module, and with
``--log build/mutants.tsv`` a run that was stopped goes on where it ended. No existing tool fits:
mutmut skips functions with a decorator, which all kernels have, and cosmic-ray starts a new
interpreter and pytest for each mutant. Here a process that has loaded everything is forked, and
one function gets other code, so that a mutant costs only the tests up to the first failure.
Kernels run uncompiled.
"""
