# The step, the loss, the schedule, evaluation, checkpoints.
LIB_SRCS += \
	src/train/checkpoint.c \
	src/train/evaluate.c \
	src/train/loop.c \
	src/train/loss_plan.c \
	src/train/output.c \
	src/train/schedule.c \
	src/train/step.c \
	src/train/step_plan.c
