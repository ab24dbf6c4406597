# SPDX-License-Identifier: Apache-2.0
# The CUDA backend, included by the Makefile. `make cuda` needs the CUDA toolkit; `make test-kernels` needs g++ only,
# and runs what needs the toolkit where it is found.
#
# The same sources go through nvcc and, with the emulator of tests/kernels, through g++:
#   B/lib/mint/mint-cuda.so              the plugin
#   B/tests/kernels/mint-cuda.so         the plugin on the emulator, for tests (MINT_BACKEND_DIR=B/tests/kernels)
#   B/tests/kernels/libnccl-emulated.so  a stand-in for NCCL, between processes (LD_LIBRARY_PATH)
#   B/tests/kernels/{plain,asan,tsan}    the cases of the kernels, on the emulator
#   B/tests/kernels/gpu                  the same cases for a device

NVCC ?= $(shell command -v nvcc 2>/dev/null || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
CUDA_HOME ?= $(if $(NVCC),$(patsubst %/bin/,%,$(dir $(realpath $(NVCC)))))
ifeq ($(origin CXX),default)
CXX := g++
endif

KERNELS := $(sort $(wildcard kernels/*.cu))
PLUGIN := $(sort $(wildcard kernels/*.cpp))
# What the plugin takes from the library: errors, host memory, conversions.
PLUGIN_LIB := lib/err.c lib/mem.c lib/safetensors_dtype.c
CASES := $(sort $(wildcard tests/kernels/cases_*.cpp))
CXX_WARN := -Wall -Wextra -Wno-unknown-pragmas $(if $(WERROR),-Werror)
CXX_COMMON := -std=c++17 -g -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -ffp-contract=off $(CXX_WARN) \
	-D_GNU_SOURCE -Ikernels -Ilib

$(B)/obj/pic/%.o: %.c | $(B)/.headers
	@mkdir -p $(@D)
	$(call say,CC  )
	$(Q)$(CC) $(ALL_CPPFLAGS) -std=c11 $(WARN) -O2 -g -fPIC -fvisibility=hidden -ffp-contract=off -MMD -MP -c $< -o $@

# ---- on the emulator -------------------------------------------------------------------------------------------------

EMU_CPU := $(if $(filter 1,$(X86)),-mavx2 -mfma)
EMU_COMMON := $(CXX_COMMON) $(EMU_CPU) -Itests/kernels
define emu_flavour # name, flags
$(B)/obj/emu-$(1)/%.o: %.cu
	@mkdir -p $$(@D)
	$$(call say,CXX )
	$(Q)$(CXX) $(EMU_COMMON) $(2) -MMD -MP -x c++ -c $$< -o $$@
$(B)/obj/emu-$(1)/%.o: %.cpp
	@mkdir -p $$(@D)
	$$(call say,CXX )
	$(Q)$(CXX) $(EMU_COMMON) $(2) -MMD -MP -c $$< -o $$@
$(B)/tests/kernels/$(1): $(KERNELS:%.cu=$(B)/obj/emu-$(1)/%.o) $(CASES:%.cpp=$(B)/obj/emu-$(1)/%.o) \
	$(B)/obj/emu-$(1)/tests/kernels/kernel_test.o $(B)/libmint.a
	@mkdir -p $$(@D)
	$$(call say,LINK)
	$(Q)$(CXX) $(2) $(SANFLAGS) $$^ $(OPENMP) $(LIBS) -o $$@
$(B)/tests/kernels/bugs-$(1): $(B)/obj/emu-$(1)/tests/kernels/bugs.o
	@mkdir -p $$(@D)
	$(Q)$(CXX) $(2) $$^ -o $$@
endef
$(eval $(call emu_flavour,plain,-O1 -g1))
$(eval $(call emu_flavour,asan,-O1 -fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined))
$(eval $(call emu_flavour,tsan,-O1 -fsanitize=thread))

$(B)/tests/kernels/mint-cuda.so: $(KERNELS:%.cu=$(B)/obj/emu-plain/%.o) $(PLUGIN:%.cpp=$(B)/obj/emu-plain/%.o) \
	$(PLUGIN_LIB:%.c=$(B)/obj/pic/%.o)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CXX) -shared -Wl,-z,defs $^ -o $@

$(B)/tests/kernels/libnccl-emulated.so: $(B)/obj/emu-plain/tests/kernels/emu_nccl.o
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CXX) -shared -Wl,-z,defs $^ -o $@

# What make test runs of this, where there is a C++ compiler; the sanitizers' flavour does without, the emulator has its own.
EMU_TESTS := $(if $(filter 1,$(X86)),$(if $(SAN)$(if $(shell command -v $(CXX)),,none),,\
	$(addprefix $(B)/tests/kernels/,plain mint-cuda.so libnccl-emulated.so)))

# ---- for devices -----------------------------------------------------------------------------------------------------

# Code for A100 and its kin and for H100 and H200; PTX, which the driver compiles, for what comes after them.
CUDA_ARCH ?= 80 90a
CUDA_PTX ?= 90
NVCCFLAGS := -std=c++17 -O3 -lineinfo -fmad=false -Werror all-warnings -Xcompiler -fPIC,-fvisibility=hidden \
	-Ikernels -Ilib $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) \
	$(foreach a,$(CUDA_PTX),-gencode arch=compute_$(a)$(comma)code=compute_$(a))

# What ptxas says of registers and spills, and the PTX, stay beside the object: tests/kernels/gates.sh reads them.
$(B)/obj/cuda/%.o: %.cu
	@mkdir -p $(@:.o=.keep)
	$(call say,NVCC)
	$(Q)$(NVCC) $(NVCCFLAGS) -Xptxas -v -keep -keep-dir $(@:.o=.keep) -MMD -MP -MF $(@:.o=.d) -c $< -o $@ \
		2>$(@:.o=.log) || { cat $(@:.o=.log) >&2; exit 1; }
	$(Q)find $(@:.o=.keep) -type f ! -name '*.ptx' -delete
$(B)/obj/cuda/%.o: %.cpp
	@mkdir -p $(@D)
	$(call say,CXX )
	$(Q)$(CXX) $(CXX_COMMON) -O2 -DMINT_GPU -isystem $(CUDA_HOME)/include -MMD -MP -c $< -o $@

.PHONY: cuda
cuda: $(B)/lib/mint/mint-cuda.so ## the backend for NVIDIA GPUs (needs nvcc): --device cuda
$(B)/lib/mint/mint-cuda.so: $(KERNELS:%.cu=$(B)/obj/cuda/%.o) $(PLUGIN:%.cpp=$(B)/obj/cuda/%.o) \
	$(PLUGIN_LIB:%.c=$(B)/obj/pic/%.o)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(NVCC) -shared -cudart static -Xlinker --exclude-libs,ALL,-z,defs,--as-needed $^ -ldl -o $@
$(B)/tests/kernels/gpu: $(KERNELS:%.cu=$(B)/obj/cuda/%.o) $(CASES:%.cpp=$(B)/obj/cuda/%.o) \
	$(B)/obj/cuda/tests/kernels/kernel_test.o $(B)/libmint.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(NVCC) -cudart static $^ -Xcompiler -fopenmp $(LIBS) -o $@

$(B)/tests/kernels/rates: $(B)/obj/cuda/tests/kernels/rates.o $(B)/libmint.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CXX) $^ -fopenmp $(LIBS) -o $@

# ---- tests ---------------------------------------------------------------------------------------------------------

$(B)/tests/kernels/types: tests/kernels/types_check.cpp tests/kernels/types_nvidia.cpp tests/kernels/cuda_emu.h
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++17 -O2 -c tests/kernels/types_check.cpp -o $@.1.o
	$(Q)$(CXX) -std=c++17 -O2 -isystem $(CUDA_HOME)/include -c tests/kernels/types_nvidia.cpp -o $@.2.o
	$(Q)$(CXX) $@.1.o $@.2.o -o $@

# make test runs the quick cases; this runs all of them, the sanitizers', and what needs nvcc but no GPU: some minutes.
EMU_ALL := plain asan tsan bugs-plain bugs-asan bugs-tsan mint-cuda.so libnccl-emulated.so
GATES := $(if $(NVCC),$(B)/lib/mint/mint-cuda.so $(B)/tests/kernels/gpu $(B)/tests/kernels/types)
.PHONY: test-kernels
test-kernels: all $(EMU_ALL:%=$(B)/tests/kernels/%) $(GATES) ## all that can be said of the CUDA kernels without a GPU (minutes)
	@KERNELS=all LIMIT=1200 tests/run $(B) $(B)/tests/kernels/plain $(B)/tests/kernels/asan $(B)/tests/kernels/tsan \
		tests/kernels/gates.sh tests/kernels/bugs.sh tests/kernels/mutate.sh tests/e2e/65-cuda.bats

.PHONY: test-gpu
test-gpu: all cuda $(EMU_TESTS) $(B)/tests/kernels/gpu $(B)/tests/kernels/rates ## on a machine with a GPU: kernels, promises, speed (six minutes)
	@tests/kernels/gpu.sh $(B)
