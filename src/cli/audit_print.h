/* audit_print.h - `retort verify RUN`: opens a device, prints each check as it is done. */
#ifndef RT_CLI_AUDIT_PRINT_H
#define RT_CLI_AUDIT_PRINT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* RT_INVALID when a check failed. */
int rt_cli_verify_run(const char *path, const char *backend, uint32_t threads, bool json, rt_err *e);

#endif
