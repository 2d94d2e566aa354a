# Each target needs only Python 3.11+, Java 17+ and a package index. `make` adds nothing of its own: see `sfcdc --help`.
PYTHON ?= python3
BIN = .venv/bin
LIVES ?= 2000
CRASHES ?= 200
# Tests wait for sockets and processes for a third of their time and more: three at a time keep two cores busy.
WORKERS ?= 3

.PHONY: demo test test-slow soak bench bench-quick dev check docs reference java

demo: java .venv/installed
	$(BIN)/sfcdc demo

test: java .venv/prepared
	$(BIN)/python -m pytest -m "not slow" --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

test-slow: java .venv/prepared
	$(BIN)/python -m pytest -m slow --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

soak: java .venv/installed
	$(BIN)/python -m pytest sfcdc_assets_tests/pipeline/test_lives.py --lives $(LIVES) --numprocesses 2
	$(BIN)/python -m pytest sfcdc_assets_tests/pipeline/test_crashes.py --crashes $(CRASHES) --numprocesses 2 --dist load
	$(BIN)/python -m pytest -m hypothesis --hypothesis-profile thorough --numprocesses 2 --dist loadfile --timeout 3600
	$(BIN)/python -m pytest sfcdc_assets_tests/pipeline -m "not slow" --with-spark --lives 0 --numprocesses 2
	$(BIN)/python -m sfcdc_assets_tests.pipeline.long_run
	$(BIN)/python -m sfcdc_assets_tests.pipeline.large_transaction

bench: java .venv/prepared
	$(BIN)/python -m sfcdc_assets_tests.benchmarks --write

bench-quick: java .venv/prepared
	$(BIN)/python -m sfcdc_assets_tests.benchmarks --quick

dev: java .venv/installed
	$(BIN)/sfcdc dev

check: .venv/installed
	$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy

docs: .venv/installed
	$(BIN)/python -m sfcdc_assets_tests.docs.site

reference: .venv/installed
	$(BIN)/python -m sfcdc_assets_tests.docs.reference

java:
	@$(PYTHON) -m sfcdc_assets.spark.java

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,deploy,docs,emulator,sql,bench,peers]'
	touch $@

# What Spark's Java process loads, recorded once: each later start takes half as long.
.venv/prepared: .venv/installed
	$(BIN)/sfcdc spark --prepare
	touch $@
