# The seam's own room: what host backends share, options, and the list of backends. Each backend has a room.mk of its own.
LIB_SRCS += $(call files_of,src/backend)
