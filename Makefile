# Every developer command. `make` lists them; continuous integration calls nothing else.

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
KNEE := $(TARGET_DIR)/release/knee

# Where rustup puts cargo, whether or not PATH says so.
export PATH := $(HOME)/.cargo/bin:$(PATH)

# What the kernel side is built with may come with set-up, so each recipe asks for it when it runs.
FEATURES := $$(scripts/has-kernel-side || echo --no-default-features --features knee-cli/tools)
WORKSPACE := $$(scripts/workspace)
# Both commands are named wherever one is built, so that features of their crates are the same, and nothing is compiled again.
RELEASE := $(CARGO) build -q --release -p knee-cli -p knee-fidelity
# The everyday suite is what cargo takes by itself: the default members.

# Cargo spreads work over the cores by itself.
.NOTPARALLEL:
.PHONY: help setup build run bless check test fuzz-long test-fresh test-kernels test-vkernel test-modules fidelity fidelity-live bench bench-scale python python-doc doc clean \
	dist dist-test needs-dist needs-simulator needs-build needs-run needs-test command fidelity-built style style-all doc-all test-everyday test-all fidelity-quick fuzz

help:  ## list the commands
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' Makefile | expand -t 14

setup: needs-test  ## install all that is missing to build, run and test (quick if nothing is)
	@scripts/setup remind test

build: needs-run  ## build the knee command, whole: target/release/knee
	@$(call command,$(FEATURES),three to eight,$(IS_WHOLE))
	@scripts/setup remind run

run: needs-simulator  ## build the simulator, then reproduce what others published: figures beside ours, a verdict on each claim (two minutes)
	@$(call command,$(if $(IS_WHOLE),$(FEATURES),--no-default-features),two to five,$(wildcard $(KNEE)))
	@$(KNEE) reproduce

bless: build  ## keep what the quick set says now as what it shall say: tests/golden; and the page and schemas of keys
	for kind in experiment hosts policy; do $(KNEE) schema $$kind > docs/schema/$$kind.json; done
	scripts/python-keys < docs/schema/experiment.json > python/knee/_keys.py
	$(KNEE) schema --page > docs/keys.md
	$(KNEE) schema --support > docs/support.md
	rm -rf $(TARGET_DIR)/bless
	$(KNEE) reproduce --json --bless tests/golden -o $(TARGET_DIR)/bless > /dev/null

check: needs-test style test-everyday fidelity-quick  ## the everyday suite, about a minute once built

test: needs-test  ## everything, the running kernel included where it can be
	@code=0; MAKE="$(MAKE)" scripts/parts style-all doc-all fidelity-quick fuzz test-all || code=$$?; scripts/setup remind test; exit $$code

test-kernels: needs-test  ## the kernel side on other kernels, in qemu: about ten minutes
	@scripts/test-kernels

test-vkernel: needs-test  ## the tests on a kernel in virtual time, which is built first: some five minutes, once
	@scripts/test-vkernel

test-modules: needs-test  ## every congestion control of Linux 6.1, 6.12 and the newest from the kernel's own file: some minutes
	@scripts/test-modules

fuzz-long:  ## every coverage-guided fuzzer for ten minutes, as many at a time as there are cores: about an hour on two
	@scripts/fuzz long

test-fresh:  ## the README's commands in bare Debian 12 and 13 roots, with their own Rust: as root, about half an hour each
	@scripts/test-fresh bookworm trixie

dist: needs-dist  ## packages for others: .deb, .tar.zst, a Python wheel, SBOM, checksums: target/dist/packages (docs/install.md)
	@scripts/dist

dist-test: dist  ## make dist again from another place, for the same bytes; lintian; install, run, load and remove in bare Debian 12 and 13 roots: as root
	@scripts/dist-again
	@lintian --fail-on error,warning target/dist/packages/*.deb
	@scripts/test-packages target/dist/release/knee
	@scripts/test-dist bookworm trixie
	@for wheel in target/dist/packages/knee-*.whl; do [ ! -e "$$wheel" ] || scripts/python try "$$wheel"; done

fidelity: build fidelity-built  ## rerun the reference cases of the real Linux stack and compare: Linux 6.1, then each kernel with offloads off and on
	@code=0; $(TARGET_DIR)/release/fidelity || code=$$?; KNEE=$(KNEE) scripts/reference check || code=$$?; scripts/packetdrill 7.3; exit $$code

# Where queues fill up, single nanoseconds decide whose packet is lost, so the way back varies by one packet's time (decision 5).
fidelity-live: build  ## simulator and kernel in virtual time (knee vkernel build) on the same files: what differs
	@for name in bulk-mix incast; do \
		for on in sim vkernel; do rm -rf $(TARGET_DIR)/fidelity-live/$$name-$$on; \
			$(KNEE) run scenarios/published/$$name.toml --on $$on --profile 6.1 --quick --set 'network.return={delay="100 us",jitter="13 us"}' \
				-o $(TARGET_DIR)/fidelity-live/$$name-$$on > /dev/null || exit 2; done; \
		$(KNEE) compare $(TARGET_DIR)/fidelity-live/$$name-sim $(TARGET_DIR)/fidelity-live/$$name-vkernel | grep -v '^  agree'; \
	done

bench: needs-build  ## speed of the simulator, of the queues and of knee pcap; as root, cost of the algorithms in the kernel
	$(CARGO) bench -p knee-sim --bench simulator
	$(CARGO) bench -p knee-pcap
	! scripts/has-kernel-side || $(CARGO) bench -p knee-bpf

bench-scale: needs-build  ## what a packet costs with many hosts and flows, against the dumbbell of 20 flows; LARGE=1: 4,096 and 3,456 hosts, too
	$(CARGO) bench -p knee-sim --bench scale -- $(if $(LARGE),--large)

python: needs-test  ## the Python package as a wheel for this machine: target/wheels (docs/python.md)
	@scripts/python wheel $(TARGET_DIR)/wheels

doc: needs-build  ## build the documentation of the crates: target/doc
	$(CARGO) doc --no-deps $(WORKSPACE)

python-doc: needs-test  ## build the pages of the Python package: target/python-doc
	@$(CARGO) build -q $(WORKSPACE) --lib
	@scripts/python pages $(TARGET_DIR)/debug/lib_knee.so $(TARGET_DIR)/python-doc

clean:  ## remove what was built (results/ stays)
	$(CARGO) clean

# ---- parts of the above ----

needs-simulator:
	@scripts/setup simulator
needs-build:
	@scripts/setup build
needs-dist:
	@scripts/setup dist
needs-run:
	@scripts/setup run
needs-test:
	@scripts/setup test

# Builds the command with these features, and says how many minutes that takes where it is not there yet. Some 200 lines of what is compiled
# are nobody's answer.
command = $(if $3,,echo "building $(KNEE): $2 minutes on two cores, once";) $(RELEASE) --bin knee $1
# A knee that make build made stays whole; that of make run has no vkernel.
IS_WHOLE = $(shell $(KNEE) vkernel list >/dev/null 2>&1 && echo yes)

# Another Rust warns of other things: a warning is an error in continuous integration alone, whose Rust is known.
DENY := $(if $(CI),-- -D warnings)
HAVE_STYLE := { $(CARGO) fmt --version && $(CARGO) clippy --version; } >/dev/null 2>&1
NO_STYLE := echo "SKIPPED: style, for want of rustfmt or clippy"

style: needs-test
	@if $(HAVE_STYLE); then $(CARGO) fmt --all --check && $(CARGO) clippy $(FEATURES) --all-targets $(DENY); else $(NO_STYLE); fi

style-all: needs-test
	@if $(HAVE_STYLE); then $(CARGO) fmt --all --check && $(CARGO) clippy $(WORKSPACE) --all-targets $(DENY) && \
		$(CARGO) clippy -p knee-cli --no-default-features $(DENY) && \
		$(CARGO) clippy -p knee-cli --no-default-features --features tools $(DENY); else $(NO_STYLE); fi

doc-all: needs-test
	$(if $(CI),RUSTDOCFLAGS="-D warnings") $(CARGO) doc --no-deps $(WORKSPACE)

fidelity-quick: needs-test fidelity-built
	$(TARGET_DIR)/release/fidelity --quick
fidelity-built:
	$(RELEASE) --bin fidelity $(FEATURES)

test-everyday: needs-test
	$(CARGO) test $(FEATURES)

# As root on a kernel with BTF the tests against the running kernel must run, not be skipped;
# KNEE_REQUIRE_KERNEL=0 lets them be. So it is with KNEE_REQUIRE_BROWSER and the tests in a browser, and with KNEE_REQUIRE_HEADERS
# and modules built against a kernel's headers, where setup can install these.
test-all: needs-test
	@requires() { if [ "$$(id -u)" = 0 ] && "$$@" >/dev/null 2>&1; then echo 1; else echo 0; fi; }; \
	can_load() { scripts/has-kernel-side && scripts/setup has-clang && [ -e /sys/kernel/btf/vmlinux ]; }; \
	export KNEE_REQUIRE_KERNEL=$${KNEE_REQUIRE_KERNEL:-$$(requires can_load)}; \
	export KNEE_REQUIRE_BROWSER=$${KNEE_REQUIRE_BROWSER:-$$(requires apt-cache show chromium)}; \
	export KNEE_REQUIRE_HEADERS=$${KNEE_REQUIRE_HEADERS:-$$(requires apt-cache show linux-headers-cloud-amd64)}; \
	export KNEE_REQUIRE_PYTHON=$${KNEE_REQUIRE_PYTHON:-$$([ -e $(TARGET_DIR)/venv/made-of ] && echo 1 || echo 0)}; \
	$(CARGO) test $(WORKSPACE) --no-fail-fast

fuzz: needs-test
	@scripts/fuzz
