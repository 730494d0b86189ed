# A run: from settings to a model on disk, resumable at any moment.
LIB_SRCS += $(call files_of,src/job/run)
