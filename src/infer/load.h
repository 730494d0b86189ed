/* load.h - weights from files into a sealed program's memory, and back out of it.
 *
 * Owns: the order of rows (GGUF's swapped heads are put right here), conversion to the dtype of the buffer, and the
 * check that every value is finite. Which buffers there are is model/decoder.h; bytes of files are format/. */
#ifndef RT_INFER_LOAD_H
#define RT_INFER_LOAD_H

#include "base/watch.h"
#include "exec/exec.h"
#include "format/model_file.h"
#include "model/decoder.h"

/* dtypes (rt_param_count(c)): each as the file stores it, so that a teacher's weights stay as they are. Vectors that
 * are stored quantised, and APR's own types, become f32. RT_FORMAT names a tensor that is missing. */
int rt_load_dtypes(rt_dtype *dtypes, const rt_model_file *m, rt_err *e);
/* Writes every parameter of the model (not of adapters) and the rope table. Where a buffer is e4m3, its rows are
 * quantised, each with a scale of its own. RT_NONFINITE names the first tensor, row and column whose value is not
 * finite, before anything runs. Of a parameter that stays in its file (feed.h) only that is done. watch: may be null.
 * Of a model that is declared as a head alone that is read alone. */
int rt_load_weights(rt_exec *x, const rt_decoder *d, const rt_model_file *m, const rt_watch *watch, rt_err *e);
/* The rope table alone. */
int rt_load_rope(rt_exec *x, const rt_decoder *d, rt_err *e);
/* Values of parameter i as f32 (elements of its view), read back from the device. */
int rt_read_param(rt_exec *x, const rt_decoder *d, uint32_t i, float *out, rt_err *e);
int rt_write_param(rt_exec *x, const rt_decoder *d, uint32_t i, const float *in, rt_err *e);

#endif
