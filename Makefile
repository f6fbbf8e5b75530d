# Every target works on a machine with Python 3.11 or newer, git and make; `setup` fetches the rest.
# Another interpreter: make PYTHON=python3.12 test

.DEFAULT_GOAL := help
PY := .venv/bin/python
export PYTHON

.PHONY: help setup demo test compiled test-compiled faults soak e2e e2e-smoke images sbom vulnerabilities check bench bench-memory bench-operator bench-checkpoints bench-slots \
  bench-scale bench-nodes bench-peers bench-state bench-requests doctor reference format clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' Makefile

setup: ## Make .venv with the locked packages (every other target does it by itself)
	@sh scripts/bootstrap.sh

demo: setup ## A stateful job on real flight data, killed and restored twice, compared with a batch calculation
	@$(PY) -m sparkstate_tools.demo $(ARGS)

test: ## The whole test suite, in stages; reports under build/
	@sh scripts/bootstrap.sh --java-wheel
	@$(PY) scripts/run_tests.py $(ARGS)

compiled: setup ## Build the record path in C and install it into .venv (optional; needs a C compiler)
	@$(PY) scripts/build_compiled.py

test-compiled: setup ## The same, then the tests of the operators on it; ARGS go to pytest
	@$(PY) scripts/build_compiled.py --test $(ARGS)

faults: ## Everything that is broken on purpose, in full (70 minutes; ARGS=--continue goes on); writes docs/faults.md
	@sh scripts/bootstrap.sh --java-wheel
	@$(PY) scripts/run_faults.py $(ARGS)

soak: ## One job through 20,000 epochs and 2,000 checkpoints on each backend, in parts (ARGS="--minutes 60"); hours
	@sh scripts/bootstrap.sh --java-wheel
	@$(PY) -m sparkstate_tools.soak $(ARGS)

e2e: ## The operator on real nodes of this machine: Linux and root; ARGS go to pytest
	@sh scripts/bootstrap.sh --java-wheel
	@$(PY) scripts/run_e2e.py $(ARGS)

e2e-smoke: ## The shortest way through that: install, apply, run, lose the driver, be exact
	@sh scripts/bootstrap.sh --java-wheel
	@$(PY) scripts/run_e2e.py --smoke $(ARGS)

images: setup ## Build the operator's and the job's container image into build/images/ (Docker, or buildah as root)
	@$(PY) scripts/build_images.py $(ARGS)

sbom: setup ## What the images consist of (SPDX JSON beside each archive; ARGS=--check holds them against the schema)
	@$(PY) scripts/sbom.py $(ARGS)

vulnerabilities: setup ## Known ones of the locked packages and the images, by an OSV database: ARGS="--database PATH"
	@$(PY) scripts/vulnerabilities.py $(ARGS)

check: setup ## Style, types, layers, prose, generated files, licences, feature list
	@$(PY) scripts/run_checks.py

bench: setup ## Figures of the engine, as a table and as JSON under benchmarks/results/
	@$(PY) benchmarks/run.py $(ARGS)
	@[ -n "$(ARGS)" ] || { $(PY) benchmarks/checkpoints.py && $(PY) benchmarks/memory.py; }

bench-memory: setup ## Resident memory of a slot with 2 GiB of state on 256 MiB; 10 minutes
	@$(PY) benchmarks/memory.py $(ARGS)

bench-operator: setup ## What 1,000 idle jobs cost the operator; ARGS=--drivers: 5,000 whose drivers answer and fail
	@$(PY) benchmarks/operator_scale.py $(ARGS)

bench-checkpoints: setup ## Pause, upload and restore of checkpoints with 1 GiB in a slot
	@$(PY) benchmarks/checkpoints.py $(ARGS)

bench-peers: setup ## Flink, Spark's own and others beside sparkstate, results compared first; ARGS=--quick: 15 minutes
	@$(PY) benchmarks/run_peers.py $(ARGS)

bench-slots: setup ## What 1 to 100 slots of 1,000 files each cost the driver; 4 minutes
	@$(PY) benchmarks/slots.py $(ARGS)

bench-scale: setup ## CPU per row with 1, 2, 4 and 8 slots of the same work each; both backends, 20 minutes
	@$(PY) benchmarks/scale_out.py $(ARGS)

bench-nodes: setup ## CPU per row of driver and executor pods with 1, 2, 4 and 8 slots on a real node; Linux, root
	@$(PY) benchmarks/scale_on_nodes.py $(ARGS)

bench-state: setup ## Bytes per key in memory, on disk and in checkpoints, and what storing and reading them costs
	@$(PY) benchmarks/state_costs.py $(ARGS)

bench-requests: setup ## Requests and bytes that a checkpoint asks of S3, by slots, shards and backend; 8 minutes
	@$(PY) benchmarks/storage_requests.py $(ARGS)

doctor: setup ## What this machine has and what it lacks
	@.venv/bin/sparkstate doctor

reference: setup ## Write what is generated from the code: the CRD, the REST reference, the lives in docs/operator.md
	@$(PY) -m sparkstate_operator.crdgen && $(PY) scripts/reference.py --write

format: setup ## Let ruff rewrite what it can
	@$(PY) -m ruff format . && $(PY) -m ruff check --fix .

clean: ## Remove .venv, reports and caches (the downloads under ~/.cache/sparkstate stay)
	rm -rf .venv build dist compiled/build demo-output spark-warehouse metastore_db .pytest_cache .mypy_cache .ruff_cache \
	  .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
