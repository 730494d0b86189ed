/* ollama_modelfile.h - a Modelfile, from which Ollama makes a model of a GGUF file.
 *
 * Owns: the chat template in Ollama's own language, for templates that can be said in it, and the texts that end an
 * answer. Which family a template belongs to is not guessed from its name: conversations are rendered with it, and it
 * is taken for one only when the text is what that family writes, to the byte. */
#ifndef RT_DATA_OLLAMA_MODELFILE_H
#define RT_DATA_OLLAMA_MODELFILE_H

#include "text/data/model_text.h"

/* file: the GGUF file's name, in the folder of the Modelfile. text: the tokenizer and template that the file holds.
 * *known: "ChatML" and the like; null when the template is none of those known, and Ollama is left to the one inside
 * the file, or when there is none. RT_UNSUPPORTED: a stop or the file's name cannot be said in a Modelfile. */
int rt_modelfile(rt_str *out, const char *file, const rt_text_source *text, const rt_model_config *c,
                 const char **known, rt_err *e);

#endif
