/* aliases.h - the names that files and command lines of TRL, transformers, PEFT, axolotl, LLaMA-Factory and ms-swift
 * have, and what each is here.
 *
 * Owns: the table. Its rules are settings_alias.c's; docs/other-tools.md is made from it by tools/alias_table.py. */
#ifndef RT_SETTINGS_ALIASES_H
#define RT_SETTINGS_ALIASES_H

/* Whose name it is, where that says how the file is to be read; of two the later one decides. */
#define RT_ALIAS_TOOLS(X)                                                                                              \
    X(ANY, "a Hugging Face file")                                                                                      \
    X(GKD, "a TRL GKD file")                                                                                           \
    X(DISTILLATION, "a TRL Distillation file")                                                                         \
    X(FACTORY, "a LLaMA-Factory file")                                                                                 \
    X(AXOLOTL, "an axolotl file")                                                                                      \
    X(SWIFT, "an ms-swift file")

#define RT_ONE_DEVICE "a run is on one device"
#define RT_PRECISION "the device has its own precision; save_dtype is what is written"
#define RT_SAMPLING "no text is sampled while training"
#define RT_STORED "the student's matrices stay as they are stored; name a quantised model for less memory"
#define RT_PACKED                                                                                                      \
    "rows are always packed, and documents do not see one another; a batch counts rows, each of several records"
#define RT_FUSED "logits of a whole row never exist at once, and attention is fused"
#define RT_LOGGED "every step is in run/metrics.jsonl and in event files for TensorBoard"
#define RT_HUB "nothing is uploaded"
#define RT_READER "text is read and tokenised once, before the run"
#define RT_CODE "models are read without their Python code"
#define RT_TOKENIZER "the tokenizer is the model's own"
#define RT_RECORDS "records are recognised by their fields"
#define RT_TEMPLATE "the model's own chat template is used; --chat-template FILE for another"
#define RT_SAVED "a checkpoint is always whole, in safetensors, and can be resumed"
#define RT_SERVED "is for a teacher on a server, and the teacher is in this process"

/* name, tool, rule, setting, and what the rule needs: of on_off what yes and no mean; of off why only the second text
 * is possible; of no_effect the reason; of one_of the words that are possible and why no other is; of the rest what
 * they do, for the page. The whole table is RT_ALIAS_MAPPED, aliases_idle.h and aliases_refused.h. */
#define RT_ALIAS_MAPPED(X)                                                                                             \
    /* models, data, output */                                                                                         \
    X(model_name_or_path, ANY, same, student, NULL, NULL)                                                              \
    X(base_model, AXOLOTL, same, student, NULL, NULL)                                                                  \
    X(model, ANY, same, student, NULL, NULL)                                                                           \
    X(teacher_model_name_or_path, ANY, same, teacher, NULL, NULL)                                                      \
    X(teacher_model, SWIFT, same, teacher, NULL, NULL)                                                                 \
    X(dataset_name, ANY, same, data, NULL, NULL)                                                                       \
    X(train_file, ANY, same, data, NULL, NULL)                                                                         \
    X(validation_file, ANY, same, eval_data, NULL, NULL)                                                               \
    X(dataset, ANY, names, data, "`--data`, one for each name; `NAME#500` is refused: cut the file", NULL)             \
    X(eval_dataset, FACTORY, names, eval_data, "`--eval-data`, as `dataset`", NULL)                                    \
    X(val_dataset, SWIFT, names, eval_data, "`--eval-data`, as `dataset`", NULL)                                       \
    X(datasets, ANY, datasets, data, "`--data`, the `path` of each entry; the names in it are below", NULL)            \
    X(test_datasets, AXOLOTL, datasets, eval_data, "`--eval-data`, as `datasets`", NULL)                               \
    X(val_set_size, AXOLOTL, held_out, held_out, "`--held-out`; below 1 a share; 0 has no effect", NULL)               \
    X(val_size, FACTORY, held_out, held_out, "`--held-out`; below 1 a share; 0 has no effect", NULL)                   \
    X(split_dataset_ratio, SWIFT, held_out, held_out, "`--held-out`; below 1 a share; 0 has no effect", NULL)          \
    X(output_dir, ANY, same, out, NULL, NULL)                                                                          \
    X(overwrite_output_dir, ANY, no_effect, none, "a run is never overwritten; give another --out, or --resume", NULL) \
    X(resume_from_checkpoint, ANY, off, none, "asks to resume a run: retort distill --resume --out OUT", "false")      \
    X(max_samples, FACTORY, off, none,                                                                                 \
      "takes the first records of the data, and all are trained: cut the file (head -n N), or give PATH,weight=0.1",   \
      "null")                                                                                                          \
    X(chat_template_path, ANY, same, chat_template, NULL, NULL)                                                        \
    X(chat_template_jinja, AXOLOTL, off, none, "is a template; save it as a file and give --chat-template FILE",       \
      "null")                                                                                                          \
    X(peft_config, ANY, inside, none, "the names in it are read as names of the file", NULL)                           \
    X(lora_config, ANY, inside, none, "the names in it are read as names of the file", NULL)                           \
    X(test_split_size, ANY, held_out, held_out, "`--held-out`; below 1 a share; 0 has no effect", NULL)                \
    X(dataset_prepared_path, AXOLOTL, no_effect, none, RT_READER, NULL)                                                \
    X(dataset_processes, AXOLOTL, no_effect, none, RT_READER, NULL)                                                    \
    X(dataset_num_proc, ANY, no_effect, none, RT_READER, NULL)                                                         \
    X(preprocessing_num_workers, FACTORY, no_effect, none, RT_READER, NULL)                                            \
    X(overwrite_cache, FACTORY, no_effect, none, RT_READER, NULL)                                                      \
    X(dataloader_num_workers, ANY, no_effect, none, RT_READER, NULL)                                                   \
    X(dataloader_pin_memory, ANY, no_effect, none, RT_READER, NULL)                                                    \
    X(dataloader_prefetch_factor, ANY, no_effect, none, RT_READER, NULL)                                               \
    X(dataset_text_field, ANY, text_field, columns, "`--columns text=` and the name; `text` has no effect", NULL)      \
    X(dataset_kwargs, ANY, no_effect, none, RT_RECORDS, NULL)                                                          \
    X(dataset_dir, FACTORY, no_effect, none, "data are named by their paths", NULL)                                    \
    X(dataset_train_split, ANY, split, data,                                                                           \
      "`--data PATH:SPLIT`, of the one path that there is; `train` has no "                                            \
      "effect",                                                                                                        \
      "train")                                                                                                         \
    X(dataset_test_split, ANY, split, eval_data,                                                                       \
      "`--eval-data PATH:SPLIT`, of the path that is trained, where it is "                                            \
      "no file",                                                                                                       \
      "")                                                                                                              \
    X(remove_unused_columns, ANY, no_effect, none, RT_RECORDS, NULL)                                                   \
    X(model_type, ANY, no_effect, none, "config.json of the model says what it is", NULL)                              \
    X(tokenizer_type, AXOLOTL, no_effect, none, RT_TOKENIZER, NULL)                                                    \
    X(special_tokens, AXOLOTL, no_effect, none, RT_TOKENIZER, NULL)                                                    \
    X(pad_token, ANY, no_effect, none, "rows are packed; none is padded with a token", NULL)                           \
    X(trust_remote_code, ANY, no_effect, none, RT_CODE, NULL)                                                          \
    X(model_init_kwargs, ANY, no_effect, none, RT_CODE, NULL)                                                          \
    X(teacher_model_init_kwargs, ANY, no_effect, none, RT_CODE, NULL)                                                  \
    X(model_revision, ANY, one_of, none, "main", "names a revision; give the folder of that revision as the model")    \
    X(template, ANY, no_effect, none, RT_TEMPLATE, NULL)                                                               \
    X(strict, AXOLOTL, no_effect, none, "a name that is not known is always refused", NULL)                            \
    X(do_train, ANY, no_effect, none, "the command says what is done", NULL)                                           \
    X(do_eval, ANY, no_effect, none, "a run always evaluates", NULL)                                                   \
    X(stage, FACTORY, one_of, none, "sft pt", "asks for another algorithm than distillation or fine-tuning")           \
    X(rlhf_type, SWIFT, one_of, none, "gkd", "asks for another algorithm than distillation")                           \
    X(rl, AXOLOTL, off, none, "asks for another algorithm than distillation or fine-tuning", "null")                   \
    X(task_type, ANY, one_of, none, "CAUSAL_LM causal_lm", "asks for another kind of model than a language model")     \
    X(plugins, AXOLOTL, no_effect, none, "there are no plugins; " RT_FUSED, NULL)                                      \
    /* the loss: lmbda, beta and temperature are read by the tool (settings_alias.c, recipe) */                        \
    X(lmbda, GKD, off, none,                                                                                           \
      "is the share of text that the student writes itself, and that is not built here: let it write some before "     \
      "(retort generate STUDENT --data PROMPTS --out FILE), give FILE as data, too",                                   \
      "0")                                                                                                             \
    X(seq_kd, GKD, off, none,                                                                                          \
      "is for text that the teacher writes, and that is not built here: let it write some before (retort generate "    \
      "TEACHER --data PROMPTS --out FILE), give FILE as data",                                                         \
      "false")                                                                                                         \
    X(max_new_tokens, ANY, no_effect, none, RT_SAMPLING, NULL)                                                         \
    X(max_completion_length, DISTILLATION, no_effect, none, RT_SAMPLING, NULL)                                         \
    X(num_generations, DISTILLATION, no_effect, none, RT_SAMPLING, NULL)                                               \
    X(top_p, ANY, no_effect, none, RT_SAMPLING, NULL)                                                                  \
    X(top_k, ANY, no_effect, none, RT_SAMPLING, NULL)                                                                  \
    X(use_vllm, ANY, no_effect, none, RT_SAMPLING, NULL)                                                               \
    X(vllm_mode, ANY, no_effect, none, RT_SAMPLING, NULL)                                                              \
    X(vllm_gpu_memory_utilization, ANY, no_effect, none, RT_SAMPLING, NULL)                                            \
    X(loss_top_k, DISTILLATION, off, none, "is for a loss over some tokens, and here it is over all that are shared",  \
      "0")                                                                                                             \
    X(loss_add_tail, DISTILLATION, no_effect, none, "the loss is over the whole vocabulary", NULL)                     \
    X(reverse_kl_top_1_mode, DISTILLATION, no_effect, none, "the loss is over the whole vocabulary", NULL)             \
    X(gkd_logits_topk, SWIFT, off, none, "is for a loss over some tokens, and here it is over all that are shared",    \
      "null")                                                                                                          \
    X(use_teacher_server, DISTILLATION, off, none, RT_SERVED, "false")                                                 \
    X(teacher_model_server, SWIFT, off, none, RT_SERVED, "null")                                                       \
    X(sft_alpha, SWIFT, sft_alpha, none, "`--kd-weight 1 --ce-weight` of that value", NULL)                            \
    X(kd_alpha, AXOLOTL, kd_alpha, kd_weight, "`--kd-weight`; without `kd_ce_alpha` also `--ce-weight 0`", NULL)       \
    X(kd_ce_alpha, AXOLOTL, same, ce_weight, NULL, NULL)                                                               \
    X(kd_temperature, AXOLOTL, same, temperature, NULL, NULL)                                                          \
    X(freeze_parameters, SWIFT, off, none, "names the beginnings of parameters; say --freeze 'NAME*'", "null")         \
    X(disable_gradient_checkpointing, FACTORY, on_off, recompute, "none", "block")                                     \
    X(model_max_length, FACTORY, same, seq_len, NULL, NULL)                                                            \
    X(packing_length, SWIFT, same, seq_len, NULL, NULL)                                                                \
    X(disable_dropout, ANY, no_effect, none, "there is no dropout but that of adapters, `lora_dropout`", NULL)         \
    X(assistant_only_loss, ANY, only_loss, loss_on, "`--loss-on turns`; false: `all`, unless the next one is true",    \
      NULL)                                                                                                            \
    X(completion_only_loss, ANY, only_loss, loss_on, "as `assistant_only_loss`", NULL)                                 \
    X(train_on_inputs, AXOLOTL, on_off, loss_on, "all", "turns")                                                       \
    X(train_on_prompt, FACTORY, on_off, loss_on, "all", "turns")                                                       \
    X(label_smoothing_factor, ANY, off, none, "is not built", "0")                                                     \
    X(neftune_noise_alpha, ANY, off, none, "is not built: embeddings have no noise", "null")                           \
    /* optimizer and schedule */                                                                                       \
    X(learning_rate, ANY, rate, lr, "`--lr`", NULL)                                                                    \
    X(lr_scheduler_type, ANY, scheduler, schedule, "`--schedule`, as below", NULL)                                     \
    X(lr_scheduler, AXOLOTL, scheduler, schedule, "`--schedule`, as below", NULL)                                      \
    X(lr_scheduler_kwargs, ANY, inside, none, "the names in it are read as names of the file", NULL)                   \
    X(min_lr_rate, ANY, same, lr_floor, NULL, NULL)                                                                    \
    X(min_lr, ANY, least_rate, lr_floor, "`--lr-floor`, its share of `learning_rate`, which has to be given", NULL)    \
    X(num_cycles, ANY, one_of, none, "0.5", "is another cosine, and that is not built")                                \
    X(num_stable_steps, ANY, no_effect, none, "what lies between --warmup and --decay has the full rate", NULL)        \
    X(cosine_min_lr_ratio, AXOLOTL, same, lr_floor, NULL, NULL)                                                        \
    X(num_decay_steps, ANY, same, decay, NULL, NULL)                                                                   \
    X(warmup_ratio, ANY, warmup, warmup, "`--warmup`, unless `warmup_steps` is above 0", NULL)                         \
    X(warmup_steps, ANY, warmup, warmup, "`--warmup`; below 1 a share", NULL)                                          \
    X(optim, ANY, optimizer, optimizer, "`--optimizer`, whose value takes their words too: as below", NULL)            \
    X(adam_beta1, ANY, adam_betas, betas, "`--betas`; one that is missing is transformers' (0.9, 0.999)", NULL)        \
    X(adam_beta2, ANY, adam_betas, betas, "`--betas`, with `adam_beta1`", NULL)                                        \
    X(adam_epsilon, ANY, same, eps, NULL, NULL)                                                                        \
    X(loraplus_lr_ratio, ANY, off, none, "is not built: adapters have one rate", "null")                               \
    /* batch and length */                                                                                             \
    X(batch_size, ANY, same, batch, NULL, NULL)                                                                        \
    X(per_device_train_batch_size, ANY, batch, none,                                                                   \
      "`--micro-batch`, and times `gradient_accumulation_steps` (1 where it is missing) `--batch`: one device", NULL)  \
    X(micro_batch_size, AXOLOTL, batch, none, "as `per_device_train_batch_size`", NULL)                                \
    X(gradient_accumulation_steps, ANY, batch, none, "`--batch`, with the above; alone it is refused", NULL)           \
    X(per_gpu_train_batch_size, ANY, off, none, "is per_device_train_batch_size by an old name; say that", "null")     \
    X(per_device_eval_batch_size, ANY, no_effect, none, "evaluation has the rows of --micro-batch", NULL)              \
    X(eval_batch_size, AXOLOTL, no_effect, none, "evaluation has the rows of --micro-batch", NULL)                     \
    X(auto_find_batch_size, ANY, no_effect, none, "--micro-batch is chosen to fit where it is not given", NULL)        \
    X(num_train_epochs, ANY, epochs, epochs, "`--epochs`, unless `max_steps` is given", NULL)                          \
    X(num_epochs, AXOLOTL, epochs, epochs, "`--epochs`, unless `max_steps` is given", NULL)                            \
    X(max_steps, ANY, most_steps, steps, "`--steps`; 0 or less is off", NULL)                                          \
    X(max_length, ANY, same, seq_len, NULL, NULL)                                                                      \
    X(max_seq_length, ANY, same, seq_len, NULL, NULL)                                                                  \
    X(max_seq_len, ANY, same, seq_len, NULL, NULL)                                                                     \
    X(sequence_len, AXOLOTL, same, seq_len, NULL, NULL)                                                                \
    X(cutoff_len, FACTORY, same, seq_len, NULL, NULL)                                                                  \
    X(packing, ANY, no_effect, none, RT_PACKED, NULL)                                                                  \
    X(eval_packing, ANY, no_effect, none, RT_PACKED, NULL)                                                             \
    X(packing_strategy, ANY, no_effect, none, RT_PACKED, NULL)                                                         \
    X(padding_free, ANY, no_effect, none, RT_PACKED, NULL)                                                             \
    X(neat_packing, FACTORY, no_effect, none, RT_PACKED, NULL)                                                         \
    X(sample_packing, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                                       \
    X(eval_sample_packing, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                                  \
    X(pad_to_sequence_len, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                                  \
    X(group_by_length, ANY, no_effect, none, RT_PACKED, NULL)                                                          \
    /* what is trained */                                                                                              \
    X(use_peft, ANY, on_off, lora, "on", "off")                                                                        \
    X(adapter, AXOLOTL, tuning, lora, "`--lora` for lora and qlora; without a value all parameters", NULL)             \
    X(finetuning_type, FACTORY, tuning, lora, "`--lora` for lora, none for full; others are refused", NULL)            \
    X(train_type, SWIFT, tuning, lora, "`--lora` for lora, none for full; others are refused", NULL)                   \
    X(tuner_type, SWIFT, tuning, lora, "`--lora` for lora, none for full; others are refused", NULL)                   \
    X(lora_r, ANY, same, lora_rank, NULL, NULL)                                                                        \
    X(r, ANY, same, lora_rank, NULL, NULL)                                                                             \
    X(target_modules, ANY, targets, lora_targets, "`--lora-targets`: `q_proj` is `q`, `all-linear` is `all`", NULL)    \
    X(lora_target_modules, ANY, targets, lora_targets, "as `target_modules`", NULL)                                    \
    X(lora_target, FACTORY, targets, lora_targets, "as `target_modules`", NULL)                                        \
    X(lora_target_linear, AXOLOTL, all_targets, lora_targets, "`--lora-targets all`, where it is true", NULL)          \
    X(lora_modules_to_save, AXOLOTL, off, none, "trains whole matrices beside adapters, and that is not built",        \
      "null")                                                                                                          \
    X(modules_to_save, ANY, off, none, "trains whole matrices beside adapters, and that is not built", "null")         \
    X(lora_model_dir, AXOLOTL, off, none,                                                                              \
      "begins with adapters of another run, and that is not built: merge them first", "null")                          \
    X(lora_fan_in_fan_out, AXOLOTL, no_effect, none, "the model's family says how its matrices lie", NULL)             \
    X(unfrozen_parameters, AXOLOTL, off, none, "is --freeze, the other way round", "null")                             \
    X(use_rslora, ANY, off, none, "scales adapters by alpha / sqrt(rank), and here it is alpha / rank", "false")       \
    X(use_dora, ANY, off, none, "is not built", "false")                                                               \
    X(bias, ANY, one_of, none, "none", "trains biases beside adapters, and that is not built")                         \
    X(lora_bias, ANY, one_of, none, "none false", "trains biases beside adapters, and that is not built")              \
    X(load_in_4bit, ANY, no_effect, none, RT_STORED, NULL)                                                             \
    X(load_in_8bit, ANY, no_effect, none, RT_STORED, NULL)                                                             \
    X(quantization_bit, FACTORY, no_effect, none, RT_STORED, NULL)                                                     \
    X(quant_bits, SWIFT, no_effect, none, RT_STORED, NULL)                                                             \
    X(bnb_4bit_quant_type, ANY, no_effect, none, RT_STORED, NULL)                                                      \
    X(bnb_4bit_compute_dtype, ANY, no_effect, none, RT_STORED, NULL)                                                   \
    X(bnb_4bit_use_double_quant, ANY, no_effect, none, RT_STORED, NULL)                                                \
    /* precision, memory, devices */                                                                                   \
    X(bf16, ANY, no_effect, none, RT_PRECISION, NULL)                                                                  \
    X(fp16, ANY, no_effect, none, RT_PRECISION, NULL)                                                                  \
    X(tf32, ANY, no_effect, none, RT_PRECISION, NULL)                                                                  \
    X(torch_dtype, ANY, no_effect, none, RT_PRECISION, NULL)                                                           \
    X(dtype, ANY, no_effect, none, RT_PRECISION, NULL)                                                                 \
    X(gradient_checkpointing, ANY, on_off, recompute, "block", "none")                                                 \
    X(gradient_checkpointing_kwargs, ANY, no_effect, none, "--recompute is all that there is", NULL)                   \
    X(use_cache, ANY, no_effect, none, "training has no cache of keys and values", NULL)                               \
    X(attn_implementation, ANY, no_effect, none, RT_FUSED, NULL)                                                       \
    X(attn_impl, SWIFT, no_effect, none, RT_FUSED, NULL)                                                               \
    X(flash_attention, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                       \
    X(flash_attn, FACTORY, no_effect, none, RT_FUSED, NULL)                                                            \
    X(sdp_attention, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                         \
    X(xformers_attention, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                    \
    X(s2_attention, AXOLOTL, off, none, "shifts attention between groups, and that is not built", "false")             \
    X(use_liger_kernel, ANY, no_effect, none, RT_FUSED, NULL)                                                          \
    X(jit_mode_eval, ANY, no_effect, none, RT_FUSED, NULL)                                                             \
    X(torch_compile, ANY, no_effect, none, RT_FUSED, NULL)                                                             \
    X(deepspeed, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                            \
    X(fsdp, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                                 \
    X(fsdp_config, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                          \
    X(local_rank, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                           \
    X(ddp_timeout, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                          \
    X(ddp_backend, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                          \
    X(ddp_find_unused_parameters, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                           \
    /* evaluation, saving, reports */                                                                                  \
    X(eval_steps, ANY, interval, eval_every, "`--eval-every`; below 1 a share of the run", NULL)                       \
    X(save_steps, ANY, interval, save_every, "`--save-every`; below 1 a share of the run", NULL)                       \
    X(evals_per_epoch, AXOLOTL, per_epoch, eval_every, "`--eval-every`, a share of the epochs", NULL)                  \
    X(saves_per_epoch, AXOLOTL, per_epoch, save_every, "`--save-every`, a share of the epochs", NULL)                  \
    X(eval_strategy, ANY, strategy, eval_every, "`--eval-every` for epoch and no (100%); steps has no effect", NULL)   \
    X(evaluation_strategy, ANY, strategy, eval_every, "as `eval_strategy`", NULL)                                      \
    X(save_strategy, ANY, strategy, save_every, "`--save-every` for epoch and no (100%); steps and best have none",    \
      NULL)                                                                                                            \
    X(save_total_limit, ANY, most_kept, keep, "`--keep`; 0 or less keeps all", NULL)                                   \
    X(load_best_model_at_end, ANY, on_off, save, "best", "last")                                                       \
    X(metric_for_best_model, ANY, no_effect, none, "the best is the one with the lowest held-out KL, or CE", NULL)     \
    X(greater_is_better, ANY, no_effect, none, "the best is the one with the lowest held-out KL, or CE", NULL)         \
    X(early_stopping_patience, ANY, off, none, "counts otherwise: --stop-if-worse N ends a run early", "null")         \
    X(eval_on_start, ANY, no_effect, none, "a run always evaluates at its start", NULL)                                \
    X(eval_table_size, AXOLOTL, no_effect, none, "--sample-prompts shows what the student writes", NULL)               \
    X(eval_max_new_tokens, AXOLOTL, same, sample_tokens, NULL, NULL)                                                   \
    X(save_safetensors, ANY, no_effect, none, RT_SAVED, NULL)                                                          \
    X(save_only_model, ANY, no_effect, none, RT_SAVED, NULL)                                                           \
    X(logging_steps, ANY, no_effect, none, RT_LOGGED, NULL)                                                            \
    X(logging_strategy, ANY, no_effect, none, RT_LOGGED, NULL)                                                         \
    X(logging_dir, ANY, no_effect, none, RT_LOGGED, NULL)                                                              \
    X(logging_first_step, ANY, no_effect, none, RT_LOGGED, NULL)                                                       \
    X(log_level, ANY, no_effect, none, RT_LOGGED, NULL)                                                                \
    X(disable_tqdm, ANY, no_effect, none, RT_LOGGED, NULL)                                                             \
    X(plot_loss, FACTORY, no_effect, none, "run/report.html has the curves", NULL)                                     \
    X(report_to, ANY, no_effect, none, RT_LOGGED, NULL)                                                                \
    X(run_name, ANY, no_effect, none, RT_LOGGED, NULL)                                                                 \
    X(wandb_project, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                        \
    X(wandb_entity, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                         \
    X(wandb_watch, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                          \
    X(wandb_name, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                           \
    X(wandb_log_model, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                      \
    X(debug, ANY, no_effect, none, RT_LOGGED, NULL)                                                                    \
    X(push_to_hub, ANY, no_effect, none, RT_HUB, NULL)                                                                 \
    X(hub_model_id, ANY, no_effect, none, RT_HUB, NULL)                                                                \
    X(hub_strategy, ANY, no_effect, none, RT_HUB, NULL)                                                                \
    X(hub_private_repo, ANY, no_effect, none, RT_HUB, NULL)                                                            \
    X(data_seed, ANY, no_effect, none, "--seed orders the rows", NULL)                                                 \
    X(full_determinism, ANY, no_effect, none, "a run is always repeated to the same bits", NULL)

#endif
