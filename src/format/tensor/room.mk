# The tensor room of format: the directory of tensors of an opened model, and of one that is to be written.
LIB_SRCS += \
	src/format/tensor/directory.c \
	src/format/tensor/model_out.c \
	src/format/tensor/tensor.c
