# Kernels of the CUDA backend: every kernels/*.cu becomes machine code for each architecture of CUDA_ARCHS and PTX for
# each of CUDA_PTX, and all of it one block inside the binary. Compiled files are shared by all build variants.
#
#   NVCC=          builds without kernels; by default the nvcc on the PATH, or CUDA's own folder
#   CUDA_ARCHS=    architectures, e.g. "80 90"; by default those of the GPUs here, or a short list without one
#   CUDA_PTX=      architectures whose PTX is embedded for GPUs that have no machine code here
ifeq ($(origin NVCC),undefined)
NVCC := $(shell command -v nvcc 2>/dev/null || ls -d /usr/local/cuda/bin/nvcc 2>/dev/null)
endif
RELEASE_ARCHS := 75 80 86 89 90 100 103 120 121
RELEASE_PTX   := 75 80 90 120
CUDA_DIR      ?= build/cuda
CUDA_SRCS     := $(sort $(wildcard src/backend/cuda/kernels/*.cu))
CUDA_BLOCK    := $(BUILD)/cuda_kernels.block

ifneq ($(NVCC),)
ifeq ($(origin CUDA_ARCHS),undefined)
CUDA_ARCHS := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -un)
CUDA_ARCHS := $(or $(strip $(CUDA_ARCHS)),80 90)
endif
CUDA_PTX     ?= 75 80 90
CUDA_VERSION := $(shell $(NVCC) --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
CUDA_MODULES := $(basename $(notdir $(CUDA_SRCS)))
CUDA_FILES   := $(foreach a,$(CUDA_ARCHS:%=sm_%) $(CUDA_PTX:%=ptx_%),$(CUDA_MODULES:%=$(CUDA_DIR)/$(a)/%.fatbin))
CUDA_NOTE    := CUDA kernels: nvcc $(CUDA_VERSION) for $(CUDA_ARCHS:%=sm_%)$(CUDA_PTX:%= ptx_%)
else
CUDA_FILES   :=
CUDA_WHY     ?= $(if $(filter command,$(firstword $(origin NVCC))),as asked,there is no nvcc)
CUDA_NOTE    := CUDA kernels: not compiled, $(CUDA_WHY)
endif
# Each file holds one module for one architecture. Drivers that load code of CUDA 13 can unpack its smallest form.
NVCC_FLAGS   := -std=c++17 -O3 -Isrc -fatbin $(if $(filter 13.% 14.%,$(CUDA_VERSION)),--compress-mode=size)
# sm_90 exists in one generation only, so its machine code may use what Hopper alone has.
sm_target     = arch=compute_$(1)$(if $(filter 90,$(1)),a),code=sm_$(1)$(if $(filter 90,$(1)),a)
ptx_target    = arch=compute_$(1),code=compute_$(1)

define CUDA_RULE
$(CUDA_DIR)/$(1)_$(2)/%.fatbin: src/backend/cuda/kernels/%.cu $(CUDA_DIR)/flags.stamp
	$$(call say,NVCC,'$$< ($(1)_$(2))')
	@mkdir -p $$(@D)
	$$(Q)$$(NVCC) $$(NVCC_FLAGS) -gencode $$(call $(1)_target,$(2)) -MMD -MF $$@.d -o $$@ $$<
endef
$(foreach a,$(CUDA_ARCHS),$(eval $(call CUDA_RULE,sm,$(a))))
$(foreach a,$(CUDA_PTX),$(eval $(call CUDA_RULE,ptx,$(a))))
-include $(CUDA_FILES:%=%.d)

$(CUDA_DIR)/flags.stamp: FORCE
	@mkdir -p $(@D)
	@echo '$(NVCC) $(CUDA_VERSION) $(NVCC_FLAGS)' | cmp -s - $@ || echo '$(NVCC) $(CUDA_VERSION) $(NVCC_FLAGS)' > $@

# Without kernels the block is empty, and `retort doctor` says so.
$(CUDA_BLOCK): $(CUDA_FILES) $(BUILD)/kernels.stamp tools/pack_kernels.py
	@mkdir -p $(@D)
	$(Q)$(if $(CUDA_FILES),$(PYTHON) tools/pack_kernels.py $@ $(CUDA_VERSION) $(CUDA_FILES),: > $@)

$(CUDA_OBJ): $(CUDA_BLOCK) src/base/embed.S $(BUILD)/cflags.stamp | libs
	$(call say,EMBED,$(CUDA_BLOCK))
	$(Q)$(CC) $(CPPFLAGS) -DRT_EMBED_FILE='"$<"' -DRT_EMBED_NAME=rt_embed_cuda_kernels -c src/base/embed.S -o $@

kernels: $(CUDA_FILES)
release:
	@+$(MAKE) --no-print-directory CUDA_ARCHS='$(RELEASE_ARCHS)' CUDA_PTX='$(RELEASE_PTX)' all lib
.PHONY: kernels release
