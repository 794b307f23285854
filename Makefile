# make demo, make test and the others need Python 3.11 to 3.14 and pip, nothing else: they make .venv first.

BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test slow lint format bench lock clean

demo: $(READY)
	$(BIN)/heedful translate "My name is Eric."
	$(BIN)/heedful translate "Where is the bathroom?"
	$(BIN)/heedful translate "I ate breakfast already."
	$(BIN)/heedful translate "The old bridge is too narrow for two buses."
	$(BIN)/heedful translate "Someone left a blue umbrella in our kitchen."
	$(BIN)/heedful look "Where is the bathroom?"

test: $(READY)
	$(BIN)/python -m pytest

slow: $(READY)
	$(BIN)/python -m pytest -m slow

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(READY)
	$(BIN)/heedful bench

lock:
	tools/lock

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist

$(READY): requirements.lock pyproject.toml tools/install
	@tools/install
	@touch $@
