# make run   the main job, end to end, on this machine
# make test  everything that CI checks of behaviour
# Both install what is missing (Debian 12 packages), configure and build first.

BUILD ?= build/release
JOBS ?= $(shell nproc)
PACKAGES = g++ cmake ninja-build libboost-graph-dev libyaml-cpp-dev nlohmann-json3-dev libfmt-dev \
           libcli11-dev libgtest-dev libgmock-dev libbenchmark-dev python3 \
           libdnnl-dev libeigen3-dev libhwloc-dev libopenmpi-dev openmpi-bin
FORMAT_PACKAGES = clang-format
SOURCES = $(shell git ls-files '*.cpp' '*.hpp')

.PHONY: run test configure build packages bench slow format format-check validate docs clean

run: configure
	cmake --build $(BUILD) --parallel $(JOBS) --target tpplan
	$(BUILD)/bin/tpplan --model gpt10b.yaml --gpus 128

test: build
	ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS) --label-exclude 'slow|bench'

slow: build
	ctest --test-dir $(BUILD) --output-on-failure --label-regex slow

bench: build
	$(BUILD)/tests/planner_benchmarks

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
