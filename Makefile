# Each target needs only Python 3.11+, Java 17+ and a package index. `make` adds nothing of its own: see `sfcdc --help`.
PYTHON ?= python3
BIN = .venv/bin
HISTORIES ?= 2000
CRASHES ?= 200
MINUTES ?= 60
WORLDS ?= 10000000
FUZZED ?= 10000000
# Tests wait for sockets and processes for a third of their time and more: three at a time keep two cores busy.
WORKERS ?= 3
# What `demo` and `dev` need; other targets install their extras when they are first run. The releases are those of
# constraints.txt. uv takes a third of pip's time, and where it is missing or fails pip does the same. Both compile what
# they install: each process of Spark's would, where Python is told to write no bytecode.
EXTRAS = emulator,sql
install = $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt --editable '.[$(1)]' || \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(1)]'

# What fails is run once more by itself, in a process of its own whose fixtures are new, and named. That it passes there
# lets a submission land; it is a defect to mend all the same (CONTRIBUTING.md). The first that fails again ends it.
tests = $(BIN)/python -m pytest -m "$(1)" --cache-clear --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder || { \
	test $$? = 1 && echo "ONCE MORE, in a process of its own, what failed. Each that passes now is a defect to mend:" && \
	$(BIN)/python -m pytest -m "$(1)" --last-failed --last-failed-no-failures none --exitfirst --verbose -rap; }

.PHONY: demo test test-slow soak fuzz mutants bench bench-quick dev check docs reference lock images audit sbom java

demo: java .venv/installed
	$(BIN)/sfcdc demo

test: java .venv/prepared .venv/extra-dev .venv/extra-deploy .venv/extra-peers .venv/extra-glue
	$(call tests,not slow and not soak)

test-slow: java .venv/prepared .venv/extra-dev .venv/extra-deploy .venv/extra-peers .venv/extra-glue
	$(call tests,slow and not soak)

soak: java .venv/prepared .venv/extra-dev .venv/extra-deploy .venv/extra-peers
	$(BIN)/python -m sfcdc_assets_tests.model
	$(BIN)/python -m pytest sfcdc_assets_tests/pipeline/simulation/test_simulated_histories.py --histories $(HISTORIES) --follow-every 10 --numprocesses 2
	$(BIN)/python -m pytest sfcdc_assets_tests/pipeline/apply/test_crashes.py --crashes $(CRASHES) --numprocesses 2 --dist load
	$(BIN)/python -m pytest -m hypothesis --hypothesis-profile thorough --numprocesses 2 --dist loadfile --timeout 3600
	$(BIN)/python -m pytest sfcdc_assets_tests/pipeline -m "not soak" --with-spark --histories 0 --numprocesses 2
	$(BIN)/python -m pytest -m soak --numprocesses 2 --dist loadfile
	$(BIN)/python -m sfcdc_assets_tests.worlds --worlds $(WORLDS)
	$(BIN)/python -m sfcdc_assets_tests.pipeline.simulation.long_run
	$(BIN)/python -m sfcdc_assets_tests.pipeline.simulation.whole_org_month --minutes $(MINUTES)
	$(BIN)/python -m sfcdc_assets_tests.pipeline.apply.large_transaction
	$(BIN)/python -m sfcdc_assets_tests.pipeline.simulation.busy_day
	$(BIN)/python -m sfcdc_assets_tests.pipeline.simulation.daemon_day
	$(BIN)/python -m sfcdc_assets_tests.soak --minutes $(MINUTES)

# docs/proof.md: each parser of bytes from outside, fuzzed; mutants of the pure core.
fuzz: .venv/extra-dev .venv/extra-proof
	for target in avro_payload json_payload avro_schema bitmap text_diff bulk_csv rest_json cometd soql toml; do \
		$(BIN)/python -m sfcdc_assets_tests.fuzz $$target -runs=$(FUZZED) || exit 1; done

mutants: .venv/extra-dev .venv/extra-proof
	$(BIN)/mutmut run && $(BIN)/mutmut results

bench: java .venv/prepared .venv/extra-dev .venv/extra-bench
	$(BIN)/python -m sfcdc_assets_tests.benchmarks --write

bench-quick: java .venv/prepared .venv/extra-dev .venv/extra-bench
	$(BIN)/python -m sfcdc_assets_tests.benchmarks --quick
	$(BIN)/python -m sfcdc_assets_tests.benchmarks --since figures

dev: java .venv/installed
	$(BIN)/sfcdc dev

check: .venv/extra-dev
	$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy

docs: .venv/extra-dev .venv/extra-docs
	$(BIN)/python -m sfcdc_assets_tests.docs.site

reference: .venv/extra-dev
	$(BIN)/python -m sfcdc_assets_tests.docs.reference

# Renews constraints.txt: the newest releases that pyproject.toml allows, for every Python and system.
lock: .venv/installed
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras --no-annotate --no-header \
		--output-file constraints.txt pyproject.toml

# Pins the base images of deploy/ to what their tags stand for now. Needs Docker and its registry.
images:
	deploy/pin-images

# Known vulnerabilities in the releases of constraints.txt. Needs the network.
audit: .venv/extra-supply
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip

# What `make` has installed, as CycloneDX in build/sbom.json.
sbom: .venv/extra-supply
	mkdir -p build && $(BIN)/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml --output-file build/sbom.json

java:
	@$(PYTHON) -m sfcdc_assets.spark.java

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv || true
	$(call install,$(EXTRAS))
	touch $@

.venv/extra-%: .venv/installed
	$(call install,$*)
	touch $@

# What Spark's Java process loads, recorded once: each later start takes half as long.
.venv/prepared: .venv/installed
	$(BIN)/sfcdc spark --prepare
	touch $@
