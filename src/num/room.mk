# The num room: dtypes, conversions, quantised blocks, rope frequencies; pure functions.
LIB_SRCS += \
	src/num/apr_quant.c \
	src/num/dtype.c \
	src/num/float_convert.c \
	src/num/quant.c \
	src/num/quant_0.c \
	src/num/quant_1.c \
	src/num/quant_fit.c \
	src/num/quant_fit_avx2.c \
	src/num/quant_iq4.c \
	src/num/quant_k.c \
	src/num/quant_k_low.c \
	src/num/rope_freq.c

# One search for scales, compiled twice; the results are the same.
ifeq ($(ARCH),x86_64)
$(BUILD)/src/num/quant_fit_avx2.o: ROOM_CPPFLAGS := -mavx2
endif
