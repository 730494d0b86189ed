# The config room of format: the shape of a model: families, config.json, names of tensors, presets.
LIB_SRCS += \
	src/format/config/config.c \
	src/format/config/config_get.c \
	src/format/config/config_json.c \
	src/format/config/config_json_write.c \
	src/format/config/config_layers.c \
	src/format/config/config_rope.c \
	src/format/config/names.c \
	src/format/config/families.c
