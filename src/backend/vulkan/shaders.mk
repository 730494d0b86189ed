# Shaders of the Vulkan backend: every shaders/*.comp becomes SPIR-V, optimised where spirv-opt is there, and all of it
# one block inside the binary. Compiled files are shared by all build variants.
#
#   GLSLANG=       builds without shaders; by default the glslangValidator on the PATH
ifeq ($(origin GLSLANG),undefined)
GLSLANG := $(shell command -v glslangValidator 2>/dev/null)
endif
SPIRV_OPT  := $(shell command -v spirv-opt 2>/dev/null)
VK_DIR     ?= build/vulkan
VK_SHADERS := $(sort $(wildcard src/backend/vulkan/shaders/*.comp))
VK_BLOCK   := $(BUILD)/vk_shaders.block
VK_FILES   := $(if $(GLSLANG),$(VK_SHADERS:src/backend/vulkan/shaders/%.comp=$(VK_DIR)/%.spv))
VK_NOTE    := Vulkan shaders: $(if $(GLSLANG),$(notdir $(GLSLANG))$(if $(SPIRV_OPT), and spirv-opt),not compiled, there is no glslangValidator)

$(VK_DIR)/%.spv: src/backend/vulkan/shaders/%.comp $(wildcard src/backend/vulkan/shaders/*.glsl) $(VK_DIR)/flags.stamp
	$(call say,GLSL,$<)
	@mkdir -p $(@D)
	$(Q)$(GLSLANG) --target-env vulkan1.2 --quiet -Isrc/backend/vulkan/shaders $< -o $@.new
	$(Q)$(if $(SPIRV_OPT),$(SPIRV_OPT) -O $@.new -o $@ && rm -f $@.new,mv -f $@.new $@)

$(VK_DIR)/flags.stamp: FORCE
	@mkdir -p $(@D)
	@echo '$(GLSLANG) $(SPIRV_OPT)' | cmp -s - $@ || echo '$(GLSLANG) $(SPIRV_OPT)' > $@

# Without shaders the block is empty, and `retort doctor` says so.
$(VK_BLOCK): $(VK_FILES) $(BUILD)/kernels.stamp tools/pack_shaders.py
	@mkdir -p $(@D)
	$(Q)$(if $(VK_FILES),$(PYTHON) tools/pack_shaders.py $@ $(VK_FILES),: > $@)

$(VK_OBJ): $(VK_BLOCK) src/base/embed.S $(BUILD)/cflags.stamp | libs
	$(call say,EMBED,$(VK_BLOCK))
	$(Q)$(CC) $(CPPFLAGS) -DRT_EMBED_FILE='"$<"' -DRT_EMBED_NAME=rt_embed_vk_shaders -c src/base/embed.S -o $@

shaders: $(VK_FILES)
.PHONY: shaders

# The same shaders with counters in them, for make bench-vulkan.
VK_COUNTED := $(VK_SHADERS:src/backend/vulkan/shaders/%.comp=$(VK_DIR)/counted/%.spv)
$(VK_DIR)/counted/%.spv: src/backend/vulkan/shaders/%.comp $(wildcard src/backend/vulkan/shaders/*.glsl) tools/count_shaders.py $(VK_DIR)/flags.stamp
	$(call say,COUNT,$<)
	@mkdir -p $(@D)
	$(Q)$(GLSLANG) --target-env vulkan1.2 --quiet -DCOUNTED -Isrc/backend/vulkan/shaders $< -o $@.new
	$(Q)$(PYTHON) tools/count_shaders.py $@.new $@ && rm -f $@.new

$(BUILD)/vk_counted.block: $(VK_COUNTED) tools/pack_shaders.py
	$(Q)$(PYTHON) tools/pack_shaders.py --counted $@ $(VK_COUNTED)

$(BUILD)/vk_counted.o: $(BUILD)/vk_counted.block src/base/embed.S $(BUILD)/cflags.stamp
	$(Q)$(CC) $(CPPFLAGS) -DRT_EMBED_FILE='"$<"' -DRT_EMBED_NAME=rt_embed_vk_shaders -c src/base/embed.S -o $@
