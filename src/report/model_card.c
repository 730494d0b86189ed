/* model_card.c - see model_card.h. */
#include "report/model_card.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A name as a string of YAML and of Python, and as code in Markdown: names come from files and may hold anything. What
 * YAML 1.1 takes for a line break (U+0085, U+2028, U+2029) is escaped, and what is not UTF-8 replaced. */
static void put_yaml_char(rt_str *s, const char *text, uint32_t *len)
{
    uint32_t cp = rt_utf8_get(text, len);
    if (cp < ' ' || (cp >= 127 && cp < 160))
        rt_str_printf(s, "\\x%02x", cp);
    else if (cp == 0x2028 || cp == 0x2029)
        rt_str_printf(s, "\\u%04x", cp);
    else
        rt_str_printf(s, "%s%.*s", cp == '"' || cp == '\\' ? "\\" : "", (int)*len, text);
}

static void put_code_char(rt_str *s, const char *text, uint32_t *len)
{
    uint32_t cp = rt_utf8_get(text, len);
    bool bad = cp < ' ' || (cp >= 127 && cp < 160) || cp == '`';
    rt_str_append_n(s, bad ? "?" : text, bad ? 1 : *len);
}

static void put_between(rt_str *s, const char *mark, const char *name, void (*put)(rt_str *, const char *, uint32_t *))
{
    rt_str good = { 0 };
    rt_utf8_repair(name, strlen(name), &good);
    rt_str_append(s, mark);
    for (uint32_t i = 0, n; i < good.len; i += n) put(s, good.data + i, &n);
    rt_str_append(s, mark);
    s->failed |= good.failed;
    rt_str_free(&good);
}

/* In a table a bar would end the cell. */
static void put_cell_char(rt_str *s, const char *text, uint32_t *len)
{
    put_code_char(s, *text == '|' ? "?" : text, len);
}

static void put_cell(rt_str *s, const char *name) { put_between(s, "`", name, put_cell_char); }
static void put_yaml(rt_str *s, const char *name) { put_between(s, "\"", name, put_yaml_char); }
static void put_name(rt_str *s, const char *name) { put_between(s, "`", name, put_code_char); }

static bool is_adapter(const rt_card *c) { return c->settings->lora_rank > 0; }

/* What was trained on and the hub has, each once. */
static void put_datasets(rt_str *s, const rt_card *c)
{
    bool any = false;
    for (uint32_t i = 0; i < c->data_count; i++) {
        char name[256];
        size_t n = strcspn(c->data[i].name, "@");
        bool known = !c->data[i].hub || n >= sizeof name;
        for (uint32_t k = 0; k < i && !known; k++)
            known = c->data[k].hub && strcspn(c->data[k].name, "@") == n &&
                    memcmp(c->data[k].name, c->data[i].name, n) == 0;
        if (known) continue;
        memcpy(name, c->data[i].name, n);
        name[n] = 0;
        rt_str_append(s, any ? "- " : "datasets:\n- ");
        put_yaml(s, name);
        rt_str_append(s, "\n");
        any = true;
    }
}

static void put_front(rt_str *s, const rt_card *c)
{
    rt_str_append(s, "---\n");
    if (c->hub && (!c->from_random || is_adapter(c))) {
        rt_str_append(s, "base_model: ");
        put_yaml(s, c->hub);
        rt_str_append(s, "\n");
    }
    if (c->license) {
        rt_str_append(s, "license: ");
        put_yaml(s, c->license);
        rt_str_append(s, "\n");
    }
    put_datasets(s, c);
    rt_str_printf(s, "library_name: %s\npipeline_tag: text-generation\ntags:\n",
                  is_adapter(c) ? "peft" : "transformers");
    if (is_adapter(c)) rt_str_append(s, "- lora\n");
    rt_str_printf(s, "- %s\n- retort\n---\n\n", c->teacher ? "distillation" : "fine-tuning");
}

/* "`A` (0.7) and `B` (0.3)" */
static void put_teachers(rt_str *s, const rt_card *c)
{
    for (uint32_t i = 0; i < c->teacher_count; i++) {
        rt_str_append(s, i == 0 ? "" : i + 1 < c->teacher_count ? ", " : " and ");
        put_name(s, c->teachers[i].name);
        rt_str_printf(s, " (%s)", c->teachers[i].share);
    }
    if (!c->teacher_count) put_name(s, c->teacher);
}

static void put_opening(rt_str *s, const rt_card *c)
{
    rt_str_append(s, "# ");
    put_name(s, c->student);
    if (c->teacher) {
        rt_str_append(s, " distilled from ");
        put_teachers(s, c);
    } else {
        rt_str_append(s, " trained on text");
    }
    rt_str_append(s, is_adapter(c) ? "\n\nA LoRA adapter for " : "\n\nThe student is ");
    put_name(s, c->student);
    if (c->from_random && !is_adapter(c)) rt_str_append(s, ", which began as random weights");
    rt_str_append(s, is_adapter(c) ? ", trained" : "; it was trained");
    if (c->teacher) {
        rt_str_append(s, " to match the probabilities of ");
        put_teachers(s, c);
    }
    rt_str_append(s, c->teacher ? " on every trained position of the data" : " on text with cross-entropy");
    rt_str_printf(s, ". These are the weights of step %u of %u, %s. Written by retort %s.\n\n", c->saved_step, c->steps,
                  c->is_best ? "the best on held-out text" : "the last", c->version ? c->version : "");
}

/* ---- what was measured ---- */

static void put_measure(rt_str *s, rt_measure m, bool there)
{
    int digits = m.mean < 10 ? 4 : 2; /* perplexities are large */
    if (there) rt_str_printf(s, " %.*f", digits, m.mean);
    if (there && !isnan(m.error)) rt_str_printf(s, " ± %.*f", digits, m.error);
    rt_str_append(s, " |");
}

static void put_row(rt_str *s, const char *name, rt_measure before, rt_measure after, const rt_measure *teacher,
                    bool column)
{
    rt_str_printf(s, "| %s |", name);
    put_measure(s, before, true);
    put_measure(s, after, true);
    if (column && teacher && isnan(teacher->mean))
        rt_str_append(s, " not measured |");
    else if (column)
        put_measure(s, teacher ? *teacher : (rt_measure){ 0 }, teacher != NULL);
    rt_str_append(s, "\n");
}

static rt_measure perplexity(rt_measure m) { return (rt_measure){ exp(m.mean), exp(m.mean) * m.error, 0 }; }

/* By what the run is judged, of each source or file. */
static void put_parts(rt_str *s, const rt_card *c)
{
    const rt_eval_result *a = &c->before, *b = &c->saved;
    if (!b->part_count || a->part_count != b->part_count) return;
    rt_str_printf(s, "| %s of | before | after | documents |\n|---|---|---|---|\n",
                  b->teacher ? "KL(teacher ‖ student)" : "cross-entropy");
    for (uint32_t i = 0; i < b->part_count; i++) {
        const rt_eval_part *x = &a->parts[i], *y = &b->parts[i];
        rt_str_append(s, "| ");
        put_cell(s, c->part_names[i] ? c->part_names[i] : y->name);
        rt_str_append(s, " |");
        put_measure(s, b->teacher ? x->kl : x->ce, true);
        put_measure(s, b->teacher ? y->kl : y->ce, true);
        rt_str_printf(s, " %" PRIu64 " |\n", y->documents);
    }
    rt_str_append(s, "\n");
}

static void put_held(rt_str *s, const rt_card *c)
{
    const rt_eval_result *a = &c->before, *b = &c->saved;
    bool column = b->teacher;
    rt_measure words = perplexity(b->teacher_ce);
    char kl[80] = "KL(teacher ‖ student)";
    if (b->outcomes) snprintf(kl, sizeof kl, "KL(teacher ‖ student) over %u outcomes, a lower bound", b->outcomes);
    rt_str_printf(s, "## Held-out text\n\n| | before | after |%s\n|---|---|---|%s\n", column ? " teacher |" : "",
                  column ? "---|" : "");
    put_row(s, "cross-entropy", a->ce, b->ce, &b->teacher_ce, column);
    put_row(s, "perplexity", perplexity(a->ce), perplexity(b->ce), &words, column);
    if (column) {
        put_row(s, kl, a->kl, b->kl, NULL, column);
        put_row(s, "top-1 agreement", a->agreement, b->agreement, NULL, column);
    }
    rt_str_printf(s,
                  "\n%" PRIu64 " positions in %" PRIu64
                  " documents that were not trained on, the same before and after; ± is one standard error over "
                  "documents. *After* is measured on the files here, loaded again.\n\n",
                  b->positions, b->documents);
    put_parts(s, c);
}

/* ---- how it was made ---- */

static void put_sources(rt_str *s, const rt_card_source *list, uint32_t count)
{
    rt_str_append(s, "| source | records | weight |\n|---|---|---|\n");
    for (uint32_t i = 0; i < count; i++) {
        rt_str_append(s, "| ");
        put_cell(s, list[i].name);
        rt_str_printf(s, " | %" PRIu64 " | %.4g |\n", list[i].records, list[i].weight);
    }
    rt_str_append(s, "\n");
}

static void put_data(rt_str *s, const rt_card *c)
{
    if (!c->data_count) return;
    rt_str_append(s, "## Data\n\n");
    put_sources(s, c->data, c->data_count);
    if (c->held) rt_str_printf(s, "%" PRIu64 " of the records were held out", c->held);
    if (c->copies)
        rt_str_printf(s, ", and %" PRIu64 " cop%s of them left out of training", c->copies,
                      c->copies == 1 ? "y" : "ies");
    if (c->held) rt_str_append(s, ".\n\n");
    if (c->eval_count) {
        rt_str_append(s, "Measured on:\n\n");
        put_sources(s, c->eval, c->eval_count);
    }
}

static void put_settings(rt_str *s, const rt_card *c)
{
    const rt_settings *v = c->settings;
    rt_str_append(s, "## Training\n\n| setting | value |\n|---|---|\n");
    if (c->teacher)
        rt_str_printf(s, "| loss | %.4g × cross-entropy + %.4g × %s at temperature %.4g |\n", v->ce_weight,
                      v->kd_weight, v->divergence, v->temperature);
    else
        rt_str_append(s, "| loss | cross-entropy |\n");
    if (is_adapter(c)) {
        rt_str_printf(s, "| LoRA | rank %" PRIu64 ", alpha %.4g, ", v->lora_rank, v->lora_alpha);
        if (v->lora_dropout > 0) rt_str_printf(s, "dropout %.4g, ", v->lora_dropout);
        rt_str_printf(s, "targets %s |\n", v->lora_targets);
    }
    rt_str_printf(s, "| steps | %u of %" PRIu64 " rows of %" PRIu64 " positions |\n", c->steps, v->batch, v->seq_len);
    rt_str_printf(s, "| data gone through | %" PRIu64 " tokens, %" PRIu64 " of them trained |\n", c->tokens,
                  c->trained);
    rt_str_printf(s, "| learning rate | %.4g, %s, warm-up %u steps |\n", v->lr, v->schedule, c->warmup);
    const char *narrow = v->optimizer && strncmp(v->optimizer, "adamw-", 6) == 0 ? v->optimizer + 6 : NULL;
    rt_str_printf(s, "| optimizer | AdamW%s%s, betas %.4g, %.4g, weight decay %.4g, gradient norm at most %.4g |\n",
                  narrow ? ", moments in " : "", narrow ? narrow : "", c->beta1, c->beta2, v->weight_decay,
                  v->max_grad_norm);
    rt_str_printf(s, "| seed | %" PRIu64 " |\n| stored as | %s |\n\n", v->seed, v->save_dtype);
}

/* ---- how to load it ---- */

/* What generate() takes is a dictionary, in transformers 4 and 5 alike. */
static void put_generate(rt_str *s, const rt_card *c)
{
    if (c->chat)
        rt_str_append(s, "messages = [{\"role\": \"user\", \"content\": \"Hello\"}]\n"
                         "inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True,\n"
                         "                                       return_tensors=\"pt\", return_dict=True)\n");
    else
        rt_str_append(s, "inputs = tokenizer(\"Hello\", return_tensors=\"pt\")\n");
    rt_str_append(s, "inputs.pop(\"token_type_ids\", None)\n"
                     "output = model.generate(**inputs, max_new_tokens=64)\n"
                     "print(tokenizer.decode(output[0], skip_special_tokens=True))\n");
}

static void put_adapter(rt_str *s, const rt_card *c)
{
    rt_str_append(s, "With PEFT, which adds the adapter to its base model, ");
    put_name(s, c->hub ? c->hub : c->student);
    if (!c->hub)
        rt_str_append(s, ". No id on a hub is known of it: `base` is the path of its Hugging Face folder, which "
                         "`retort convert` makes of a GGUF file");
    rt_str_printf(s, ":\n\n```python\nfrom peft import PeftModel\nfrom transformers import AutoModelForCausalLM%s\n\n",
                  c->tokenizer ? ", AutoTokenizer" : "");
    rt_str_append(s, "base = ");
    put_yaml(s, c->hub ? c->hub : c->student);
    rt_str_append(s, "\nmodel = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), \".\")\n");
}

static void put_python(rt_str *s, const rt_card *c)
{
    if (is_adapter(c))
        put_adapter(s, c);
    else
        rt_str_printf(s,
                      "With transformers:\n\n```python\nfrom transformers import AutoModelForCausalLM%s\n\n"
                      "model = AutoModelForCausalLM.from_pretrained(\".\")\n",
                      c->tokenizer ? ", AutoTokenizer" : "");
    if (c->tokenizer) {
        rt_str_append(s, "tokenizer = AutoTokenizer.from_pretrained(\".\")\n");
        put_generate(s, c);
    }
    rt_str_append(s, "```\n\n");
}

static void put_loading(rt_str *s, const rt_card *c)
{
    rt_str_append(s, "## Use\n\n`.` is this folder.\n\n");
    put_python(s, c);
    if (!c->tokenizer) return;
    rt_str_printf(s,
                  "With llama.cpp and Ollama%s:\n\n```sh\nretort convert . model.gguf     # writes model.Modelfile "
                  "too\nllama-cli -m model.gguf\nollama create my-model -f model.Modelfile && ollama run my-model\n"
                  "```\n",
                  is_adapter(c) ? ", with the adapter added to its base (`--base` names one that is not found)" : "");
}

void rt_model_card_plain(rt_str *out, const rt_card *card)
{
    static const rt_settings none;
    rt_card c = *card;
    c.settings = &none;
    rt_str_append(out, "---\n");
    if (c.hub && !c.from_random) {
        rt_str_append(out, "base_model: ");
        put_yaml(out, c.hub);
        rt_str_append(out, "\n");
    }
    rt_str_append(out, "library_name: transformers\npipeline_tag: text-generation\ntags:\n- retort\n---\n\n# ");
    put_name(out, c.student);
    rt_str_append(out, "\n\nWritten by retort. What was measured of it is with the run that made it.\n\n");
    put_loading(out, &c);
}

void rt_model_card(rt_str *out, const rt_card *c)
{
    put_front(out, c);
    put_opening(out, c);
    put_held(out, c);
    put_data(out, c);
    put_settings(out, c);
    put_loading(out, c);
}
