# Everything is set up in .venv; delete it to start afresh. PYTHON chooses the interpreter, JOBS the test processes: on two
# cores three, because tests often wait for processes that they start.
PYTHON ?= python3
JOBS ?= 3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

# Tests start hundreds of processes; each would compile graphsafe anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo quick test test-all test-gpu docs clean

demo: .venv/demo-ready
	@examples/demo.sh

# Lint, types and the tests that take no time; for every edit. `test` adds those that start processes, `test-all` whole
# sets of targets too.
quick: .venv/test-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/pytest -q -n auto --maxprocesses 8 --dist loadfile -m "not child and not gpu"

test: .venv/test-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/pytest -n $(JOBS) --dist loadfile -m "not slow"

test-all: .venv/test-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/pytest -n $(JOBS) --dist loadfile

# Where torch, its GPU and pytest are already: the interpreter that runs the models. The log is gpu-test.log.
test-gpu:
	$(PYTHON) -m tests.gpu.run

docs: .venv/docs-ready
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv build dist site .graphsafe_cache .mypy_cache .pytest_cache .ruff_cache graphsafe-*.json

.venv/pip-ready:
	$(PYTHON) -m venv .venv
	@touch $@

.venv/demo-ready: .venv/pip-ready pyproject.toml constraints.txt
	@echo "Installing graphsafe with PyTorch into .venv, once. On Linux PyTorch brings NVIDIA's CUDA libraries, gigabytes;"
	@echo "pip says how large each file is. Without a GPU the CPU build is enough: set PIP_INDEX_URL to PyTorch's CPU index."
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[capture]'
	@touch $@

.venv/test-ready: .venv/pip-ready pyproject.toml constraints.txt
	$(INSTALL) -e '.[dev]'
	@touch $@

.venv/docs-ready: .venv/pip-ready pyproject.toml constraints.txt
	$(INSTALL) -e '.[docs]'
	@touch $@
