# The page of a run, the model card, event files.
LIB_SRCS += \
	src/report/model_card.c \
	src/report/report_data.c \
	src/report/report_page.c \
	src/report/report_samples.c \
	src/report/report_series.c \
	src/report/report_tables.c \
	src/report/report_text.c \
	src/report/tfevents.c
# The page that a report is filled into.
EMBED_SRCS += src/report/report.html
