/* test_model_card.c - README.md of a trained model: front matter, names, the held-out table, how to load it. */
#include "train_case.h"

#include "report/model_card.h"

#include <math.h>

static rt_settings settings;

static rt_card card(void)
{
    settings = (rt_settings){ .divergence = "forward-kl",
                              .schedule = "cosine",
                              .lora_targets = "all",
                              .ce_weight = 0.1,
                              .kd_weight = 0.9,
                              .temperature = 2,
                              .batch = 32,
                              .seq_len = 512,
                              .lr = 5e-5,
                              .seed = 7,
                              .save_dtype = "bf16" };
    return (rt_card){
        .student = "Qwen/Qwen2.5-0.5B",
        .teacher = "Qwen/Qwen2.5-7B",
        .hub = "Qwen/Qwen2.5-0.5B",
        .tokenizer = true,
        .chat = true,
        .version = "1.2.3",
        .before = { .ce = { 3.5, 0.02, 0 }, .kl = { 1.25, 0.01, 0 }, .agreement = { 0.5, 0.005, 0 }, .teacher = true },
        .saved = { .ce = { 2.75, 0.02, 0 },
                   .kl = { 0.125, NAN, 0 },
                   .agreement = { 0.75, 0.005, 0 },
                   .teacher_ce = { 2.5, 0.03, 0 },
                   .teacher = true,
                   .positions = 4000,
                   .documents = 40 },
        .saved_step = 280,
        .is_best = true,
        .tokens = 1000000,
        .trained = 600000,
        .settings = &settings,
        .steps = 300,
        .warmup = 10,
    };
}

/* Valid until the next call. */
static const char *text_of(const rt_card *c)
{
    static char text[8192];
    rt_str s = { 0 };
    rt_model_card(&s, c);
    assert_true(!s.failed && s.len < sizeof text);
    memcpy(text, s.data, s.len + 1);
    rt_str_free(&s);
    return text;
}

static void has(const rt_card *c, const char *part)
{
    const char *text = text_of(c);
    if (!strstr(text, part)) fail_msg("'%s' is not in\n%s", part, text);
}

static void lacks(const rt_card *c, const char *part)
{
    const char *text = text_of(c);
    if (strstr(text, part)) fail_msg("'%s' is in\n%s", part, text);
}

static void test_model(void **state)
{
    (void)state;
    rt_card c = card();
    const char *front = "---\nbase_model: \"Qwen/Qwen2.5-0.5B\"\nlibrary_name: transformers\npipeline_tag: "
                        "text-generation\ntags:\n- distillation\n- retort\n---\n\n# `Qwen/Qwen2.5-0.5B` distilled from "
                        "`Qwen/Qwen2.5-7B`\n";
    assert_memory_equal(text_of(&c), front, strlen(front));
    lacks(&c, "license");
    has(&c, "step 280 of 300, the best on held-out text. Written by retort 1.2.3.");
    has(&c, "| | before | after | teacher |\n|---|---|---|---|\n");
    has(&c, "| cross-entropy | 3.5000 ± 0.0200 | 2.7500 ± 0.0200 | 2.5000 ± 0.0300 |\n");
    has(&c, "| perplexity | 33.12 ± 0.66 | 15.64 ± 0.31 | 12.18 ± 0.37 |\n");
    has(&c, "| KL(teacher ‖ student) | 1.2500 ± 0.0100 | 0.1250 | |\n"); /* one document has no error */
    has(&c, "4000 positions in 40 documents");
    has(&c, "| loss | 0.1 × cross-entropy + 0.9 × forward-kl at temperature 2 |\n");
    has(&c, "| data gone through | 1000000 tokens, 600000 of them trained |\n");
    has(&c, "| stored as | bf16 |\n");
    has(&c, "AutoModelForCausalLM.from_pretrained(\".\")");
    has(&c, "apply_chat_template(messages, add_generation_prompt=True,\n                                       "
            "return_tensors=\"pt\", return_dict=True)\n");
    has(&c, "model.generate(**inputs, ");
    has(&c, "llama-cli -m model.gguf\nollama create my-model -f model.Modelfile");
    c.chat = false;
    lacks(&c, "apply_chat_template");
    has(&c, "inputs = tokenizer(\"Hello\", return_tensors=\"pt\")\n");
    c.tokenizer = false;
    lacks(&c, "AutoTokenizer");
    lacks(&c, "ollama");
    c.hub = NULL;
    lacks(&c, "base_model");
    c.hub = "Qwen/Qwen2.5-0.5B";
    c.from_random = true;
    lacks(&c, "base_model");
    has(&c, "which began as random weights");
}

static void test_adapter(void **state)
{
    (void)state;
    rt_card c = card();
    settings.lora_rank = 1;
    settings.lora_alpha = 32;
    has(&c, "library_name: peft\n");
    settings.lora_rank = 16;
    has(&c, "library_name: peft\n");
    has(&c, "tags:\n- lora\n- distillation\n");
    has(&c, "A LoRA adapter for `Qwen/Qwen2.5-0.5B`");
    has(&c, "| LoRA | rank 16, alpha 32, targets all |\n");
    has(&c,
        "base = \"Qwen/Qwen2.5-0.5B\"\nmodel = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), "
        "\".\")\ntokenizer = AutoTokenizer.from_pretrained(\".\")\n");
    lacks(&c, "No id on a hub");
    has(&c, "with the adapter added to its base (`--base` names one that is not found)");
    has(&c, "retort convert . model.gguf");
    c.from_random = true; /* an adapter is of no use without its base */
    has(&c, "base_model: ");
    c.hub = NULL;
    c.student = "mine";
    lacks(&c, "base_model:");
    has(&c, "its base model, `mine`. No id on a hub is known of it: `base` is the path of its Hugging Face folder");
    has(&c, "base = \"mine\"\n");
}

static void test_alone(void **state)
{
    (void)state;
    rt_card c = card();
    c.teacher = NULL;
    c.before.teacher = c.saved.teacher = false;
    has(&c, "# `Qwen/Qwen2.5-0.5B` trained on text\n");
    has(&c, "- fine-tuning\n");
    lacks(&c, "distill");
    has(&c, "| | before | after |\n|---|---|---|\n| cross-entropy | 3.5000 ± 0.0200 | 2.7500 ± 0.0200 |\n");
    lacks(&c, "teacher");
    has(&c, "| loss | cross-entropy |\n");
    settings.lora_rank = 4;
    has(&c, "with the adapter added to its base");
}

/* A name out of a file can hold anything; it neither leaves its place in YAML nor in Markdown. */
static void test_teachers(void **state)
{
    (void)state;
    const rt_card_teacher both[] = { { "org/big", "0.7" }, { "a*b", "0.3" } };
    rt_card c = card();
    c.teachers = both;
    c.teacher_count = 2;
    has(&c, " distilled from `org/big` (0.7) and `a*b` (0.3)\n");
    has(&c, "to match the probabilities of `org/big` (0.7) and `a*b` (0.3) on every trained position");
    lacks(&c, "Qwen2.5-7B");
}

static void test_names(void **state)
{
    (void)state;
    rt_card c = card();
    c.student = c.hub = "a\"b\\c\n- evil`x";
    has(&c, "base_model: \"a\\\"b\\\\c\\x0a- evil`x\"\n");
    has(&c, "# `a\"b\\c?- evil?x` distilled");
    /* line breaks of YAML 1.1, bytes that are no UTF-8, and text that is */
    c.student = c.hub = "a\xc2\x85- b\xe2\x80\xa8\xff\xc3\xa9";
    has(&c, "base_model: \"a\\x85- b\\u2028\xef\xbf\xbd\xc3\xa9\"\n");
    has(&c, "# `a?- b\xe2\x80\xa8\xef\xbf\xbd\xc3\xa9` distilled");
}

/* What it was trained on and measured on: names, ids of the hub in the front matter, each once, measures of each. */
static void test_data(void **state)
{
    (void)state;
    static const rt_card_source data[] = { { "org/chats@main", true, 1200, 1 },
                                           { "org/chats", true, 10, 2 },
                                           { "mine|\"x\".jsonl", false, 50, 0.3 } },
                                eval[] = { { "other.jsonl", false, 20, 1 } };
    rt_card c = card();
    lacks(&c, "datasets:");
    lacks(&c, "## Data");
    c.data = data;
    c.data_count = 3;
    c.held = 24;
    c.license = "apache-2.0";
    has(&c, "base_model: \"Qwen/Qwen2.5-0.5B\"\nlicense: \"apache-2.0\"\ndatasets:\n- \"org/chats\"\nlibrary_name: ");
    has(&c, "## Data\n\n| source | records | weight |\n|---|---|---|\n| `org/chats@main` | 1200 | 1 |\n"
            "| `org/chats` | 10 | 2 |\n| `mine?\"x\".jsonl` | 50 | 0.3 |\n\n24 of the records were held out.\n\n");
    lacks(&c, "Measured on");
    c.copies = 3;
    has(&c, "24 of the records were held out, and 3 copies of them left out of training.\n");
    c.held = c.copies = 0;
    c.eval = eval;
    c.eval_count = 1;
    lacks(&c, "held out,");
    has(&c, "Measured on:\n\n| source | records | weight |\n|---|---|---|\n| `other.jsonl` | 20 | 1 |\n");
    lacks(&c, " of | before");
    c.before.part_count = c.saved.part_count = 2;
    c.before.parts[0].kl = (rt_measure){ 2, 0.5, 0 };
    c.saved.parts[0] = (rt_eval_part){ .name = "/home/me/a.jsonl", .documents = 7, .kl = { 1, NAN, 0 } };
    c.saved.parts[1] = (rt_eval_part){ .name = "b.jsonl", .documents = 3, .kl = { 1, NAN, 0 } };
    c.part_names[0] = "a.jsonl";
    has(&c, "| KL(teacher ‖ student) of | before | after | documents |\n|---|---|---|---|\n"
            "| `a.jsonl` | 2.0000 ± 0.5000 | 1.0000 | 7 |\n| `b.jsonl` | ");
    lacks(&c, "/home");
}

static int make(void *ctx, rt_err *e)
{
    rt_str s = { 0 };
    rt_model_card(&s, ctx);
    bool failed = s.failed;
    rt_str_free(&s);
    return failed ? rt_fail(e, RT_NOMEM, "no memory") : RT_OK;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    rt_card c = card();
    fail_each(make, &c, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_model),    cmocka_unit_test(test_adapter),
        cmocka_unit_test(test_alone),         cmocka_unit_test(test_teachers), cmocka_unit_test(test_names),
        cmocka_unit_test(test_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
