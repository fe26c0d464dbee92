# make test    everything that CI runs: lint, types, layers, doctests, tests, bare install
# make demo    the main job
# make docs    writes what the commands of the docs print into them; a test compares
# make bench   speed and memory against other libraries, on pinned threads
# make gpu     what CI cannot run: kernels, tests and benchmarks on a CUDA GPU; PYTHON=... has torch and pytest

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP_OPTIONS := --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: test lint types layers tests bare demo docs bench gpu constraints clean

test: lint types layers tests bare

# A stamp for each environment: nothing is installed again until what it depends on changes.
$(VENV)/.installed: pyproject.toml constraints.txt
	sh tools/make_venv.sh $(PYTHON) $(VENV)
	$(BIN)/python -m pip install $(PIP_OPTIONS) 'torch==2.13.0'
	$(BIN)/python -m pip install $(PIP_OPTIONS) --editable '.[test,parquet,zarr,dask,plots,report,corruptions,torch,onnx]'
	touch $@

$(VENV)/.bench: $(VENV)/.installed
	$(BIN)/python -m pip install $(PIP_OPTIONS) --editable '.[test,parquet,zarr,dask,plots,report,corruptions,torch,onnx,bench]'
	touch $@

.venv-bare/.installed: pyproject.toml constraints.txt
	sh tools/make_venv.sh $(PYTHON) .venv-bare
	.venv-bare/bin/python -m pip install $(PIP_OPTIONS) . pytest pytest-xdist hypothesis
	touch $@

# Chromium and axe-core; tests/browser is skipped, with the reason, where they cannot be installed.
$(VENV)/.browser: $(VENV)/.installed tests/browser/package.json tools/install_browser.sh
	sh tools/install_browser.sh
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

tests: $(VENV)/.installed $(VENV)/.browser
	$(BIN)/pytest -n 2 --dist worksteal

# Tests whose result can depend on the installed extras: imports, readers of files, verbs, images.
# A new test of optional packages belongs on this list. The rest would only run a second time.
BARE := test_archives test_bad_files test_bad_stores test_bad_tables test_bare_install \
    test_conversion test_datasets_cifar test_datasets_google_landmarks test_datasets_imagenet_c \
    test_datasets_rxrx1 test_datasets_tables test_datasets_tiny_imagenet test_evaluate \
    test_image_sets test_inspect test_model_files test_opened_rows test_package \
    test_protocols test_streaming_faults
# What is tested is what users get: the wheel, built from the sdist.
bare: $(VENV)/.installed .venv-bare/.installed
	rm -rf .dist
	$(BIN)/hatchling build -t sdist -d .dist
	$(BIN)/python -m pip wheel $(PIP_OPTIONS) --no-deps --no-build-isolation -w .dist .dist/*.tar.gz
	.venv-bare/bin/python -m pip install $(PIP_OPTIONS) --no-deps --force-reinstall .dist/*.whl
	.venv-bare/bin/python -m pytest -q -n 2 --dist worksteal $(BARE:%=tests/unit/%.py) tests/cli/test_main.py \
	    tests/cli/test_verbs.py

demo: $(VENV)/.installed
	$(BIN)/domaincal demo

docs: $(VENV)/.installed
	$(BIN)/python tools/console_docs.py docs/command-line.md --write
	$(BIN)/python tools/console_docs.py docs/monitor.md --write
	$(BIN)/python tools/console_docs.py docs/onnx.md --write
	$(BIN)/python tools/console_docs.py docs/report.md --write
	$(BIN)/python tools/console_docs.py docs/sites.md --write
	$(BIN)/python tools/console_docs.py docs/experiments.md --write
	$(BIN)/python tools/console_docs.py README.md --write

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

# Uses the torch and pytest of PYTHON, and installs nothing. These files have tests that CI skips.
ON_GPU := reference/test_consistent_temperature reference/test_device_sums \
    reference/test_tensor_fits unit/test_auto_calibration unit/test_batch_temperature \
    unit/test_calibrated_model unit/test_silent_mistakes unit/test_tensor_kernels unit/test_tensors \
    unit/test_torch_corruption_laws unit/test_torch_modules
gpu: export PYTHONPATH := src
gpu:
	$(PYTHON) tests/fused_kernels.py
	$(PYTHON) -m pytest -q -k "cuda or gpu or test_device_sums or test_torch_modules or test_calibrated_model" $(ON_GPU:%=tests/%.py)
	$(PYTHON) -m benchmarks.gpu
	$(PYTHON) -m benchmarks.calibrated_model

# Exact versions of everything above, without addresses; run it in fresh environments.
constraints: $(VENV)/.bench
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' | grep -v ' @ ' > constraints.txt

clean:
	rm -rf $(VENV) .venv-bare .dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache \
	    tests/browser/node_modules
