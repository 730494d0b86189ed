# The step, the loss, the schedule, evaluation, checkpoints.
LIB_SRCS += $(call files_of,src/train)
