# Every target installs what it needs: on a fresh machine, `make demo` and `make test` are the whole installation.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check bench format clean

demo: .venv/installed
	$(BIN)/calmix demo

test: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n 2

# What takes longer: pages in a browser, and whatever else is marked slow.
check: .venv/installed
	$(BIN)/pytest -q -n 2 -m slow

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
