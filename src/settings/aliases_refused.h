/* aliases_refused.h - the names of other tools that ask for something that is not here: refused, unless off.
 *
 * Owns: that part of the table of aliases.h. */
#ifndef RT_SETTINGS_ALIASES_REFUSED_H
#define RT_SETTINGS_ALIASES_REFUSED_H

#include "settings/aliases.h"

#define RT_ANOTHER_RUN "asks for another algorithm than distillation or fine-tuning"

#define RT_ALIAS_REFUSED(X)                                                                                            \
    /* data */                                                                                                         \
    X(dataset_config, ANY, off, none, "names a configuration of the data; give its folder or files as the data",       \
      "null")                                                                                                          \
    X(dataset_mixer, ANY, off, none, "is data with shares; list them under data, each PATH or PATH,weight=0.5",        \
      "null")                                                                                                          \
    X(dataset_mixture, ANY, off, none, "is data with shares; list them under data, each PATH or PATH,weight=0.5",      \
      "null")                                                                                                          \
    X(interleave_probs, FACTORY, off, none, "is data with shares; list them under data, each PATH or PATH,weight=0.5", \
      "null")                                                                                                          \
    X(interleave_prob, SWIFT, off, none, "is data with shares; list them under data, each PATH or PATH,weight=0.5",    \
      "null")                                                                                                          \
    X(dataset_shard_num, AXOLOTL, off, none,                                                                           \
      "takes a part of the data; PATH,weight=0.1 takes a share of it in each pass, else cut the file", "null")         \
    X(dataset_shard_idx, AXOLOTL, off, none,                                                                           \
      "takes a part of the data; PATH,weight=0.1 takes a share of it in each pass, else cut the file", "null")         \
    X(max_eval_samples, ANY, off, none,                                                                                \
      "takes a part of the evaluation data; PATH,weight=0.1 takes a share of it, else cut the file", "null")           \
    X(dataset_exact_deduplication, AXOLOTL, off, none,                                                                 \
      "leaves records out, and that is not built; take them out of the file", "null")                                  \
    X(min_sample_len, AXOLOTL, off, none, "leaves records out, and that is not built; take them out of the file",      \
      "null")                                                                                                          \
    X(disable_shuffling, ANY, off, none, "orders the rows as the file has them, and here --seed shuffles them",        \
      "false")                                                                                                         \
    X(curriculum_sampling, ANY, off, none, "orders the rows as the file has them, and here --seed shuffles them",      \
      "false")                                                                                                         \
    X(pretraining_dataset, AXOLOTL, off, none, "is data that are read here as any other; name them under data",        \
      "null")                                                                                                          \
    X(tokenized_path, FACTORY, off, none, "is data of another tool; give the text", "null")                            \
    X(cached_dataset, SWIFT, off, none, "is data of another tool; give the text", "null")                              \
    X(cached_val_dataset, SWIFT, off, none, "is data of another tool; give the text", "null")                          \
    X(mask_history, FACTORY, off, none, "is not built: turns before the last one are trained too", "false")            \
    X(default_system_message, AXOLOTL, off, none, "adds a message to each record; put it into the data", "null")       \
    X(system, SWIFT, off, none, "adds a message to each record; put it into the data", "null")                         \
    X(default_system, FACTORY, off, none, "adds a message to each record; put it into the data", "null")               \
    X(media_dir, ANY, off, none, "is for pictures, and only text is read", "null")                                     \
    X(processor_type, ANY, off, none, "is for pictures, and only text is read", "null")                                \
    X(processor_kwargs, ANY, off, none, "is for pictures, and only text is read", "null")                              \
    X(image_size, ANY, off, none, "is for pictures, and only text is read", "null")                                    \
    X(image_resize_algorithm, ANY, off, none, "is for pictures, and only text is read", "null")                        \
    X(freeze_mm_modules, ANY, off, none, "is for pictures, and only text is read", "null")                             \
    X(role_boundaries, ANY, off, none, "is for pictures, and only text is read", "null")                               \
    /* models */                                                                                                       \
    X(teacher_model_revision, ANY, off, none, "names a revision; give the folder of that revision as the model",       \
      "null")                                                                                                          \
    X(revision_of_model, ANY, off, none, "names a revision; give the folder of that revision as the model", "null")    \
    X(resize_token_embeddings_to_32x, ANY, off, none, "adds tokens, and the vocabulary stays as it is", "null")        \
    X(added_tokens_overrides, ANY, off, none, "adds tokens, and the vocabulary stays as it is", "null")                \
    X(add_tokens, ANY, off, none, "adds tokens, and the vocabulary stays as it is", "null")                            \
    X(add_special_tokens, ANY, off, none, "adds tokens, and the vocabulary stays as it is", "null")                    \
    X(new_special_tokens, ANY, off, none, "adds tokens, and the vocabulary stays as it is", "null")                    \
    X(resize_vocab, ANY, off, none, "adds tokens, and the vocabulary stays as it is", "null")                          \
    X(mean_resizing_embeddings, AXOLOTL, off, none, "adds tokens, and the vocabulary stays as it is", "null")          \
    X(chat_template_kwargs, ANY, off, none, "is --template-var K=V here", "null")                                      \
    X(shrink_embeddings, ANY, off, none, "adds tokens, and the vocabulary stays as it is", "null")                     \
    X(fix_untrained_tokens, ANY, off, none, "adds tokens, and the vocabulary stays as it is", "null")                  \
    X(overrides_of_model_config, ANY, off, none, "changes the model; change its config.json", "null")                  \
    X(rope_scaling, ANY, off, none, "changes the model; change its config.json", "null")                               \
    X(cls_model_config, ANY, off, none, "changes the model; change its config.json", "null")                           \
    X(scaling_softmax, ANY, off, none, "changes the model; change its config.json", "null")                            \
    X(mixture_of_depths, ANY, off, none, "changes the model; change its config.json", "null")                          \
    X(reinit_weights, ANY, off, none, "begins with random weights; retort init makes such a model", "false")           \
    X(train_from_scratch, ANY, off, none, "begins with random weights; retort init makes such a model", "false")       \
    X(adapter_name_or_path, FACTORY, off, none,                                                                        \
      "begins with adapters of another run, and that is not built: merge them first", "null")                          \
    X(adapters, SWIFT, off, none, "begins with adapters of another run, and that is not built: merge them first",      \
      "null")                                                                                                          \
    X(resume_only_model, SWIFT, off, none,                                                                             \
      "begins with adapters of another run, and that is not built: merge them first", "null")                          \
    X(teacher_adapters, SWIFT, off, none,                                                                              \
      "begins with adapters of another run, and that is not built: merge them first", "null")                          \
    X(problem_type, SWIFT, off, none, "is for classification, and only language models are trained", "null")           \
    /* the loss */                                                                                                     \
    X(reward_model, AXOLOTL, off, none, RT_ANOTHER_RUN, "null")                                                        \
    X(process_reward_model, AXOLOTL, off, none, RT_ANOTHER_RUN, "null")                                                \
    X(trainer_cls, AXOLOTL, off, none, RT_ANOTHER_RUN, "null")                                                         \
    X(ebft, AXOLOTL, off, none, RT_ANOTHER_RUN, "null")                                                                \
    X(diffusion, AXOLOTL, off, none, RT_ANOTHER_RUN, "null")                                                           \
    X(use_eaft, AXOLOTL, off, none, RT_ANOTHER_RUN, "null")                                                            \
    X(use_pose, AXOLOTL, off, none, RT_ANOTHER_RUN, "null")                                                            \
    X(use_dft_loss, FACTORY, off, none, RT_ANOTHER_RUN, "false")                                                       \
    X(use_asft_loss, FACTORY, off, none, RT_ANOTHER_RUN, "false")                                                      \
    X(use_eaft_loss, FACTORY, off, none, RT_ANOTHER_RUN, "false")                                                      \
    X(use_llama_pro, FACTORY, off, none, RT_ANOTHER_RUN, "false")                                                      \
    X(enable_dft_loss, SWIFT, off, none, RT_ANOTHER_RUN, "false")                                                      \
    X(mrl_dims, SWIFT, off, none, RT_ANOTHER_RUN, "false")                                                             \
    X(is_binary_loss_scale, SWIFT, off, none,                                                                          \
      "weights tokens by its own rules, and that is not built; --loss-on says what is trained", "null")                \
    X(router_aux_loss_coef, ANY, off, none,                                                                            \
      "trains the router of experts with a loss of its own, and that is not built", "null")                            \
    X(moe_aux_loss_coef, ANY, off, none, "trains the router of experts with a loss of its own, and that is not built", \
      "null")                                                                                                          \
    X(kd_beta, AXOLOTL, off, none,                                                                                     \
      "mixes forward and reverse KL; say --divergence jsd --beta B, or leave it out for forward KL", "0")              \
    X(kd_zscore_base_temp, AXOLOTL, off, none, "standardises the logits, and that is not built", "null")               \
    X(kd_temperature_min, AXOLOTL, off, none, "changes the temperature in the run, and that is not built", "null")     \
    X(kd_online_server_base_url, AXOLOTL, off, none, RT_SERVED, "null")                                                \
    X(noisy_embedding_alpha, AXOLOTL, off, none, "is not built: embeddings have no noise", "null")                     \
    /* optimizer and schedule */                                                                                       \
    X(optim_args, ANY, off, none, "is of other optimizers, and here it is AdamW", "null")                              \
    X(use_galore, FACTORY, off, none, "is of other optimizers, and here it is AdamW", "false")                         \
    X(use_apollo, FACTORY, off, none, "is of other optimizers, and here it is AdamW", "false")                         \
    X(use_badam, FACTORY, off, none, "is of other optimizers, and here it is AdamW", "false")                          \
    X(use_adam_mini, FACTORY, off, none, "is of other optimizers, and here it is AdamW", "false")                      \
    X(use_muon, FACTORY, off, none, "is of other optimizers, and here it is AdamW", "false")                           \
    X(lisa_activated_layers, SWIFT, off, none, "is of other optimizers, and here it is AdamW", "0")                    \
    X(galore_target_modules, SWIFT, off, none, "is of other optimizers, and here it is AdamW", "0")                    \
    X(lisa_n_layers, AXOLOTL, off, none, "is of other optimizers, and here it is AdamW", "null")                       \
    X(embedding_lr, AXOLOTL, off, none, "is not built: all parameters have one rate", "null")                          \
    X(embedding_lr_scale, AXOLOTL, off, none, "is not built: all parameters have one rate", "null")                    \
    X(lr_groups, AXOLOTL, off, none, "is not built: all parameters have one rate", "null")                             \
    X(lorap_lr_ratio, SWIFT, off, none, "is not built: all parameters have one rate", "null")                          \
    X(aligner_lr, SWIFT, off, none, "is not built: all parameters have one rate", "null")                              \
    X(vit_lr, SWIFT, off, none, "is not built: all parameters have one rate", "null")                                  \
    X(lr_quadratic_warmup, AXOLOTL, off, none,                                                                         \
      "is a schedule that is not built; --schedule has constant, linear, cosine and wsd", "null")                      \
    X(cosine_constant_lr_ratio, AXOLOTL, off, none,                                                                    \
      "is a schedule that is not built; --schedule has constant, linear, cosine and wsd", "null")                      \
    X(jagged_restart_steps, AXOLOTL, off, none,                                                                        \
      "is a schedule that is not built; --schedule has constant, linear, cosine and wsd", "null")                      \
    X(max_packed_sequence_len, AXOLOTL, off, none, "is a length of another name; say seq_len", "null")                 \
    X(max_epochs, SWIFT, off, none, "is --epochs here", "null")                                                        \
    X(excess_length_strategy, AXOLOTL, off, none,                                                                      \
      "drops or refuses what is too long in its own way; here docs/data.md says what becomes of it", "null")           \
    /* what is trained */                                                                                              \
    X(lora_rank_pattern, ANY, off, none, "gives matrices ranks of their own, and here all have one", "null")           \
    X(lora_alpha_pattern, ANY, off, none, "gives matrices ranks of their own, and here all have one", "null")          \
    X(rank_pattern, ANY, off, none, "gives matrices ranks of their own, and here all have one", "null")                \
    X(alpha_pattern, ANY, off, none, "gives matrices ranks of their own, and here all have one", "null")               \
    X(peft_layers_to_transform, ANY, off, none, "puts adapters on some layers, and here they are on all", "null")      \
    X(peft_layers_pattern, ANY, off, none, "puts adapters on some layers, and here they are on all", "null")           \
    X(layers_to_transform, ANY, off, none, "puts adapters on some layers, and here they are on all", "null")           \
    X(layers_pattern, ANY, off, none, "puts adapters on some layers, and here they are on all", "null")                \
    X(lora_target_parameters, ANY, off, none, "puts adapters on some layers, and here they are on all", "null")        \
    X(target_parameters, ANY, off, none, "puts adapters on some layers, and here they are on all", "null")             \
    X(target_regex, ANY, off, none, "puts adapters on some layers, and here they are on all", "null")                  \
    X(peft, AXOLOTL, off, none, "is not built: LoRA is what there is", "null")                                         \
    X(relora, AXOLOTL, off, none, "is not built: LoRA is what there is", "null")                                       \
    X(peft_layer_replication, AXOLOTL, off, none, "is not built: LoRA is what there is", "null")                       \
    X(peft_trainable_token_indices, AXOLOTL, off, none, "is not built: LoRA is what there is", "null")                 \
    X(peft_ensure_weight_tying, AXOLOTL, off, none, "is not built: LoRA is what there is", "null")                     \
    X(mora, AXOLOTL, off, none, "is not built: LoRA is what there is", "null")                                         \
    X(pissa_init, FACTORY, off, none, "is not built: LoRA is what there is", "false")                                  \
    X(shift_attn, FACTORY, off, none, "is not built: LoRA is what there is", "false")                                  \
    X(peft_use_rslora, AXOLOTL, off, none, "scales adapters by alpha / sqrt(rank), and here it is alpha / rank",       \
      "false")                                                                                                         \
    X(peft_use_dora, AXOLOTL, off, none, "is not built", "false")                                                      \
    X(additional_target, FACTORY, off, none, "trains whole matrices beside adapters, and that is not built", "null")   \
    X(freeze_parameters_regex, SWIFT, off, none, "is --freeze, in other words: names with * and ?", "null")            \
    X(freeze_parameters_ratio, SWIFT, off, none, "is --freeze, in other words: names with * and ?", "null")            \
    X(trainable_parameters, SWIFT, off, none, "is --freeze, in other words: names with * and ?", "null")               \
    X(trainable_parameters_regex, SWIFT, off, none, "is --freeze, in other words: names with * and ?", "null")         \
    X(freeze_llm, SWIFT, off, none, "is --freeze, in other words: names with * and ?", "null")                         \
    X(qat, ANY, off, none,                                                                                             \
      "trains in low precision, and that is not built; retort quantize makes a small model of the result", "null")     \
    X(use_onebitllms, ANY, off, none,                                                                                  \
      "trains in low precision, and that is not built; retort quantize makes a small model of the result", "null")     \
    X(quantization, ANY, off, none,                                                                                    \
      "trains in low precision, and that is not built; retort quantize makes a small model of the result", "null")     \
    X(llmcompressor, ANY, off, none,                                                                                   \
      "trains in low precision, and that is not built; retort quantize makes a small model of the result", "null")     \
    X(early_stopping_steps, FACTORY, off, none, "counts otherwise: --stop-if-worse N ends a run early", "null")        \
    X(early_stop_interval, SWIFT, off, none, "counts otherwise: --stop-if-worse N ends a run early", "null")           \
    X(loss_type, ANY, one_of, none, "nll", "is another loss, and that is not built")                                   \
    X(loss_scale, SWIFT, one_of, none, "default",                                                                      \
      "weights tokens by its own rules, and that is not built; --loss-on says what is trained")                        \
    X(lora_task_type, ANY, one_of, none, "CAUSAL_LM causal_lm",                                                        \
      "asks for another kind of model than a language model")                                                          \
    X(init_lora_weights, ANY, one_of, none, "true True", "begins adapters in another way, and that is not built")      \
    X(peft_init_lora_weights, AXOLOTL, one_of, none, "true True",                                                      \
      "begins adapters in another way, and that is not built")                                                         \
    X(init_weights, SWIFT, one_of, none, "true True", "begins adapters in another way, and that is not built")         \
    X(mix_strategy, FACTORY, one_of, none, "concat", "takes data in turns, and here all are shuffled together")

#endif
