# The infer room: weights into memory, generation.
LIB_SRCS += $(call files_of,src/infer)
