# The config room of format: the shape of a model: families, config.json, names of tensors, presets.
LIB_SRCS += $(call files_of,src/format/config)
