# Every target sets up what it needs, outside the checkout, and re-uses it the next time.
# SGLANG=0.5.23 chooses the other pair of releases; PYTHON=... another interpreter (3.10 to 3.13).

SGLANG ?= 0.5.14
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3)
# The pairs that .ci/run tests.
PAIRS := 0.5.14 0.5.23

# An engine keeps one core busy: tests of two files at a time; those of one file share their engines.
both_cores = -n 2 --dist loadfile

set_up = $(PYTHON) scripts/environment.py $(SGLANG)
in_environment = bin=$$($(set_up)) && PATH="$$bin:$$PATH" &&

.PHONY: help demo test test-slow test-again env survey pairs clean

help:
	@echo 'make demo        run the main job: local store, real engine, four verdicts'
	@echo 'make test        run the tests, but for the slow ones; TESTS=tests/real for a part of them'
	@echo 'make test-slow   run the slow tests'
	@echo 'make test-again  run once more what failed last'
	@echo 'make bench       measure what it costs, against yardsticks of the same run; BENCH=--quick for a short run, BENCH=--columns=10000000 for a large column store'
	@echo 'make env         set up; with make -s, stdout is the bin folder alone'
	@echo 'make survey VERSION=x   tell which hook points resolve in SGLang x, from its source alone'
	@echo 'make clean       remove what belongs to this checkout alone'
	@echo 'SGLANG=0.5.23 chooses the other pair of releases for each of them.'

demo:
	@$(in_environment) hicachectl demo

test:
	@$(in_environment) python -m pytest $(both_cores) -m 'not slow' $(TESTS)

# pytest ends with 5 where no test is slow: that is not a failure.
test-slow:
	@$(in_environment) { python -m pytest $(both_cores) -m slow $(TESTS) || [ $$? -eq 5 ]; }

# Ends with an error where a target is not reached; docs/cost.md says which are not, and why.
bench:
	@$(in_environment) python -m tests.bench $(BENCH)

test-again:
	@$(in_environment) python -m pytest --last-failed --last-failed-no-failures none

env:
	@$(set_up)

survey:
	@$(PYTHON) scripts/survey.py $(or $(VERSION),$(error name a release: make survey VERSION=0.5.23))

pairs:
	@echo $(PAIRS)

clean:
	@$(set_up) --clean
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
