# Where probabilities come from: the pair of vocabularies, the teacher's weights.
LIB_SRCS += \
	src/teacher/pair.c \
	src/teacher/teacher_weights.c
