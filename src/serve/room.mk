# HTTP on the jobs, by libevent's evhttp.
LIB_SRCS += $(call files_of,src/serve)
USES += event_extra event_core
