# The train room: losses, optimizer, the step.
LIB_SRCS += \
	src/train/loss_plan.c \
	src/train/schedule.c \
	src/train/step.c \
	src/train/step_plan.c
