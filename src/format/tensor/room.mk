# The tensor room of format: the directory of tensors of an opened model, and of one that is to be written.
LIB_SRCS += $(call files_of,src/format/tensor)
