# The format room: any model opened, written, converted, made; its containers and their data are in the rooms below.
LIB_SRCS += $(call files_of,src/format)
USES += z
