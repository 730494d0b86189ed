# The train room: losses, optimizer, the step.
LIB_SRCS += \
	src/train/checkpoint.c \
	src/train/evaluate.c \
	src/train/inputs.c \
	src/train/inputs_data.c \
	src/train/loss_plan.c \
	src/train/output.c \
	src/train/pair.c \
	src/train/resolve.c \
	src/train/run_open.c \
	src/train/run_files.c \
	src/train/run_loop.c \
	src/train/schedule.c \
	src/train/settings.c \
	src/train/step.c \
	src/train/step_plan.c
