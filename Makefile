# `make demo` and `make test` do all set-up on a fresh machine: a virtual environment in .venv, pinned by constraints.txt.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ENCODER ?= minilm
DATA ?= sample
OUTPUT ?= demo-output

.PHONY: demo test lint format docs notebooks clean

$(VENV)/.demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[demo]'
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[demo,test,lint]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/python -m span_marker.demo --encoder $(ENCODER) --data $(DATA) --output $(OUTPUT)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --cov --cov-fail-under=95

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.test
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

notebooks: $(VENV)/.test
	$(BIN)/python notebooks/run.py

clean:
	rm -rf docs/_build docs/notebooks $(VENV) demo-output build dist .coverage .mypy_cache .pytest_cache .ruff_cache
