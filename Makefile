# `make help` lists what can be done. Everything runs in .venv, which `make setup` makes from the locked requirements.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: help setup up test soak lint compat flows writes bench bench-peers demo kube kube-up test-kube bench-kube lock

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with the locked dependencies and Trimtab itself

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Trimtab needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "setting up .venv (once; about a minute)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

up: $(READY) ## run the control plane in the foreground (data in .trimtab; ARGS="--port 7443" for flags)
	@exec $(BIN)/trimtab up --data-dir .trimtab $(ARGS)

test: $(READY) ## all tests that need nothing but Python (kubectl and Chromium tests where those are present)
	$(BIN)/pytest -q -n 2 --dist loadfile --ignore tests/kube tests

soak: $(READY) ## the properties of tests/properties with EFFORT times as many examples (20), ever new ones; FILES for some
	EFFORT=$(or $(EFFORT),20) $(BIN)/pytest -q -n 2 --dist loadfile $(or $(FILES),tests/properties)

lint: $(READY) ## formatting, style, types, and the walls of the house
	$(BIN)/ruff format --check src tests bench rig
	$(BIN)/ruff check src tests bench rig
	$(BIN)/mypy
	$(BIN)/lint-imports

compat: $(READY) ## recorded decisions of the peers; FILES="a.jsonl.gz b.jsonl.gz" for others of these formats
	@$(BIN)/python tests/compat/run.py $(FILES)

flows: $(READY) ## recorded flows of a live Karmada control plane; DIR=folder for others, PROFILE=trimtab for ours
	@$(BIN)/python tests/compat/flows.py $(if $(PROFILE),--profile $(PROFILE)) $(DIR)

writes: $(READY) ## the ordered writes of the controllers in every flow and story, both profiles, against the recorded ones
	@$(BIN)/python tests/compat/writes.py $(if $(RECORD),--record) $(NAMES)

bench: $(READY) ## measure; writes JSON below bench/results (PARTS="decide server" for some)
	@$(BIN)/python -m bench $(PARTS)

bench-peers: $(READY) ## the peers' own algorithms beside ours in one run (needs Go; built once into a cache)
	@$(BIN)/python -m bench.peers

demo: $(READY) ## five acts on the wall clock, about a minute
	@$(BIN)/trimtab demo stories/demo.yaml

kube: ## obtain a real kube-apiserver, etcd and friends into a cache (needs Go; see docs/kube-rig.md)
	@$(PYTHON) rig/obtain.py

kube-up: $(READY) ## run a real kube-apiserver in the foreground (ARGS="--controllers --scheduler")
	@PYTHONPATH=tests exec $(BIN)/python -m kube.up $(ARGS)

test-kube: $(READY) ## tests on a real kube-apiserver and etcd (after make kube)
	@$(BIN)/python rig/obtain.py --check && $(BIN)/pytest -q -n 2 --dist loadfile tests/kube

bench-kube: $(READY) ## requests and CPU per workload on a real kube-apiserver (after make kube)
	@$(BIN)/python rig/obtain.py --check && $(BIN)/python -m bench.kube $(ARGS)

lock: ## pin the dependencies anew (needs uv)
	for set in core dev; do uv pip compile -q --python-version 3.11 --universal --generate-hashes --no-annotate --no-header --no-emit-index-url requirements/$$set.in -o requirements/$$set.txt; done
