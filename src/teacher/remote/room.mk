# A teacher behind HTTP: requests by libcurl, which is opened at run time, and what is said in them.
LIB_SRCS += $(call files_of,src/teacher/remote)
