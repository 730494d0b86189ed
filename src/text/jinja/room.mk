# Chat templates: the Jinja interpreter and what a conversation gives to it.
LIB_SRCS += $(call files_of,src/text/jinja)
