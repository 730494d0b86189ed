# The public C API: include/retort.h, over src/job.
API_SRCS := \
	src/api/api_base.c \
	src/api/api_evaluate.c \
	src/api/api_generate.c \
	src/api/api_model.c \
	src/api/api_plan.c \
	src/api/api_run.c \
	src/api/api_settings.c
LIB_SRCS += $(API_SRCS)
$(API_SRCS:%.c=$(BUILD)/%.o): ROOM_CPPFLAGS := -Iinclude
