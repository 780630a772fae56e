# Every developer command. `make` lists them; continuous integration calls nothing else.

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
KNEE := $(TARGET_DIR)/release/knee

# Where rustup puts cargo, whether or not PATH says so.
export PATH := $(HOME)/.cargo/bin:$(PATH)

# The kernel side needs libelf, zlib and pkg-config to build; without them the rest is built and tested.
KERNEL_SIDE := $(shell scripts/has-kernel-side && echo yes)
WORKSPACE := --workspace $(if $(KERNEL_SIDE),,--exclude knee-bpf --exclude knee-testbed --no-default-features)
FEATURES := $(if $(KERNEL_SIDE),,--no-default-features)
# The everyday suite: what cargo builds by default, and the rules about the source tree.
EVERYDAY := -p knee-algo -p knee-flight -p knee-queue -p knee-sim -p knee-capture -p knee-pcap -p knee-exp -p knee-script -p knee-report -p knee-cli -p knee-tidy $(FEATURES)

# Cargo spreads work over the cores by itself.
.NOTPARALLEL:
.PHONY: help setup build run bless check test test-kernels fidelity fidelity-live bench doc clean \
	style style-all doc-all test-everyday test-all fidelity-quick fuzz

help:  ## list the commands
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' Makefile | expand -t 14

setup:  ## install what is missing to build and test (quick if nothing is)
	@scripts/setup

build: setup  ## build the knee command: target/release/knee
	$(CARGO) build --release -p knee-cli $(FEATURES)

run: build  ## build, then reproduce what others published: figures beside ours, a verdict on each claim (two minutes)
	$(KNEE) reproduce

bless: build  ## keep what the quick set says now as what it shall say: tests/golden
	rm -rf $(TARGET_DIR)/bless
	$(KNEE) reproduce --json --bless tests/golden -o $(TARGET_DIR)/bless > /dev/null

check: setup style test-everyday fidelity-quick  ## the everyday suite, about a minute once built

test: setup style-all doc-all fidelity fuzz test-all  ## everything, the running kernel included where it can be

test-kernels: setup  ## the kernel side on other kernels, in qemu: about ten minutes
	@scripts/test-kernels

fidelity:  ## rerun the reference cases of the real Linux stack and compare
	$(CARGO) run --release -p knee-fidelity

fidelity-live: build  ## simulator and kernel in virtual time (knee vkernel build) on the same files: what differs
	@for name in bulk-mix incast; do \
		for on in sim vkernel; do rm -rf $(TARGET_DIR)/fidelity-live/$$name-$$on; \
			$(KNEE) run scenarios/published/$$name.toml --on $$on --profile 6.1 --quick -o $(TARGET_DIR)/fidelity-live/$$name-$$on > /dev/null || exit 2; done; \
		$(KNEE) compare $(TARGET_DIR)/fidelity-live/$$name-sim $(TARGET_DIR)/fidelity-live/$$name-vkernel | grep -v '^  agree'; \
	done

bench:  ## speed of the simulator, of the queues and of knee pcap; as root, cost of the algorithms in the kernel
	$(CARGO) bench -p knee-sim
	$(CARGO) bench -p knee-pcap
	$(if $(KERNEL_SIDE),$(CARGO) bench -p knee-bpf)

doc:  ## build the documentation of the crates: target/doc
	$(CARGO) doc --no-deps $(WORKSPACE)

clean:  ## remove what was built (results/ stays)
	$(CARGO) clean

# ---- parts of check and test ----

style:
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(EVERYDAY) --all-targets -- -D warnings

style-all:
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(WORKSPACE) --all-targets -- -D warnings
	$(CARGO) clippy -p knee-cli --no-default-features -- -D warnings

doc-all:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps $(WORKSPACE)

fidelity-quick:
	$(CARGO) run --release -p knee-fidelity -- --quick

test-everyday:
	$(CARGO) test $(EVERYDAY)

# As root on a kernel with BTF the tests against the running kernel must run, not be skipped;
# KNEE_REQUIRE_KERNEL=0 lets them be. So it is with KNEE_REQUIRE_BROWSER and the tests in a browser, and with KNEE_REQUIRE_TSHARK
# and those beside tshark, where setup can install these.
test-all:
	@if [ -z "$(KERNEL_SIDE)" ]; then echo "SKIPPED: crates/bpf, for want of packages: see make setup"; fi
	@if [ -z "$$KNEE_REQUIRE_KERNEL" ] && [ -n "$(KERNEL_SIDE)" ] && [ "$$(id -u)" = 0 ] \
		&& [ -e /sys/kernel/btf/vmlinux ]; then export KNEE_REQUIRE_KERNEL=1; fi; \
	if [ -z "$$KNEE_REQUIRE_BROWSER" ] && [ "$$(id -u)" = 0 ] && apt-cache show chromium >/dev/null 2>&1; then \
		export KNEE_REQUIRE_BROWSER=1; fi; \
	if [ -z "$$KNEE_REQUIRE_TSHARK" ] && [ "$$(id -u)" = 0 ] && apt-cache show tshark >/dev/null 2>&1; then \
		export KNEE_REQUIRE_TSHARK=1; fi; \
	echo "$(CARGO) test $(WORKSPACE)"; $(CARGO) test $(WORKSPACE)

fuzz:
	@scripts/fuzz
