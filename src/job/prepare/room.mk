# Settings and files made into what a run needs: inputs, numbers, rows at a time.
LIB_SRCS += \
	src/job/prepare/fit.c \
	src/job/prepare/inputs.c \
	src/job/prepare/inputs_data.c \
	src/job/prepare/pace.c \
	src/job/prepare/resolve.c
