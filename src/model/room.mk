# The model room: one decoder for every family, recorded forward and backward.
LIB_SRCS += $(call files_of,src/model)
