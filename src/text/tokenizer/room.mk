# Tokenizers, and a vocabulary in its two forms; link PCRE2 (8 bit), utf8proc and jansson.
LIB_SRCS += \
	src/text/tokenizer/tok_added.c \
	src/text/tokenizer/tok_bpe.c \
	src/text/tokenizer/tok_decode.c \
	src/text/tokenizer/tok_gguf.c \
	src/text/tokenizer/tok_json.c \
	src/text/tokenizer/tok_json_get.c \
	src/text/tokenizer/tok_json_model.c \
	src/text/tokenizer/tok_json_steps.c \
	src/text/tokenizer/tok_match.c \
	src/text/tokenizer/tok_model.c \
	src/text/tokenizer/tok_nfc.c \
	src/text/tokenizer/tok_normalize.c \
	src/text/tokenizer/tok_post.c \
	src/text/tokenizer/tok_pretokenize.c \
	src/text/tokenizer/tok_regex.c \
	src/text/tokenizer/tok_unicode.c \
	src/text/tokenizer/tok_vocab.c \
	src/text/tokenizer/tok_word.c \
	src/text/tokenizer/tokenizer.c \
	src/text/tokenizer/vocab_bytes.c \
	src/text/tokenizer/vocab_export.c \
	src/text/tokenizer/vocab_import.c \
	src/text/tokenizer/vocab_pre.c
USES += pcre2-8 utf8proc
