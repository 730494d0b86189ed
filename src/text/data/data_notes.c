/* data_notes.c - what is odd about records that are taken as they are, counted and in sentences.
 *
 * Owns: the sentences. What is odd is found where records are read (data_encode.c). */
#include "text/data/data_internal.h"

#include <stdio.h>

void rt_data_odd_add(rt_data_odd *to, const rt_data_odd *from)
{
    to->completions_inside += from->completions_inside;
    to->turns_inside += from->turns_inside;
    to->answers_empty += from->answers_empty;
    to->fields_over_lines += from->fields_over_lines;
    to->tools_unprinted += from->tools_unprinted;
}

typedef struct teller {
    const char *source;
    void (*note)(void *ctx, const char *text);
    void *ctx;
} teller;

/* "SOURCE: 3 MANY", or "SOURCE: 1 ONE". */
static void tell(const teller *t, uint64_t n, const char *one, const char *many)
{
    char text[400];
    if (!n) return;
    snprintf(text, sizeof text, "%.160s%s%llu %s", t->source ? t->source : "", t->source ? ": " : "",
             (unsigned long long)n, n == 1 ? one : many);
    t->note(t->ctx, text);
}

void rt_data_odd_tell(const rt_data_odd *odd, const char *source, void (*note)(void *ctx, const char *text), void *ctx)
{
    const teller t = { source, note, ctx };
    tell(&t, odd->completions_inside,
         "completion begins inside a token of its prompt, and that token is not trained; end the prompt with a word",
         "completions begin inside a token of their prompt, and that token is not trained; end prompts with a word");
    tell(&t, odd->turns_inside,
         "turn of the assistant begins inside a token of what stands before it, and that token is not trained",
         "turns of the assistant begin inside a token of what stands before them, and that token is not trained");
    tell(&t, odd->answers_empty, "answer is empty: it is trained to end at once",
         "answers are empty: they are trained to end at once");
    tell(&t, odd->fields_over_lines,
         "quoted field spans several lines; where quotes are meant as they are, double them and quote the field",
         "quoted fields span several lines; where quotes are meant as they are, double them and quote the fields");
    tell(&t, odd->tools_unprinted,
         "conversation has tools, and the chat template does not print them; --chat-template FILE names one that does",
         "conversations have tools, and the chat template does not print them; --chat-template FILE names one that "
         "does");
}
