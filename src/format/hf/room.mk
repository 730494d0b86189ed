# The hf room of format: safetensors, and the folders of Hugging Face.
LIB_SRCS += \
	src/format/hf/hf_read.c \
	src/format/hf/hf_write.c \
	src/format/hf/safetensors.c \
	src/format/hf/safetensors_layout.c
