# Two commands matter: `make demo` shows ampify at work, `make test` checks everything.
# Both make .venv first if it is missing. Needs Python 3.10 or later, make and git.

PYTHON ?= python3
VENV ?= .venv
# pip's words for PyTorch. Elsewhere than on a CPU-only index, see "PyTorch's CPU build" in README.md.
TORCH ?= torch==2.13.0
# pytest workers. One thread each: two cores, two workers, no quarrel.
WORKERS ?= 2
PYTEST_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
INSTALLED := $(VENV)/installed-$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help demo test lint types imports tests kernels coverage bench docs format clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'

# The stamp bears the Python version, so that another PYTHON= makes the environment anew.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "ampify needs Python 3.10 or later, and $(PYTHON) is not that ($(or $(VERSION),not found)); name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@test -z "`ls $(VENV)/installed-* 2>/dev/null | grep -v '/installed-$(VERSION)$$'`" || rm -rf "$(VENV)"
	@echo "Making $(VENV) with Python $(VERSION) and installing what ampify needs. This is done once."
	@$(PYTHON) -m venv "$(VENV)"
	@# PyTorch first and by its exact version: a lower bound alone can choose a build with gigabytes of CUDA libraries.
	@$(PIP) install $(TORCH)
	@$(PIP) install -e '.[runtime,dev]'
	@touch "$@"

demo: $(INSTALLED)  ## migrate examples/digits, train before and after, compare
	@$(BIN)/python examples/demo.py

test: lint types imports tests  ## everything that must pass: lint, types, import rules, tests

lint: $(INSTALLED)  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)  ## mypy, strict
	$(BIN)/mypy

imports: $(INSTALLED)  ## the one-way import rules
	$(BIN)/lint-imports

tests: $(INSTALLED)  ## pytest
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

kernels: $(INSTALLED)  ## every CUDA kernel in every layout, no GPU needed; minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) tests/kernels -m kernels

coverage: $(INSTALLED)  ## the tests again, with branch coverage
	$(BIN)/coverage erase
	OMP_NUM_THREADS=1 $(BIN)/coverage run -m pytest $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

bench: $(INSTALLED)  ## check 4,000 files, against parsing them with LibCST
	$(BIN)/python benchmarks/check_tree.py

docs: $(INSTALLED)  ## docs/rules.md from the rules
	$(BIN)/python -m ampify.rules.documentation

format: $(INSTALLED)  ## lay the code out
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove what these commands made
	rm -rf "$(VENV)" .demo .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* dist build
