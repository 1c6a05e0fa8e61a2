# Everything a contributor runs. Each target works on a fresh clone; .venv is made at the root.

PYTHON      ?= python3
PYTEST_ARGS ?=
BENCH_ARGS  ?=
FUZZ_ARGS   ?=
CRASH_ARGS  ?=
MUTANT_ARGS ?=
GENERATOR   ?= zensical

VENV   := .venv
LOWEST := .venv-lowest
TRIAL  := .venv-wheel
BIN    := $(VENV)/bin
# Python compiles what it imports; pip would compile three times as much, on one core.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
PIP    := $(BIN)/python $(INSTALL)
PYTEST := $(BIN)/python -m pytest
# Each worker starts with its own share of the tests; tests/support/shares.py says which.
TWO    := -n 2 --dist worksteal
SUBMAKE := $(MAKE) --no-print-directory

# Where this is set, every process compiles all modules that it imports; empty means that they are kept.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup setup-board setup-demo setup-spark setup-test hooks demo spark-demo board screenshots bench test test-core test-kafka test-nojit test-njit test-spark \
        slow-nojit nightly against spark-classes docs docs-test slow faults crashes spark-versions cluster fuzz mutants lowest dist dist-spark check format clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- environments: a stamp each, so that pip runs again only when pyproject.toml changes ---------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Skyband needs Python 3.11 or later: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp-demo: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[cli]'
	@touch $@

$(VENV)/.stamp-spark-demo: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[cli,spark]'
	@touch $@ $(VENV)/.stamp-demo

$(VENV)/.stamp-board: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[cli,serve]'
	@touch $@ $(VENV)/.stamp-demo

$(VENV)/.stamp-dev: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.stamp-demo $(VENV)/.stamp-board

$(VENV)/.stamp-spark: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[dev,spark,connect,kafka]'
	@touch $@ $(VENV)/.stamp-dev $(VENV)/.stamp-demo $(VENV)/.stamp-board $(VENV)/.stamp-spark-demo

$(VENV)/.stamp-docs: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[dev,docs]'
	@touch $@ $(VENV)/.stamp-dev $(VENV)/.stamp-demo $(VENV)/.stamp-board

setup: $(VENV)/.stamp-dev  ## Make .venv with all that development needs, Spark excepted
setup-demo: $(VENV)/.stamp-demo  ## Make .venv with the command line only
setup-board: $(VENV)/.stamp-board  ## Make .venv with the command line and the board in a browser
setup-spark: $(VENV)/.stamp-spark  ## Make .venv with development tools and Spark

hooks: setup  ## Let git run the checks at every commit and push (pre-commit)
	$(PIP) -e '.[hooks]'
	$(BIN)/pre-commit install

setup-test:
	@if java -version >/dev/null 2>&1; then $(SUBMAKE) setup-spark; \
	else echo "No Java found: Spark and its tests are left out."; $(SUBMAKE) setup; fi

# --- use ----------------------------------------------------------------------------------------

demo: setup-demo  ## Watch a ranking move over a generated stream of network flows
	@$(BIN)/python -m skyband demo

spark-demo: $(VENV)/.stamp-spark-demo  ## Watch a ranking move over a generated stream on Spark (needs Java 17)
	@folder=$$(mktemp -d) && cp examples/spark_demo.toml $$folder/job.toml && \
	$(BIN)/python -m skyband pipeline $$folder/job.toml --seconds 60; \
	code=$$?; rm -rf $$folder; exit $$code

board: setup-board  ## Watch the same in a browser, as a board of several queries
	@$(BIN)/python -m skyband serve --demo --open

screenshots: setup  ## Make the pictures of the board in docs/serve, with the system's Chromium
	PYTHONPATH=tests $(BIN)/python -m support.screenshots docs/serve

bench: setup  ## Measure beside numpy and DuckDB; choose with BENCH_ARGS="topk ..."
	$(BIN)/python -m skyband bench $(BENCH_ARGS)

# The examples first: a page whose example fails is an error, like a broken link or a missing page.
docs: $(VENV)/.stamp-docs  ## Build the site in build/site, strictly; GENERATOR=mkdocs builds it with MkDocs
	$(PYTEST) --quiet README.md docs $(PYTEST_ARGS)
	$(BIN)/python -m lab.site --generator $(GENERATOR)

# --- tests --------------------------------------------------------------------------------------

CORE := -m "not slow and not tools and not cluster and not spark and not kafka"

# The small ones, and those that wait for a Kafka broker, run beside those on Spark, which leave the
# processor idle now and then.
test: setup-test  ## Run all but the slow, the cluster and the tools' tests, and small ones without JIT and with numba's own
	@began=$$(date +%s); $(SUBMAKE) test-core || exit 1; \
	echo "==> make test-core took $$(($$(date +%s) - began)) s"; \
	if ! $(BIN)/python -c "import pyspark" 2>/dev/null; then exec $(SUBMAKE) test-nojit test-njit test-kafka; fi; \
	began=$$(date +%s); mkdir -p build; \
	$(SUBMAKE) test-nojit test-njit >build/nojit.log 2>&1 & nojit=$$!; \
	$(SUBMAKE) test-spark; spark=$$?; wait $$nojit; nojit=$$?; cat build/nojit.log; \
	echo "==> make test-nojit, test-njit and test-spark took $$(($$(date +%s) - began)) s"; \
	exit $$((spark | nojit))

test-core: setup  ## Run the same, but neither on Spark, nor with Kafka, nor without JIT
	$(PYTEST) $(TWO) $(CORE) $(PYTEST_ARGS)

# After the others, which leave compiled kernels behind: every Python worker of Spark needs them.
# Three at a time: these tests often wait for other processes, so that two of them leave two cores idle
# now and then. Only folders with tests on Spark are read (tests/test_project.py checks that no
# other folder has one). The time limit is long, because a test that is interrupted leaves a session
# that no other test can use.
THREE  := -n 3 --dist worksteal
SPARK  := -m "(spark or kafka) and not slow and not cluster" --timeout=1800 tests/cli tests/jobs tests/serve tests/skyline tests/spark

test-spark: setup-spark spark-classes  ## Run the tests on Spark and with Kafka, except the slow and the cluster tests
	$(PYTEST) $(THREE) $(SPARK) $(PYTEST_ARGS)

test-kafka: setup-test  ## Run the tests that need a Kafka broker, but no Spark
	$(PYTEST) -m "kafka and not slow" tests/jobs $(PYTEST_ARGS)

# With an archive of its classes, a JVM that runs a stream takes a third less processor time, and
# these tests start some twenty. They do without, if there is no Spark or the archive fails.
CLASSES := build/spark.jsa

$(CLASSES): $(VENV)/.stamp-spark
	@PYTHONPATH=tests $(BIN)/python -m support.spark_classes >$(CLASSES).log 2>&1 \
	  || echo "No archive of Spark's classes was made: see $(CLASSES).log"

spark-classes: setup-test
	@mkdir -p build
	@if $(BIN)/python -c "import pyspark" 2>/dev/null; then $(SUBMAKE) $(CLASSES); fi

# Compiled 64-bit hashes wrap silently; the same lines in plain numpy warn about it.
NOJIT  := NUMBA_DISABLE_JIT=1 $(PYTEST) $(TWO) -m nojit -W "ignore:overflow encountered:RuntimeWarning"

test-nojit: setup  ## Run the small tests of the core with numba's compiler off
	$(NOJIT) tests/data/test_columns.py tests/data/test_keys.py tests/data/test_packing.py tests/data/test_to_numpy.py tests/kernels \
	  tests/engine/test_clocks.py $(PYTEST_ARGS)

# Should a version of numba break kernels/compiler.py, its own compiler still serves.
test-njit: setup  ## Run the tests of kernels as numba itself compiles them
	SKYBAND_PLAIN_NUMBA=1 $(PYTEST) $(TWO) -m "not slow" tests/kernels/test_*kernels*.py $(PYTEST_ARGS)

slow-nojit: setup  ## Run every test that can do without numba's compiler; takes long
	$(NOJIT) tests --timeout=1800 -o faulthandler_timeout=3600 $(PYTEST_ARGS)

nightly: setup-test  ## Run the tests of tools, the slow ones, a longer round of fuzzing, and what got slower
	$(PYTEST) $(TWO) -m "tools and not slow and not spark" tests/lab $(PYTEST_ARGS)
	$(SUBMAKE) slow
	$(SUBMAKE) fuzz FUZZ_ARGS="--count 2000"
	$(SUBMAKE) against

against: setup  ## Print what is more than 10 % slower than in the last release
	$(BIN)/python -m lab.bench.against $(BENCH_ARGS)

docs-test: setup  ## Run the examples in README, docs and docstrings
	$(PYTEST) README.md docs src $(PYTEST_ARGS)

slow: setup-test  ## Run the slow tests, and those of every supported version of Spark
	$(PYTEST) -m "slow and not cluster" --timeout=1800 -o faulthandler_timeout=3600 $(PYTEST_ARGS)
	@if $(BIN)/python -c "import pyspark" 2>/dev/null; then $(SUBMAKE) spark-versions; fi

# Each fault at least twenty times; half an hour on a machine that does nothing else.
FAULTS := tests/spark/test_faults.py tests/spark/test_cluster.py tests/jobs/test_server_faults.py \
          tests/jobs/test_killed_jobs.py tests/jobs/test_broker_faults.py

faults: setup-spark spark-classes  ## Run the long tests of faults on Spark, a part of the slow ones
	$(PYTEST) -m "slow and not cluster" --timeout=3600 -o faulthandler_timeout=7200 --durations=0 $(FAULTS) $(PYTEST_ARGS)

cluster: setup-spark  ## Run the tests that need a Spark cluster of several processes
	$(PYTEST) -m cluster --timeout=1800 -o faulthandler_timeout=3600 $(PYTEST_ARGS)

# --- other environments, each in a folder of its own ----------------------------------------------

$(LOWEST)/.stamp: pyproject.toml .ci/lowest.py
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python .ci/lowest.py $(LOWEST_EXTRAS) > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python $(INSTALL) -c $(LOWEST)/constraints.txt -e '.[dev]'
	@touch $@

# dev and the extras that it takes in. Kernels are compiled again, so they get a cache of their own.
LOWEST_EXTRAS := dev bench cli plots postgres serve sql

lowest: $(LOWEST)/.stamp  ## Run the core tests with the lowest versions that pyproject.toml allows
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/numba $(LOWEST)/bin/python -m pytest $(TWO) $(CORE) tests $(PYTEST_ARGS)

# Versions of Spark that are supported beside the one in .venv. They share all other packages.
# PySpark 4.0 leaves sockets open, which pytest would count as errors.
SPARKS := 4.0.2 4.1.1

.venv-spark-%/.stamp: pyproject.toml | setup-spark
	rm -rf .venv-spark-$*
	$(PIP) --no-deps --no-compile --target .venv-spark-$* 'pyspark==$*' 'py4j==0.10.9.9'
	@touch $@

spark-versions: $(SPARKS:%=.venv-spark-%/.stamp)  ## Run a short test on every supported version of Spark
	@for version in $(SPARKS); do \
	  echo "==> Spark $$version"; \
	  PYTHONPATH=$(CURDIR)/.venv-spark-$$version $(PYTEST) tests/spark/test_versions.py --timeout=1800 \
	    -W "ignore::pytest.PytestUnraisableExceptionWarning" || exit 1; \
	done
	$(PYTEST) tests/spark/test_versions.py --timeout=1800

$(VENV)/.stamp-release: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[release]'
	@touch $@

# The demo and the examples of README need no Spark, the job does; it is left out without Java.
dist: $(VENV)/.stamp-release  ## Build and check wheel and sdist, and try the wheel in a clean environment
	$(BIN)/python .ci/dist.py
	$(PYTHON) -m venv --clear $(TRIAL)
	$(TRIAL)/bin/python $(INSTALL) "$$(echo dist/*.whl)[cli]"
	cd $(TRIAL) && bin/skyband --version && bin/skyband demo --seconds 0 && bin/python -m doctest ../README.md
	@if java -version >/dev/null 2>&1; then $(SUBMAKE) dist-spark; \
	else echo "No Java found: the job on Spark is left out."; fi

dist-spark:
	$(TRIAL)/bin/python $(INSTALL) "$$(echo dist/*.whl)[cli,spark]"
	rm -rf $(TRIAL)/job && mkdir -p $(TRIAL)/job/flows && cp examples/wheel_job.toml $(TRIAL)/job/job.toml
	cd $(TRIAL)/job && ../bin/skyband demo --save flows/flows.parquet && ../bin/skyband pipeline job.toml
	cd $(TRIAL)/job && ../bin/python -c "import pyarrow.parquet as pq; rows = pq.read_table('answers').num_rows; \
	  assert rows, 'the job gave no answers'; print(rows, 'rows from the job on Spark')"

# --- looking for what tests miss ------------------------------------------------------------------

fuzz: setup  ## Drive interface and command line with random inputs; FUZZ_ARGS="--count 10000 ..."
	PYTHONPATH=tests $(BIN)/python -m fuzz $(FUZZ_ARGS)

crashes: setup  ## Stop local jobs at 100,000 steps and compare; CRASH_ARGS="--points 5000 --seed 7"
	PYTHONPATH=tests $(BIN)/python -m crashes $(CRASH_ARGS)

mutants: setup  ## Change kernels one node at a time and see whether tests notice; MUTANT_ARGS="--help"
	PYTHONPATH=tests $(BIN)/python -m mutation $(MUTANT_ARGS)

# --- code ---------------------------------------------------------------------------------------

check: setup  ## Lint, check format, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## Fix what ruff can fix, and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove what builds and tests leave behind (.venv stays)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis \
	  spark-warehouse metastore_db derby.log
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
