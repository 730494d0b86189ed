# The verify room: the op cases, the comparison, derivatives against differences, and the run over them that `retort verify`
# stands on.
LIB_SRCS += $(call files_of,src/verify)
