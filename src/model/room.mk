# The model room: one decoder for every family, recorded forward and backward.
LIB_SRCS += \
	src/model/decoder_backward.c \
	src/model/decoder_forward.c \
	src/model/decoder_params.c \
	src/model/linear.c
