# The infer room: weights into memory, generation.
LIB_SRCS += \
	src/infer/generator.c \
	src/infer/load.c
