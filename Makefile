# Rondo's commands. Everything is built in build/, programs lie in build/bin/; a fresh Debian 12 needs only make.
SHELL := /bin/bash
jobs ?= $(shell nproc)
fuzz_seconds ?= 3
minutes ?= 5
aborts ?= $(if $(filter 0,$(minutes)),0,500)
store_faults := '*StoreKill*:*StoreNoSpace*:*StoreDamage*:*FullDisk*:*ManifestRescue*'

.PHONY: build program test test-clients soak chat serve bench check clean packages

build: packages
	@cmake --preset default --log-level=WARNING -DRONDO_TESTS=REQUIRED
	@cmake --build build -j $(jobs)

# What people run, without tests and benchmarks.
program:
	@tools/install_packages.sh program
	@test -e build/bin/rondo || echo "building rondo: a first build takes some minutes, and later ones build what changed"
	@cmake --preset default --log-level=WARNING
	@cmake --build build -j $(jobs) --target rondo

packages:
	@tools/install_packages.sh build

# The tests of every folder, then each fuzz target for $(fuzz_seconds) seconds under clang's sanitizers.
test:
	@tools/install_packages.sh build shells fuzz
	@$(MAKE) --no-print-directory build
	@cmake --preset fuzz --log-level=WARNING -DRONDO_FUZZ_SECONDS=$(fuzz_seconds)
	@cmake --build build-fuzz -j $(jobs) --target fuzz_targets
	@tools/run_tests.sh build build-fuzz

# Not part of `test`: it fetches npm packages and a browser, and takes minutes.
test-clients: build
	@tools/install_packages.sh clients
	@tools/test_clients.sh

# Not part of `test`: it takes minutes. A seed that it printed does the same again.
soak: build
	@tools/install_packages.sh soak
	@RONDO_STORE_FAULTS=1 build/bin/tests_memory --gtest_filter=$(store_faults) >&2
	@bench/forgotten.py >&2
	@(umask 077 && openssl rand -hex 32 >build/soak.key) && bench/forgotten.py --key-file build/soak.key >&2
	@tools/abuse.py --only drip,drain,bodies,idle,calls >&2
	@python3 tools/soak --minutes $(minutes) --aborts $(aborts) $(if $(seed),--seed $(seed)) $(soak_flags)

cluster := examples/chat_cluster/cluster.yaml

chat: program
	@build/bin/rondo chat --config $(cluster)

serve: program
	@build/bin/rondo serve --config $(cluster)

# Each program validates, then times, and prints the machine's ceiling beside its figure.
bench: build
	@for program in build/bin/bench_*; do echo "== $$program"; $$program || exit 1; done

# What takes longer than `test` may: formatting, every test under AddressSanitizer and UndefinedBehaviourSanitizer, and
# those in which threads meet under ThreadSanitizer, with a CAF that is fetched and built for that.
check:
	@tools/install_packages.sh build check
	@tools/fetch_caf_source.sh build-tsan/caf
	@tools/check_format.sh
	@cmake --preset asan --log-level=WARNING
	@cmake --build build-asan -j $(jobs)
	@tools/run_tests.sh build-asan
	@cmake --preset tsan --log-level=WARNING
	@cmake --build build-tsan -j $(jobs) --target tsan_tests
	@tools/run_tests.sh build-tsan

clean:
	rm -rf build build-asan build-cuda build-fuzz build-tsan
