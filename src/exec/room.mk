LIB_SRCS += \
	src/exec/lower.c \
	src/exec/place.c \
	src/exec/bind.c \
	src/exec/estimate.c \
	src/exec/guard.c \
	src/exec/seal.c \
	src/exec/run.c
