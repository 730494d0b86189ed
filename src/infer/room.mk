# The infer room: weights into memory, generation.
LIB_SRCS += \
	src/infer/generate.c \
	src/infer/load.c
