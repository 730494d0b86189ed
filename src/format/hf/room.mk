# The hf room of format: safetensors, and the folders of Hugging Face.
LIB_SRCS += $(call files_of,src/format/hf)
