# other_tools.sh - whole files of TRL, axolotl, LLaMA-Factory and ms-swift, and their names as flags: what each becomes, the
# trainer that was assumed, what is refused, and that all faults are said at once.
. "$(dirname "$0")/harness"
. "$(dirname "$0")/run_case"

configs=$here/configs
texts d.jsonl 60 and
python3 - >chats.jsonl <<'PY'
import json
for i in range(60):
    print(json.dumps({"messages": [{"role": "user", "content": f"say {i}"}, {"role": "assistant", "content": f"{i}!"}]}))
PY
run init --preset tiny-qwen2 --seed 1 --dtype f32 s
run init --preset tiny-llama --seed 2 --dtype f32 t

# ---- TRL's GKD: the same run as with our flags ----
run distill --config "$configs/trl_gkd.yaml"
exits 0
out_has '^config    read as a TRL GKD file: beta 0.5 -> --divergence jsd --beta 0.5; temperature 0.9 has no effect: .*--alpha 1'
out_has '^config    num_train_epochs has no effect: max_steps decides$'
out_has '^config    per_device_train_batch_size 2, gradient_accumulation_steps 2 -> --micro-batch 2 --batch 4 '
out_has '^config    bf16, tf32, torch_dtype have no effect: '
out_has '^objective loss = 0.00 CE \+ 1.00 JSD, T 1, beta 0.5'
run distill --teacher t --student s --data d.jsonl --out ours --lr 2e-5 --micro-batch 2 --batch 4 --recompute block \
    --schedule cosine --lr-floor 0 --warmup 10% --weight-decay 0 --betas 0.9,0.999 --steps 4 --seq-len 64 --divergence jsd \
    --beta 0.5 --alpha 1 --eval-every 2 --save-every 2 --keep 1 --seed 42
exits 0
check "one curve" test "$(curve gkd-model)" = "$(curve ours)"

# ---- and as flags, with either spelling; a switch stands alone, a list is words ----
run distill --model_name_or_path s --teacher-model-name-or-path t --dataset_name d.jsonl --output_dir flags \
    --learning_rate 2e-5 --per-device-train-batch-size 2 --gradient_accumulation_steps 2 --gradient_checkpointing \
    --lr_scheduler_type cosine --warmup_ratio 0.1 --weight_decay 0 --adam_beta1 0.9 --adam_beta2=0.999 --max_steps 4 \
    --num_train_epochs 1 --max_length 64 --lmbda 0 --beta 0.5 --temperature 0.9 --eval_steps 2 --save_steps 2 \
    --save_total_limit 1 --seed 42 --bf16 --report_to wandb tensorboard
exits 0
out_has '^flags     read as a TRL GKD file: '
out_has '^flags     --learning_rate -> --lr 2e-5$'
check "one curve" test "$(curve flags)" = "$(curve ours)"
run train --student s --data d.jsonl --out lora --seq_len 64 --batch 4 --max_steps 1 --eval_every 1 --lora_r 4 \
    --lora_target_modules q_proj v_proj
exits 0
out_has '^flags     --lora_target_modules -> --lora-targets q,v$'

# ---- the others ----
run distill --config "$configs/trl_distillation.yaml"
exits 0
out_has 'read as a TRL Distillation file: beta 0.25 -> .*; temperature 2.0 -> --temperature 2.0 --t2 off; '
out_has '^config    min_lr_rate -> --lr-floor 0.1$'
out_has '^objective loss = 0.00 CE \+ 1.00 JSD, T 2, beta 0.25'
run distill --config "$configs/swift_gkd.yaml"
exits 0
out_has 'read as an ms-swift file: beta 1.0 -> .*; temperature is 0.9 -> --temperature 0.9 --t2 off; '
out_has '^objective loss = 0.10 CE \+ 1.00 JSD, T 0.9, beta 1'
run plan --config "$configs/trl_sft_lora.yaml"
exits 0
out_has '^config    save_strategy epoch -> --save-every 100%$'
out_has '1792 parameters of adapters, 1[0-9] steps of 4 rows \(4 at a time\), lr 0.0002 constant'
run train --config "$configs/axolotl_lora.yml" --steps 2
exits 0
out_has '^config    read as an axolotl file; '
out_has '^config    datasets -> --data chats.jsonl$'
out_has '^config    micro_batch_size 2, gradient_accumulation_steps 2 -> --micro-batch 2 --batch 4 '
out_has '^data      120 records'
out_has 'parameters of adapters, 2 steps of 4 rows \(2 at a time\), lr 0.0002 cosine, warm-up 2'
check "adapters drop out as the file says" python3 -c 'import json
assert json.load(open("axolotl-out/adapter_config.json"))["lora_dropout"] == 0.05'
# with a teacher beside it, the loss is ours
run plan --config "$configs/llamafactory_lora_sft.yaml" --teacher t
exits 0
out_has '^config    read as a LLaMA-Factory file; '
out_has '^config    val_size 0.1 -> --held-out 10%$'
out_has 'parameters of adapters, 2[0-9] steps of 4 rows \(1 at a time\), lr 0.0001 cosine'

# ---- what is another algorithm is refused, with the way out ----
sed 's/^lmbda: .*/lmbda: 0.5/' "$configs/trl_gkd.yaml" >on.yaml
run distill --config on.yaml --out x
exits 5
err_one_line
err_has "^on.yaml:[0-9]+: 'lmbda' is the share of text that the student writes itself.*set it to 0"
err_has 'let it write some before \(retort generate STUDENT --data PROMPTS --out FILE\)'
sed '/^lmbda/d' "$configs/trl_gkd.yaml" >on.yaml
run distill --config on.yaml --out x
exits 5
err_has 'a TRL GKD file, where lmbda is 0.5 unless it is given.*say lmbda: 0'
run distill --teacher_model_name_or_path t --student s --data d.jsonl --beta 0.5 --out x
exits 2
err_has 'say --lmbda 0'

# ---- all faults at once ----
cat >bad.yaml <<'Y'
studnet: s
base_modle: s
optim: lion
max_samples: 100
unheard_of:
  deep: [1, {er: 2}]
learning_rate: fast
lr: 1e-4
Y
run train --config bad.yaml --out x
exits 5
check "a line for each, and one for all" test "$(wc -l <"$err")" = 7
err_has "^bad.yaml:1: 'studnet' is not a setting; did you mean student\?$"
err_has "^bad.yaml:2: 'base_modle' is not a setting; did you mean base_model\?$"
err_has "^bad.yaml:3: 'optim' asks for 'lion'"
err_has "^bad.yaml:4: 'max_samples' takes the first records of the data.*cut the file"
err_has "^bad.yaml:5: 'unheard_of' is not a setting"
err_has "^bad.yaml:7: 'learning_rate' and 'lr' of line 8 both say --lr; leave one out$"
err_has '^bad.yaml: 6 names or values are wrong$'

# ---- one setting, said twice or for nothing ----
run train --lr 1e-4 --learning_rate 1e-5
exits 2
err_has "^retort train: '--learning_rate' and '--lr' both say --lr; leave one out$"
run train --learning_rate 1e-4 --learning-rate 1e-5
exits 2
err_has '^retort train: --learning_rate is given twice$'
run train --eval_every 1 --eval-every 2
exits 2
err_has '^retort train: --eval-every is given twice$'
run train --output_dir
exits 2
err_has '^retort train: --output_dir needs a value$'
run train --learning_rat 1
exits 2
err_has 'did you mean --learning_rate\?'
run convert a b --shard_size 1G --shard-size 2G
exits 2
err_has '^retort convert: --shard-size is given twice$'
for said in '--beta 0.5' '--skew 0.1'; do
    # shellcheck disable=SC2086
    run distill --teacher t --student s --data d.jsonl --out x $said
    exits 2
    err_has "^${said% *} needs --divergence"
done
printf 'teacher: t\nstudent: s\ndata: d.jsonl\nbeta: 0.5\n' >bad.yaml
run distill --config bad.yaml --out x
exits 2
err_has '^--beta needs --divergence jsd$'
printf 'base_model: s\ndatasets:\n- path: d.jsonl\n  roles_to_train: [user]\n  train_on_eos: all\n  split: train[:10%%]\n' >bad.yaml
run train --config bad.yaml --out x
exits 5
err_has "^bad.yaml:4: 'datasets' has roles_to_train user, which trains other turns than the assistant's; --loss-on turns"
err_has "^bad.yaml:5: 'datasets' has train_on_eos all, which is not built: the end of the assistant's turns is trained"
err_has "^bad.yaml:6: 'datasets' has split train\[:10%\], which takes a part of the data.*cut the file$"
run train --student s --data 'd.jsonl:train[:10%]' --out x
exits 5
err_has 'train\[:10%\] is a slice of a split, and a split is read whole; PATH,weight=0.1 .*, else cut the file'
check "nothing was left behind" test ! -e x
printf 'model_name_or_path: s\ndataset_name: d.jsonl\nuse_peft: false\nlora_r: 4\nmax_steps: 2\noutput_dir: whole\n' >full.yaml
run train --config full.yaml --batch 2 --seq-len 64
exits 0
out_has '^config    lora_r has no effect: use_peft is off'
check "a whole model" test -e whole/model.safetensors -a ! -e whole/adapter_config.json

# ---- turns with other names, and all that an entry says ----
sed 's/"messages"/"dialog"/; s/"role"/"who"/g; s/"content"/"says"/g' chats.jsonl >dialog.jsonl
cat >dialog.yaml <<'Y'
base_model: s
datasets:
  - path: dialog.jsonl
    type: chat_template
    ds_type: json
    field_messages: dialog
    message_property_mappings: {role: who, content: says}
    roles_to_train: [assistant]
    train_on_eos: turn
Y
run plan --config dialog.yaml --batch 2 --seq-len 64
exits 0
out_has '^config    datasets -> --columns messages=dialog,role=who,content=says$'
out_has '^config    datasets: type has no effect: records are recognised by their fields$'
out_has '^config    datasets: ds_type has no effect: '
out_has '^config    datasets: roles_to_train, train_on_eos have no effect: it is so here$'
run tokenize dialog.jsonl --model s --columns messages=dialog,role=who,content=says --show 1
exits 0
mv "$out" dialog.txt
run tokenize chats.jsonl --model s --show 1
check "the same tokens" test "$(sed '/jsonl/d; /^speed/d' dialog.txt)" = "$(sed '/jsonl/d; /^speed/d' "$out")"

# ---- adapters, where a file does not say whether: as its tool has it ----
printf 'base_model: s\ndatasets:\n- path: d.jsonl\nadapter:\nlora_r: 4\nlora_alpha: 8\nmax_steps: 2\n' >axo.yaml
run plan --config axo.yaml --batch 2 --seq-len 64
exits 0
out_has '^config    adapter without a value -> all parameters are trained$'
out_has '^config    lora_r has no effect: adapter has no value, and all parameters are trained$'
out_has '^config    lora_alpha has no effect: adapter has no value'
out_lacks 'lora-rank'
out_lacks 'parameters of adapters'
sed '/^adapter/d' axo.yaml >axo2.yaml
run plan --config axo2.yaml --batch 2 --seq-len 64
exits 0
out_has '^config    lora_r has no effect: an axolotl file without adapter has none, and all parameters are trained$'
run plan --config axo.yaml --batch 2 --seq-len 64 --lora-rank 2
exits 0
out_has 'parameters of adapters'
printf 'model_name_or_path: s\ndataset_name: d.jsonl\nlora_r: 4\nlora_alpha: 8\nmax_steps: 2\n' >trl.yaml
run plan --config trl.yaml --batch 2 --seq-len 64
exits 0
out_has '^config    lora_r has no effect: TRL has adapters with use_peft: true alone, and all parameters are trained$'
out_has '^config    lora_alpha has no effect: TRL has'
out_lacks 'parameters of adapters'
printf 'stage: sft\nmodel_name_or_path: s\ndataset: d.jsonl\nlora_target: all\nmax_steps: 2\n' >lf.yaml
run plan --config lf.yaml --batch 2 --seq-len 64
exits 0
out_has "^config    no finetuning_type, and LLaMA-Factory's is lora -> --lora$"
out_has 'parameters of adapters'
printf 'model: s\ndataset: d.jsonl\nsplit_dataset_ratio: 0.1\ntarget_modules: all-linear\nmax_steps: 2\n' >swift.yaml
run plan --config swift.yaml --batch 2 --seq-len 64
exits 0
out_has "^config    no train_type or tuner_type, and ms-swift's is lora -> --lora$"
out_has 'parameters of adapters'

# ---- the command line wins, and is read with the file as one ----
cat >base.yaml <<'Y'
model_name_or_path: s
dataset_name: d.jsonl
max_length: 64
max_steps: 7
learning_rate: 1e-4
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
eval_strategy: epoch
Y
run plan --config base.yaml --lr 3e-4
exits 0
out_has '^config    learning_rate -> --lr 1e-4 \(the command line.s --lr wins\)$'
out_has '7 steps of 8 rows \(2 at a time\), lr 0.0003'
run plan --config base.yaml --max_steps -1 --epochs 4
exits 0
out_has '^config    max_steps has no effect \(the command line.s --max_steps wins\)$'
out_has '^config    eval_strategy epoch -> --eval-every 25%$'
run plan --config base.yaml --max_steps=-1
exits 0
out_has '^config    eval_strategy epoch -> --eval-every 33.3333333333%$'
out_lacks ', 7 steps'
run plan --config base.yaml --num_train_epochs 2
exits 0
out_has '^config    max_steps -> --steps 7 \(the command line.s --num_train_epochs wins\)$'
out_has '^config    eval_strategy epoch -> --eval-every 50%$'
run plan --config base.yaml --gradient_accumulation_steps 1
exits 0
out_has '7 steps of 2 rows \(2 at a time\)'
run plan --config base.yaml --per_device_train_batch_size 1
exits 0
out_has '7 steps of 4 rows \(1 at a time\)'
out_has '^flags     --per_device_train_batch_size 1, gradient_accumulation_steps 4 -> --micro-batch 1 --batch 4 '
# Fewer rows in all than the file has at a time: it is said whose number that is.
run plan --config base.yaml --batch 1
exits 5
err_has "^base.yaml:[0-9]+: 'per_device_train_batch_size' is --micro-batch 2, and --batch 1 of the command line is less: give --micro-batch 1, too"
run plan --config base.yaml --batch 1 --micro-batch 1
exits 0
printf 'student: s\ndata: d.jsonl\nsteps: 7\nbatch: 2\nmicro_batch: 4\n' >own.yaml
run plan --config own.yaml
exits 5
err_has "^own.yaml:5: 'micro_batch' is --micro-batch 4, and --batch 2 is less: "
printf 'student: s\ndata: d.jsonl\nsteps: 7\nlr: 1e-4\nheld_out: 5\n' >own.yaml
run plan --config own.yaml --seq-len 64 --batch 4 --num_train_epochs 2 --learning_rate 3e-4 --validation_file chats.jsonl
exits 0
out_has 'steps of 4 rows .*, lr 0.0003'
out_lacks ', 7 steps'
sed 's/^lmbda: .*/lmbda: 0.5/; s/^max_steps.*/max_steps: 2/' "$configs/trl_gkd.yaml" >gkd.yaml
run plan --config gkd.yaml --lmbda 0
exits 0
out_has '^config    lmbda has no effect \(the command line.s --lmbda wins\)$'
sed -i '/^lmbda/d' gkd.yaml
run plan --config gkd.yaml --lmbda 0
exits 0
out_has '^objective loss = 0.00 CE \+ 1.00 JSD, T 1, beta 0.5'
run plan --config gkd.yaml --lmbda 0 --temperature 2
exits 0
out_has 'read as a TRL GKD file: .*--temperature 2 of the command line is the loss.s'
out_has 'every assistant turn is trained, there the last of a conversation alone'
out_has '^objective loss = 0.00 CE \+ 1.00 T.2 JSD, T 2, beta 0.5'
run plan --config gkd.yaml --lmbda 0 --divergence forward-kl
exits 0
out_has 'read as a TRL GKD file: beta 0.5 has no effect: it is for jsd, and --divergence is forward-kl; '
out_lacks 'divergence jsd'
# a divergence of ours has our temperature
printf 'divergence: forward-kl\nlmbda: 0\n' >>gkd.yaml
sed -i 's/^temperature.*/temperature: 2/' gkd.yaml
run plan --config gkd.yaml
exits 0
out_has 'beta 0.5 has no effect: it is for jsd, and divergence is forward-kl; '
out_has "objective loss = 0.00 CE .* 1.00 T.2 .*KL.*, T 2"

# ---- values that another tool has and ours do not ----
cat >values.yaml <<'Y'
model_name_or_path: s
dataset_name: d.jsonl
max_length: 64.0
max_steps: 1e1
learning_rate: 2e-4
lr_scheduler_type: cosine_with_min_lr
lr_scheduler_kwargs: '{"min_lr": 5e-5}'
warmup_ratio: 0.1
warmup_steps: 3
save_total_limit: 0
assistant_only_loss: true
completion_only_loss: false
enable_thinking: false
use_cpu: true
packing: false
max_new_tokens: 16
per_device_train_batch_size: 4.0
Y
run plan --config values.yaml
exits 0
out_has '^config    max_steps -> --steps 10$|^config    max_steps -> --steps 1e1$'
out_has '^config    min_lr 5e-5 of learning_rate 2e-4 -> --lr-floor 0.25$'
out_has '^config    warmup_ratio 0.1 has no effect: warmup_steps decides$'
out_has '^config    save_total_limit 0 -> --keep 1000000: all of them$'
out_has '^config    completion_only_loss false has no effect: assistant_only_loss decides$'
out_has '^config    enable_thinking -> --template-var enable_thinking=false$'
out_has '^config    use_cpu true -> --device cpu$'
out_has '^config    packing has no effect: .*a batch counts rows, each of several records$'
out_has '10 steps of 4 rows \(4 at a time\), lr 0.0002 cosine, warm-up 3'
out_lacks 'TRL GKD'
run plan --student s --data d.jsonl --seq-len 64 --steps 10 --lr 1e-3 --lr_scheduler_kwargs '{"min_lr_rate": 0.5}'
exits 0
out_has '^flags     min_lr_rate -> --lr-floor 0.5$'
printf 'model_name_or_path: s\ndataset_name: d.jsonl\nlora_r: 4\nuse_peft: true\nmerge_lora: true\nlearning_rate: 0\n' >merged.yaml
run plan --config merged.yaml --steps 4 --seq-len 64
exits 0
out_has '^config    merge_lora true -> --merge on$'
out_has '^config    learning_rate is 0: nothing will be trained$'

# ---- ranges are faults of the file too, each with its line ----
printf 'student: s\ndata: d.jsonl\nbeta: 2\nlora_dropout: 1.5\noptimizer: muon\nnum_train_epochs: -1\noutput_dir: ~/y\nnum_cycles: 2\n' >range.yaml
run train --config range.yaml
exits 5
err_has '^range.yaml:3: --beta 2 is out of range \(0 to 1\)$'
err_has '^range.yaml:4: --lora-dropout 1.5 is out of range \(0 to below 1\)$'
err_has "^range.yaml:5: 'optimizer' asks for 'muon'"
err_has '^range.yaml:6: --epochs -1 is out of range \(above 0\)$'
err_has "^range.yaml:7: 'output_dir' is ~/y, and ~ is a word of the shell's; write the path out$"
err_has "^range.yaml:8: 'num_cycles' 2 is another cosine"
err_has '^range.yaml: 6 names or values are wrong$'
run train --student s --data d.jsonl --out '~/y'
exits 2
err_has "'--out' is ~/y, and ~ is a word of the shell's"

# ---- a run that would move nothing ----
run train --student s --data d.jsonl --seq-len 64 --max_steps 1 --warmup_steps 0 --lr_scheduler_type cosine --out x
exits 5
err_has 'every rate of this run is 0, since the last step of a cosine schedule to 0 has rate 0; give more steps'

# ---- what is missing is said first ----
run distill --config base.yaml --out x
exits 2
err_has 'needs --teacher'
out_lacks 'learning_rate'

# ---- a plan lists what was asked for, under whatever name ----
printf 'model_name_or_path: s\ndataset_name: d.jsonl\nseed: 7\nweight_decay: 0.25\nmax_steps: 4\nkeep: 2\n' >asked.yaml
run plan --config asked.yaml --seq-len 64
exits 0
out_has '^settings  student s, data \["d.jsonl"\], weight_decay 0.25, seq_len 64, steps 4, seed 7$'
run plan --config asked.yaml --seq-len 64 --json
exits 0
json_is 'j["settings"] == {"student": "s", "data": ["d.jsonl"], "weight_decay": 0.25, "seq_len": 64, "steps": 4, "seed": 7}'
finish
