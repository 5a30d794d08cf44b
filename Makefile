# `make help` lists the targets. Everything runs in .venv, which `make setup` creates from the locked requirements.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
READY := .venv/ready

DOCS := .venv-docs

.PHONY: help docs setup dev up test soak mutants lint compat flows writes reference bench bench-growth bench-scale bench-peers demo kube kube-up test-kube bench-kube suites packaging-tools test-distribution image release lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## create .venv with what running needs: the locked dependencies and Trimtab

dev: $(READY) ## the same with the packages for development: tests, linters, types

$(INSTALLED): requirements/core.txt
	@$(PYTHON) tools/environment.py run
	@touch $(INSTALLED)

$(READY): $(INSTALLED) requirements/dev.txt
	@$(PYTHON) tools/environment.py dev
	@touch $(READY)

up: $(INSTALLED) ## run the control plane in the foreground (data in .trimtab; ARGS="--port 7443" for flags)
	@exec $(BIN)/trimtab up --data-dir .trimtab $(ARGS)

test: $(READY) ## all tests that need only Python (kubectl and Chromium tests where those are installed)
	@$(BIN)/python tools/chromium.py
	$(BIN)/pytest -q -n 3 --dist loadfile --ignore tests/kube --ignore tests/distribution tests
	@$(BIN)/python tools/chromium.py

soak: $(READY) ## property, fuzz, chaos and leak tests with EFFORT times as many examples (default 20), with new seeds; FILES selects some
	EFFORT=$(or $(EFFORT),20) $(BIN)/pytest -q -n 2 --dist loadfile $(or $(FILES),tests/properties tests/soak)

mutants: $(READY) ## remove every listed safety rule in turn and demand that a test fails; RULES="watch budget" selects some
	@$(BIN)/python tests/mutants/run.py $(if $(JOBS),--jobs $(JOBS)) $(RULES)

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

reference: $(READY) ## write docs/reference and the chart of the CRDs from the code
	$(BIN)/python tools/reference.py

$(DOCS)/installed: requirements/docs.txt
	@$(PYTHON) -m venv $(DOCS)
	@echo "installing $$(grep -c == requirements/docs.txt) packages for the documentation"
	@$(DOCS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

docs: $(DOCS)/installed ## build the documentation as a static site into dist/docs; it is read without a network
	@$(DOCS)/bin/sphinx-build -q -W --keep-going -b html -c docs/site docs dist/docs
	@echo "open dist/docs/README.html"

bench: $(READY) ## run the benchmarks; writes JSON to bench/results (PARTS="decide server" selects some)
	@$(BIN)/python -m bench $(PARTS)

bench-growth: $(READY) ## fit how costs grow with workloads and clusters; fails when a step grows too fast (ARGS="--repeat 3"; ARGS=--calls counts calls, also on a busy machine)
	@$(BIN)/python -m bench.growth $(ARGS)

bench-scale: $(READY) ## lose, restore and drain a region of lean clusters, and rebalance all workloads, on the virtual clock (ARGS="--clusters 1001 --workloads 10000")
	@$(BIN)/python -m bench.scale $(ARGS) && $(BIN)/python -m bench.scale_stories $(ARGS)

bench-peers: $(READY) ## run the algorithms of the peers and ours in one run (needs Go; built once into a cache)
	@$(BIN)/python -m bench.peers

demo: $(INSTALLED) ## run the demo story in real time, about a minute
	@$(BIN)/trimtab demo stories/demo.yaml

kube: ## build kube-apiserver, etcd, controller manager and scheduler (needs Go; KUBE=1.31 for the version before; see docs/how-to/use-a-real-kube-apiserver.md)
	@$(PYTHON) rig/obtain.py

kube-up: $(INSTALLED) ## run a real kube-apiserver in the foreground (ARGS="--controllers --scheduler")
	@PYTHONPATH=tests exec $(BIN)/python -m kube.up $(ARGS)

test-kube: $(READY) ## run the tests on a real kube-apiserver and etcd (after make kube; KUBE=1.31 for the version before)
	@$(BIN)/python rig/obtain.py --check && $(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder tests/kube

bench-kube: $(READY) ## measure requests and CPU per workload on a real kube-apiserver (after make kube)
	@$(BIN)/python rig/obtain.py --check && $(BIN)/python -m bench.kube $(ARGS)

packaging-tools: ## obtain helm, promtool and mmdebstrap (needs Go and apt)
	@$(PYTHON) rig/packaging_tools.py

test-distribution: $(READY) ## test charts, alerts and the image with helm and promtool (after make packaging-tools)
	@$(BIN)/python rig/packaging_tools.py --check && $(BIN)/pytest -q tests/distribution

image: $(READY) ## build an OCI image and its SBOM into dist/ without a container engine (needs mmdebstrap)
	@$(BIN)/python tools/image.py

release: $(READY) ## write wheel, sdist, image, SBOM, charts and checksums into dist/
	@$(BIN)/python tools/release.py

suites: $(READY) ## run the end-to-end suites of Karmada and Kubernetes (needs Go; PARTS="karmada/failover" selects some, JOBS=4 runs areas at once)
	@$(BIN)/python tests/suites/run.py $(if $(JOBS),--jobs $(JOBS)) $(PARTS)

lock: ## update the pinned dependencies (needs uv)
	for set in core dev docs; do uv pip compile -q --python-version 3.11 --universal --generate-hashes --no-annotate --no-header --no-emit-index-url requirements/$$set.in -o requirements/$$set.txt; done
