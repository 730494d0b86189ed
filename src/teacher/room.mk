# Where probabilities come from: the pair of vocabularies, the teacher's weights.
LIB_SRCS += $(call files_of,src/teacher)
