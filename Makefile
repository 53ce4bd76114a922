# Every target installs what it needs: on a fresh machine, `make demo` and `make test` are the whole installation.
PYTHON ?= python3
BIN := .venv/bin
MINUTES ?= 10

.PHONY: demo test check torture bench results docs wheel format clean

demo: .venv/installed
	$(BIN)/calmix demo

test: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n 2

# What takes longer: integrations with the real libraries, examples, pages in a browser, the site, the wheel.
check: .venv/complete docs wheel
	$(BIN)/pytest -q -n 2 -m slow

# Kills, injected I/O errors and fuzzed files, for MINUTES minutes; interrupted, the same command goes on.
torture: .venv/installed
	$(BIN)/python -m tests.torture --minutes $(MINUTES) --state .venv/torture.json

bench: .venv/installed
	$(BIN)/python -m benchmarks

# Every page of results, by the command that it names, from the evidence.
results: .venv/installed
	for page in docs/results/*.md; do \
		command=$$(sed -n 's/^Made by `calmix \(.*\)`.*/\1/p' $$page); echo "calmix $$command"; \
		$(BIN)/calmix $$command >/dev/null || exit 1; \
	done

docs: .venv/complete
	OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel: .venv/complete
	$(BIN)/python -m build --quiet --outdir dist .

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv site dist

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

.venv/complete: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[check]"
	touch $@
