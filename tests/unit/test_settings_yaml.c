/* test_settings_yaml.c - settings as YAML: names and values, the names of other tools, everything that is refused with
 * its place, and that what is written reads back the same; the overlay of the command line over a file. */
#include "format_case.h"

#include "base/rng.h"
#include "settings/settings.h"

static rt_arena arena;
static rt_settings_notes used;

static int parse(const char *text, rt_settings *s, rt_err *e)
{
    *s = (rt_settings){ 0 };
    *e = (rt_err){ 0 };
    return rt_settings_from_yaml(s, text, strlen(text), "run.yaml", &arena, &used, e);
}

static rt_settings good(const char *text)
{
    rt_settings s;
    rt_err e;
    if (parse(text, &s, &e) < 0) fail_msg("%s", e.text);
    return s;
}

static void bad(const char *text, int status, const char *words)
{
    rt_settings s;
    rt_err e;
    int rc = parse(text, &s, &e);
    if (rc != status || e.status != status) fail_msg("status %d (%s) of:\n%s", rc, e.text, text);
    assert_says(&e, words);
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) assert_false(s.given[i]); /* all or nothing */
    /* of everything that is wrong, the error has the first */
    if (used.count) assert_memory_equal(e.text, used.items[0].text, strlen(used.items[0].text));
}

/* Everything that is wrong with a file. */
static void all_bad(const char *text, const char *lines)
{
    rt_settings s;
    rt_err e;
    rt_str all = { 0 };
    assert_int_equal(parse(text, &s, &e), RT_INVALID);
    for (uint32_t i = 0; i < used.count; i++) rt_str_printf(&all, "%s%s", i ? "\n" : "", used.items[i].text);
    assert_string_equal(all.data ? all.data : "", lines);
    rt_str_free(&all);
}

/* The mapping of the file, line after line. */
static void mapped(const char *text, const char *lines)
{
    rt_str all = { 0 };
    good(text);
    for (uint32_t i = 0; i < used.count; i++) rt_str_printf(&all, "%s%s", i ? "\n" : "", used.items[i].text);
    assert_string_equal(all.data ? all.data : "", lines);
    rt_str_free(&all);
}

static int drop_arena(void **state)
{
    (void)state;
    rt_arena_free(&arena);
    return 0;
}

static int count_given(const rt_settings *s)
{
    int n = 0;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) n += s->given[i];
    return n;
}

/* ---- reading ---- */

static void test_values(void **state)
{
    (void)state;
    rt_settings s = good("# a comment\n"
                         "teacher: Qwen/Qwen2.5-7B\n"
                         "student: \"a \\\"b\\\" \\u00e9\"\n"
                         "data: [a.jsonl, 'b.jsonl,weight=0.3']\n"
                         "eval-data:\n  - c\n"
                         "lr: 1e-5\n"
                         "kd-weight: .5\n"
                         "--ce-weight: 0.25\n"
                         "seed: 18446744073709551615\n"
                         "lora: True\n"
                         "merge: off\n"
                         "t2: false\n"
                         "warmup: 3%\n"
                         "betas: 0.9,0.95\n"
                         "out: null\n"
                         "keep: ~\n"
                         "threads:\n"
                         "freeze: []\n");
    assert_string_equal(s.teacher.text[0], "Qwen/Qwen2.5-7B");
    assert_string_equal(s.student, "a \"b\" \xc3\xa9");
    assert_int_equal(s.data.count, 2);
    assert_string_equal(s.data.text[1], "b.jsonl,weight=0.3");
    assert_int_equal(s.eval_data.count, 1);
    assert_true(s.lr == 1e-5 && s.kd_weight == 0.5 && s.ce_weight == 0.25 && s.seed == UINT64_MAX);
    assert_true(s.lora && !s.merge && s.given[RT_SETTING_ID_merge]);
    assert_string_equal(s.t2, "off");
    assert_true(s.warmup.value == 3 && s.warmup.percent);
    assert_string_equal(s.betas, "0.9,0.95");
    assert_int_equal(count_given(&s), 13);
    assert_int_equal(used.count, 0);
}

static void test_one_value_is_a_list_of_one(void **state)
{
    (void)state;
    rt_settings s = good("data: a b.jsonl\n");
    assert_int_equal(s.data.count, 1);
    assert_string_equal(s.data.text[0], "a b.jsonl");
}

static void test_nothing(void **state)
{
    (void)state;
    static const char *const empty[] = { "", "\n", "# only a comment\n", "---\n", "--- ~\n", "{}", "---\n...\n" };
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        rt_settings s = good(empty[i]);
        assert_int_equal(count_given(&s), 0);
    }
    rt_settings s = good("\xef\xbb\xbflr: 2\n"); /* a byte order mark is no part of the name */
    assert_true(s.lr == 2.0);
}

/* What the file gives goes over what is there; the rest stays. */
static void test_over_what_is_there(void **state)
{
    (void)state;
    rt_settings s = good("steps: 10\ndata: [a, b]\nlr: 1\n");
    rt_err e = { 0 };
    assert_int_equal(rt_settings_from_yaml(&s, "data: c\nepochs: 2\n", 18, "x", &arena, NULL, &e), RT_OK);
    assert_true(s.data.count == 1 && s.lr == 1.0 && s.epochs == 2.0 && !s.given[RT_SETTING_ID_steps]);
    assert_int_equal(rt_settings_from_yaml(&s, "lr: 3\nlr_: 2\n", 13, "x", &arena, NULL, &e), RT_INVALID);
    assert_true(s.lr == 1.0);
}

static void test_refused_names(void **state)
{
    (void)state;
    bad("lr: 1\nkd_weigth: 1\n", RT_INVALID, "run.yaml:2: |'kd_weigth'|did you mean kd_weight?");
    bad("kd-weigth: 1\n", RT_INVALID, "run.yaml:1: |did you mean kd_weight?");
    bad("learning_rat: 1\n", RT_INVALID, "did you mean learning_rate?");
    bad("--seq_lenn: 1\n", RT_INVALID, "did you mean seq_len?");
    bad("zzzzzzzzzzzz: 1\n", RT_INVALID, "run.yaml:1: |'zzzzzzzzzzzz'|--help");
    bad("'': 1\n", RT_INVALID, "run.yaml:1: ");
    bad("? [a]\n: 1\n", RT_INVALID, "run.yaml:1: |name");
    bad("lr: 1\n\nlr: 2\n", RT_INVALID, "run.yaml:3: |'lr'|line 1");
    bad("kd-weight: 1\nkd_weight: 1\n", RT_INVALID, "run.yaml:2: |'kd_weight'|line 1");
    bad("learning_rate: 1\nlearning-rate: 1\n", RT_INVALID, "run.yaml:2: |line 1");
    bad("lr: 1\nlearning_rate: 2\n", RT_INVALID, "run.yaml:2: |'learning_rate'|'lr'|line 1|--lr");
    bad("learning_rate: 2\nlr: 1\n", RT_INVALID, "run.yaml:1: |'learning_rate'|'lr'|line 2");
    bad("max_length: 1\nmax_seq_length: 1\n", RT_INVALID, "run.yaml:2: |--seq-len");
    bad("resume: true\n", RT_INVALID, "'resume'");
}

static void test_refused_values(void **state)
{
    (void)state;
    bad("# one\nlr: fast\n", RT_INVALID, "run.yaml:2: |--lr|number|'fast'");
    bad("batch: 1.5\n", RT_INVALID, "run.yaml:1: |--batch|'1.5'");
    bad("batch: -4\n", RT_INVALID, "--batch");
    bad("lora: maybe\n", RT_INVALID, "run.yaml:1: |--lora|'maybe'");
    bad("lr: [1, 2]\n", RT_INVALID, "run.yaml:1: |'lr'|one value");
    bad("learning_rate: [1]\n", RT_INVALID, "'learning_rate'|one value");
    bad("lr: 1\ndata:\n  a: 1\n", RT_INVALID, "run.yaml:3: |'data'|map");
    bad("data: [{a: 1}]\n", RT_INVALID, "run.yaml:1: |map");
    bad("data: [[a]]\n", RT_INVALID, "list in a list");
    bad("data: [a, ]\nfreeze: [~]\n", RT_INVALID, "run.yaml:2: |'freeze'|empty");
    bad("out: \"a\\0b\"\n", RT_INVALID, "run.yaml:1: |zero byte");
    rt_settings twice = good("seed: &x 7\nbatch: *x\ndata: [&d a, *d]\n"); /* anchors of one word are repeated */
    assert_true(twice.seed == 7 && twice.batch == 7 && twice.data.count == 2);
    assert_string_equal(twice.data.text[1], "a");
    bad("data: &x [a]\n", RT_INVALID, "run.yaml:1: |&x|anchor");
    bad("lr: 1\nseed: *x\n", RT_INVALID, "run.yaml:2: |*x|repeats no value");
    bad("<<: {lr: 1}\n", RT_INVALID, "'<<'");
    bad("lr: !!float 1\n", RT_INVALID, "run.yaml:1: |tag");
    bad("- lr\n", RT_INVALID, "run.yaml:1: |name, a colon");
    bad("lr\n", RT_INVALID, "run.yaml:1: |name, a colon");
    bad("lr: 1\n---\nlr: 2\n", RT_INVALID, "run.yaml:2: |second document");
    rt_str many = { 0 };
    rt_str_append(&many, "freeze:\n");
    for (int i = 0; i <= RT_SETTING_WORDS; i++) rt_str_append(&many, "  - x\n");
    bad(many.data, RT_INVALID, "run.yaml:66: |'freeze'|64");
    rt_str_free(&many);
}

static void test_not_yaml(void **state)
{
    (void)state;
    bad("lr: 1\n  bad: [\n", RT_FORMAT, "run.yaml:2: |not YAML");
    bad("lr: \"open\n", RT_FORMAT, "run.yaml:|not YAML");
    bad("lr: 1\nout: \xff\xfe\n", RT_FORMAT, "run.yaml:2: |not YAML");
    bad("lr: 1\n\n\nout: \x01\n", RT_FORMAT, "run.yaml:4: |not YAML");
    bad("\tlr: 1\n", RT_FORMAT, "run.yaml:1: |not YAML");
    bad("\xff\xfel\0r\0", RT_FORMAT, "run.yaml:1: "); /* UTF-16 */
    rt_settings s = { 0 };
    rt_err e = { 0 };
    char *large = rt_alloc_zero(RT_YAML_BYTES + 1, 16);
    memset(large, '#', RT_YAML_BYTES + 1);
    assert_int_equal(rt_settings_from_yaml(&s, large, RT_YAML_BYTES + 1, "run.yaml", &arena, NULL, &e), RT_FORMAT);
    assert_says(&e, "run.yaml|bytes|limit");
    assert_int_equal(rt_settings_from_yaml(&s, large, RT_YAML_BYTES, "run.yaml", &arena, NULL, &e), RT_OK);
    rt_free(large);
}

/* ---- other tools' names ---- */

static void test_aliases(void **state)
{
    (void)state;
    rt_settings s =
        good("model_name_or_path: s\nteacher_model_name_or_path: t\ndataset_name: [a, b]\noutput_dir: o\n"
             "learning_rate: 5e-05\nnum_train_epochs: 2\nmax_steps: -1\nmax_length: 512\n"
             "per_device_train_batch_size: 4\ngradient_accumulation_steps: 8\n"
             "adam_beta1: 0.8\nadam_beta2: 0.99\nadam_epsilon: 1e-6\nsave_steps: 100\neval_steps: 0.05\n"
             "save_total_limit: 3\ngradient_checkpointing: true\nuse_peft: true\nlora_r: 16\nlora_alpha: 32\n"
             "lora_dropout: 0.05\nlora_target_modules: [q_proj, down_proj]\nassistant_only_loss: true\nbf16: true\n"
             "load_best_model_at_end: false\nvalidation_file: v\n");
    assert_string_equal(s.student, "s");
    assert_string_equal(s.teacher.text[0], "t");
    assert_int_equal(s.data.count, 2);
    assert_string_equal(s.out, "o");
    assert_string_equal(s.eval_data.text[0], "v");
    assert_true(s.lr == 5e-5 && s.epochs == 2.0 && s.seq_len == 512 && !s.given[RT_SETTING_ID_steps]);
    assert_true(s.micro_batch == 4 && s.batch == 32 && s.eps == 1e-6 && s.keep == 3);
    assert_string_equal(s.betas, "0.8,0.99");
    assert_true(s.save_every.value == 100 && !s.save_every.percent);
    assert_true(s.eval_every.value == 5 && s.eval_every.percent);
    assert_string_equal(s.recompute, "block");
    assert_true(s.lora_rank == 16 && s.lora_alpha == 32.0 && s.lora_dropout == 0.05);
    assert_string_equal(s.lora_targets, "q,down");
    assert_string_equal(s.loss_on, "turns");
    assert_string_equal(s.save, "last");
    assert_false(s.given[RT_SETTING_ID_save_dtype]);
}

static void test_mapping_is_told(void **state)
{
    (void)state;
    mapped("lr_scheduler_type: cosine\nlearning_rate: 5e-05\n", "lr_scheduler_type cosine -> --schedule cosine "
                                                                "--lr-floor 0\nlearning_rate -> --lr 5e-05");
    assert_int_equal(used.items[0].line, 1);
    assert_int_equal(used.items[1].line, 2);
    mapped("per_device_train_batch_size: 2\nseed: 1\ngradient_accumulation_steps: 3\n",
           "per_device_train_batch_size 2, gradient_accumulation_steps 3 -> --micro-batch 2 --batch 6 (one device)");
    mapped("dataset_name: [a, b]\n", "dataset_name -> --data a\ndataset_name -> --data b");
    mapped("max_steps: -1\n", "max_steps -1 has no effect: it is off");
    mapped("adam-beta2: 0.98\n", "adam-beta2 0.98 -> --betas 0.9,0.98 (the other as in transformers)");
    mapped("adam_beta2: 0.98\nadam_beta1: 0.7\n", "adam_beta1 0.7, adam_beta2 0.98 -> --betas 0.7,0.98");
    mapped("warmup_ratio: 0.03\n", "warmup_ratio 0.03 -> --warmup 3%");
    mapped("warmup_steps: 100\nwarmup_ratio: 0.0\n", "warmup_steps -> --warmup 100\n"
                                                     "warmup_ratio 0.0 has no effect: warmup_steps decides");
    mapped("warmup_steps: 0\nwarmup_ratio: 0.1\n", "warmup_steps 0 has no effect: warmup_ratio decides\n"
                                                   "warmup_ratio 0.1 -> --warmup 10%");
    mapped("warmup_steps: 0\nwarmup_ratio: 0\n", "warmup_steps 0 -> --warmup 0\n"
                                                 "warmup_ratio 0 has no effect: warmup_steps decides");
    mapped("warmup_steps: 0.05\n", "warmup_steps 0.05 -> --warmup 5%");
    mapped("target_modules: all-linear\n", "target_modules -> --lora-targets all");
    mapped("target_modules: q_proj,v\n", "target_modules -> --lora-targets q,v");
    mapped("bf16: true\n", "bf16 has no effect: the device has its own precision; save_dtype is what is written");
    mapped("learning_rate: ~\n", "");
    mapped("per_device_train_batch_size: 4\n",
           "per_device_train_batch_size 4, gradient_accumulation_steps 1 -> --micro-batch 4 --batch 4 (one device)");
    mapped("warmup_ratio: 0.1\nwarmup_steps: 10\n", "warmup_ratio 0.1 has no effect: warmup_steps decides\n"
                                                    "warmup_steps -> --warmup 10");
    mapped("num_train_epochs: 3\nmax_steps: 7\n", "num_train_epochs has no effect: max_steps decides\n"
                                                  "max_steps -> --steps 7");
    mapped("eval_steps: 500\neval_strategy: \"no\"\n",
           "eval_steps has no effect: eval_strategy decides\neval_strategy no -> --eval-every 100%");
    mapped("use_peft: false\nlora_r: 16\nlora_alpha: 32\nlora_dropout: 0.05\nlearning_rate: 1e-4\n",
           "use_peft false -> --lora off\n"
           "lora_r has no effect: use_peft is off, and all parameters are trained\n"
           "lora_alpha has no effect: use_peft is off, and all parameters are trained\n"
           "lora_dropout has no effect: use_peft is off, and all parameters are trained\nlearning_rate -> --lr 1e-4");
    mapped("save_steps: 500\nsave_strategy: epoch\nnum_train_epochs: 4\n",
           "save_steps has no effect: save_strategy decides\nsave_strategy epoch -> --save-every 25%\n"
           "num_train_epochs -> --epochs 4");
    mapped("bf16: true\nseed: 1\ntf32: false\n",
           "bf16, tf32 have no effect: the device has its own precision; save_dtype is what is written");
    mapped("eval_strategy: epoch\n", "eval_strategy epoch -> --eval-every 33.3333333333%");
    mapped("evals_per_epoch: 4\nnum_epochs: 2\n",
           "read as an axolotl file; what it leaves out is as here, not as there\n"
           "evals_per_epoch 4 -> --eval-every 12.5%\nnum_epochs -> --epochs 2");
    mapped("dataset: a.jsonl, b.jsonl\n", "dataset -> --data a.jsonl\ndataset -> --data b.jsonl");
    mapped("lr_scheduler_kwargs:\n  min_lr_rate: 0.2\nlr_scheduler_type: cosine_with_min_lr\n",
           "min_lr_rate -> --lr-floor 0.2\nlr_scheduler_type cosine_with_min_lr -> --schedule cosine");
}

/* beta and temperature are what they are to the trainer that the file is for. */
static void test_trainers(void **state)
{
    (void)state;
    mapped("beta: 0.3\ntemperature: 0.9\nlmbda: 0\n",
           "read as a TRL GKD file: beta 0.3 -> --divergence jsd --beta 0.3; temperature 0.9 has no effect: it is for "
           "sampling there, and the loss is at 1; no cross-entropy -> --alpha 1; every assistant turn is trained, "
           "there the last of a conversation alone; what else it leaves out is as here, "
           "not as there\nlmbda 0 has no effect: it asks for nothing");
    rt_settings s = good("beta: 0.3\ntemperature: 0.9\nlmbda: 0\n");
    assert_string_equal(s.divergence, "jsd");
    assert_true(s.beta == 0.3 && s.alpha == 1.0 && !s.given[RT_SETTING_ID_temperature]);
    s = good("lmbda: 0\nmax_new_tokens: 128\n"); /* their default */
    assert_true(s.beta == 0.5 && s.given[RT_SETTING_ID_beta]);
    s = good("lmbda: 0\nloss_top_k: 0\n");
    assert_true(s.beta == 1.0 && !s.given[RT_SETTING_ID_temperature]);
    s = good("lmbda: 0\nloss_top_k: 0\ntemperature: 2\nce_weight: 0.5\n");
    assert_true(s.temperature == 2.0 && !s.given[RT_SETTING_ID_alpha]);
    assert_string_equal(s.t2, "off");
    s = good("rlhf_type: gkd\nlmbda: 0\nsft_alpha: 0.2\n");
    assert_true(s.temperature == 0.9 && s.beta == 0.5 && s.kd_weight == 1.0 && s.ce_weight == 0.2);
    s = good("teacher_model_name_or_path: t\nbeta: 0.1\nlmbda: 0\n");
    assert_string_equal(s.divergence, "jsd");
    /* a divergence of ours is ours, and a file that says nothing of the loss has ours */
    s = good("teacher_model_name_or_path: t\ndivergence: tv\ntemperature: 2\n");
    assert_true(s.temperature == 2.0);
    s = good("teacher_model_name_or_path: t\n");
    assert_false(s.given[RT_SETTING_ID_divergence]);
    /* their default is another algorithm */
    bad("teacher_model_name_or_path: t\nbeta: 0.5\n", RT_INVALID, "run.yaml:1: |a TRL GKD file|lmbda is 0.5|lmbda: 0");
    bad("loss_top_k: 0\n", RT_INVALID, "a TRL Distillation file|lmbda is 1");
    bad("teacher_model: t\n", RT_INVALID, "an ms-swift file|lmbda is 0.5");
    bad("lmbda: 0\nloss_top_k: 1\n", RT_INVALID, "run.yaml:2: |'loss_top_k'|all that are shared");
    bad("rlhf_type: dpo\nlmbda: 0\n", RT_INVALID, "'rlhf_type' dpo asks for another algorithm");
}

static void test_all_faults(void **state)
{
    (void)state;
    all_bad("studnet: s\nlr: fast\nunheard_of: {a: [1, {b: 2}]}\noptim: sgd\nlr: 2\ndata: {a: 1}\nbatch: 4\n",
            "run.yaml:1: 'studnet' is not a setting; did you mean student?\n"
            "run.yaml:2: --lr takes a number, not 'fast'\n"
            "run.yaml:3: 'unheard_of' is not a setting; --help lists ours, docs/other-tools.md those of other tools\n"
            "run.yaml:4: 'optim' asks for 'sgd', and the optimizer is AdamW; use adamw, adamw-bf16 or adamw-8bit\n"
            "run.yaml:5: 'lr' is given already on line 2; leave one out\n"
            "run.yaml:6: 'data' holds a map; settings are plain: one name and its value on each line");
    bad("studnet: s\nlr: fast\n", RT_INVALID, "run.yaml:1: |(and 1 more)");
}

static void test_datasets(void **state)
{
    (void)state;
    rt_settings s = good("datasets:\n  - path: a.jsonl\n    type: alpaca\n  - path: b.jsonl\n    split: train\n"
                         "    roles: {assistant: [gpt]}\n  - c.jsonl\n");
    assert_int_equal(s.data.count, 3);
    assert_string_equal(s.data.text[1], "b.jsonl");
    s = good("base_model: m\nchat_template: llama3\n"); /* a name of axolotl's */
    assert_false(s.given[RT_SETTING_ID_chat_template]);
    s = good("base_model: m\nchat_template: my.jinja\n");
    assert_string_equal(s.chat_template, "my.jinja");
    s = good("dataset_train_split: train_sft\ndataset_name: org/chats\ndataset_test_split: test_sft\n");
    assert_string_equal(s.data.text[0], "org/chats:train_sft");
    assert_string_equal(s.eval_data.text[0], "org/chats:test_sft");
    s = good("dataset_name: a.jsonl\ndataset_test_split: test\ndataset_text_field: body\n");
    assert_int_equal(s.eval_data.count, 0);
    assert_string_equal(s.columns, "text=body");
    bad("dataset_name: a.jsonl\ndataset_train_split: other\n", RT_INVALID, "run.yaml:2: |PATH:SPLIT");
    bad("datasets:\n  - path: a\n    type: {field: x}\n", RT_INVALID, "run.yaml:3: |a type that is a map");
    bad("datasets:\n  - type: alpaca\n", RT_INVALID, "'datasets' names no path");
    bad("datasets: {path: a}\n", RT_INVALID, "'datasets' holds a map");
    bad("dataset: a#500\n", RT_INVALID, "'a#500'|cut the file");
    bad("dataset_name: org/a\ndataset_train_split: train[:10%]\n", RT_INVALID, "run.yaml:2: |train[:10%]|cut the file");
}

/* Nothing in an entry is passed over: a part of the data or columns, told, or refused. */
static void test_dataset_names(void **state)
{
    (void)state;
    rt_settings s = good("datasets:\n  - path: org/a\n    split: test\n");
    assert_string_equal(s.data.text[0], "org/a:test");
    s = good("datasets:\n  - path: json\n    data_files: [a.jsonl, b.jsonl]\n");
    assert_int_equal(s.data.count, 2);
    s = good("datasets:\n  - path: a.jsonl\n    field_messages: dialog\n    message_property_mappings:\n"
             "      role: speaker\n      content: value\n"
             "test_datasets:\n  - path: b.jsonl\n    field_messages: dialog\n    message_field_role: speaker\n");
    assert_string_equal(s.columns, "messages=dialog,role=speaker");
    s = good("datasets:\n  - path: a.jsonl\n    field_messages: conversations\n    message_field_content: says\n");
    assert_string_equal(s.columns, "messages=conversations,content=says");
    mapped("datasets:\n  - path: a.jsonl\n    field_messages: conversations\n    message_field_role: from\n"
           "    message_field_content: value\n    roles_to_train: [assistant, gpt]\n    train_on_eos: turn\n"
           "    ds_type: json\n    train_on_eot:\n    shards: 0\n",
           "datasets: field_messages, message_field_role, message_field_content, roles_to_train, train_on_eos have "
           "no effect: it is so here\n"
           "datasets: ds_type has no effect: the name of a file says its format\n"
           "datasets: shards has no effect: it asks for nothing\n"
           "datasets -> --data a.jsonl");
    bad("datasets:\n  - path: a\n    roles_to_train: [user]\n", RT_INVALID,
        "run.yaml:3: |roles_to_train user, which trains other turns|--loss-on all");
    bad("datasets:\n  - path: a\n    roles_to_train: [assistant, user]\n", RT_INVALID,
        "run.yaml:3: |roles_to_train user");
    bad("datasets:\n  - path: a\n    roles_to_train: []\n", RT_INVALID, "run.yaml:3: |roles_to_train []");
    bad("test_datasets:\n  - path: a\n    train_on_eos: all\n", RT_INVALID, "run.yaml:3: |train_on_eos all");
    bad("datasets:\n  - path: a\n    shards: 4\n", RT_INVALID, "run.yaml:3: |shards 4|cut the file");
    bad("datasets:\n  - path: a\n    split: train[:10%]\n", RT_INVALID, "run.yaml:3: |train[:10%]|cut the file");
    bad("datasets:\n  - path: a.jsonl\n    split: test\n", RT_INVALID, "run.yaml:3: |a file has no splits");
    bad("datasets:\n  - path: a\n    data_files: x.jsonl\n", RT_INVALID, "run.yaml:3: |give the files as path");
    bad("datasets:\n  - path: a\n    field_messages: x\n  - path: b\n", RT_INVALID, "run.yaml:4: |holds for all data");
    bad("datasets:\n  - path: a\n    message_property_mappings: {name: who}\n", RT_INVALID,
        "run.yaml:3: |maps name to who");
    bad("datasets:\n  - path: a\n    path: b\n", RT_INVALID, "run.yaml:3: |path b, which is said twice");
    bad("datasets:\n  - path: a\n    unheard_of: {x: [1, {y: 2}]}\n", RT_INVALID, "run.yaml:3: |'unheard_of'");
}

/* ---- words of a command line ---- */

static int parse_words(rt_settings *s, rt_err *e, uint32_t count, const rt_setting_word *words)
{
    *s = (rt_settings){ 0 };
    *e = (rt_err){ 0 };
    return rt_settings_from_words(s, words, count, &arena, &used, e);
}

static void test_words(void **state)
{
    (void)state;
    static const char *const rate[] = { "1e-4" }, *const parts[] = { "q_proj", "v_proj" };
    rt_settings s;
    rt_err e;
    const rt_setting_word good_words[] = { { "--learning_rate", rate, 1 },
                                           { "--lora_target_modules", parts, 2 },
                                           { "--use_peft", NULL, 0 } };
    assert_int_equal(parse_words(&s, &e, 3, good_words), RT_OK);
    assert_true(s.lr == 1e-4 && s.lora);
    assert_string_equal(s.lora_targets, "q,v");
    assert_string_equal(used.items[0].text, "--learning_rate -> --lr 1e-4");
    const rt_setting_word both[] = { { "--lr", rate, 1 }, { "--learning-rate", rate, 1 } };
    assert_int_equal(parse_words(&s, &e, 2, both), RT_USAGE);
    assert_string_equal(e.text, "'--learning-rate' and '--lr' both say --lr; leave one out");
    const rt_setting_word bare[] = { { "--output_dir", NULL, 0 } };
    assert_int_equal(parse_words(&s, &e, 1, bare), RT_USAGE);
    assert_string_equal(e.text, "--output_dir needs a value");
    const rt_setting_word many[] = { { "--learning_rate", parts, 2 } };
    assert_int_equal(parse_words(&s, &e, 1, many), RT_USAGE);
}

static void test_schedules(void **state)
{
    (void)state;
    rt_settings s = good("lr_scheduler_type: linear\nlr_floor: 0.2\n");
    assert_true(s.lr_floor == 0.2);
    s = good("lr_scheduler_type: constant\n");
    assert_true(s.warmup.value == 0);
    assert_false(s.given[RT_SETTING_ID_lr_floor]);
    s = good("lr_scheduler_type: constant\nwarmup_steps: 0\n");
    assert_string_equal(s.schedule, "constant");
    s = good("lr_scheduler_type: constant_with_warmup\nwarmup_steps: 7\n");
    assert_string_equal(s.schedule, "constant");
    assert_true(s.warmup.value == 7 && !s.warmup.percent);
    s = good("lr_scheduler_type: cosine_with_min_lr\nmin_lr_rate: 0.3\n");
    assert_string_equal(s.schedule, "cosine");
    assert_true(s.lr_floor == 0.3);
    s = good("lr_scheduler_type: warmup_stable_decay\nnum_decay_steps: 50\n");
    assert_string_equal(s.schedule, "wsd");
    assert_true(s.decay.value == 50 && !s.decay.percent);
    assert_true(s.given[RT_SETTING_ID_lr_floor] && s.lr_floor == 0.0);
    bad("warmup_ratio: 0.1\nlr_scheduler_type: constant\n", RT_INVALID,
        "run.yaml:2: |warmup_ratio|line 1|constant_with_warmup");
    bad("lr_scheduler_type: cosine_with_min_lr\n", RT_INVALID, "run.yaml:1: |min_lr_rate");
    bad("lr_scheduler_type: polynomial\n", RT_INVALID, "run.yaml:1: |'polynomial'|cosine");
    bad("lr_scheduler_type: cosine\nschedule: wsd\n", RT_INVALID, "run.yaml:1: |'schedule'|line 2");
}

/* Under their name and, since axolotl's is ours, under our own. */
static void test_optimizers(void **state)
{
    static const struct {
        const char *theirs, *ours, *note;
    } of[] = { { "adamw", "adamw", NULL },
               { "adamw-bf16", "adamw-bf16", NULL },
               { "adamw_torch", "adamw", "moments in f32" },
               { "adamw_torch_fused", "adamw", "moments in f32" },
               { "paged_adamw_32bit", "adamw", "nothing is paged" },
               { "adamw_8bit", "adamw-8bit", "blocks of 128" },
               { "adamw_bnb_8bit", "adamw-8bit", "blocks of 128" },
               { "paged_adamw_8bit", "adamw-8bit", "nothing is paged" },
               { "adamw_torch_4bit", "adamw-8bit", "assumed" } };
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (int own = 0; own < 2; own++) {
            char text[80];
            snprintf(text, sizeof text, "%s: %s\n", own ? "optimizer" : "optim", of[i].theirs);
            rt_settings s = good(text);
            assert_string_equal(s.optimizer, of[i].ours);
            assert_int_equal(used.count, of[i].note != NULL);
            if (of[i].note) assert_non_null(strstr(used.items[0].text, of[i].note));
        }
    rt_settings s = good("optimizer: sgd\n"); /* refused when the run is made, as any word of ours */
    assert_string_equal(s.optimizer, "sgd");
    bad("optim: adafactor\n", RT_INVALID, "run.yaml:1: |'adafactor'|adamw-8bit");
    bad("optim: adamw_torch\noptimizer: adamw\n", RT_INVALID, "'optimizer'");
}

static void test_refused_aliases(void **state)
{
    (void)state;
    rt_settings s = good("teacher: t\nkd_trainer: true\nkd_alpha: 0.7\nkd_temperature: 2\nplugins: [a.b]\n"
                         "loss_watchdog_threshold: 5\nchat_template_path: x.jinja\neos_token: <e>\nloss_type: nll\n"
                         "peft_config: {r: 4, lora_alpha: 8}\n");
    assert_true(s.kd_weight == 0.7 && s.ce_weight == 0 && s.temperature == 2 && s.lora_rank == 4);
    assert_string_equal(s.chat_template, "x.jinja");
    bad("loss_type: dft\n", RT_INVALID, "'loss_type' dft is another loss");
    bad("dataset_mixer: {a: 0.5}\n", RT_INVALID, "PATH,weight=0.5");
    bad("dataset_config: en\n", RT_INVALID, "names a configuration");
    bad("eot_token: a\n", RT_INVALID, "run.yaml:1: |eos_token?"); /* a letter of it */
    bad("dataset_banana: 1\n", RT_INVALID, "not a setting; --help lists ours, docs/other-tools.md");
    bad("lmbda: 0.5\n", RT_INVALID, "run.yaml:1: |'lmbda'|not built|set it to 0");
    bad("seq_kd: true\nlmbda: 0\n", RT_INVALID, "run.yaml:1: |'seq_kd'|not built");
    bad("optim: sgd\n", RT_INVALID, "'sgd'|AdamW");
    bad("gradient_accumulation_steps: 4\n", RT_INVALID, "per_device_train_batch_size|both");
    bad("per_device_train_batch_size: 0\ngradient_accumulation_steps: 4\n", RT_INVALID, "run.yaml:1: |'0'");
    bad("per_device_train_batch_size: 4\ngradient_accumulation_steps: x\n", RT_INVALID, "run.yaml:2: |'x'");
    bad("per_device_train_batch_size: 10000000000\ngradient_accumulation_steps: 10000000000\n", RT_INVALID,
        "too large");
    bad("per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\nbatch: 8\n", RT_INVALID, "--batch");
    bad("warmup_ratio: 3\n", RT_INVALID, "'warmup_ratio'|0 to 1");
    bad("warmup_steps: 2.5\n", RT_INVALID, "'warmup_steps'|'2.5'");
    bad("save_steps: -1\n", RT_INVALID, "'save_steps'|steps");
    bad("eval_steps: never\n", RT_INVALID, "'eval_steps'|number");
    bad("gradient_checkpointing: some\n", RT_INVALID, "true or false|'some'");
    bad("train_on_inputs: false\ncompletion_only_loss: true\n", RT_INVALID, "run.yaml:2: |--loss-on");
    bad("target_modules: [q_proj, lm_head]\n", RT_INVALID, "'lm_head'|q_proj");
    bad("adam_beta1: x\n", RT_INVALID, "'adam_beta1'|number");
    bad("adam_beta1: 0.9\nbetas: 0.9,0.95\n", RT_INVALID, "--betas");
    bad("max_steps: 1.5\n", RT_INVALID, "run.yaml:1: |--steps");
}

/* Every alias does something, and none hides a name of ours. */
static void test_every_alias(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (const char *name; (name = rt_settings_alias_name(n)); n++) {
        static const char *const tries[] = { "4",
                                             "0.5",
                                             "true",
                                             "0",
                                             "cosine",
                                             "q_proj",
                                             "adamw_torch",
                                             "lora",
                                             "sft",
                                             "gkd",
                                             "train",
                                             "main",
                                             "[{path: a}]",
                                             "CAUSAL_LM",
                                             "none",
                                             "epoch",
                                             "{min_lr_rate: 0.1}",
                                             "nll",
                                             "default",
                                             "concat" };
        static const char *const more[] = { "", "per_device_train_batch_size: 1\nlr: 8\n" };
        bool any = false;
        assert_int_equal(rt_setting_find(name), RT_SETTING_COUNT_ALL);
        for (size_t i = 0; i < sizeof tries / sizeof *tries * 2 && !any; i++) {
            char text[300];
            rt_settings s;
            rt_err e;
            snprintf(text, sizeof text, "%s: %s\n%s%s", name, tries[i / 2], more[i % 2],
                     strcmp(name, "lmbda") == 0 ? "" : "lmbda: 0\n");
            any = parse(text, &s, &e) == RT_OK && used.count >= 1;
        }
        if (!any) fail_msg("%s takes nothing", name);
    }
    assert_true(n >= 150 && n < RT_SETTINGS_NOTES);
}

/* ---- writing ---- */

static void round_trip(const rt_settings *a)
{
    rt_settings b = { 0 };
    rt_str text = { 0 }, diff = { 0 }, again = { 0 };
    rt_err e = { 0 };
    if (rt_settings_to_yaml(a, &text, &e) < 0) fail_msg("%s", e.text);
    if (rt_settings_from_yaml(&b, text.data ? text.data : "", text.len, "w", &arena, &used, &e) < 0)
        fail_msg("%s in\n%s", e.text, text.data);
    rt_settings_diff(a, &b, RT_BIND_FREE, &diff);
    if (diff.len) fail_msg("%s\n%s", diff.data, text.data);
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++)
        if (a->given[i] != b.given[i]) fail_msg("%s\n%s", rt_setting_table[i].field, text.data);
    assert_int_equal(used.count, 0);
    assert_int_equal(rt_settings_to_yaml(&b, &again, &e), RT_OK);
    assert_int_equal(text.len, again.len);
    if (text.len) assert_memory_equal(text.data, again.data, text.len);
    rt_str_free(&text);
    rt_str_free(&diff);
    rt_str_free(&again);
}

static uint64_t seed;
static uint64_t any_bits(void)
{
    rt_rng4 r = rt_philox(11, 0, seed++);
    return (uint64_t)r.v[0] << 32 | r.v[1];
}
static uint64_t draw(uint64_t n) { return any_bits() % n; }

/* Text that has everything that could be taken for YAML. */
static const char *any_text(void)
{
    static const char *const parts[] = { "a",
                                         "B7",
                                         " ",
                                         "\t",
                                         "\n",
                                         "\"",
                                         "'",
                                         "\\",
                                         "#",
                                         ": ",
                                         "- ",
                                         "%",
                                         ",",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         "&",
                                         "*",
                                         "!",
                                         "|",
                                         ">",
                                         "@",
                                         "`",
                                         "true",
                                         "on",
                                         "~",
                                         "null",
                                         "1e5",
                                         "0x1f",
                                         "...",
                                         "---",
                                         "?",
                                         "\x01",
                                         "\x7f",
                                         "\xc2\x85",
                                         "\xc3\xa9",
                                         "\xe2\x80\xa8",
                                         "\xef\xbb\xbf",
                                         "\xef\xbf\xbe",
                                         "\xf0\x9f\x98\x80",
                                         "=",
                                         "<<",
                                         "..",
                                         "/" };
    rt_str s = { 0 };
    uint64_t n = draw(6);
    for (uint64_t i = 0; i < n; i++) rt_str_append(&s, parts[draw(sizeof parts / sizeof *parts)]);
    const char *copy = rt_arena_strdup(&arena, s.data ? s.data : "");
    rt_str_free(&s);
    return copy;
}

static const char *any_number(bool whole)
{
    uint64_t bits = any_bits();
    if (whole) return rt_arena_printf(&arena, "%llu", (unsigned long long)(bits >> draw(64)));
    double v;
    memcpy(&v, &bits, sizeof v);
    if (!(v - v == 0)) v = 0.1; /* infinite, or not a number */
    return rt_arena_printf(&arena, "%.17g", draw(2) ? v : (double)draw(1000) / 1000);
}

static const char *any_share(void)
{
    if (draw(2)) return rt_arena_printf(&arena, "%u", (unsigned)draw(1u << 31));
    return rt_arena_printf(&arena, "%.*g%%", (int)draw(17) + 1, (double)any_bits() / 18446744073709551616.0 * 99);
}

static void test_round_trips(void **state)
{
    (void)state;
    rt_err e = { 0 };
    for (int t = 0; t < 2000; t++) {
        rt_settings s = { 0 };
        for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
            rt_setting_kind k = rt_setting_table[i].kind;
            const char *metavar = rt_setting_table[i].metavar;
            if (draw(4)) continue;
            for (uint64_t n = rt_setting_repeats(k) ? 1 + draw(4) : 1; n; n--) {
                const char *text = k == RT_SETTING_SWITCH                          ? (draw(2) ? "on" : "off")
                                   : k == RT_SETTING_REAL || k == RT_SETTING_COUNT ? any_number(k == RT_SETTING_COUNT)
                                   : k == RT_SETTING_SHARE                         ? any_share()
                                   : rt_setting_stands_alone(metavar)              ? (draw(2) ? "on" : "off")
                                                                                   : any_text();
                if (rt_settings_set(&s, (rt_setting_id)i, text, &e) < 0) fail_msg("%s", e.text);
            }
        }
        round_trip(&s);
    }
    rt_settings none = { 0 };
    round_trip(&none);
}

static void test_defaults_are_written(void **state)
{
    (void)state;
    rt_settings s = { 0 };
    rt_str text = { 0 };
    rt_err e = { 0 };
    assert_int_equal(rt_settings_defaults(&s, &e), RT_OK);
    rt_settings_set(&s, RT_SETTING_ID_lr, "5e-5", &e);
    rt_settings_set(&s, RT_SETTING_ID_data, "a.jsonl", &e);
    rt_settings_set(&s, RT_SETTING_ID_data, "b c", &e);
    round_trip(&s);
    assert_int_equal(rt_settings_to_yaml(&s, &text, &e), RT_OK);
    static const char *const lines[] = {
        "# ---- models, data, output ----\ndata:  # Training data",
        "\n  - a.jsonl\n  - \"b c\"\n",
        "\n\n# ---- loss ----\ndivergence: forward-kl  # ",
        "\nt2: \"on\"  # ",
        "\nlr: 5.0e-05  # Peak learning rate (by the distance from the teacher and the width)\n",
        "\nbetas: 0.9,0.95  # AdamW beta1 and beta2\n",
        "\neps: 1.0e-08  # ",
        "\nsave_every: 10%  # "
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text.data, lines[i])) fail_msg("'%s' is not in\n%s", lines[i], text.data);
    rt_str_free(&text);
}

static void test_not_utf8_is_not_written(void **state)
{
    (void)state;
    static const char *const texts[] = { "a\xff", "\xc3", "\xed\xa0\x80", "\xc0\x80" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        rt_settings s = { 0 };
        rt_str text = { 0 };
        rt_err e = { 0 };
        rt_settings_set(&s, RT_SETTING_ID_out, texts[i], &e);
        assert_int_equal(rt_settings_to_yaml(&s, &text, &e), RT_INVALID);
        assert_says(&e, "--out|UTF-8");
        rt_str_free(&text);
    }
}

/* ---- the command line over the file ---- */

static void test_overlay(void **state)
{
    (void)state;
    rt_settings base =
        good("lr: 1\nepochs: 3\nkd_weight: 0.5\nce_weight: 0.5\nheld_out: 5%\ndata: [a, b]\nlora: true\n");
    rt_settings over = good("steps: 10\nalpha: 0.2\neval_data: v\ndata: c\nlora: false\nseed: 4\n");
    rt_settings_overlay(&base, &over);
    assert_true(base.lr == 1.0 && base.steps == 10 && base.alpha == 0.2 && base.seed == 4 && !base.lora);
    assert_true(!base.given[RT_SETTING_ID_epochs] && !base.given[RT_SETTING_ID_kd_weight]);
    assert_true(!base.given[RT_SETTING_ID_ce_weight] && !base.given[RT_SETTING_ID_held_out]);
    assert_true(base.data.count == 1 && base.given[RT_SETTING_ID_lora] && base.given[RT_SETTING_ID_steps]);
    /* a rate and a class of rates stand for one another */
    over = good("lr_class: far\n");
    rt_settings_overlay(&base, &over);
    assert_true(!base.given[RT_SETTING_ID_lr] && base.given[RT_SETTING_ID_lr_class]);
    over = good("lr: 2\n");
    rt_settings_overlay(&base, &over);
    assert_true(base.lr == 2.0 && !base.given[RT_SETTING_ID_lr_class]);
    over = good("held_out: 1%\n");
    rt_settings_overlay(&base, &over);
    assert_true(base.eval_data.count == 0 && !base.given[RT_SETTING_ID_eval_data]);
    over = good("");
    rt_settings before = base;
    rt_settings_overlay(&base, &over);
    assert_memory_equal(&before, &base, sizeof base);
}

static void test_files(void **state)
{
    (void)state;
    rt_settings s = { 0 };
    rt_err e = { 0 };
    put_text("run.yaml", "lr: 2e-4\n");
    put_text("bad.yaml", "\nlrr: 2e-4\n");
    assert_int_equal(rt_settings_from_yaml_file(&s, in_dir("run.yaml"), &arena, &used, &e), RT_OK);
    assert_true(s.lr == 2e-4);
    assert_int_equal(rt_settings_from_yaml_file(&s, in_dir("bad.yaml"), &arena, &used, &e), RT_INVALID);
    assert_says(&e, "/bad.yaml:2: |'lrr'");
    assert_int_equal(rt_settings_from_yaml_file(&s, in_dir("none.yaml"), &arena, &used, &e), RT_NOT_FOUND);
    assert_says(&e, "none.yaml");
}

/* ---- out of memory ---- */

static int read_yaml(void *ctx, rt_err *e)
{
    rt_settings s = { 0 };
    rt_arena a = { 0 };
    rt_settings_notes u;
    int rc = rt_settings_from_yaml(&s, ctx, strlen(ctx), "run.yaml", &a, &u, e);
    rt_arena_free(&a);
    return rc;
}

static int write_yaml(void *ctx, rt_err *e)
{
    rt_str text = { 0 };
    int rc = rt_settings_to_yaml(ctx, &text, e);
    rt_str_free(&text);
    return rc;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    static char text[4000];
    rt_settings s = good("data: [a, 'b\tc']\nlr: 1e-4\nlora: true\nbatch: 4\nout: x\n");
    snprintf(text, sizeof text,
             "data: [a, b]\nlearning_rate: 1e-4\nper_device_train_batch_size: 4\ngradient_accumulation_steps: 2\n"
             "adam_beta1: 0.9\nwarmup_ratio: 0.1\nlora_r: 4\ntarget_modules: [q_proj, k_proj]\nbf16: true\n"
             "lr_scheduler_type: cosine\nout: %.3000s\n",
             "a long name, so that the arena needs another block "
             "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789");
    rt_arena_free(&arena);
    fail_each(read_yaml, text, 0);
    s.data.count = 0;
    s.out = "x y";
    fail_each(write_yaml, &s, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_values, drop_arena),
        cmocka_unit_test_teardown(test_one_value_is_a_list_of_one, drop_arena),
        cmocka_unit_test_teardown(test_nothing, drop_arena),
        cmocka_unit_test_teardown(test_over_what_is_there, drop_arena),
        cmocka_unit_test_teardown(test_refused_names, drop_arena),
        cmocka_unit_test_teardown(test_refused_values, drop_arena),
        cmocka_unit_test_teardown(test_not_yaml, drop_arena),
        cmocka_unit_test_teardown(test_aliases, drop_arena),
        cmocka_unit_test_teardown(test_mapping_is_told, drop_arena),
        cmocka_unit_test_teardown(test_trainers, drop_arena),
        cmocka_unit_test_teardown(test_all_faults, drop_arena),
        cmocka_unit_test_teardown(test_datasets, drop_arena),
        cmocka_unit_test_teardown(test_dataset_names, drop_arena),
        cmocka_unit_test_teardown(test_words, drop_arena),
        cmocka_unit_test_teardown(test_schedules, drop_arena),
        cmocka_unit_test_teardown(test_optimizers, drop_arena),
        cmocka_unit_test_teardown(test_refused_aliases, drop_arena),
        cmocka_unit_test_teardown(test_every_alias, drop_arena),
        cmocka_unit_test_teardown(test_round_trips, drop_arena),
        cmocka_unit_test_teardown(test_defaults_are_written, drop_arena),
        cmocka_unit_test_teardown(test_not_utf8_is_not_written, drop_arena),
        cmocka_unit_test_teardown(test_overlay, drop_arena),
        cmocka_unit_test_setup_teardown(test_files, make_test_dir, remove_test_dir),
        cmocka_unit_test_teardown(test_out_of_memory, drop_arena),
    };
    return cmocka_run_group_tests(tests, NULL, drop_arena);
}
