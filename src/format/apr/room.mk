# The apr room of format: APR v2.
LIB_SRCS += \
	src/format/apr/apr_layout.c \
	src/format/apr/apr_meta.c \
	src/format/apr/apr_meta_write.c \
	src/format/apr/apr_read.c \
	src/format/apr/apr_vocab.c
