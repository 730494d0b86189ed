# The one door: a run from settings to a model on disk, and everything else that a user can ask for.
LIB_SRCS += $(call files_of,src/job)
