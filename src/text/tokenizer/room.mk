# Tokenizers, and a vocabulary in its two forms; link PCRE2 (8 bit), utf8proc and jansson.
LIB_SRCS += $(call files_of,src/text/tokenizer)
USES += pcre2-8 utf8proc
