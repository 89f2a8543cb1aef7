# `make reports/fixup.html` and `make test` are all that is needed on a fresh machine with
# Python 3.11. Everything else is a shorthand for a command inside the environment .venv.

PYTHON ?= python3.11
BIN := .venv/bin
READY := .venv/ready

.DEFAULT_GOAL := help
.PHONY: help all test check format lock clean FORCE

help:  ## this list
	@echo "make reports/PAPER.html    the report of one paper: $(notdir $(patsubst %/paper.yaml,%,$(wildcard papers/*/paper.yaml)))"
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## */make \1|/' | awk -F'|' '{printf "%-26s %s\n", $$1, $$2}'

all: $(READY)  ## every report
	$(BIN)/snakemake

reports/%: $(READY) FORCE
	$(BIN)/snakemake $@

test: $(READY)  ## the whole test suite, as in continuous integration
	$(BIN)/pytest -n 2

check: $(READY)  ## only the fast checks: style, types, layers
	$(BIN)/pre-commit run --all-files

format: $(READY)  ## format all code
	$(BIN)/ruff check --fix . && $(BIN)/ruff format . && $(BIN)/snakefmt Snakefile workflow

lock: $(READY)  ## make requirements.lock again after a change of pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
	    --generate-hashes --no-header --quiet --output-file requirements.lock

clean:  ## remove everything that was computed; data/ and .venv stay
	rm -rf results reports .snakemake

# The environment: exactly the locked packages, every archive checked against its hash.
# A half-made environment has no `ready` file and is made again from the start.
$(READY): requirements.lock
	@command -v $(PYTHON) >/dev/null || { echo "Renorm needs Python 3.11: got no '$(PYTHON)'. Install it, or name it: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Making .venv: some minutes, and about 6 GB on Linux (the CUDA build of torch)."
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check --require-hashes --requirement requirements.lock
	touch $@
