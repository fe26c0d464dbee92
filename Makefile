# make test    everything that CI runs: lint, types, layers, doctests, tests, bare install
# make demo    the main job
# make docs    writes what the commands of the docs print into them; a test compares
# make bench   speed and memory against other libraries, on pinned threads

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP_OPTIONS := --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: test lint types layers tests bare demo docs bench constraints clean

test: lint types layers tests bare

# A stamp for each environment: nothing is installed again until what it depends on changes.
$(VENV)/.installed: pyproject.toml constraints.txt
	sh tools/make_venv.sh $(PYTHON) $(VENV)
	$(BIN)/python -m pip install $(PIP_OPTIONS) 'torch==2.13.0'
	$(BIN)/python -m pip install $(PIP_OPTIONS) --editable '.[test,parquet,plots,corruptions,torch]'
	touch $@

$(VENV)/.bench: $(VENV)/.installed
	$(BIN)/python -m pip install $(PIP_OPTIONS) --editable '.[test,parquet,plots,corruptions,torch,bench]'
	touch $@

.venv-bare/.installed: pyproject.toml constraints.txt
	sh tools/make_venv.sh $(PYTHON) .venv-bare
	.venv-bare/bin/python -m pip install $(PIP_OPTIONS) --editable . pytest pytest-xdist hypothesis
	touch $@

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

layers: $(VENV)/.installed
	$(BIN)/lint-imports

# Two workers on two cores: threads of BLAS and torch would only get in each other's way.
tests bare: export OPENBLAS_NUM_THREADS := 1
tests bare: export MKL_NUM_THREADS := 1
# Threads of OpenMP wait without using a core.
tests bare: export OMP_WAIT_POLICY := passive

tests: $(VENV)/.installed
	$(BIN)/pytest -n 2

# The core must work where no extra is installed. What extras cannot change is not tested again.
bare: .venv-bare/.installed
	.venv-bare/bin/python -m pytest -q -n 2 tests/unit tests/laws tests/reference tests/cli \
	    --ignore tests/laws/test_comparison.py --ignore tests/cli/test_docs.py

demo: $(VENV)/.installed
	$(BIN)/domaincal demo

docs: $(VENV)/.installed
	$(BIN)/python tools/console_docs.py docs/command-line.md --write
	$(BIN)/python tools/console_docs.py docs/experiments.md --write
	$(BIN)/python tools/console_docs.py README.md --write

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

# Exact versions of everything above, without addresses; run it in fresh environments.
constraints: $(VENV)/.bench
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' | grep -v ' @ ' > constraints.txt

clean:
	rm -rf $(VENV) .venv-bare .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
