# Every target makes what it needs: on a fresh machine, `make demo` and `make test` are the whole installation.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test bench format clean

demo: .venv/installed
	$(BIN)/calmix demo

test: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n 2

bench: .venv/installed
	$(BIN)/python -m benchmarks

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@
