# Files of rows: Parquet, CSV and TSV as JSON records, and the bytes of compressed files; link zlib, libdeflate, zstd, LZ4, brotli.
LIB_SRCS += \
	src/text/table/data_stream.c \
	src/text/table/parquet_codec.c \
	src/text/table/parquet_footer.c \
	src/text/table/parquet_page.c \
	src/text/table/parquet_rows.c \
	src/text/table/parquet_schema.c \
	src/text/table/parquet_values.c \
	src/text/table/table.c \
	src/text/table/table_csv.c
USES += deflate zstd lz4 brotlidec brotlicommon
