# The apr room of format: APR v2.
LIB_SRCS += $(call files_of,src/format/apr)
