# Manifest, falsifiers, verdict.
LIB_SRCS += \
	src/evidence/evidence_json.c \
	src/evidence/falsifiers.c \
	src/evidence/manifest.c \
	src/evidence/manifest_files.c
