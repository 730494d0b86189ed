# Settings and files made into what a run needs: inputs, numbers, rows at a time.
LIB_SRCS += $(call files_of,src/job/prepare)
