# make demo and make test each build a virtual environment in .venv and need nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
SPARK := .venv-spark
# worksteal: a process that finishes early takes tests from the others. Bytecode is on, even if it is turned off in the
# environment: tests start a hundred processes, which should not compile their imports again.
WORKERS := -n 3 --dist worksteal
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(WORKERS)

# uv takes a fraction of pip's time. pip installs if uv is unavailable, or finds fewer packages than pip with pip.conf.
PIP := -m pip install --quiet --disable-pip-version-check
define install
$(1)/bin/python $(PIP) uv && $(1)/bin/uv pip install --quiet --python $(1)/bin/python $(2) || $(1)/bin/python $(PIP) $(2)
endef

.PHONY: help demo javascript test test-all test-young test-shuffled test-busy test-lowest test-pythons test-spark lint types wheel container release bench bench-lake pictures docs clean

help:
	@echo "make demo          collect a year of flights privately; writes arcwise-demo.html"
	@echo "make test          run all tests except the slow ones, in three processes; ARGS='tests/core -n 0' goes to pytest"
	@echo "make test-all      run the slow tests, too"
	@echo "make test-young    run the tests as on a machine that has just started (Linux)"
	@echo "make test-shuffled run the tests in a random order; SEED=1 repeats an order"
	@echo "make test-busy     run the tests while other processes keep all cores busy"
	@echo "make test-lowest   test the core and the client with the oldest allowed libraries"
	@echo "make test-pythons  the same with the wheel, on every installed Python in pyproject.toml; ARGS=3.12 selects one"
	@echo "make test-spark    count a lake with Spark on two executors, and kill one; needs Java 17 and 1 GB of packages"
	@echo "make javascript    build the npm package, and test it in Node.js and Chromium; needs npm's registry"
	@echo "make lint          run ruff, and search for duplicate code"
	@echo "make types         run mypy, strict"
	@echo "make wheel         build the sdist and the wheel, and check the wheel in bare environments"
	@echo "make container     build the container image on a substitute base, and run it (Debian, as root)"
	@echo "make release       VERSION=0.1.0: do everything of a release except the upload"
	@echo "make bench         run the benchmarks, and write docs/reference/performance.md: a quarter of an hour"
	@echo "make docs          build the site in build/site; ARGS='-D nb_execution_mode=off' skips the notebooks"
	@echo "make pictures      take the pictures of the dashboard in docs/pictures; needs chromium"

demo: $(VENV)/.demo
	$(BIN)/arcwise demo $(ARGS)

test: $(VENV)/.dev
	$(PYTEST) -m "not slow" $(ARGS)

test-all: $(VENV)/.dev
	$(PYTEST) $(ARGS)

# In a time namespace with a monotonic clock that begins at about 0 for every process in it.
test-young: $(VENV)/.dev
	unshare $$(test $$(id -u) = 0 || echo --map-current-user) --fork --kill-child \
		--time --monotonic $$($(PYTHON) -c 'import time; print(-int(time.monotonic()))') \
		env $(PYTEST) -m "not slow" $(ARGS)

# Every process must get the same seed.
test-shuffled: SEED ?= $(shell date +%s)
test-shuffled: $(VENV)/.dev
	$(PYTEST) -m "not slow" --random-order --random-order-seed=$(SEED) $(ARGS)

test-busy: $(VENV)/.dev
	$(BIN)/python -m tests.support.busy env $(PYTEST) -m "not slow" $(ARGS)

# Needs a Python with wheels of these versions: 3.10 or 3.11.
test-lowest: $(LOWEST)/.made
	PYTHONDONTWRITEBYTECODE= $(LOWEST)/bin/python -m pytest $(WORKERS) -m "not slow" tests/core tests/client $(ARGS)

test-pythons: $(VENV)/.dev
	$(BIN)/python .ci/pythons.py $(ARGS)

test-spark: $(SPARK)/.made
	$(SPARK)/bin/python -m pytest -n 0 tests/counting/test_spark.py $(ARGS)

javascript: $(VENV)/.dev
	ARCWISE_TEST_NPM=1 $(BIN)/python -m pytest tests/examples/test_javascript_package.py $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pylint $$(git ls-files 'client/*.py' 'server/*.py' 'shared/*.py' 'benchmarks/*.py' 'examples/*.py')

types: $(VENV)/.dev
	$(BIN)/mypy

wheel: $(VENV)/.dev
	$(BIN)/python .ci/wheel.py

container:
	.ci/container

release: $(VENV)/.dev
	$(BIN)/python .ci/release.py $(VERSION)

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.speed.run
	$(BIN)/python -m benchmarks.speed.page

bench-lake: $(VENV)/.dev
	$(BIN)/python -m benchmarks.speed.run lake -- --reports 1e8
	$(BIN)/python -m benchmarks.speed.page

docs: $(VENV)/.dev
	$(BIN)/python -m docs._site.build $(ARGS)

pictures: $(VENV)/.dev
	$(BIN)/python -m tests.pages.screenshots $(ARGS)

clean:
	rm -rf .venv .venv-* build dist

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	$(call install,$(VENV),--editable '.[demo]')
	touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	$(call install,$(VENV),--editable '.[dev]')
	touch $@

# Without the fallback to pip, which does not have this resolution.
$(LOWEST)/.made: pyproject.toml
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python $(PIP) uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable '.[test]'
	touch $@

$(SPARK)/.made: pyproject.toml
	$(PYTHON) -m venv $(SPARK)
	$(call install,$(SPARK),--editable '.[test]' 'ibis-framework[pyspark]' setuptools)
	touch $@
