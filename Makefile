# make demo and make test need python3 (3.11 or later, with venv) and make; nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
# pip leaves an editable install uncompiled; where Python may not write bytecode it stays so.
COMPILE := $(BIN)/python -m compileall -q rpcwire
CAPTURE ?= captures/v7.0-qwen35-mtp.pcap.gz

.PHONY: demo test lint types check format fuzz bench lab docs man wheel clean

demo: $(VENV)/ready
	$(BIN)/rpcwire analyze $(CAPTURE)

test: lint types
	$(BIN)/python -m pytest -m "not lab and not slow"

lint: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready-dev
	$(BIN)/mypy

check: $(VENV)/ready-dev
	$(BIN)/python -m pytest

format: $(VENV)/ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Much longer than the short runs that are part of the tests: damaged captures through the pipeline,
# and hostile files at the command line.
SECONDS ?= 300
EXAMPLES ?= 3000
fuzz: $(VENV)/ready-dev
	$(BIN)/python tests/fuzz/fuzz.py --seconds $(SECONDS)
	FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/cli/test_hostile.py

# Times and memory beside tcpdump's on the same machine, as ratios; fails over the limits.
bench: $(VENV)/ready-dev
	$(BIN)/python tests/bench/bench.py

# End-to-end tests against real llama.cpp, found or built outside the checkout (some minutes once).
lab: $(VENV)/ready-dev
	PYTHON=$(BIN)/python tests/lab/run

# Generated documentation: docs/protocol.md and docs/reference.md; man pages and completions into build/share.
docs man: $(VENV)/ready
	$(BIN)/python tools/docs.py $@

# Wheel and sdist in dist/, and the demo from the installed wheel, outside the checkout.
wheel: $(VENV)/ready-dev
	$(BIN)/python -m pytest -m slow tests/package
	$(BIN)/python -m build --outdir dist .

$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    "rpcwire needs Python 3.11 or later; this is " + sys.version.split()[0] + \
	    ". Name another: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/ready: $(VENV)/python pyproject.toml
	$(PIP) install --editable .
	$(COMPILE)
	@touch $@

# Dependency groups need pip 25.1.
$(VENV)/ready-dev: $(VENV)/python pyproject.toml
	$(PIP) install --upgrade "pip>=25.1"
	$(PIP) install --editable . --group test --group lint --group build
	$(COMPILE)
	@touch $@ $(VENV)/ready

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
