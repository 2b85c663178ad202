# make demo      four models learn to copy 20 symbols, with a memory of 8 slots; then times of their decoder steps for
#                sources of 20 to 2,000 tokens: about 4 minutes on two CPU cores; tables and pictures in runs/demo
# make test      what one runs at every change: under 4 minutes on two CPU cores
# make test-rest the slow tests, which make test leaves out and CI runs, too: 5 to 15 minutes
# make test-long the longest tests, which neither of these runs, such as models that train until they have learned: 12
#                to 40 minutes; before a release
# make test-all  all three
# make test-addons   the tests against tensorflow-addons, in an environment with the extra `addons` (Python 3.11)
# make test-backends the layers and the notebook on slots on JAX, in an environment without TensorFlow: under 8 minutes.
#                BACKENDS="jax torch" adds the layers on PyTorch, of which PyPI has only a build of gigabytes for Linux;
#                TORCH names another
# make test-faults   kill -9 and the like by the hundred; long
# make check     the linter, the type checker and make test
# make docs      the site of docs/, as HTML in build/docs
# Each makes what it needs. PYTHON chooses the interpreter of new environments (ADDONS_PYTHON for test-addons),
# TENSORFLOW a version (make test TENSORFLOW=2.15.1).

PYTHON ?= python3
TENSORFLOW ?=
ADDONS_PYTHON ?= python3.11
BACKENDS ?= jax
TORCH ?= torch
VENV := .venv$(addprefix -tf,$(TENSORFLOW))
BIN := $(VENV)/bin
PYTEST := -m pytest -n 2 --dist worksteal
MOUNTING := --map-root-user --mount # what lets any user mount a disk to fill

.PHONY: demo test test-rest test-long test-all test-addons test-backends test-jax test-torch test-faults lint check docs \
	clean

demo: $(VENV)/installed
	$(BIN)/python scripts/demo.py --output runs/demo

# What XLA compiles in these tests runs a few times: making it fast would take longer.
test test-rest: export XLA_FLAGS := --xla_backend_optimization_level=0

test: $(VENV)/installed
	$(BIN)/python $(PYTEST) -m "not slow and not long"

# Two runs of pytest, because TensorFlow keeps what XLA has compiled until a process ends.
test-rest: $(VENV)/installed
	$(BIN)/python $(PYTEST) -m "slow and not long" tests/attention tests/models
	$(BIN)/python $(PYTEST) -m "slow and not long" --ignore tests/attention --ignore tests/models

test-long: $(VENV)/installed
	$(BIN)/python $(PYTEST) -m long

test-all: test test-rest test-long

test-addons: .venv-addons/installed
	.venv-addons/bin/python $(PYTEST) tests/docs/test_from_tfa.py

test-backends: $(BACKENDS:%=test-%)

test-jax: .venv-jax/installed
	KERAS_BACKEND=jax .venv-jax/bin/python -m pytest --noconftest \
		tests/attention/test_backends.py tests/docs/test_notebook.py -k "backends or slots"

test-torch: .venv-torch/installed
	KERAS_BACKEND=torch .venv-torch/bin/python -m pytest --noconftest tests/attention/test_backends.py

test-faults: $(VENV)/installed
	$$(unshare $(MOUNTING) true 2> /dev/null && echo unshare $(MOUNTING)) \
		$(BIN)/python -m pytest tests/faults --full

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

docs: $(VENV)/docs
	$(BIN)/sphinx-build -W --keep-going -b html docs build/docs

$(VENV)/installed: setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[test,lint]" $(addprefix tensorflow==,$(TENSORFLOW))
	touch $@

$(VENV)/docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

.venv-addons/installed: setup.py
	$(ADDONS_PYTHON) -m venv .venv-addons
	.venv-addons/bin/python -m pip install --quiet --upgrade pip
	.venv-addons/bin/python -m pip install --quiet --editable ".[test,addons]"
	touch $@

.venv-jax/installed: PACKAGE := jax
.venv-torch/installed: PACKAGE := $(TORCH)
.venv-jax/installed .venv-torch/installed: setup.py
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade pip
	$(@D)/bin/python -m pip install --quiet "keras>=3,<3.16" "matplotlib<4" "numpy<3" "pytest<10" \
		"nbclient<1" "nbformat<6" "ipykernel<8" $(PACKAGE)
	$(@D)/bin/python -m pip install --quiet --no-deps --editable .
	touch $@

clean:
	rm -rf .venv* build *.egg-info
