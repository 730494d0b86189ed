/* aliases_datasets.h - the names inside an entry of a list of data (axolotl's datasets, TRL's mixtures), and what each
 * is here.
 *
 * Owns: the table. Its rules are settings_datasets.c's; docs/other-tools.md is made from it by tools/alias_table.py. */
#ifndef RT_SETTINGS_ALIASES_DATASETS_H
#define RT_SETTINGS_ALIASES_DATASETS_H

#include "settings/aliases.h"

#define RT_PART_OF_DATA "takes a part of the data; PATH,weight=0.1 takes a share of it in each pass, else cut the file"
#define RT_TURN_ENDS "the end of the assistant's turns is trained, and no other"
#define RT_PREFERENCES "is for preferences, and that is another algorithm"
#define RT_THINKING "the chat template says what becomes of it"

/* name, rule, and what the rule needs: of idle the reason; of off why it cannot be asked for; of words the values that
 * are possible and why no other is; of column the key of --columns, and the names that need none. */
#define RT_DATASET_TABLE(X)                                                                                            \
    X(path, path, NULL, NULL)                                                                                          \
    X(id, path, NULL, NULL)                                                                                            \
    X(split, split, NULL, NULL)                                                                                        \
    X(data_files, files, NULL, NULL)                                                                                   \
    X(data_dir, off, "names a folder of the data; give that folder as path", NULL)                                     \
    X(name, off, "names a configuration of the data; give its folder or files as path", NULL)                          \
    X(config, off, "names a configuration of the data; give its folder or files as path", NULL)                        \
    X(revision, words, "main", "names a revision; give the folder of that revision as path")                           \
    X(type, idle, RT_RECORDS, NULL)                                                                                    \
    X(ds_type, idle, "the name of a file says its format", NULL)                                                       \
    X(conversation, idle, RT_TEMPLATE, NULL)                                                                           \
    X(chat_template, idle, RT_TEMPLATE, NULL)                                                                          \
    X(chat_template_jinja, off, "is a chat template; save it as a file and give --chat-template FILE", NULL)           \
    X(field, column, "text", "text")                                                                                   \
    X(text_column, column, "text", "text")                                                                             \
    X(field_messages, column, "messages", "messages conversations")                                                    \
    X(field_tools, column, "tools", "tools")                                                                           \
    X(field_system, column, "system", "system")                                                                        \
    X(message_field_role, column, "role", "role from")                                                                 \
    X(message_field_content, column, "content", "content value")                                                       \
    X(message_property_mappings, mappings, NULL, NULL)                                                                 \
    X(roles, idle, "human, gpt, bot and the like are recognised, and other roles refused", NULL)                       \
    X(roles_to_train, words, "assistant gpt model bot chatgpt",                                                        \
      "trains other turns than the assistant's; --loss-on turns trains those, --loss-on all everything")               \
    X(train_on_eos, words, "turn", "is not built: " RT_TURN_ENDS)                                                      \
    X(train_on_eot, words, "turn", "is not built: " RT_TURN_ENDS)                                                      \
    X(message_field_training, off, "says in the data which turns are trained, and that is not built", NULL)            \
    X(message_field_training_detail, off, "says in the data what is trained, and that is not built", NULL)             \
    X(drop_system_message, off, "leaves messages out; take them out of the data", NULL)                                \
    X(shards, off, RT_PART_OF_DATA, NULL)                                                                              \
    X(shards_idx, off, RT_PART_OF_DATA, NULL)                                                                          \
    X(skip, off, RT_PART_OF_DATA, NULL)                                                                                \
    X(fraction, words, "1 1.0", RT_PART_OF_DATA)                                                                       \
    X(weight, words, "1 1.0", "is a share of the data; say it with the path: PATH,weight=0.5")                         \
    X(columns, idle, RT_RECORDS, NULL)                                                                                 \
    X(preprocess_shards, idle, RT_READER, NULL)                                                                        \
    X(streaming, idle, RT_READER, NULL)                                                                                \
    X(trust_remote_code, idle, RT_CODE, NULL)                                                                          \
    X(input_format, idle, RT_TEMPLATE, NULL)                                                                           \
    X(input_transform, off, "is Python code, and that is not run; transform the file", NULL)                           \
    X(field_thinking, idle, RT_THINKING, NULL)                                                                         \
    X(template_thinking_key, idle, RT_THINKING, NULL)                                                                  \
    X(split_thinking, off, "takes thoughts out of the text, and that is not built", NULL)                              \
    X(logprobs_field, idle, "the probabilities are the teacher's, while training", NULL)                               \
    X(field_human, off, "is of records that are not read; write them as messages", NULL)                               \
    X(field_model, off, "is of records that are not read; write them as messages", NULL)                               \
    X(field_prompt, off, RT_PREFERENCES, NULL)                                                                         \
    X(field_chosen, off, RT_PREFERENCES, NULL)                                                                         \
    X(field_rejected, off, RT_PREFERENCES, NULL)

#endif
