# Files of rows: Parquet, CSV and TSV as JSON records, and the bytes of compressed files; links zlib, libdeflate, zstd, LZ4
# and brotli.
LIB_SRCS += $(call files_of,src/text/table)
USES += deflate zstd lz4 brotlidec brotlicommon
