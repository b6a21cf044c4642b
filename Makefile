# One command each; `make help` lists them.
PYTHON ?= python3
# make test PYTHON=/path/to/python3.13: another Python has a virtual environment of its own, .venv-3.13.
VENV := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'))
BIN := $(VENV)/bin
# -P: imports don't depend on the working directory. The editable install puts the checkout on the path.
PY := $(BIN)/python -P
# A process without bytecode compiles all of its modules when it starts: 0.3 seconds, in hundreds of tests.
unexport PYTHONDONTWRITEBYTECODE
# Properties are tested with the same examples each time (profile ci); pytest alone draws others.
PYTEST := $(PY) -m pytest --durations=10 --hypothesis-profile=ci --numprocesses=auto --dist=worksteal
PACKAGES := common recommender updater admission certs kubectl_vpa sandbox controlplane demo release
KEEP ?=
CLUSTER ?=

.DEFAULT_GOAL := help
.PHONY: help venv test check lint types contracts tests coverage proofs record e2e docs monitoring controlplane helm definitions reference demo bench bench-sandbox bench-decisions bench-ratios bench-admission bench-updater bench-recommender bench-history bench-read-model bench-cli fuzz-admission bench-e2e bench-rotation bench-floods site package release-check krew images test-images test-install test-reference clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# Everything that is installed is pinned with hashes, the build backend included.
$(VENV)/installed: constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 14) else \
	  "Python 3.11, 3.12 or 3.13 is needed; name one with make PYTHON=/path/to/python")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing dependencies into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation --editable .
	@touch $@

venv: $(VENV)/installed ## make the virtual environment

# mypy takes one core for two minutes where it has no cache; the tests wait for processes meanwhile.
test: lint contracts ## what the project promises, but for proofs and e2e: about seven minutes
	@$(MAKE) --no-print-directory --jobs=2 types $(if $(COVERAGE),coverage,tests)

check: ## the inner loop: lint, types, contracts and unit tests
	@$(MAKE) --no-print-directory --jobs=2 lint types contracts
	$(PYTEST) tests/unit

lint: venv ## formatting, all rules of ruff, the words of docs, comments and messages, and the Dockerfile
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(PY) docs/banned_words.py
	$(BIN)/hadolint deploy/Dockerfile

types: venv ## mypy, strict
	$(BIN)/mypy $(PACKAGES) tests benchmarks deploy docs

contracts: venv ## the allowed imports between packages
	$(BIN)/lint-imports

# Tests with processes wait a third of their time, so one worker more than cores.
tests: venv ## all tests but proofs and e2e; those with processes first, which take longest
	$(PYTEST) --numprocesses=$$(($$(getconf _NPROCESSORS_ONLN) + 1)) tests/process tests/shell tests/golden tests/conformance tests/deploy tests/unit

coverage: venv ## the same; unit tests and golden data have to cover the product (lines: coverage report)
	$(PYTEST) tests/process tests/shell tests/conformance tests/deploy
	$(PYTEST) tests/golden tests/unit --cov --cov-report=

# Another draw: make proofs PROOF_SEED=7 PROOF_SEEDS=2,3,4. The seed of a failure is printed.
proofs: export PROOF_CYCLES ?= 1000
proofs: export HOSTILE_OBJECTS ?= 10000
proofs: export PROOF_HOURS ?= 24
proofs: export MODEL_STREAMS ?= 400
proofs: export PROPERTY_EXAMPLES ?= 400
proofs: export PROOF_SEEDS ?= 1
proofs: venv ## safety properties over long random runs in virtual time
	$(PY) -m pytest tests/proofs --durations=10 --hypothesis-seed=$(or $(PROOF_SEED),1) \
	  --numprocesses=$(or $(WORKERS),auto) --dist=worksteal

e2e: venv controlplane ## our manifests on a real control plane
	$(PY) -m pytest tests/e2e --verbose

record: venv ## record the answers of a real API server (tests/conformance/recorded)
	PYTHONPATH=tests/helpers:tests $(PY) -m recorded_requests

docs: venv ## write the generated pages of docs/, and the table of values of the chart
	PYTHONPATH=docs $(PY) docs/build.py

monitoring: venv ## write the generated files of deploy/monitoring
	$(PY) deploy/monitoring/rules.py >deploy/monitoring/prometheus-rule.yaml
	PYTHONPATH=deploy/monitoring $(PY) deploy/monitoring/dashboard.py >deploy/monitoring/dashboard.json

controlplane: ## build etcd and Kubernetes' own servers, unless they are there
	@tests/controlplane/build.sh

helm: ## build Helm, unless it is there
	@tests/helm/build.sh

definitions: ## fetch the custom resource definitions of operators for tests, unless they are there
	@tests/definitions/fetch.sh

reference: ## build the Kubernetes project's VPA, unless it is there
	@tests/reference/build.sh

demo: venv $(if $(filter controlplane,$(CLUSTER)),controlplane) ## five workloads get right-sized; KEEP=1 keeps the cluster, CLUSTER=controlplane takes a real one
	@$(PY) -m demo $(if $(KEEP),--keep) $(if $(CLUSTER),--cluster=$(CLUSTER))

bench: bench-sandbox bench-decisions ## the two short benchmarks

bench-sandbox: venv ## start-up, list, patch rate and memory of the sandbox
	$(PY) benchmarks/sandbox.py

bench-decisions: venv ## quantities and histograms
	$(PY) benchmarks/quantity.py
	$(PY) benchmarks/histograms.py

# Options: make bench-admission BENCH='--rounds=5 -o json'
bench-admission: venv ## the webhook over TLS: CPU, latencies and memory, with 1 and 5,000 VPAs
	@$(PY) -m benchmarks.admission $(BENCH)

# Options: make bench-ratios BENCH='--base=/path/to/other/checkout --rounds=3'
bench-ratios: venv ## CPU, memory and start beside those of another checkout
	@$(PY) -m benchmarks.ratios $(BENCH)

# Options: make bench-updater BENCH='--pods=20000 --rounds=3 -o json'
bench-updater: venv ## evictions, resizes and passes without work: rates, CPU, memory, API calls
	@$(PY) -m benchmarks.updater $(BENCH)

# Options: make bench-recommender BENCH='--vpas 1000 5000 --interval=15 -o json'
bench-recommender: venv ## cycles, memory and start of the recommender with up to 15,000 VPAs
	@$(PY) -m benchmarks.recommender $(BENCH)

# Options: make bench-history BENCH='--vpas 1000 -o json'
bench-history: venv ## history from Prometheus of up to 15,000 VPAs: time, CPU, memory
	@$(PY) -m benchmarks.history $(BENCH)

# Options: make bench-cli BENCH='--vpas=1000 --pods=10000 --rounds=1 -o json'
bench-cli: venv ## kubectl vpa status and report -A with 5,000 VPAs and 50,000 pods: time and memory
	@$(PY) -m benchmarks.cli $(BENCH)

# Options: make fuzz-admission BENCH='--count=10000 --seed=7'
fuzz-admission: venv ## 100,000 reviews that are nearly right, to a whole webhook
	@PYTHONPATH=tests/helpers:tests $(PY) -m benchmarks.fuzz_admission $(BENCH)

# Options: make bench-read-model BENCH='--only=updater --passes=5 -o json'
bench-read-model: venv ## polling the read API during passes over 15,000 VPAs: CPU, latencies, delay of passes
	@$(PY) -m benchmarks.read_model $(BENCH)

# Options: make bench-e2e BENCH='--pods=50 --vpas=25 -o json'
bench-e2e: venv controlplane ## our components on a real control plane, 2,000 pods and 1,000 VPAs
	@$(PY) -m benchmarks.e2e $(BENCH)

bench-rotation: venv ## three rotations of the certificates under 1,000 reviews a second
	@PYTHONPATH=tests/helpers:tests $(PY) benchmarks/rotation.py $(BENCH)

bench-floods: venv ## idle connections, endless headers, slow bodies and scrapes against admission's ports
	@PYTHONPATH=tests/helpers:tests $(PY) benchmarks/floods.py $(BENCH)

site: venv ## the documentation as a site in build/site; a link without a target is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# The environment has the dependencies of the image and nothing else.
package: venv ## build the wheel, install it in a new environment and run its programs
	@$(PY) -m release --only-package

krew: venv ## the krew manifest of kubectl vpa, after release-check: make krew URL=https://…
	@$(PY) -m release.krew --url='$(URL)'

release-check: venv ## all that must hold before a release, one line for each check
	@$(PY) -m release

# It needs no virtual environment. With `make -n` it prints the commands and runs none.
images: ## build the images: make images REGISTRY=… TAG=… [PUSH=1] [PLATFORMS=linux/amd64] [ENGINE=podman] [SOURCE=https://…]
	+@$(PYTHON) -P deploy/images.py --registry='$(REGISTRY)' --tag='$(TAG)' --platforms='$(PLATFORMS)' \
	  --engine='$(ENGINE)' --source='$(SOURCE)' $(if $(PUSH),--push) \
	  $(if $(findstring n,$(firstword -$(MAKEFLAGS))),--dry-run)

test-images: venv ## execute the Dockerfile without a container engine, and run each component (Linux, root)
	$(PY) -m pytest tests/images --verbose --durations=5 -s

# In a network namespace the addresses of pods can be added to the loopback interface. Only root needs no user namespace.
# Without reordering, each of the two long files goes to a worker of its own.
test-install: venv controlplane helm definitions ## install, upgrade and leave on real control planes, with kubectl and Helm (Linux)
	unshare $(if $(filter-out 0,$(shell id -u)),--map-root-user) --net \
	  $(PY) -m pytest tests/install -raP --durations=5 --numprocesses=2 --dist=loadfile --no-loadscope-reorder

# In a network namespace of its own, where the addresses of Services lead to loopback.
test-reference: venv controlplane helm reference ## swap the reference for our components and back, on a real control plane (Linux, root)
	unshare --net sh -c 'ip link set lo up && ip route add local 10.96.0.0/16 dev lo && exec "$$@"' sh \
	  $(PY) -m pytest tests/reference --verbose --durations=5

clean: ## remove what the targets made
	rm -rf .venv .venv-* .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage build dist *.egg-info
