/* fuzz_csv.c - any bytes as a CSV and as a TSV file, compressed or not, row by row.
 *
 * A row must be JSON wherever its bytes are UTF-8, and what is refused must say why. With -DRT_FUZZ_REPLAY it has a
 * main() of its own (replay.h). */
#include "table_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const some[] = { "text", "b" };
    read_table(data, size, RT_TABLE_CSV, NULL, 0);
    read_table(data, size, RT_TABLE_TSV, NULL, 0);
    read_table(data, size, RT_TABLE_CSV, some, 2);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
