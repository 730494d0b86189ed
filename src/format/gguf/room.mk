# The gguf room of format.
LIB_SRCS += \
	src/format/gguf/gguf_config.c \
	src/format/gguf/gguf_get.c \
	src/format/gguf/gguf_keys_write.c \
	src/format/gguf/gguf_kv.c \
	src/format/gguf/gguf_layout.c \
	src/format/gguf/gguf_read.c \
	src/format/gguf/gguf_rope_factors.c \
	src/format/gguf/gguf_text.c \
	src/format/gguf/gguf_types.c
