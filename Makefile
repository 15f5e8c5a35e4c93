# Everything is set up in .venv; delete it to start afresh. PYTHON chooses the interpreter, JOBS the test processes.
PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test wheel test-gpu docs clean

demo: .venv/demo-ready
	@examples/demo.sh

test: .venv/test-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/pytest -n $(JOBS) --dist loadfile

# A wheel whose scan is machine code (pyproject.toml says of what), built from an sdist so that no library of it gets into
# src/, and the tests of scan run with that wheel installed. Takes five minutes and a C compiler.
wheel: .venv/test-ready
	rm -rf dist .venv-wheel
	$(BIN)/python -m hatchling build -t sdist
	HATCH_BUILD_HOOK_ENABLE_MYPYC=1 $(BIN)/pip wheel --quiet --no-deps -w dist dist/*.tar.gz
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl jsonschema pytest pytest-xdist
	.venv-wheel/bin/pytest -n $(JOBS) --dist loadfile tests/scan tests/test_cli.py tests/test_bad_files.py

# Where torch, its GPU and pytest are already: the interpreter that runs the models. The log is gpu-test.log.
test-gpu:
	$(PYTHON) -m tests.gpu.run

docs: .venv/docs-ready
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv .venv-wheel build dist site .graphsafe_cache .mypy_cache .pytest_cache .ruff_cache graphsafe-*.json

.venv/pip-ready:
	$(PYTHON) -m venv .venv
	@touch $@

.venv/demo-ready: .venv/pip-ready pyproject.toml constraints.txt
	$(INSTALL) -e '.[capture]'
	@touch $@

.venv/test-ready: .venv/pip-ready pyproject.toml constraints.txt
	$(INSTALL) -e '.[dev]'
	@touch $@

.venv/docs-ready: .venv/pip-ready pyproject.toml constraints.txt
	$(INSTALL) -e '.[docs]'
	@touch $@
