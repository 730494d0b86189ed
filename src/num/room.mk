# The num room: dtypes, conversions, quantised blocks, rope frequencies; pure functions.
LIB_SRCS += \
	src/num/dtype.c \
	src/num/float_convert.c \
	src/num/quant.c \
	src/num/quant_0.c \
	src/num/quant_fit.c \
	src/num/quant_k.c \
	src/num/rope_freq.c
