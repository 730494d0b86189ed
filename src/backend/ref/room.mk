# The reference backend. The families are compiled for float and for double; the rest once.
REF_ONCE := $(addprefix src/backend/ref/,ref_backend.c ref_operand.c ref_table.c)
LIB_SRCS += $(REF_ONCE)
REF_SRCS += $(filter-out $(REF_ONCE),$(call files_of,src/backend/ref))
