# make run   the main job, end to end, on this machine
# make test  everything that CI checks of behaviour
# Both install what is missing (Debian 12 packages), configure and build first.

BUILD ?= build/release
JOBS ?= $(shell nproc)
TPPLAN = $(BUILD)/bin/tpplan
PACKAGES = g++ cmake ninja-build libboost-graph-dev libyaml-cpp-dev nlohmann-json3-dev libfmt-dev \
           libcli11-dev libgtest-dev libgmock-dev libbenchmark-dev python3 \
           libdnnl-dev libeigen3-dev libhwloc-dev libopenmpi-dev openmpi-bin
FORMAT_PACKAGES = clang-format
SOURCES = $(shell git ls-files '*.cpp' '*.hpp')

.PHONY: run test configure build packages bench study slow format format-check validate docs clean

# The licence texts are on every Debian machine.
run: configure
	cmake --build $(BUILD) --parallel $(JOBS) --target tpplan tpplan-worker
	rm -rf $(BUILD)/run && mkdir -p $(BUILD)/run
	cat /usr/share/common-licenses/*GPL-[23]* > $(BUILD)/run/text.txt
	@echo "--- A 10B model on 128 GPUs"
	$(TPPLAN) --model gpt10b.yaml --gpus 128 -o $(BUILD)/run/gpt10b.yaml
	@echo "--- The same plan rehearsed here: 128 ranks, the model shrunk"
	$(TPPLAN) rehearse $(BUILD)/run/gpt10b.yaml --out $(BUILD)/run/rehearsal
	@echo "--- Four ranks of this machine: probe, plan, run, calibrate, plan again"
	$(TPPLAN) tune --model little-gpt --ranks 4 --precision fp32 --rank-threads 1 --out $(BUILD)/run/tune
	@echo "--- Training with the plan that was chosen"
	$(TPPLAN) run $(BUILD)/run/tune/plan.yaml --data $(BUILD)/run/text.txt --steps 30 --lr 3e-3 --rank-threads 1 --out $(BUILD)/run/train
	$(TPPLAN) compare $(BUILD)/run/train --calibration $(BUILD)/run/tune/calibration.yaml

test: build
	ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS) --label-exclude 'slow|bench'

slow: build
	ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS) --label-regex slow

bench: build
	$(BUILD)/tests/planner_benchmarks
	$(BUILD)/tests/executor_benchmarks
	python3 tests/benchmarks/against_torch.py $(TPPLAN)

# Figures of docs/calibration.md
study: build
	python3 tests/benchmarks/calibration_study.py $(TPPLAN) $(BUILD)/study

validate: build
	$(BUILD)/bin/tpplan validate tests/validation/runs

docs: build
	$(BUILD)/bin/tpplan list --options > docs/options.md

configure: packages
	cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release > /dev/null

build: configure
	cmake --build $(BUILD) --parallel $(JOBS)

# Asks the package database first: nothing is fetched when nothing is missing.
packages:
	@missing=""; for p in $(PACKAGES); do \
	  dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	  sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  echo "installing:$$missing"; \
	  $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing; fi

format:
	@clang-format -i $(SOURCES)

format-check:
	@command -v clang-format > /dev/null || $(MAKE) packages PACKAGES=$(FORMAT_PACKAGES)
	@clang-format --dry-run --Werror $(SOURCES)

clean:
	rm -rf build
