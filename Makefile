# SPDX-License-Identifier: Apache-2.0
# Builds the tools, their pages and completions. `make help` lists the targets.
#
# Every flavour has a folder of its own, shaped like an install prefix: build/release, build/debug (DEBUG=1),
# build/san (SAN=1: AddressSanitizer and UBSan). Other flags (CC, CFLAGS, WERROR...) add a suffix, so that objects
# never mix and nothing has to be cleaned. BUILD=DIR names a folder by hand.

.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := all

VERSION := 0.1.0

# ---- flavour ---------------------------------------------------------------------------------------------------------

ifeq ($(origin CC),default)
CC := gcc
endif
ifneq ($(FUZZING),)
CC := clang
SAN := 1
endif
CUSTOM := $(strip $(if $(FUZZING),,$(filter-out gcc,$(CC))) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS) $(if $(WERROR),-Werror) $(if $(NATIVE),-march=native))
SUFFIX := $(if $(CUSTOM),-$(shell printf '%s' '$(CUSTOM)' | cksum | cut -d' ' -f1))
BUILD ?= build/$(if $(FUZZING),fuzz,$(if $(SAN),san,$(if $(DEBUG),debug,release)))$(SUFFIX)
B := $(BUILD)
# Where the tests build their second flavour. Named by hand for that make, which so leaves bin/ alone.
SAN_BUILD := $(if $(filter file,$(origin BUILD)),build/san$(SUFFIX),$(BUILD)-san)
SAN_MAKE = $(PARALLEL) SAN=1 BUILD=$(SAN_BUILD)

# ---- flags -----------------------------------------------------------------------------------------------------------

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wvla -Wundef \
	-Wformat=2 -Wpointer-arith -Wdouble-promotion $(if $(WERROR),-Werror)
OPT := $(if $(SAN),-O1,$(if $(DEBUG),-Og,-O2))
CPU_OPT := $(if $(SAN),-O2,$(if $(DEBUG),-O1,-O3))
HARDEN := $(if $(SAN)$(DEBUG),,-D_FORTIFY_SOURCE=2 -fstack-protector-strong)
comma := ,
SANFLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined$(if $(FUZZING),$(comma)fuzzer-no-link) \
	-fno-sanitize-recover=all -fno-omit-frame-pointer)
# clang comes without an OpenMP library on Debian; fuzzing does without.
OPENMP := $(if $(FUZZING),-Wno-unknown-pragmas,-fopenmp)

# One machine word decides which of the lib/cpu files are compiled; which of them runs is decided at run time.
X86 := $(if $(filter x86_64-% i686-%,$(shell $(CC) -dumpmachine 2>/dev/null)),1,0)

# The sandbox of mint-score code needs libseccomp; without it everything else is built.
SECCOMP := $(shell echo '\#include <seccomp.h>' | $(CC) $(CPPFLAGS) -E -x c - >/dev/null 2>&1 && echo 1 || echo 0)
# Without libcurl's header, mint-score judge cannot ask a server. The library itself is opened at run time.
CURL := $(shell echo '\#include <curl/curl.h>' | $(CC) $(CPPFLAGS) -E -x c - >/dev/null 2>&1 && echo 1 || echo 0)

ALL_CPPFLAGS = -D_GNU_SOURCE -DMINT_X86=$(X86) -DMINT_SECCOMP=$(SECCOMP) -Ilib -I$(B)/gen $(CPPFLAGS)
# -ffp-contract=off: the compiler may not fuse a*b+c on its own, results are the same on every machine.
ALL_CFLAGS = -std=c11 $(WARN) $(OPT) -g -fno-common -ffp-contract=off -ffunction-sections -fdata-sections $(OPENMP) \
	$(HARDEN) $(SANFLAGS) $(if $(NATIVE),-march=native) $(ISA) $(CFLAGS)
ALL_LDFLAGS = -Wl,--as-needed -Wl,--gc-sections $(SANFLAGS) $(OPENMP) $(LDFLAGS)
# utf8proc, PCRE2, MPFR, GMP and OpenMP are loaded by the tools that use them only (--as-needed).
LIBS := $(if $(filter 1,$(SECCOMP)),-lseccomp) -lzstd -lpcre2-8 -lutf8proc -lmpfr -lgmp -lm -ldl

Q := $(if $(V),,@)
# For the targets that people type alone, all cores; under make -jN, what make has to give.
PARALLEL = $(MAKE) $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))
say = $(if $(V),,@echo '  $(1) $@')

# ---- what there is ---------------------------------------------------------------------------------------------------

CPU_SRC := $(wildcard lib/cpu/*.c)
ifeq ($(X86),0)
CPU_SRC := $(filter-out %_avx2.c %_avx512.c %_avx512bf16.c,$(CPU_SRC))
endif
LIB_SRC := $(sort $(wildcard lib/*.c) $(CPU_SRC))
TOOLS := $(sort $(notdir $(basename $(wildcard tools/mint-*.c))))
TOOL_EXTRA := $(filter-out tools/mint-%,$(wildcard tools/*.c))
PAGES := $(sort $(foreach s,1 5 7,$(wildcard tools/*.$(s) lib/*.$(s) pipelines/*.$(s) pipelines/*/*.$(s))))
UNIT := $(sort $(notdir $(basename $(wildcard tests/unit/test_*.c))))
UNIT_EXTRA := $(filter-out tests/unit/test_%,$(wildcard tests/unit/*.c))
FUZZ := $(sort $(notdir $(basename $(wildcard tests/fuzz/fuzz_*.c))))
BENCH := $(sort $(notdir $(basename $(wildcard tests/bench/bench_*.c))))
INJECT := $(sort $(notdir $(basename $(wildcard tests/inject/*.c))))
E2E := $(sort $(wildcard tests/e2e/*.bats))
LINT := $(sort $(wildcard tests/lint/*.sh))

objs = $(patsubst %.c,$(B)/obj/%.o,$(1))
OBJ := $(call objs,$(LIB_SRC))
man_of = $(B)/share/man/man$(patsubst .%,%,$(suffix $(1)))/$(notdir $(1))
MAN := $(foreach p,$(PAGES),$(call man_of,$(p)))
COMPLETION := $(foreach t,$(TOOLS),$(B)/share/bash-completion/completions/$(t) \
	$(B)/share/zsh/site-functions/_$(t) $(B)/share/fish/vendor_completions.d/$(t).fish)

# ---- build -----------------------------------------------------------------------------------------------------------

.PHONY: all
all: $(TOOLS:%=$(B)/bin/%) $(MAN) $(COMPLETION) bin-links ## the tools, pages and completions (build/release; bin/ links to it)

$(B)/.headers:
	@mkdir -p $(B)
	@command -v $(CC) >/dev/null || { echo "there is no $(CC) here: run 'make deps'" >&2; exit 1; }
	@for h in zstd.h pcre2.h utf8proc.h jsmn.h gmp.h mpfr.h; do \
		echo "#include <$$h>" | $(CC) $(CPPFLAGS) -DPCRE2_CODE_UNIT_WIDTH=8 -E -x c - >/dev/null 2>&1 || \
		{ echo "the header $$h is missing: run 'make deps' (it installs Debian packages)" >&2; exit 1; }; done
	@touch $@

# The version: this file's, and the commit when built from a git checkout. Touched only when it changes.
.PHONY: FORCE
$(B)/gen/version.h: FORCE
	@mkdir -p $(@D)
	@c=$$(git rev-parse --short=9 HEAD 2>/dev/null); \
	printf '#define MINT_VERSION "%s"\n#define MINT_BUILD_FLAGS "%s"\n' '$(VERSION)'"$${c:++$$c}" \
		'$(strip $(OPT) $(SANFLAGS) $(if $(NATIVE),-march=native) $(CFLAGS))' >$@.tmp
	@cmp -s $@.tmp $@ && rm -f $@.tmp || mv $@.tmp $@

# -fno-math-errno: so that square roots are vectorised; the bits are the same.
$(B)/obj/lib/cpu/%.o: OPT = $(CPU_OPT) -fno-math-errno
AVX512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
$(B)/obj/lib/cpu/%_avx2.o: ISA = -mavx2 -mfma -mf16c
$(B)/obj/lib/cpu/%_avx512.o: ISA = $(AVX512)
$(B)/obj/lib/cpu/%_avx512bf16.o: ISA = $(AVX512) -mavx512bf16
$(B)/obj/tests/%: ALL_CPPFLAGS += -Itests -Itests/unit

$(B)/obj/lib/cli_help.o: $(B)/gen/version.h

# Programs that mint-score code gives to Python, as text in C.
$(B)/gen/%.inc: lib/%.py
	@mkdir -p $(@D)
	@sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $< >$@
$(B)/obj/lib/score_code_run.o: $(patsubst lib/%.py,$(B)/gen/%.inc,$(wildcard lib/*.py))
$(B)/obj/lib/sandbox_filter.o: $(B)/gen/seccomp-$(SECCOMP)
$(B)/gen/seccomp-%:
	@mkdir -p $(@D) && touch $@
	@[ $* = 1 ] || echo "  libseccomp-dev is missing: mint-score code will have no sandbox and refuse to run ('make deps' installs it)"
$(B)/obj/lib/http.o: $(B)/gen/curl-$(CURL)
$(B)/gen/curl-%:
	@mkdir -p $(@D) && touch $@
	@[ $* = 1 ] || echo "  libcurl4-openssl-dev is missing: mint-score judge will know local models only ('make deps' installs it)"
$(B)/obj/%.o: %.c | $(B)/.headers
	@mkdir -p $(@D)
	$(call say,CC  )
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(B)/libmint.a: $(OBJ)
	$(call say,AR  )
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/bin/%: $(B)/obj/tools/%.o $(call objs,$(TOOL_EXTRA)) $(B)/libmint.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# bin/ follows the flavour that was built last; a BUILD named by hand leaves it alone.
.PHONY: bin-links
bin-links: $(TOOLS:%=$(B)/bin/%)
ifeq ($(origin BUILD),file)
	@mkdir -p bin
	@for t in $(TOOLS); do [ "$$(readlink bin/$$t)" = ../$(B)/bin/$$t ] || ln -sfn ../$(B)/bin/$$t bin/$$t; done
endif

# ---- MPI: a plugin; nothing needs it ---------------------------------------------------------------------------------

MPICC := $(if $(FUZZING),,$(shell command -v mpicc 2>/dev/null))
ifneq ($(MPICC),)
all: $(B)/lib/mint/mint-mpi.so
$(B)/lib/mint/mint-mpi.so: lib/mpi/ranks_mpi.c lib/ranks.h lib/base.h
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC) $(ALL_CPPFLAGS) $(filter-out -fopenmp,$(ALL_CFLAGS)) -fPIC \
		-fvisibility=hidden -shared $< -o $@
endif

# ---- CUDA: a plugin; nothing needs it --------------------------------------------------------------------------------

include kernels/rules.mk

# ---- pages and completion, made from the option tables ----------------------------------------------------------------

.PHONY: man completion
man: $(MAN) ## the manual pages
completion: $(COMPLETION) ## completion for bash, zsh and fish

# A line '.\" @OPTIONS@' in a tool's page is replaced by the options that the tool itself knows.
define man_rule
$(call man_of,$(1)): $(1) $(patsubst %,$(B)/bin/%,$(filter $(TOOLS),$(basename $(notdir $(1)))))
	@mkdir -p $$(@D)
	$$(call say,MAN )
	$$(Q)if grep -q '@OPTIONS@' $$<; then $(B)/bin/$(basename $(notdir $(1))) --dump-options=mdoc >$$@.opt || exit 1; else : >$$@.opt; fi
	$$(Q)sed -e '/@OPTIONS@/{r '$$@.opt'' -e 'd;}' $$< >$$@ && rm -f $$@.opt
endef
$(foreach p,$(PAGES),$(eval $(call man_rule,$(p))))

$(B)/share/bash-completion/completions/%: $(B)/bin/%
	@mkdir -p $(@D) && $< --dump-options=bash >$@
$(B)/share/zsh/site-functions/_%: $(B)/bin/%
	@mkdir -p $(@D) && $< --dump-options=zsh >$@
$(B)/share/fish/vendor_completions.d/%.fish: $(B)/bin/%
	@mkdir -p $(@D) && $< --dump-options=fish >$@

# ---- packages --------------------------------------------------------------------------------------------------------

DEPS_BUILD := gcc libc6-dev libzstd-dev libpcre2-dev libutf8proc-dev libjsmn-dev libgmp-dev libmpfr-dev libseccomp-dev libcurl4-openssl-dev bubblewrap zstd jq
DEPS_TEST := libcmocka-dev g++ python3 openssl bats shellcheck mandoc gnuplot-nox libopenmpi-dev openmpi-bin
.PHONY: deps deps-build
deps: ## install the Debian packages that building and testing need (apt-get, by sudo unless root)
	@.ci/deps $(DEPS_BUILD) $(DEPS_TEST)
deps-build:
	@.ci/deps $(DEPS_BUILD)

# ---- tests -----------------------------------------------------------------------------------------------------------

$(B)/tests/.cmocka:
	@mkdir -p $(@D)
	@echo '#include <cmocka.h>' | $(CC) -include stdarg.h -include stddef.h -include stdint.h -include setjmp.h -E -x c - >/dev/null 2>&1 || \
		{ echo "the header cmocka.h is missing: run 'make deps' (it installs Debian packages)" >&2; exit 1; }
	@touch $@
$(B)/obj/tests/unit/%.o: | $(B)/tests/.cmocka
$(B)/tests/unit/%: $(B)/obj/tests/unit/%.o $(call objs,$(UNIT_EXTRA)) $(B)/libmint.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -lcmocka -o $@
# A fuzz target has LLVMFuzzerTestOneInput; linked to replay.c it runs its corpus, tests/fuzz/corpus/NAME/*, as a test.
$(B)/tests/fuzz/fuzz_%: $(B)/obj/tests/fuzz/fuzz_%.o $(B)/obj/tests/fuzz/replay.o $(B)/libmint.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@
$(B)/tests/bench/%: $(B)/obj/tests/bench/%.o $(B)/libmint.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@
$(B)/tests/inject/%.so: tests/inject/%.c
	@mkdir -p $(@D)
	$(call say,CC  )
	$(Q)$(CC) -D_GNU_SOURCE -std=c11 $(WARN) -O1 -g -fPIC -shared $< -ldl -o $@

.PHONY: test-programs test test-lint test-unit test-fuzz test-e2e test-san test-isa test-aarch64 lint
UNIT_BIN := $(UNIT:%=$(B)/tests/unit/%)
FUZZ_BIN := $(FUZZ:%=$(B)/tests/fuzz/%)
test-programs: all $(UNIT_BIN) $(FUZZ_BIN) $(INJECT:%=$(B)/tests/inject/%.so) $(EMU_TESTS)

# What is about scripts, pages, programs under test and equal bytes is run once: the tools in it are those of the other files.
SAN_E2E := $(filter-out %/34-code.bats %/65-cuda.bats %/66-gpus.bats %/70-determinism.bats %/80-pipelines.bats %/82-start.bats %/90-docs.bats,$(E2E))

# test installs what is missing, builds both flavours, runs everything and ends with the sum.
test: ## everything: lint, then unit, fuzz corpora and end to end, plain and under ASan+UBSan; one count at the end
	@$(MAKE) deps
	@$(PARALLEL) test-programs
	@$(SAN_MAKE) test-programs
	@tests/run $(B) lint unit fuzz kernels e2e $(SAN_BUILD) unit fuzz $(SAN_E2E)
lint: all ## layers, sizes, banned calls, exported names, scripts, pages
	@tests/run $(B) lint
test-unit: test-programs ## unit tests and fuzz corpora
	@tests/run $(B) unit fuzz
test-e2e: test-programs ## end-to-end tests (FILES='tests/e2e/10*' runs some)
	@tests/run $(B) $(if $(FILES),$(FILES),e2e)
test-isa: test-programs ## the same tests on each of the CPU's instruction sets
	@set -e; for isa in portable avx2 avx512 avx512bf16; do echo "$$isa"; LIMIT=3000 TEST_ISA=$$isa tests/run $(B) unit e2e; done
test-aarch64: all ## builds for 64-bit ARM, runs it in emulation, and compares files byte for byte (see tests/aarch64.sh)
	@MINT_BUILD=$(B) tests/aarch64.sh
test-san: ## unit tests, fuzz corpora and end-to-end tests under ASan+UBSan
	@$(SAN_MAKE) test-programs
	@tests/run $(SAN_BUILD) unit fuzz e2e

# ---- the rest --------------------------------------------------------------------------------------------------------

DEMO := $(firstword $(wildcard pipelines/demo/demo.sh pipelines/demo/*.sh))
.PHONY: demo bench bench-programs fuzz format install uninstall dist clean help
demo: ## install what is missing, build, and watch a tiny model learn (well under three minutes)
	@$(MAKE) deps-build
	@$(PARALLEL) all
	@$(DEMO)

bench-programs: all $(BENCH:%=$(B)/tests/bench/%)
bench: bench-programs ## measure this machine, and the tools beside its limits (BENCH_ARGS of tests/bench/all.sh)
	@set -e; for b in $(filter-out %/bench_run,$(BENCH:%=$(B)/tests/bench/%)) tests/bench/bench_code.sh; do MINT_BIN=$(abspath $(B)/bin) $$b; done
	@MINT_BUILD=$(abspath $(B)) tests/bench/all.sh $(or $(BENCH_ARGS),--quick --again)

FUZZ_SECONDS ?= 60
fuzz: ## libFuzzer (clang) on every target, FUZZ_SECONDS=60 each; finds stay in build/fuzz
	@command -v clang >/dev/null || { echo "make fuzz needs clang" >&2; exit 1; }
	@$(MAKE) FUZZING=1 $(FUZZ:%=build/fuzz/hunt/%)
	@set -e; for n in $(FUZZ:fuzz_%=%); do echo "fuzz $$n"; mkdir -p build/fuzz/corpus/$$n; \
		build/fuzz/hunt/fuzz_$$n -max_total_time=$(FUZZ_SECONDS) -timeout=10 -artifact_prefix=build/fuzz/$$n- \
			build/fuzz/corpus/$$n tests/fuzz/corpus/$$n; done
$(B)/hunt/%: $(B)/obj/tests/fuzz/%.o $(B)/libmint.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer $^ $(LIBS) -o $@

format: ## clang-format over all C sources
	clang-format -i $(wildcard lib/*.[ch] lib/cpu/*.[ch] tools/*.[ch] tests/*/*.[ch])

PREFIX ?= /usr/local
DEST = $(DESTDIR)$(PREFIX)
PIPES := $(shell find pipelines -type f 2>/dev/null)
INSTALLED = $(TOOLS:%=bin/%) $(patsubst $(B)/%,%,$(MAN) $(COMPLETION)) $(patsubst $(B)/%,%,$(wildcard $(B)/lib/mint/*.so)) \
	$(PIPES:%=share/mint/%)
install: $(if $(NOBUILD),,all) ## programs, pages, completions, pipelines into PREFIX (/usr/local), under DESTDIR
	@set -e; for f in $(filter bin/% lib/%,$(INSTALLED)); do install -D -m 755 $(B)/$$f $(DEST)/$$f; done; \
	for f in $(filter share/man/% share/bash-% share/zsh/% share/fish/%,$(INSTALLED)); do install -D -m 644 $(B)/$$f $(DEST)/$$f; done; \
	for f in $(PIPES); do m=644; [ ! -x $$f ] || m=755; install -D -m $$m $$f $(DEST)/share/mint/$$f; done
	@echo "installed into $(DEST)"
uninstall: ## remove what install puts there
	@for f in $(INSTALLED); do rm -f $(DEST)/$$f; done; rmdir -p $(DEST)/share/mint $(DEST)/lib/mint 2>/dev/null || :
dist: ## build/mint-VERSION.tar.gz of the last commit
	@mkdir -p build
	git archive --prefix=mint-$(VERSION)/ -o build/mint-$(VERSION).tar.gz HEAD
clean: ## remove build/ and bin/
	rm -rf build bin
help: ## this list
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' Makefile kernels/rules.mk | sed -E 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r t d; do printf '%-12s %s\n' "$$t" "$$d"; done
	@echo; echo 'variables: SAN=1 DEBUG=1 WERROR=1 NATIVE=1 CC= CFLAGS= LDFLAGS= PREFIX= DESTDIR= BUILD= V=1'

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
