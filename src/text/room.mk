# Chat templates: the Jinja interpreter and what a conversation gives to it.
LIB_SRCS += \
	src/text/chat_template.c \
	src/text/jinja.c \
	src/text/jinja_access.c \
	src/text/jinja_call.c \
	src/text/jinja_compare.c \
	src/text/jinja_eval.c \
	src/text/jinja_exec.c \
	src/text/jinja_filter_other.c \
	src/text/jinja_filter_select.c \
	src/text/jinja_filter_seq.c \
	src/text/jinja_filter_text.c \
	src/text/jinja_format.c \
	src/text/jinja_iter.c \
	src/text/jinja_json.c \
	src/text/jinja_lexer.c \
	src/text/jinja_loop.c \
	src/text/jinja_methods.c \
	src/text/jinja_ops.c \
	src/text/jinja_parse_expr.c \
	src/text/jinja_parse_postfix.c \
	src/text/jinja_parser.c \
	src/text/jinja_percent.c \
	src/text/jinja_repr.c \
	src/text/jinja_run.c \
	src/text/jinja_scope.c \
	src/text/jinja_str.c \
	src/text/jinja_str_methods.c \
	src/text/jinja_str_search.c \
	src/text/jinja_tests.c \
	src/text/jinja_unicode.c \
	src/text/jinja_value.c
# Tokenizers; link PCRE2 (8 bit), utf8proc and jansson.
LIB_SRCS += \
	src/text/tok_added.c \
	src/text/tok_bpe.c \
	src/text/tok_decode.c \
	src/text/tok_gguf.c \
	src/text/tok_json.c \
	src/text/tok_json_model.c \
	src/text/tok_json_steps.c \
	src/text/tok_match.c \
	src/text/tok_model.c \
	src/text/tok_nfc.c \
	src/text/tok_normalize.c \
	src/text/tok_post.c \
	src/text/tok_pretokenize.c \
	src/text/tok_regex.c \
	src/text/tok_unicode.c \
	src/text/tok_vocab.c \
	src/text/tok_word.c \
	src/text/tokenizer.c
USES += pcre2-8 utf8proc
# What a model has for text, and its vocabulary in another form.
LIB_SRCS += \
	src/text/model_text.c \
	src/text/model_text_files.c \
	src/text/model_text_special.c \
	src/text/modelfile.c \
	src/text/vocab_bytes.c \
	src/text/vocab_export.c \
	src/text/vocab_import.c \
	src/text/vocab_pre.c \
	src/text/vocab_text.c
# Data sets: records, token shards, order and packing; link zlib and zstd.
LIB_SRCS += \
	src/text/data_align.c \
	src/text/data_encode.c \
	src/text/data_order.c \
	src/text/data_prompt.c \
	src/text/data_record.c \
	src/text/data_rows.c \
	src/text/data_shard.c \
	src/text/data_shard_set.c \
	src/text/data_shard_write.c \
	src/text/data_source.c \
	src/text/data_split.c \
	src/text/data_stream.c \
	src/text/data_text.c \
	src/text/data_tokenize.c \
	src/text/data_units.c
USES += zstd
