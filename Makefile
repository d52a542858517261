# make demo and make test each build their own virtual environment in .venv and need nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test lint types wheel bench clean

help:
	@echo "make demo    collect a year of flights privately; writes arcwise-demo.html"
	@echo "make test    run the tests"
	@echo "make lint    ruff"
	@echo "make types   mypy, strict"
	@echo "make wheel   build the wheel and check it in bare environments"
	@echo "make bench   the benchmarks, by hand: minutes"

demo: $(VENV)/.demo
	$(BIN)/arcwise demo $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

wheel: $(VENV)/.dev
	$(BIN)/python .ci/wheel.py

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) build dist

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@
