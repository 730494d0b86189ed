/* fuzz_parquet.c - any bytes as a Parquet file: every column that can be read, row by row.
 *
 * A row must be JSON wherever its bytes are UTF-8, and what is refused must say why. With -DRT_FUZZ_REPLAY it has a
 * main() of its own (replay.h). */
#include "table_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const some[] = { "text", "messages", "m" };
    read_table(data, size, RT_TABLE_PARQUET, NULL, 0);
    read_table(data, size, RT_TABLE_PARQUET, some, 3);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
