# `make help` lists the targets. Everything runs in .venv, which `make setup` creates from the locked requirements.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: help setup up test soak lint compat flows writes reference bench bench-peers demo kube kube-up test-kube bench-kube lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with the locked dependencies and Trimtab

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Trimtab needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "setting up .venv (once; about a minute)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

up: $(READY) ## run the control plane in the foreground (data in .trimtab; ARGS="--port 7443" for flags)
	@exec $(BIN)/trimtab up --data-dir .trimtab $(ARGS)

test: $(READY) ## all tests that need only Python (kubectl and Chromium tests where those are installed)
	$(BIN)/pytest -q -n 2 --dist loadfile --ignore tests/kube tests

soak: $(READY) ## property, fuzz, chaos and leak tests with EFFORT times as many examples (default 20), with new seeds; FILES selects some
	EFFORT=$(or $(EFFORT),20) $(BIN)/pytest -q -n 2 --dist loadfile $(or $(FILES),tests/properties tests/soak)

lint: $(READY) ## formatting, style, types and import contracts
	$(BIN)/ruff format --check src tests bench rig tools
	$(BIN)/ruff check src tests bench rig tools
	$(BIN)/mypy
	$(BIN)/lint-imports

compat: $(READY) ## compare with recorded decisions of the peers; FILES="a.jsonl.gz b.jsonl.gz" for other recordings
	@$(BIN)/python tests/compat/run.py $(FILES)

flows: $(READY) ## compare with recorded flows of a live Karmada; DIR=directory for others, PROFILE=trimtab for our profile
	@$(BIN)/python tests/compat/flows.py $(if $(PROFILE),--profile $(PROFILE)) $(DIR)

writes: $(READY) ## compare the ordered writes of the controllers with the recorded ones; RECORD=1 records them
	@$(BIN)/python tests/compat/writes.py $(if $(RECORD),--record) $(NAMES)

reference: $(READY) ## write docs/reference from the code
	$(BIN)/python tools/reference.py

bench: $(READY) ## run the benchmarks; writes JSON to bench/results (PARTS="decide server" selects some)
	@$(BIN)/python -m bench $(PARTS)

bench-peers: $(READY) ## run the algorithms of the peers and ours in one run (needs Go; built once into a cache)
	@$(BIN)/python -m bench.peers

demo: $(READY) ## run the demo story in real time, about a minute
	@$(BIN)/trimtab demo stories/demo.yaml

kube: ## build kube-apiserver, etcd, controller manager and scheduler (needs Go; see docs/how-to/use-a-real-kube-apiserver.md)
	@$(PYTHON) rig/obtain.py

kube-up: $(READY) ## run a real kube-apiserver in the foreground (ARGS="--controllers --scheduler")
	@PYTHONPATH=tests exec $(BIN)/python -m kube.up $(ARGS)

test-kube: $(READY) ## run the tests on a real kube-apiserver and etcd (after make kube)
	@$(BIN)/python rig/obtain.py --check && $(BIN)/pytest -q -n 2 --dist loadfile tests/kube

bench-kube: $(READY) ## measure requests and CPU per workload on a real kube-apiserver (after make kube)
	@$(BIN)/python rig/obtain.py --check && $(BIN)/python -m bench.kube $(ARGS)

lock: ## update the pinned dependencies (needs uv)
	for set in core dev; do uv pip compile -q --python-version 3.11 --universal --generate-hashes --no-annotate --no-header --no-emit-index-url requirements/$$set.in -o requirements/$$set.txt; done
