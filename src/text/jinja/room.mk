# Chat templates: the Jinja interpreter and what a conversation gives to it.
LIB_SRCS += \
	src/text/jinja/chat_template.c \
	src/text/jinja/jinja.c \
	src/text/jinja/jinja_access.c \
	src/text/jinja/jinja_call.c \
	src/text/jinja/jinja_compare.c \
	src/text/jinja/jinja_eval.c \
	src/text/jinja/jinja_exec.c \
	src/text/jinja/jinja_filter_other.c \
	src/text/jinja/jinja_filter_select.c \
	src/text/jinja/jinja_filter_seq.c \
	src/text/jinja/jinja_filter_text.c \
	src/text/jinja/jinja_format.c \
	src/text/jinja/jinja_iter.c \
	src/text/jinja/jinja_json.c \
	src/text/jinja/jinja_lexer.c \
	src/text/jinja/jinja_loop.c \
	src/text/jinja/jinja_methods.c \
	src/text/jinja/jinja_ops.c \
	src/text/jinja/jinja_parse_expr.c \
	src/text/jinja/jinja_parse_postfix.c \
	src/text/jinja/jinja_parser.c \
	src/text/jinja/jinja_percent.c \
	src/text/jinja/jinja_repr.c \
	src/text/jinja/jinja_run.c \
	src/text/jinja/jinja_scope.c \
	src/text/jinja/jinja_str.c \
	src/text/jinja/jinja_str_methods.c \
	src/text/jinja/jinja_str_search.c \
	src/text/jinja/jinja_tests.c \
	src/text/jinja/jinja_unicode.c \
	src/text/jinja/jinja_value.c
