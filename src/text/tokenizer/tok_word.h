/* tok_word.h - one word in a row of token ids: how a tokenizer may write it, and whether it stands at a place.
 *
 * Owns: its spellings (as given, and after a space, which most tokenizers keep with the word) and where a word ends:
 * "return" is neither in "returns" nor in "my_return". */
#ifndef RT_TOKENIZER_TOK_WORD_H
#define RT_TOKENIZER_TOK_WORD_H

#include "text/tokenizer/tokenizer.h"

typedef struct rt_tok_word rt_tok_word;

/* t must outlive the word. RT_INVALID for a word without ids. */
int rt_tok_word_new(rt_tok_word **out, const rt_tokenizer *t, const char *text, rt_err *e);
void rt_tok_word_free(rt_tok_word *w); /* accepts null */

/* How many of the ids in next (n) are the word when it begins with the first of them; 0: it does not stand there.
 * before: the id in front of next, or -1 for none. A negative id in next is no token, and nothing goes on behind it;
 * what comes after next is not known, so a word that reaches its end counts as ended. */
uint32_t rt_tok_word_at(const rt_tok_word *w, int32_t before, const int32_t *next, uint32_t n);

#endif
