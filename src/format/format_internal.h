/* format_internal.h - what the files that open and write models give one another. */
#ifndef RT_FORMAT_INTERNAL_H
#define RT_FORMAT_INTERNAL_H

#include "format/apr/apr.h"
#include "format/gguf/gguf.h"
#include "format/hf/hf.h"
#include "format/model_write.h"

/* Whether a text has the form org/name or org/name@revision (hub.c). */
bool rt_hub_name_is(const char *spec);
/* Whether the format can hold the type (mix.c). */
bool rt_container_holds(rt_container c, rt_dtype d);
/* Everything in the files: tensors on all cores, headers, footers. */
int rt_write_fill(const rt_model_out *o, const rt_out_file *files, uint32_t file_count,
                  const rt_model_write_calls *calls, rt_pool *pool, rt_err *e);

#endif
