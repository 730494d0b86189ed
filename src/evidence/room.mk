# Manifest, falsifiers, verdict.
LIB_SRCS += \
	src/evidence/audit.c \
	src/evidence/audit_files.c \
	src/evidence/audit_lines.c \
	src/evidence/evidence_json.c \
	src/evidence/falsifiers.c \
	src/evidence/manifest.c
