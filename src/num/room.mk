# The num room: dtypes, conversions, quantised blocks, rope frequencies; pure functions.
LIB_SRCS += $(call files_of,src/num)

# One search for scales, compiled twice; the results are the same.
ifeq ($(ARCH),x86_64)
$(BUILD)/src/num/quant_fit_avx2.o: ROOM_CPPFLAGS := -mavx2
endif
