/* inspect_print.c - the facts of `retort inspect` as text and as JSON. The keys of the JSON stay as they are. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>

static const char *rope_name(rt_rope_kind k)
{
    static const char *const names[] = {
        [RT_ROPE_PLAIN] = "plain", [RT_ROPE_LINEAR] = "linear", [RT_ROPE_LLAMA3] = "llama3", [RT_ROPE_YARN] = "yarn"
    };
    return names[k];
}

static uint32_t layers_with(const rt_model_config *c, uint8_t flag)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->layers; i++) n += (c->layer_flags[i] & flag) != 0;
    return n;
}

/* ---- text ---- */

static void print_layer_list(const rt_model_config *c, uint8_t flag)
{
    const char *before = "";
    for (uint32_t i = 0; i < c->layers; i++) {
        uint32_t last = i;
        if (!(c->layer_flags[i] & flag)) continue;
        while (last + 1 < c->layers && (c->layer_flags[last + 1] & flag)) last++;
        rt_put(last > i ? "%s%u-%u" : "%s%u", before, i, last);
        before = ",";
        i = last;
    }
}

static void print_rope(const rt_model_config *c)
{
    const rt_rope_scaling *r = &c->rope;
    rt_put("rope      theta %g, %s", r->theta, rope_name(r->kind));
    if (r->kind != RT_ROPE_PLAIN) rt_put(" scaling, factor %g", r->factor);
    if (r->kind == RT_ROPE_LLAMA3) rt_put(", low %g, high %g", r->low_freq, r->high_freq);
    if (r->kind == RT_ROPE_LLAMA3 || r->kind == RT_ROPE_YARN) rt_put(", original context %g", r->original_context);
    if (layers_with(c, RT_LAYER_NO_ROPE)) {
        rt_put("; layers without rope: ");
        print_layer_list(c, RT_LAYER_NO_ROPE);
    }
    rt_put("\n");
}

static void print_config(const rt_model_config *c)
{
    rt_put("family    %s\n", c->family->name);
    rt_put("shape     %u layer%s, width %u, %u heads (%u kv) of %u, hidden %u, vocabulary %u\n", c->layers,
           c->layers == 1 ? "" : "s", c->width, c->heads, c->kv_heads, c->head_dim, c->hidden, c->vocab);
    rt_put("context   %u", c->context);
    if (c->window) {
        rt_put(", sliding window %u in layers ", c->window);
        print_layer_list(c, RT_LAYER_WINDOW);
    }
    rt_put("\n");
    print_rope(c);
    rt_put("details   head %s embedding, bias:%s%s%s%s, norm eps %g%s\n", c->tied ? "tied to" : "apart from",
           c->qkv_bias || c->o_bias || c->mlp_bias ? "" : " none", c->qkv_bias ? " q/k/v" : "", c->o_bias ? " o" : "",
           c->mlp_bias ? " mlp" : "", c->norm_eps, c->qk_norm ? ", q/k norm" : "");
    if (c->random_init) rt_put("weights   random, never trained (retort init, seed %" PRIu64 ")\n", c->init_seed);
}

static void print_special_ids(const rt_job_inspection *f)
{
    const rt_model_config *c = &f->m->config;
    const rt_model_text *t = &f->m->text;
    int64_t bos = f->m->has_config ? c->bos : t->has_vocab ? t->vocab.bos : -1;
    rt_put("ids      ");
    if (bos >= 0) rt_put(" bos %" PRId64, bos);
    if (f->m->has_config) {
        for (uint32_t i = 0; i < c->eos_count; i++) rt_put("%s%" PRId64, i ? "," : " eos ", c->eos[i]);
        if (c->pad >= 0) rt_put(" pad %" PRId64, c->pad);
    } else if (t->has_vocab && t->vocab.eos >= 0) {
        rt_put(" eos %" PRId64, t->vocab.eos);
    }
    rt_put("\n");
}

static void print_text_facts(const rt_job_inspection *f)
{
    if (!f->tokenizer_from) {
        rt_put("tokenizer none\n");
        return;
    }
    rt_put("tokenizer %s%s (%s)\n",
           f->tokenizer_usable ? "" : "cannot be used: ", f->tokenizer.data ? f->tokenizer.data : "",
           f->tokenizer_from);
    print_special_ids(f);
    rt_put("chat      %s\n", f->m->text.chat_template.data ? "has a template" : "no template");
}

static void print_tensors(const rt_job_inspection *f)
{
    char hash[33];
    int width = 6;
    for (uint32_t i = 0; i < f->m->tensor_count; i++)
        if ((int)strlen(f->m->tensors[i].name) > width) width = (int)strlen(f->m->tensors[i].name);
    rt_put("\n%-*s %-7s %-16s %12s%s\n", width, "tensor", "dtype", "shape", "bytes", f->each ? "  hash of values" : "");
    for (uint32_t i = 0; i < f->m->tensor_count; i++) {
        const rt_tensor *t = &f->m->tensors[i];
        rt_str name = { 0 };
        char shape[256];
        size_t n = 0;
        shape[0] = 0;
        for (uint32_t d = 0; d < t->rank && n < sizeof shape; d++)
            n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%" PRIu64, d ? " x " : "", t->shape[d]);
        rt_visible_append(&name, t->name, strlen(t->name), true);
        rt_put("%-*s %-7s %-16s %12" PRIu64 "%s%s\n", width, name.data ? name.data : "", rt_job_dtype_name(t), shape,
               t->bytes, f->each ? "  " : "", f->each ? rt_hash_text(hash, f->each[i]) : "");
        rt_str_free(&name);
    }
}

void rt_inspect_print(const rt_job_inspection *f, bool tensors)
{
    char a[32], b[32];
    const rt_model_file *m = f->m;
    rt_put("model     %s\n", m->name);
    rt_put("format    %s, %u file%s, %s\n", rt_container_name(m->container), m->part_count,
           m->part_count == 1 ? "" : "s", rt_format_bytes(a, f->bytes));
    rt_put("path      %s\n", m->path);
    if (m->has_config)
        print_config(&m->config);
    else
        rt_put("family    unknown: no configuration in the file and no config.json beside it\n");
    rt_put("params    %s (%" PRIu64 "), %s without embedding%s\n", rt_format_params(a, f->parameters), f->parameters,
           rt_format_params(b, f->outside), m->has_config && m->config.tied ? "" : " and head");
    rt_put("dtypes   ");
    for (const rt_job_dtype *d = f->dtype; d->name; d++)
        rt_put("%s %s %.1f %% (%u tensor%s)", d == f->dtype ? "" : ",", d->name,
               f->tensor_bytes ? 100.0 * (double)d->bytes / (double)f->tensor_bytes : 0.0, d->tensors,
               d->tensors == 1 ? "" : "s");
    rt_put("%s\n", f->dtype[0].name ? "" : " none: there are no tensors");
    print_text_facts(f);
    if (f->file_hash[0]) rt_put("file      %s (XXH3-128 of the bytes)\n", f->file_hash);
    if (f->content_hash[0]) rt_put("content   %s (XXH3-128 of names, shapes and values)\n", f->content_hash);
    if (f->footer_checked) rt_put("footer    CRC32 is right\n");
    for (uint32_t i = 0; i < m->note_count; i++) rt_put("note      %s\n", m->notes[i]);
    if (f->problem[0]) rt_put("problem   %s\n", f->problem);
    if (tensors) print_tensors(f);
}

/* ---- JSON ---- */

static json_t *layer_list(const rt_model_config *c, uint8_t flag)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < c->layers; i++)
        if (c->layer_flags[i] & flag) json_array_append_new(list, json_integer(i));
    return list;
}

static json_t *id_or_null(int64_t id) { return id < 0 ? json_null() : json_integer(id); }

static json_t *rope_json(const rt_rope_scaling *r)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "kind", rope_name(r->kind), "theta", r->theta,
                     "factor", r->factor, "low_freq_factor", r->low_freq, "high_freq_factor", r->high_freq,
                     "original_context", r->original_context, "beta_fast", r->beta_fast, "beta_slow", r->beta_slow,
                     "attention_factor", r->attention_factor);
}

static json_t *config_json(const rt_model_config *c)
{
    json_t *eos = json_array();
    for (uint32_t i = 0; i < c->eos_count; i++) json_array_append_new(eos, json_integer(c->eos[i]));
    return json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:b, s:b, s:b, s:f, s:o, s:i, s:o, s:o, s:f, s:o, s:o, "
        "s:o}",
        "layers", (int)c->layers, "width", (int)c->width, "heads", (int)c->heads, "kv_heads", (int)c->kv_heads,
        "head_dim", (int)c->head_dim, "hidden", (int)c->hidden, "vocab", (int)c->vocab, "context", (int)c->context,
        "qkv_bias", c->qkv_bias, "o_bias", c->o_bias, "mlp_bias", c->mlp_bias, "qk_norm", c->qk_norm, "tied", c->tied,
        "norm_eps", c->norm_eps, "rope", rope_json(&c->rope), "window", (int)c->window, "window_layers",
        layer_list(c, RT_LAYER_WINDOW), "no_rope_layers", layer_list(c, RT_LAYER_NO_ROPE), "init_range", c->init_range,
        "bos", id_or_null(c->bos), "eos", eos, "pad", id_or_null(c->pad));
}

static json_t *dtypes_json(const rt_job_inspection *f)
{
    json_t *list = json_array();
    for (const rt_job_dtype *d = f->dtype; d->name; d++)
        json_array_append_new(list, json_pack("{s:s, s:i, s:I, s:I, s:f}", "dtype", d->name, "tensors", (int)d->tensors,
                                              "elements", (json_int_t)d->elems, "bytes", (json_int_t)d->bytes, "share",
                                              f->tensor_bytes ? (double)d->bytes / (double)f->tensor_bytes : 0.0));
    return list;
}

static json_t *tokenizer_json(const rt_job_inspection *f)
{
    const rt_model_text *t = &f->m->text;
    if (!f->tokenizer_from) return json_null();
    return json_pack("{s:s, s:b, s:s, s:i, s:s?, s:b, s:o, s:o, s:o, s:o, s:o}", "from", f->tokenizer_from, "usable",
                     f->tokenizer_usable, "text", f->tokenizer.data ? f->tokenizer.data : "", "size",
                     (int)f->tokenizer_size, "hash", f->tokenizer_hash[0] ? f->tokenizer_hash : NULL, "chat_template",
                     t->chat_template.data != NULL, "vocab_bos", t->has_vocab ? id_or_null(t->vocab.bos) : json_null(),
                     "vocab_eos", t->has_vocab ? id_or_null(t->vocab.eos) : json_null(), "unk", id_or_null(t->unk),
                     "pad", id_or_null(t->pad), "eot", id_or_null(t->eot));
}

static json_t *files_json(const rt_model_file *m)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->part_count; i++)
        json_array_append_new(list, json_pack("{s:o, s:I}", "path", rt_json_text(m->parts[i].path), "bytes",
                                              (json_int_t)m->parts[i].map.size));
    return list;
}

static json_t *tensors_json(const rt_job_inspection *f)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < f->m->tensor_count; i++) {
        const rt_tensor *t = &f->m->tensors[i];
        char hash[33] = "";
        json_t *shape = json_array();
        for (uint32_t d = 0; d < t->rank; d++) json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
        if (f->each) rt_hash_text(hash, f->each[i]);
        json_array_append_new(list, json_pack("{s:o, s:o, s:s, s:o, s:I, s:i, s:s?}", "name", rt_json_text(t->name),
                                              "file_name", rt_json_text(t->file_name), "dtype", rt_job_dtype_name(t),
                                              "shape", shape, "bytes", (json_int_t)t->bytes, "file", (int)t->file,
                                              "hash", hash[0] ? hash : NULL));
    }
    return list;
}

json_t *rt_inspect_json(const rt_job_inspection *f, bool tensors)
{
    const rt_model_file *m = f->m;
    json_t *notes = json_array();
    for (uint32_t i = 0; i < m->note_count; i++) json_array_append_new(notes, rt_json_text(m->notes[i]));
    json_t *j = json_pack(
        "{s:o, s:o, s:o, s:s, s:s?, s:o, s:b, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:s?, s:s?, s:o, s:o, s:o}", "model",
        rt_json_text(m->spec), "name", rt_json_text(m->name), "path", rt_json_text(m->path), "format",
        rt_container_name(m->container), "family", m->has_config ? m->config.family->name : NULL, "config",
        m->has_config ? config_json(&m->config) : json_null(), "random_init", m->has_config && m->config.random_init,
        "init_seed", m->has_config && m->config.random_init ? rt_json_u64(m->config.init_seed) : json_null(),
        "parameters", (json_int_t)f->parameters, "parameters_without_embedding", (json_int_t)f->outside, "bytes",
        (json_int_t)f->bytes, "files", files_json(m), "dtypes", dtypes_json(f), "tokenizer", tokenizer_json(f),
        "file_hash", f->file_hash[0] ? f->file_hash : NULL, "content_hash", f->content_hash[0] ? f->content_hash : NULL,
        "footer_checked", m->container == RT_CONTAINER_APR ? json_boolean(f->footer_checked) : json_null(), "notes",
        notes, "problem", rt_json_text(f->problem[0] ? f->problem : NULL));
    if (j && tensors && json_object_set_new(j, "tensors", tensors_json(f)) < 0) {
        json_decref(j);
        return NULL;
    }
    return j;
}
