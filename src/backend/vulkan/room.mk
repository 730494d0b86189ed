# The Vulkan backend: host code in C on Vulkan's own headers, the loader opened at run time; shaders by shaders.mk. On a
# machine without the headers (Debian: libvulkan-dev) vk_absent.c stands in for it and says so.
VULKAN_HEADERS ?= $(shell echo '\#include <vulkan/vulkan_core.h>' | $(CC) $(SYSROOT_CFLAGS) -E - >/dev/null 2>&1 && echo found)
VK_SRCS := $(call files_of,src/backend/vulkan)
LIB_SRCS += $(if $(VULKAN_HEADERS),$(filter-out %/vk_absent.c,$(VK_SRCS)),src/backend/vulkan/vk_absent.c)
