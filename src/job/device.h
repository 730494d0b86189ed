/* device.h - what the settings say about a device, as the options that opening one takes. */
#ifndef RT_JOB_DEVICE_H
#define RT_JOB_DEVICE_H

#include "backend/backend.h"
#include "settings/settings.h"

/* RT_USAGE when a value is none that there is. The environment is left to the caller. */
int rt_settings_device(rt_dev_opts *out, const rt_settings *s, rt_err *e);

#endif
