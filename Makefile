# Every target sets up what it needs. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
USABLE := $(VENV)/.usable
PYTEST := $(BIN)/python -m pytest
# What was compiled is kept, whatever the caller's environment says: many short processes start here.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo dev test check format e2e e2e-full bench clean

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What it takes to run Restow, and what it takes to work on it, which includes the other.
$(USABLE): pyproject.toml
	@test $(STAMP) -nt $< || $(MAKE) --no-print-directory install WHAT='.'
	@touch $@

$(STAMP): pyproject.toml
	@$(MAKE) --no-print-directory install WHAT='.[dev]'
	@touch $@

.PHONY: install
install: WHAT ?= .[dev]
install:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "restow needs Python 3.11 or newer; set PYTHON=python3.x")'
	@echo "setting up $(VENV), once; this takes a minute" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '$(WHAT)'

demo: $(USABLE) ## Scattered room, a plan, its moves, a gang that then fits; ends by itself
	@$(BIN)/restow demo

dev: $(USABLE) ## Serve an embedded cluster for kubectl on port 6444
	@$(BIN)/restow dev

test: $(STAMP) ## Run the tests (Python alone, no network)
	@$(PYTEST) -n 2 --dist worksteal -q

check: $(STAMP) ## Lint, format, types, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/.bench ## Compare with peers, as ratios within one run
	@$(BIN)/python -m bench

$(VENV)/.bench: $(STAMP)
	@echo "installing the peers to compare with (once)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	@touch $@

format: $(STAMP) ## Rewrite the sources in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

-include e2e/targets.mk

clean: ## Remove the virtual environment and caches
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
