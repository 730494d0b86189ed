# Ranks: an MPI that is opened at run time, once for each of the two ABIs that there are.
LIB_SRCS += $(call files_of,src/comm)
