# `make run` and `make test` need Python 3.11 or newer and make; everything else they install.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The first of these that runs and is not too old (a name on PATH may be an empty shim).
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 3
SOAK_SEEDS ?= 0..19999
SOAK_CLUSTERS ?= 0..1999
SOAK_SEED ?= 1
SOAK_VARIANTS ?= 20000
SOAK_KAI_VARIANTS ?= 5000
SOAK_SECONDS ?= 600
PAIRS ?= 7
SIZES ?= basic wide
BOUND ?= 1.03
POLICY ?= examples/policies/allocate-only.yaml
OUTPUT ?= table
DEMO := --backlog --mode soft --shards 4 --nodes 1000 --gpus-per-node 8 --jobs 2000
ROOMS := laboratory coordinator shard_worker shared
CODE := $(ROOMS) tests
LONG_FILE := 600

# Bytecode is kept also where the shell says otherwise: without it each worker of the tests rewrites
# and compiles all their files (20 s of processor time), and each `quadrant` that they start compiles
# the product.
unexport PYTHONDONTWRITEBYTECODE

# A stamp is named for the content it was installed from: another lock is another stamp, and a
# second `make` with the same lock starts at once.
key = $(shell cat pyproject.toml $(1) | cksum | cut -d' ' -f1)
RUN_STAMP := $(VENV)/.installed-run-$(call key,requirements.lock)
DEV_STAMP := $(VENV)/.installed-dev-$(call key,requirements-dev.lock)
INSTALL_QUADRANT := echo "Installing quadrant itself" >&2 && $(BIN)/python -m pip \
	--disable-pip-version-check install --quiet --no-deps --no-build-isolation --editable .

.PHONY: help install run test test-all test-fast test-slow test-alone test-kubernetes test-computing test-waiting test-thorough durations kubernetes oracle bench-compare soak check fmt reference lock clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-14s %s\n", $$1, $$2}'

install: $(DEV_STAMP) ## Install what is locked, and the tools of development

run: $(RUN_STAMP) ## The demo: 2,000 jobs on 1,000 nodes, four shards
	@$(BIN)/quadrant demo $(DEMO)

# `make test` has one form of each proof; `make test-all` sets this to nothing, as .ci/run does.
PROOFS ?= and not all

# Not one run with groups: xdist 3.8 does not see its groups under pytest 9.2, and says nothing.
# The fast tests compute and the others mostly wait: one after the other takes a minute longer.
test: $(DEV_STAMP) ## One form of each proof: the fast tests, beside them those that start Ray, then one by one
	@status=0; $(MAKE) --no-print-directory --jobs=2 test-computing test-waiting || status=1; \
		$(MAKE) --no-print-directory test-alone || status=1; exit $$status

# They give way, so that the others are not last.
test-computing: $(DEV_STAMP)
	@nice $(MAKE) --no-print-directory test-fast

# Printed at the end, so that it does not stand between the dots of the fast ones.
test-waiting: $(DEV_STAMP)
	@printed=$$(mktemp); status=0; for part in test-slow test-kubernetes; do \
		$(MAKE) --no-print-directory $$part >>$$printed 2>&1 || status=1; done; \
		cat $$printed; rm -f $$printed; exit $$status

# One after the other: on a machine with work of its own no test fails by time.
test-all: $(DEV_STAMP) ## All tests, with the examples of CI: every form, seed, page and process
	@status=0; for part in test-fast test-slow test-alone test-kubernetes test-thorough; do \
		CI=1 $(MAKE) --no-print-directory PROOFS= $$part || status=1; done; \
		exit $$status

durations: $(DEV_STAMP) ## Run all tests, and write tests/durations.txt: the slowest, and the sum by folder
	@recorded=$$(mktemp) && DURATIONS=$$recorded $(MAKE) --no-print-directory test-all; \
		$(BIN)/python -m tests.durations --write $$recorded; rm -f $$recorded

test-fast: $(DEV_STAMP) ## The fast tests, side by side
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow and not kubernetes and not thorough $(PROOFS)"

# Tests of one file share a stack, and are together one worker's.
test-slow: $(DEV_STAMP) ## The tests that start Ray and all processes, three files at a time
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "slow and not alone and not kubernetes and not thorough $(PROOFS)"

test-alone: $(DEV_STAMP) ## The tests that need a core for themselves, one by one
	@$(BIN)/python -m pytest -q -m "alone and not kubernetes and not thorough $(PROOFS)"

# Each process has an API server, which its tests share: they wait more than they work. For the few
# of `make test` one does, as a second costs more than it runs beside the first.
test-kubernetes: $(DEV_STAMP) ## The tests on a real API server (`make kubernetes` builds it)
	@$(BIN)/python -m pytest -q -n $(if $(PROOFS),0,2) --dist loadfile -m "kubernetes and not thorough $(PROOFS)" tests/kubernetes tests/deploy

# They wait more than they work, and share nothing: no server, no network, no folder.
test-thorough: $(DEV_STAMP) ## Minutes of faults and tens of thousands of objects, two at a time: for CI, not in `make test`
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m thorough

kubernetes: $(DEV_STAMP) ## Build the API server, etcd, controllers and schedulers of the tests, once (needs Go)
	@$(BIN)/python -m tests.kubernetes.servers.build

oracle: $(DEV_STAMP) ## Build the programs that run Volcano's and KAI's own code, once (needs Go)
	@$(BIN)/python -m tests.oracle.build

bench-compare: $(DEV_STAMP) ## What the working tree costs against BASE=revision, in pairs (PAIRS=7, SIZES, BOUND)
	@test -n "$(BASE)" || { echo "Name the revision to compare with: make bench-compare BASE=HEAD~1" >&2; exit 2; }
	@$(BIN)/python -m tests.bench_compare --base "$(BASE)" --pairs $(PAIRS) --sizes $(SIZES) \
		--bound $(BOUND) --policy $(POLICY) -o $(OUTPUT)

soak: $(DEV_STAMP) ## Hours more: all examples of the fast tests, every state of the model, 20,000 seeds, 2,000 random clusters, 20,000 variants beside Volcano and 5,000 beside KAI, ten minutes of real faults
	@EXAMPLES=all $(MAKE) --no-print-directory test-fast
	@$(BIN)/quadrant chaos model --thorough
	@$(BIN)/quadrant chaos sim --seeds $(SOAK_SEEDS) --jobs 2
	@$(BIN)/python -m tests.random_clusters $(SOAK_CLUSTERS)
	@$(BIN)/quadrant chaos run --seed $(SOAK_SEED) --duration $(SOAK_SECONDS)
	@! command -v go >/dev/null || $(BIN)/python -m tests.oracle --variants $(SOAK_VARIANTS) --seed $(SOAK_SEED)
	@! command -v go >/dev/null || $(BIN)/python -m tests.oracle --peer kai --variants $(SOAK_KAI_VARIANTS) \
		--seed $(SOAK_SEED)
	@! command -v go >/dev/null || $(BIN)/quadrant chaos run --seed $(SOAK_SEED) --duration $(SOAK_SECONDS) \
		--cluster kubernetes --servers "$$($(BIN)/python -m tests.kubernetes.servers.build)"

check: $(DEV_STAMP) ## Format, lint, types, import contract, dependencies
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/deptry $(ROOMS)
	@$(BIN)/python -m pip check
	@find $(ROOMS) -name '*.py' -exec wc -l {} + | awk '$$2 != "total" && $$1 > $(LONG_FILE) \
		{ print "warning: " $$2 " has " $$1 " lines: is it one concept?" }'

fmt: $(DEV_STAMP) ## Format and fix what can be fixed
	@$(BIN)/ruff format $(CODE)
	@$(BIN)/ruff check --fix $(CODE)

reference: $(RUN_STAMP) ## Write docs/reference, docs/metrics.md, k8s/definitions.yaml and shared/wire_digest.py anew, from the code
	@$(BIN)/python -m laboratory.cli.reference docs
	@$(BIN)/python -m coordinator.service.metrics.table > docs/metrics.md
	@$(BIN)/python -m coordinator.api.discovery.definitions > k8s/definitions.yaml
	@page=$$($(BIN)/python -m shard_worker.worker.wire) && printf '%s\n' "$$page" > shared/wire_digest.py

COMPILE := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --no-header --upgrade
lock: $(DEV_STAMP) ## Resolve the dependencies anew
	@$(COMPILE) --extra build --output-file requirements.lock
	@$(COMPILE) --extra build --extra dev --extra otel --constraint requirements.lock \
		--output-file requirements-dev.lock

clean: ## Remove the virtual environment and every cache
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "No Python 3.11 or newer was found; name one: make PYTHON=..." >&2; exit 1; }
	@echo "Making $(VENV) with $(PYTHON) (once)" >&2
	@"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(RUN_STAMP): | $(BIN)/python
	@.ci/install $(BIN)/python requirements.lock >&2
	@$(INSTALL_QUADRANT)
	@touch $@

$(DEV_STAMP): | $(BIN)/python
	@.ci/install $(BIN)/python requirements-dev.lock >&2
	@$(INSTALL_QUADRANT)
	@touch $@ $(RUN_STAMP)
