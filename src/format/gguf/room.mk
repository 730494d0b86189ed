# The gguf room of format.
LIB_SRCS += $(call files_of,src/format/gguf)
