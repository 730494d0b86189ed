# The public C API: include/retort.h, over src/job.
API_SRCS := $(call files_of,src/api)
LIB_SRCS += $(API_SRCS)
$(API_SRCS:%.c=$(BUILD)/%.o): ROOM_CPPFLAGS := -Iinclude
