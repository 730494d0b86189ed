/* feed.h - parameters that stay in a model's file, read from it whenever a program copies them.
 *
 * Owns: which bytes of which tensor a buffer of class DISK stands for, reading ahead, and the message when the file can
 * no longer be read. Looking through the values once is load.h's, which writes nothing of such a buffer. */
#ifndef RT_INFER_FEED_H
#define RT_INFER_FEED_H

#include "exec/exec.h"
#include "format/model_file.h"
#include "model/decoder.h"

typedef struct rt_disk_feed rt_disk_feed;
/* Serves x with the parameters of d that are of class DISK from m, which stays open until the feed is freed, and with
 * what *io served before; null: nothing. RT_UNSUPPORTED names a tensor that is not stored as it is used. */
int rt_disk_feed_add(rt_disk_feed **io, rt_exec *x, const rt_decoder *d, const rt_model_file *m, rt_err *e);
void rt_disk_feed_free(rt_disk_feed *f); /* accepts null; before x, or nothing runs any more */

#endif
