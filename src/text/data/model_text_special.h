/* model_text_special.h - the special tokens of a model. Internal to text. */
#ifndef RT_DATA_MODEL_TEXT_SPECIAL_H
#define RT_DATA_MODEL_TEXT_SPECIAL_H

#include "text/data/model_text.h"

/* Sets special, bos, eos, pad, unk of s, whose tokenizer is there. c may be null. */
int rt_text_special(rt_text_source *s, const rt_model_text *t, const rt_model_config *c, rt_err *e);

#endif
