# Manifest, falsifiers, verdict.
LIB_SRCS += $(call files_of,src/evidence)
