# The base room: status and messages, memory, strings, threads, the machine, hashing.
LIB_SRCS += \
	src/base/cpu_count.c \
	src/base/crc32c.c \
	src/base/dynlib.c \
	src/base/err.c \
	src/base/file.c \
	src/base/file_write.c \
	src/base/hash.c \
	src/base/json.c \
	src/base/lock.c \
	src/base/mem.c \
	src/base/pool.c \
	src/base/procfs.c \
	src/base/str.c \
	src/base/sys.c \
	src/base/utf8.c
