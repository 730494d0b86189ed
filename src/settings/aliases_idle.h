/* aliases_idle.h - the names of other tools that have no effect here, by the reason that is told.
 *
 * Owns: that part of the table of aliases.h. */
#ifndef RT_SETTINGS_ALIASES_IDLE_H
#define RT_SETTINGS_ALIASES_IDLE_H

#include "settings/aliases.h"

#define RT_EVALUATES "a run evaluates KL and CE on held-out text"
#define RT_OF_ANOTHER "it says how, of what is not built here and is refused where it is asked for"

#define RT_ALIAS_IDLE(X)                                                                                               \
    /* data */                                                                                                         \
    X(dataloader_drop_last, ANY, no_effect, none, RT_READER, NULL)                                                     \
    X(dataloader_persistent_workers, ANY, no_effect, none, RT_READER, NULL)                                            \
    X(dataloader_multiprocessing_context, ANY, no_effect, none, RT_READER, NULL)                                       \
    X(dataloader_in_order, ANY, no_effect, none, RT_READER, NULL)                                                      \
    X(skip_prepare_dataset, ANY, no_effect, none, RT_READER, NULL)                                                     \
    X(dataset_streaming, ANY, no_effect, none, RT_READER, NULL)                                                        \
    X(streaming, ANY, no_effect, none, RT_READER, NULL)                                                                \
    X(load_from_cache_file, ANY, no_effect, none, RT_READER, NULL)                                                     \
    X(cache_dir, ANY, no_effect, none, RT_READER, NULL)                                                                \
    X(data_shared_file_system, ANY, no_effect, none, RT_READER, NULL)                                                  \
    X(preprocessing_batch_size, ANY, no_effect, none, RT_READER, NULL)                                                 \
    X(buffer_size, ANY, no_effect, none, RT_READER, NULL)                                                              \
    X(accelerator_config, ANY, no_effect, none, RT_READER, NULL)                                                       \
    X(dataset_keep_in_memory, AXOLOTL, no_effect, none, RT_READER, NULL)                                               \
    X(num_dataset_shards_to_save, AXOLOTL, no_effect, none, RT_READER, NULL)                                           \
    X(preprocess_iterable, AXOLOTL, no_effect, none, RT_READER, NULL)                                                  \
    X(is_preprocess, AXOLOTL, no_effect, none, RT_READER, NULL)                                                        \
    X(pretrain_multipack_buffer_size, AXOLOTL, no_effect, none, RT_READER, NULL)                                       \
    X(streaming_multipack_buffer_size, AXOLOTL, no_effect, none, RT_READER, NULL)                                      \
    X(lazy_tokenize, SWIFT, no_effect, none, RT_READER, NULL)                                                          \
    X(packing_num_proc, SWIFT, no_effect, none, RT_READER, NULL)                                                       \
    X(shuffle_dataset, ANY, no_effect, none, "rows are shuffled by --seed, anew in each pass", NULL)                   \
    X(shuffle_merged_datasets, AXOLOTL, no_effect, none, "rows are shuffled by --seed, anew in each pass", NULL)       \
    X(shuffle_before_merging_datasets, AXOLOTL, no_effect, none, "rows are shuffled by --seed, anew in each pass",     \
      NULL)                                                                                                            \
    X(dataset_shuffle, SWIFT, no_effect, none, "rows are shuffled by --seed, anew in each pass", NULL)                 \
    X(val_dataset_shuffle, SWIFT, no_effect, none, "rows are shuffled by --seed, anew in each pass", NULL)             \
    X(train_dataloader_shuffle, SWIFT, no_effect, none, "rows are shuffled by --seed, anew in each pass", NULL)        \
    X(shuffle_buffer_size, SWIFT, no_effect, none, "rows are shuffled by --seed, anew in each pass", NULL)             \
    X(label_names, ANY, no_effect, none, RT_RECORDS, NULL)                                                             \
    X(length_column_name, ANY, no_effect, none, RT_RECORDS, NULL)                                                      \
    X(disable_auto_column_mapping, SWIFT, no_effect, none, RT_RECORDS, NULL)                                           \
    X(ignore_data_skip, ANY, no_effect, none, "the run resumes at the record where it stopped", NULL)                  \
    X(restore_callback_states_from_checkpoint, ANY, no_effect, none, "the run resumes at the record where it stopped", \
      NULL)                                                                                                            \
    X(truncation_mode, ANY, no_effect, none,                                                                           \
      "of conversations the last turns are left out, and text is cut into rows", NULL)                                 \
    X(truncation_strategy, SWIFT, no_effect, none,                                                                     \
      "of conversations the last turns are left out, and text is cut into rows", NULL)                                 \
    X(max_prompt_len, AXOLOTL, no_effect, none,                                                                        \
      "of conversations the last turns are left out, and text is cut into rows", NULL)                                 \
    X(pad_to_multiple_of, ANY, no_effect, none, RT_PACKED, NULL)                                                       \
    X(train_sampling_strategy, ANY, no_effect, none, RT_PACKED, NULL)                                                  \
    X(padding_side, ANY, no_effect, none, RT_PACKED, NULL)                                                             \
    X(ignore_pad_token_for_loss, ANY, no_effect, none, RT_PACKED, NULL)                                                \
    X(sample_packing_group_size, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                            \
    X(sample_packing_bin_size, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                              \
    X(sample_packing_sequentially, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                          \
    X(sample_packing_mp_start_method, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                       \
    X(sample_packing_eff_est, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                               \
    X(multipack_real_batches, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                               \
    X(batch_flattening, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                                     \
    X(pretrain_multipack_attn, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                              \
    X(pretraining_sample_concatenation, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                     \
    X(eval_sequence_len, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                                    \
    X(total_num_tokens, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                                     \
    X(total_supervised_tokens, AXOLOTL, no_effect, none, RT_PACKED, NULL)                                              \
    X(block_diag_attn, FACTORY, no_effect, none, RT_PACKED, NULL)                                                      \
    /* models and text */                                                                                              \
    X(eos_token, ANY, no_effect, none, RT_TOKENIZER, NULL)                                                             \
    X(bos_token, ANY, no_effect, none, RT_TOKENIZER, NULL)                                                             \
    X(unk_token, ANY, no_effect, none, RT_TOKENIZER, NULL)                                                             \
    X(use_fast_tokenizer, ANY, no_effect, none, RT_TOKENIZER, NULL)                                                    \
    X(tokenizer_name_or_path, ANY, no_effect, none, RT_TOKENIZER, NULL)                                                \
    X(tokenizer_config, AXOLOTL, no_effect, none, RT_TOKENIZER, NULL)                                                  \
    X(tokenizer_use_fast, AXOLOTL, no_effect, none, RT_TOKENIZER, NULL)                                                \
    X(tokenizer_legacy, AXOLOTL, no_effect, none, RT_TOKENIZER, NULL)                                                  \
    X(tokenizer_use_mistral_common, AXOLOTL, no_effect, none, RT_TOKENIZER, NULL)                                      \
    X(tokenizer_save_jinja_files, AXOLOTL, no_effect, none, RT_TOKENIZER, NULL)                                        \
    X(eot_tokens, AXOLOTL, no_effect, none, RT_TOKENIZER, NULL)                                                        \
    X(additional_special_tokens, AXOLOTL, no_effect, none, RT_TOKENIZER, NULL)                                         \
    X(low_cpu_mem_usage, ANY, no_effect, none, RT_CODE, NULL)                                                          \
    X(ignore_bias_buffers, ANY, no_effect, none, RT_CODE, NULL)                                                        \
    X(base_model_config, AXOLOTL, no_effect, none, RT_CODE, NULL)                                                      \
    X(type_of_model, AXOLOTL, no_effect, none, RT_CODE, NULL)                                                          \
    X(overrides_of_model_kwargs, AXOLOTL, no_effect, none, RT_CODE, NULL)                                              \
    X(experimental_skip_move_to_device, AXOLOTL, no_effect, none, RT_CODE, NULL)                                       \
    X(is_falcon_derived_model, AXOLOTL, no_effect, none, RT_CODE, NULL)                                                \
    X(is_llama_derived_model, AXOLOTL, no_effect, none, RT_CODE, NULL)                                                 \
    X(is_mistral_derived_model, AXOLOTL, no_effect, none, RT_CODE, NULL)                                               \
    X(is_qwen_derived_model, AXOLOTL, no_effect, none, RT_CODE, NULL)                                                  \
    X(axolotl_config_path, AXOLOTL, no_effect, none, RT_CODE, NULL)                                                    \
    X(model_kwargs, SWIFT, no_effect, none, RT_CODE, NULL)                                                             \
    X(use_hf, SWIFT, no_effect, none, RT_CODE, NULL)                                                                   \
    X(check_model, SWIFT, no_effect, none, RT_CODE, NULL)                                                              \
    X(external_plugins, SWIFT, no_effect, none, RT_CODE, NULL)                                                         \
    X(custom_register_path, SWIFT, no_effect, none, RT_CODE, NULL)                                                     \
    X(load_args, SWIFT, no_effect, none, RT_CODE, NULL)                                                                \
    X(load_data_args, SWIFT, no_effect, none, RT_CODE, NULL)                                                           \
    X(ignore_args_error, SWIFT, no_effect, none, RT_CODE, NULL)                                                        \
    X(tuner_backend, SWIFT, no_effect, none, RT_CODE, NULL)                                                            \
    X(local_repo_path, SWIFT, no_effect, none, RT_CODE, NULL)                                                          \
    X(template_backend, SWIFT, no_effect, none, RT_TEMPLATE, NULL)                                                     \
    X(use_chat_template, SWIFT, no_effect, none, RT_TEMPLATE, NULL)                                                    \
    X(agent_template, SWIFT, no_effect, none, RT_TEMPLATE, NULL)                                                       \
    X(response_prefix, SWIFT, no_effect, none, RT_TEMPLATE, NULL)                                                      \
    X(add_non_thinking_prefix, SWIFT, no_effect, none, RT_TEMPLATE, NULL)                                              \
    X(tool_format, FACTORY, no_effect, none, RT_TEMPLATE, NULL)                                                        \
    X(enable_thinking, ANY, variable, template_var, "`--template-var enable_thinking=` and the value", NULL)           \
    X(preserve_thinking, FACTORY, no_effect, none, RT_TEMPLATE, NULL)                                                  \
    /* loss and sampling */                                                                                            \
    X(min_p, ANY, no_effect, none, RT_SAMPLING, NULL)                                                                  \
    X(repetition_penalty, ANY, no_effect, none, RT_SAMPLING, NULL)                                                     \
    X(generation_kwargs, ANY, no_effect, none, RT_SAMPLING, NULL)                                                      \
    X(cache_implementation, ANY, no_effect, none, RT_SAMPLING, NULL)                                                   \
    X(ds3_gather_for_generation, ANY, no_effect, none, RT_SAMPLING, NULL)                                              \
    X(do_sample, ANY, no_effect, none, RT_SAMPLING, NULL)                                                              \
    X(num_beams, ANY, no_effect, none, RT_SAMPLING, NULL)                                                              \
    X(length_penalty, ANY, no_effect, none, RT_SAMPLING, NULL)                                                         \
    X(stop_words, ANY, no_effect, none, RT_SAMPLING, NULL)                                                             \
    X(predict_with_generate, ANY, no_effect, none, RT_SAMPLING, NULL)                                                  \
    X(eval_num_beams, ANY, no_effect, none, RT_SAMPLING, NULL)                                                         \
    X(vllm_model_impl, ANY, no_effect, none, RT_SAMPLING, NULL)                                                        \
    X(vllm_enable_sleep_mode, ANY, no_effect, none, RT_SAMPLING, NULL)                                                 \
    X(vllm_structured_outputs_regex, ANY, no_effect, none, RT_SAMPLING, NULL)                                          \
    X(vllm_server_base_url, ANY, no_effect, none, RT_SAMPLING, NULL)                                                   \
    X(vllm_server_host, ANY, no_effect, none, RT_SAMPLING, NULL)                                                       \
    X(vllm_server_port, ANY, no_effect, none, RT_SAMPLING, NULL)                                                       \
    X(vllm_server_timeout, ANY, no_effect, none, RT_SAMPLING, NULL)                                                    \
    X(vllm_group_port, ANY, no_effect, none, RT_SAMPLING, NULL)                                                        \
    X(vllm_max_model_length, ANY, no_effect, none, RT_SAMPLING, NULL)                                                  \
    X(vllm_tensor_parallel_size, ANY, no_effect, none, RT_SAMPLING, NULL)                                              \
    X(max_tool_calling_iterations, ANY, no_effect, none, RT_SAMPLING, NULL)                                            \
    X(log_completions, ANY, no_effect, none, RT_SAMPLING, NULL)                                                        \
    X(num_completions_to_print, ANY, no_effect, none, RT_SAMPLING, NULL)                                               \
    X(log_unique_prompts, ANY, no_effect, none, RT_SAMPLING, NULL)                                                     \
    X(vllm, AXOLOTL, no_effect, none, RT_SAMPLING, NULL)                                                               \
    X(trl, AXOLOTL, no_effect, none, RT_SAMPLING, NULL)                                                                \
    X(kd_top_k_before_softmax, AXOLOTL, no_effect, none, "the loss is over the whole vocabulary", NULL)                \
    X(kd_normalize_topk, AXOLOTL, no_effect, none, "the loss is over the whole vocabulary", NULL)                      \
    X(kd_online_topk, AXOLOTL, no_effect, none, "the loss is over the whole vocabulary", NULL)                         \
    X(kd_online_server, AXOLOTL, no_effect, none, "the teacher is in this process", NULL)                              \
    X(kd_online_timeout, AXOLOTL, no_effect, none, "the teacher is in this process", NULL)                             \
    X(teacher_model_type, SWIFT, no_effect, none, "the teacher is in this process", NULL)                              \
    X(teacher_deepspeed, SWIFT, no_effect, none, "the teacher is in this process", NULL)                               \
    X(offload_teacher_model, SWIFT, no_effect, none, "the teacher is in this process", NULL)                           \
    X(kd_trainer, AXOLOTL, no_effect, none, "--teacher makes a run a distillation", NULL)                              \
    X(loss_watchdog_threshold, AXOLOTL, no_effect, none, "a run stops when its loss is not a number", NULL)            \
    X(loss_watchdog_patience, AXOLOTL, no_effect, none, "a run stops when its loss is not a number", NULL)             \
    /* what is not built, and is refused by its own switch */                                                          \
    X(lisa_step_interval, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                               \
    X(lisa_layers_attribute, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                            \
    X(relora_prune_ratio, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                               \
    X(relora_prune_method, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                              \
    X(relora_cpu_offload, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                               \
    X(eaft_alpha, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                       \
    X(eaft_k, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                           \
    X(pose_split_on_token_ids, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                          \
    X(pose_max_context_len, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                             \
    X(pose_num_chunks, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                  \
    X(scaling_softmax_factor, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                           \
    X(scaling_softmax_bias, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                             \
    X(loraplus_lr_embedding, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                            \
    X(merge_method, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                     \
    X(orpo_alpha, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                       \
    X(simpo_gamma, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                      \
    X(cpo_alpha, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                        \
    X(kto_desirable_weight, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                             \
    X(kto_undesirable_weight, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                           \
    X(rl_beta, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                          \
    X(dpo_beta, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                         \
    X(dpo_use_weighting, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                \
    X(dpo_label_smoothing, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                              \
    X(precompute_ref_log_probs, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                         \
    X(dpo_use_liger_kernel, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                             \
    X(dpo_padding_free, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                 \
    X(dpo_loss_type, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                    \
    X(dpo_loss_weights, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                 \
    X(rpo_alpha, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                        \
    X(dpo_use_logits_to_keep, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                           \
    X(dpo_generate_during_eval, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                         \
    X(dpo_norm_loss, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                    \
    X(center_rewards_coefficient, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                       \
    X(num_labels, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                       \
    X(adam_epsilon2, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                    \
    X(adam_beta3, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                       \
    X(dion_lr, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                          \
    X(dion_momentum, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                    \
    X(dion_rank_fraction, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                               \
    X(dion_rank_multiple_of, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                            \
    X(qgalore_rank, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                     \
    X(qgalore_update_proj_gap, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                          \
    X(qgalore_scale, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                    \
    X(qgalore_proj_type, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                \
    X(qgalore_proj_quant, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                               \
    X(qgalore_proj_bits, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                \
    X(qgalore_proj_group_size, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                          \
    X(qgalore_cos_threshold, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                            \
    X(qgalore_gamma_proj, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                               \
    X(qgalore_queue_size, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                               \
    X(jagged_restart_warmup_steps, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                      \
    X(jagged_restart_anneal_steps, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                      \
    X(lr_div_factor, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                    \
    X(torchdistx_path, AXOLOTL, no_effect, none, RT_OF_ANOTHER, NULL)                                                  \
    X(galore_target, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                    \
    X(galore_rank, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                      \
    X(galore_update_interval, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                           \
    X(galore_scale, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                     \
    X(galore_proj_type, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                 \
    X(galore_layerwise, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                 \
    X(apollo_target, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                    \
    X(apollo_rank, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                      \
    X(apollo_update_interval, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                           \
    X(apollo_scale, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                     \
    X(badam_mode, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                       \
    X(badam_start_block, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                \
    X(badam_switch_mode, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                \
    X(badam_switch_interval, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                            \
    X(badam_update_ratio, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                               \
    X(pissa_iter, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                       \
    X(pissa_convert, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                    \
    X(asft_alpha, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                       \
    X(freeze_trainable_layers, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                          \
    X(freeze_trainable_modules, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                         \
    X(freeze_extra_modules, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                             \
    X(pref_beta, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                        \
    X(pref_ftx, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                         \
    X(pref_loss, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                        \
    X(ppo_epochs, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                       \
    X(ref_model, FACTORY, no_effect, none, RT_OF_ANOTHER, NULL)                                                        \
    X(optim_target_modules, ANY, no_effect, none, RT_OF_ANOTHER, NULL)                                                 \
    /* memory and devices */                                                                                           \
    X(bf16_full_eval, ANY, no_effect, none, RT_PRECISION, NULL)                                                        \
    X(fp16_full_eval, ANY, no_effect, none, RT_PRECISION, NULL)                                                        \
    X(lora_dtype, ANY, no_effect, none, RT_PRECISION, NULL)                                                            \
    X(compute_dtype, ANY, no_effect, none, RT_PRECISION, NULL)                                                         \
    X(upcast_layernorm, ANY, no_effect, none, RT_PRECISION, NULL)                                                      \
    X(upcast_lmhead_output, ANY, no_effect, none, RT_PRECISION, NULL)                                                  \
    X(pure_bf16, ANY, no_effect, none, RT_PRECISION, NULL)                                                             \
    X(infer_dtype, ANY, no_effect, none, RT_PRECISION, NULL)                                                           \
    X(bfloat16, AXOLOTL, no_effect, none, RT_PRECISION, NULL)                                                          \
    X(float16, AXOLOTL, no_effect, none, RT_PRECISION, NULL)                                                           \
    X(float32, AXOLOTL, no_effect, none, RT_PRECISION, NULL)                                                           \
    X(fp8, AXOLOTL, no_effect, none, RT_PRECISION, NULL)                                                               \
    X(fp8_config, AXOLOTL, no_effect, none, RT_PRECISION, NULL)                                                        \
    X(fp8_enable_fsdp_float8_all_gather, AXOLOTL, no_effect, none, RT_PRECISION, NULL)                                 \
    X(fp32_norms, AXOLOTL, no_effect, none, RT_PRECISION, NULL)                                                        \
    X(fp32_norm_classes, AXOLOTL, no_effect, none, RT_PRECISION, NULL)                                                 \
    X(embeddings_skip_upcast, AXOLOTL, no_effect, none, RT_PRECISION, NULL)                                            \
    X(peft_autocast_adapter_dtype, AXOLOTL, no_effect, none, RT_PRECISION, NULL)                                       \
    X(torch_compile_backend, ANY, no_effect, none, RT_FUSED, NULL)                                                     \
    X(torch_compile_mode, ANY, no_effect, none, RT_FUSED, NULL)                                                        \
    X(liger_kernel_config, ANY, no_effect, none, RT_FUSED, NULL)                                                       \
    X(use_logits_to_keep, ANY, no_effect, none, RT_FUSED, NULL)                                                        \
    X(use_kernels, ANY, no_effect, none, RT_FUSED, NULL)                                                               \
    X(torch_compile_options, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                 \
    X(flex_attention, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                        \
    X(flex_attn_compile_kwargs, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                              \
    X(flash_attn_cross_entropy, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                              \
    X(flash_attn_fuse_mlp, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                   \
    X(flash_attn_rms_norm, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                   \
    X(flash_optimum, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                         \
    X(sage_attention, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                        \
    X(eager_attention, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                       \
    X(gemma4_hybrid_attn_impl, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                               \
    X(large_head_attention, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                  \
    X(flash_attn_d512, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                       \
    X(sdpa_varlen, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                           \
    X(fused_attn_kernel, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                     \
    X(experts_implementation, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                \
    X(lora_mlp_kernel, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                       \
    X(lora_qkv_kernel, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                       \
    X(lora_o_kernel, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                         \
    X(lora_embedding_kernel, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                 \
    X(chunked_cross_entropy, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                 \
    X(chunked_cross_entropy_num_chunks, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                      \
    X(tiled_mlp, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                             \
    X(tiled_mlp_num_shards, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                  \
    X(tiled_mlp_use_original_mlp, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                            \
    X(llama4_linearized_experts, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                             \
    X(cut_cross_entropy, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                     \
    X(liger_rope, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                            \
    X(liger_rms_norm, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                        \
    X(liger_rms_norm_gated, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                  \
    X(liger_layer_norm, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                      \
    X(liger_swiglu, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                          \
    X(liger_glu_activation, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                  \
    X(liger_cross_entropy, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                   \
    X(liger_fused_linear_cross_entropy, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                      \
    X(liger_use_token_scaling, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                               \
    X(liger_kernel_impl, AXOLOTL, no_effect, none, RT_FUSED, NULL)                                                     \
    X(use_unsloth, FACTORY, no_effect, none, RT_FUSED, NULL)                                                           \
    X(use_unsloth_gc, FACTORY, no_effect, none, RT_FUSED, NULL)                                                        \
    X(enable_liger_kernel, FACTORY, no_effect, none, RT_FUSED, NULL)                                                   \
    X(use_v1_kernels, FACTORY, no_effect, none, RT_FUSED, NULL)                                                        \
    X(activation_offloading, ANY, no_effect, none, "--recompute is all that there is", NULL)                           \
    X(torch_empty_cache_steps, ANY, no_effect, none, "--recompute is all that there is", NULL)                         \
    X(use_reentrant_gc, ANY, no_effect, none, "--recompute is all that there is", NULL)                                \
    X(selective_checkpointing, AXOLOTL, no_effect, none, "--recompute is all that there is", NULL)                     \
    X(layer_offloading, AXOLOTL, no_effect, none, "--recompute is all that there is", NULL)                            \
    X(gc_steps, AXOLOTL, no_effect, none, "--recompute is all that there is", NULL)                                    \
    X(gc_collect_steps, AXOLOTL, no_effect, none, "--recompute is all that there is", NULL)                            \
    X(ple_cpu_offload, AXOLOTL, no_effect, none, "--recompute is all that there is", NULL)                             \
    X(lora_on_cpu, AXOLOTL, no_effect, none, "--recompute is all that there is", NULL)                                 \
    X(vit_gradient_checkpointing, SWIFT, no_effect, none, "--recompute is all that there is", NULL)                    \
    X(average_tokens_across_devices, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                        \
    X(parallelism_config, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                   \
    X(ddp_bucket_cap_mb, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                    \
    X(ddp_broadcast_buffers, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                \
    X(ddp_static_graph, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                     \
    X(log_on_each_node, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                     \
    X(save_on_each_node, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                    \
    X(device_map, ANY, no_effect, none, RT_ONE_DEVICE, NULL)                                                           \
    X(ddp, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                                              \
    X(world_size, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                                       \
    X(deepcompile, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                                      \
    X(fsdp_version, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                                     \
    X(fsdp_final_state_dict_type, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                       \
    X(dp_shard_size, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                                    \
    X(dp_replicate_size, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                                \
    X(sequence_parallel_degree, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                         \
    X(context_parallel_size, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                            \
    X(heads_k_stride, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                                   \
    X(ring_attn_func, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                                   \
    X(tensor_parallel_size, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                             \
    X(expert_parallel_size, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                             \
    X(qlora_sharded_model_loading, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                      \
    X(use_ray, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                                          \
    X(ray_run_name, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                                     \
    X(ray_num_workers, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                                  \
    X(resources_per_worker, AXOLOTL, no_effect, none, RT_ONE_DEVICE, NULL)                                             \
    X(sequence_parallel_size, SWIFT, no_effect, none, RT_ONE_DEVICE, NULL)                                             \
    X(zero_hpz_partition_size, SWIFT, no_effect, none, RT_ONE_DEVICE, NULL)                                            \
    X(deepspeed_autotp_size, SWIFT, no_effect, none, RT_ONE_DEVICE, NULL)                                              \
    X(max_memory, ANY, no_effect, none, "--device and --memory-limit say where and how much", NULL)                    \
    X(use_cpu, ANY, on_off, device, "cpu", "auto")                                                                     \
    X(no_cuda, ANY, on_off, device, "cpu", "auto")                                                                     \
    X(gpu_memory_limit, AXOLOTL, no_effect, none, "--device and --memory-limit say where and how much", NULL)          \
    X(use_bnb_nested_quant, ANY, no_effect, none, RT_STORED, NULL)                                                     \
    X(bnb_4bit_quant_storage, ANY, no_effect, none, RT_STORED, NULL)                                                   \
    X(gptq, AXOLOTL, no_effect, none, RT_STORED, NULL)                                                                 \
    X(bnb_config_kwargs, AXOLOTL, no_effect, none, RT_STORED, NULL)                                                    \
    X(model_quantization_config, AXOLOTL, no_effect, none, RT_STORED, NULL)                                            \
    X(model_quantization_config_kwargs, AXOLOTL, no_effect, none, RT_STORED, NULL)                                     \
    X(quantize_moe_experts, AXOLOTL, no_effect, none, RT_STORED, NULL)                                                 \
    X(quantization_method, FACTORY, no_effect, none, RT_STORED, NULL)                                                  \
    X(quantization_type, FACTORY, no_effect, none, RT_STORED, NULL)                                                    \
    X(double_quantization, FACTORY, no_effect, none, RT_STORED, NULL)                                                  \
    X(quantization_device_map, FACTORY, no_effect, none, RT_STORED, NULL)                                              \
    X(quant_method, SWIFT, no_effect, none, RT_STORED, NULL)                                                           \
    X(hqq_axis, SWIFT, no_effect, none, RT_STORED, NULL)                                                               \
    /* evaluation, saving, reports */                                                                                  \
    X(prediction_loss_only, ANY, no_effect, none, RT_EVALUATES, NULL)                                                  \
    X(eval_do_concat_batches, ANY, no_effect, none, RT_EVALUATES, NULL)                                                \
    X(eval_use_gather_object, ANY, no_effect, none, RT_EVALUATES, NULL)                                                \
    X(eval_accumulation_steps, ANY, no_effect, none, RT_EVALUATES, NULL)                                               \
    X(include_for_metrics, ANY, no_effect, none, RT_EVALUATES, NULL)                                                   \
    X(batch_eval_metrics, ANY, no_effect, none, RT_EVALUATES, NULL)                                                    \
    X(eval_delay, ANY, no_effect, none, RT_EVALUATES, NULL)                                                            \
    X(do_predict, ANY, no_effect, none, RT_EVALUATES, NULL)                                                            \
    X(do_causal_lm_eval, AXOLOTL, no_effect, none, RT_EVALUATES, NULL)                                                 \
    X(eval_causal_lm_metrics, AXOLOTL, no_effect, none, RT_EVALUATES, NULL)                                            \
    X(do_bench_eval, AXOLOTL, no_effect, none, RT_EVALUATES, NULL)                                                     \
    X(bench_dataset, AXOLOTL, no_effect, none, RT_EVALUATES, NULL)                                                     \
    X(bench_split, AXOLOTL, no_effect, none, RT_EVALUATES, NULL)                                                       \
    X(lm_eval_tasks, AXOLOTL, no_effect, none, RT_EVALUATES, NULL)                                                     \
    X(lm_eval_batch_size, AXOLOTL, no_effect, none, RT_EVALUATES, NULL)                                                \
    X(lm_eval_post_train, AXOLOTL, no_effect, none, RT_EVALUATES, NULL)                                                \
    X(lm_eval_model, AXOLOTL, no_effect, none, RT_EVALUATES, NULL)                                                     \
    X(compute_accuracy, FACTORY, no_effect, none, RT_EVALUATES, NULL)                                                  \
    X(eval_on_each_dataset, FACTORY, no_effect, none, RT_EVALUATES, NULL)                                              \
    X(acc_strategy, SWIFT, no_effect, none, RT_EVALUATES, NULL)                                                        \
    X(eval_metric, SWIFT, no_effect, none, RT_EVALUATES, NULL)                                                         \
    X(eval_use_evalscope, SWIFT, no_effect, none, RT_EVALUATES, NULL)                                                  \
    X(eval_dataset_args, SWIFT, no_effect, none, RT_EVALUATES, NULL)                                                   \
    X(eval_limit, SWIFT, no_effect, none, RT_EVALUATES, NULL)                                                          \
    X(eval_generation_config, SWIFT, no_effect, none, RT_EVALUATES, NULL)                                              \
    X(extra_eval_args, SWIFT, no_effect, none, RT_EVALUATES, NULL)                                                     \
    X(enable_channel_loss, SWIFT, no_effect, none, RT_EVALUATES, NULL)                                                 \
    X(generate_samples, AXOLOTL, no_effect, none, "--sample-prompts shows what the student writes", NULL)              \
    X(num_generation_samples, AXOLOTL, no_effect, none, "--sample-prompts shows what the student writes", NULL)        \
    X(generation_max_new_tokens, AXOLOTL, no_effect, none, "--sample-prompts shows what the student writes", NULL)     \
    X(generation_temperature, AXOLOTL, no_effect, none, "--sample-prompts shows what the student writes", NULL)        \
    X(generation_top_p, AXOLOTL, no_effect, none, "--sample-prompts shows what the student writes", NULL)              \
    X(generation_top_k, AXOLOTL, no_effect, none, "--sample-prompts shows what the student writes", NULL)              \
    X(generation_prompt_ratio, AXOLOTL, no_effect, none, "--sample-prompts shows what the student writes", NULL)       \
    X(generation_do_sample, AXOLOTL, no_effect, none, "--sample-prompts shows what the student writes", NULL)          \
    X(enable_jit_checkpoint, ANY, no_effect, none, RT_SAVED, NULL)                                                     \
    X(auto_resume_from_checkpoints, ANY, no_effect, none, RT_SAVED, NULL)                                              \
    X(safe_serialization, ANY, no_effect, none, RT_SAVED, NULL)                                                        \
    X(max_shard_size, ANY, no_effect, none, RT_SAVED, NULL)                                                            \
    X(save_first_step, AXOLOTL, no_effect, none, RT_SAVED, NULL)                                                       \
    X(dynamic_checkpoint, AXOLOTL, no_effect, none, RT_SAVED, NULL)                                                    \
    X(merge_lora, ANY, on_off, merge, "on", "off")                                                                     \
    X(add_version, SWIFT, no_effect, none, RT_SAVED, NULL)                                                             \
    X(create_checkpoint_symlink, SWIFT, no_effect, none, RT_SAVED, NULL)                                               \
    X(use_flash_ckpt, SWIFT, no_effect, none, RT_SAVED, NULL)                                                          \
    X(logging_nan_inf_filter, ANY, no_effect, none, RT_LOGGED, NULL)                                                   \
    X(include_num_input_tokens_seen, ANY, no_effect, none, RT_LOGGED, NULL)                                            \
    X(include_tokens_per_second, ANY, no_effect, none, RT_LOGGED, NULL)                                                \
    X(include_effective_tokens_per_second, ANY, no_effect, none, RT_LOGGED, NULL)                                      \
    X(log_level_replica, ANY, no_effect, none, RT_LOGGED, NULL)                                                        \
    X(project, ANY, no_effect, none, RT_LOGGED, NULL)                                                                  \
    X(trackio_space_id, ANY, no_effect, none, RT_LOGGED, NULL)                                                         \
    X(trackio_bucket_id, ANY, no_effect, none, RT_LOGGED, NULL)                                                        \
    X(trackio_static_space_id, ANY, no_effect, none, RT_LOGGED, NULL)                                                  \
    X(skip_memory_metrics, ANY, no_effect, none, RT_LOGGED, NULL)                                                      \
    X(print_param_status, ANY, no_effect, none, RT_LOGGED, NULL)                                                       \
    X(use_tensorboard, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                      \
    X(include_tkps, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                         \
    X(profiler_steps, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                       \
    X(profiler_steps_start, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                 \
    X(use_mlflow, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                           \
    X(mlflow_tracking_uri, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                  \
    X(mlflow_experiment_name, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                               \
    X(mlflow_run_name, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                      \
    X(hf_mlflow_log_artifacts, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                              \
    X(use_wandb, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                            \
    X(wandb_run_id, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                         \
    X(wandb_mode, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                           \
    X(use_comet, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                            \
    X(comet_api_key, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                        \
    X(comet_workspace, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                      \
    X(comet_project_name, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                   \
    X(comet_experiment_key, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                 \
    X(comet_mode, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                           \
    X(comet_online, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                         \
    X(comet_experiment_config, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                              \
    X(use_trackio, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                          \
    X(trackio_project_name, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                 \
    X(trackio_run_name, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                     \
    X(use_otel_metrics, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                     \
    X(otel_metrics_host, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                    \
    X(otel_metrics_port, AXOLOTL, no_effect, none, RT_LOGGED, NULL)                                                    \
    X(use_swanlab, ANY, no_effect, none, RT_LOGGED, NULL)                                                              \
    X(swanlab_project, ANY, no_effect, none, RT_LOGGED, NULL)                                                          \
    X(swanlab_workspace, ANY, no_effect, none, RT_LOGGED, NULL)                                                        \
    X(swanlab_mode, ANY, no_effect, none, RT_LOGGED, NULL)                                                             \
    X(swanlab_api_key, ANY, no_effect, none, RT_LOGGED, NULL)                                                          \
    X(swanlab_experiment_name, ANY, no_effect, none, RT_LOGGED, NULL)                                                  \
    X(swanlab_run_name, ANY, no_effect, none, RT_LOGGED, NULL)                                                         \
    X(swanlab_logdir, ANY, no_effect, none, RT_LOGGED, NULL)                                                           \
    X(swanlab_token, ANY, no_effect, none, RT_LOGGED, NULL)                                                            \
    X(swanlab_exp_name, ANY, no_effect, none, RT_LOGGED, NULL)                                                         \
    X(gradio_title, AXOLOTL, no_effect, none, "there is no page to try the model; retort generate is the command",     \
      NULL)                                                                                                            \
    X(gradio_share, AXOLOTL, no_effect, none, "there is no page to try the model; retort generate is the command",     \
      NULL)                                                                                                            \
    X(gradio_server_name, AXOLOTL, no_effect, none,                                                                    \
      "there is no page to try the model; retort generate is the command", NULL)                                       \
    X(gradio_server_port, AXOLOTL, no_effect, none,                                                                    \
      "there is no page to try the model; retort generate is the command", NULL)                                       \
    X(gradio_max_new_tokens, AXOLOTL, no_effect, none,                                                                 \
      "there is no page to try the model; retort generate is the command", NULL)                                       \
    X(gradio_temperature, AXOLOTL, no_effect, none,                                                                    \
      "there is no page to try the model; retort generate is the command", NULL)                                       \
    X(hub_token, ANY, no_effect, none, RT_HUB, NULL)                                                                   \
    X(hub_always_push, ANY, no_effect, none, RT_HUB, NULL)                                                             \
    X(hub_revision, ANY, no_effect, none, RT_HUB, NULL)                                                                \
    X(hf_hub_token, ANY, no_effect, none, RT_HUB, NULL)                                                                \
    X(ms_hub_token, ANY, no_effect, none, RT_HUB, NULL)                                                                \
    X(om_hub_token, ANY, no_effect, none, RT_HUB, NULL)                                                                \
    X(model_author, SWIFT, no_effect, none, RT_HUB, NULL)                                                              \
    X(model_name, SWIFT, no_effect, none, RT_HUB, NULL)                                                                \
    X(freeze_vit, SWIFT, no_effect, none, "only text is read", NULL)                                                   \
    X(freeze_aligner, SWIFT, no_effect, none, "only text is read", NULL)                                               \
    X(push_dataset_to_hub, AXOLOTL, no_effect, none, RT_HUB, NULL)                                                     \
    X(hf_use_auth_token, AXOLOTL, no_effect, none, RT_HUB, NULL)

#endif
