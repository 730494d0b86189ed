# The format room: any model opened, written, converted, made; its containers and their data are in the rooms below.
LIB_SRCS += \
	src/format/content_hash.c \
	src/format/convert.c \
	src/format/convert_check.c \
	src/format/hub.c \
	src/format/init_random.c \
	src/format/metrics.c \
	src/format/mix.c \
	src/format/model_file.c \
	src/format/model_write.c \
	src/format/tensor_file.c \
	src/format/write_fill.c
USES += z
