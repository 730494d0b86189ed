# The page of a run, the model card, event files.
LIB_SRCS += $(call files_of,src/report)
# The page that a report is filled into.
EMBED_SRCS += src/report/report.html
