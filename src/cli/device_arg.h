/* device_arg.h - a device from what the command line and the environment say about it. */
#ifndef RT_CLI_DEVICE_ARG_H
#define RT_CLI_DEVICE_ARG_H

#include "backend/backend.h"
#include "cli/cli.h"

/* The environment of this process, as rt_dev_opts has it. */
const char *const *rt_environment(void);
/* rt_device_open with the environment. say: prints which device was taken and, where the user left the choice, why not
 * another. */
int rt_device_arg_open(rt_dev **out, const char *name, const rt_dev_opts *o, bool say, rt_err *e);
/* At the end of a run: what code took of the device's memory, and whether any was loaded too late. Nothing where a
 * device loads no code. */
void rt_device_arg_end(rt_dev *d);

/* A flag for an option of a backend; value as the kind of the option has it, text for a choice. */
rt_flag rt_device_flag(const char *option, void *value);

#endif
