# retort.bash - completion of retort in bash.
# Made by tools/gen_help.py from the tables of the binary: change those, then `make help-files`.

# _retort_offer WORD...: those that begin with what is typed.
_retort_offer() {
    local word
    for word; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
}

# _retort_paths -f|-d: files, or folders alone.
_retort_paths() {
    local path
    compopt -o filenames 2>/dev/null # fails outside of a completion
    while IFS= read -r path; do
        COMPREPLY+=("$path")
    done < <(compgen "$1" -- "$cur")
}

_retort() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local flags= paths= given word
    COMPREPLY=()
    # Of --flag=value bash makes three words.
    if [[ $cur == "=" ]]; then
        cur=
    elif [[ $prev == "=" ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if ((COMP_CWORD == 1)); then
        _retort_offer cache chat convert distill doctor eval export generate init inspect merge plan quantize report serve tokenize train verify help --help --version
        return
    elif ((COMP_CWORD == 2)) && [[ $command == help ]]; then
        _retort_offer cache chat convert distill doctor eval export generate init inspect merge plan quantize report serve tokenize train verify
        return
    fi
    given=" ${COMP_WORDS[*]:2:COMP_CWORD-2} "
    if [[ $given != *" -- "* ]]; then
        case $command:$prev in
        *:--teacher | *:--student | *:--base | *:--data | *:--eval-data | generate:--out | report:--out | \
            tokenize:--out | tokenize:--chat-template | *:--from | cache:--to | export:--to | \
            cache:--tokens | *:--sample-prompts | *:--cublaslt | *:--config | *:--tasks | *:--beside | \
            *:--details | *:--tokenizer | *:--token-file | *:--model)
            _retort_paths -f
            return
            ;;
        cache:--out | distill:--out | plan:--out | train:--out)
            _retort_paths -d
            return
            ;;
        *:--seq-len | *:--temperature | *:--held-out | *:--held-seed | *:--seed | *:--teacher-batch | \
            *:--columns | *:--template-var | *:--skip-bad | *:--vocab | *:--threads | *:--keep | *:--part | \
            *:--join | distill:--tokens | plan:--tokens | train:--tokens | *:--window | *:--system | \
            *:--max-new | *:--top-k | *:--top-p | *:--min-p | *:--repetition-penalty | *:--context | \
            *:--activations | *:--shard-size | *:--beta | *:--skew | *:--alpha | *:--kd-weight | \
            *:--ce-weight | *:--lr | *:--betas | *:--eps | *:--weight-decay | *:--warmup | *:--decay | \
            *:--lr-floor | *:--max-grad-norm | *:--batch | *:--micro-batch | *:--steps | *:--epochs | \
            *:--time | *:--lora-rank | *:--lora-alpha | *:--lora-dropout | *:--lora-targets | *:--freeze | \
            *:--zero | *:--head-chunk | *:--memory-limit | *:--eval-every | *:--eval-rows | \
            *:--stop-if-worse | *:--sample-tokens | *:--save-every | *:--dump-step | *:--on-device-failure | \
            *:--device-timeout | *:--keep-host-copy | *:--devices | *:--restarts | *:--log-every | \
            *:--held-out-of | *:--require | *:--slots | *:--bf16-layers | *:--word | *:--rows | *:--prompt | \
            *:--samples | *:--layers | *:--depth | *:--port | *:--host | *:--name | *:--cache-positions | \
            *:--top-logprobs | *:--max-queue | *:--max-body | *:--max-uploads | *:--timeout | \
            *:--idle-timeout | *:--cors | *:--show | *:--now | *:--eos | *:--shard-tokens | *:--op | \
            *:--case | *:--isa)
            return
            ;;
        *:--teacher-weights)
            _retort_offer auto native bf16 fp8 fp8-native
            return
            ;;
        *:--teacher-memory)
            _retort_offer auto device host disk
            return
            ;;
        cache:--chat-template | distill:--chat-template | eval:--chat-template | plan:--chat-template | \
            train:--chat-template)
            _retort_offer teacher student
            _retort_paths -f
            return
            ;;
        *:--loss-on)
            _retort_offer turns all
            return
            ;;
        *:--device)
            _retort_offer cuda vulkan cpu ref auto
            return
            ;;
        *:--tune)
            _retort_offer on off all known
            return
            ;;
        convert:--to | init:--to | merge:--to | quantize:--to)
            _retort_offer hf safetensors gguf apr
            return
            ;;
        *:--format)
            _retort_offer axolotl vllm surogate
            return
            ;;
        *:--dtype)
            _retort_offer f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q5_k q6_k q4_k_m q4_k_s q5_k_m q5_k_s
            return
            ;;
        *:--divergence)
            _retort_offer forward-kl reverse-kl jsd skew-forward skew-reverse tv
            return
            ;;
        *:--t2)
            _retort_offer on off
            return
            ;;
        *:--lr-class)
            _retort_offer near far random
            return
            ;;
        *:--optimizer)
            _retort_offer adamw adamw-bf16 adamw-8bit
            return
            ;;
        *:--schedule)
            _retort_offer constant linear cosine wsd
            return
            ;;
        *:--recompute)
            _retort_offer keep none norms mlp block
            return
            ;;
        *:--save)
            _retort_offer best last
            return
            ;;
        *:--save-dtype)
            _retort_offer f32 bf16 f16
            return
            ;;
        *:--device-memory)
            _retort_offer auto device managed
            return
            ;;
        *:--kernels)
            _retort_offer auto ptx ptx75 ptx80
            return
            ;;
        *:--weights)
            _retort_offer native bf16 fp8 fp8-native
            return
            ;;
        *:--preset)
            _retort_offer tiny tiny-llama tiny-qwen2 tiny-qwen3 tiny-mistral tiny-smollm3 small qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b qwen2.5-14b qwen2.5-32b qwen3-0.6b qwen3-1.7b qwen3-4b qwen3-8b llama-3.2-1b llama-3.2-3b llama-3.1-8b smollm2-135m smollm2-360m smollm2-1.7b smollm3-3b mistral-7b
            return
            ;;
        *:--backend)
            _retort_offer cuda vulkan cpu ref
            return
            ;;
        esac
    fi
    case $command in
    cache)
        flags='--teacher --student --base --data --eval-data --out --seq-len --temperature --held-out --held-seed
            --seed --teacher-weights --teacher-batch --teacher-memory --chat-template --columns --template-var
            --loss-on --skip-bad --allow-drop --vocab --device --tune --threads --keep --fill --part --join
            --from --to --format --tokens --window --json --quiet --help'
        paths=1
        ;;
    chat)
        flags='--system --max-new --temperature --top-k --top-p --min-p --repetition-penalty --seed --context
            --quiet --base --device --threads --activations --help'
        paths=1
        ;;
    convert)
        flags='--to --dtype --adapter --shard-size --base --force --no-tokenizer --threads --json --help'
        paths=1
        ;;
    distill)
        flags='--teacher --student --base --data --eval-data --out --divergence --beta --skew --temperature --alpha
            --kd-weight --ce-weight --t2 --lr --lr-class --optimizer --betas --eps --weight-decay --schedule
            --warmup --decay --lr-floor --max-grad-norm --batch --micro-batch --teacher-batch --teacher-weights
            --teacher-memory --seq-len --steps --tokens --epochs --time --lora --lora-rank --lora-alpha
            --lora-dropout --lora-targets --merge --freeze --recompute --zero --head-chunk --memory-limit
            --columns --loss-on --chat-template --template-var --skip-bad --allow-drop --vocab
            --allow-degenerate --held-out --eval-every --eval-rows --stop-if-worse --sample-prompts
            --sample-tokens --save-every --keep --save --save-dtype --control --dump-step --seed --held-seed
            --device --on-device-failure --device-timeout --keep-host-copy --device-memory --kernels --cublaslt
            --tune --sync --threads --config --fit --smoke --resume --override --devices --restarts --log-every
            --quiet --json --help'
        ;;
    doctor)
        flags='--json --help'
        ;;
    eval)
        flags='--data --held-out-of --tasks --beside --require --chat --details --slots --teacher --teacher-weights
            --weights --bf16-layers --word --seq-len --batch --rows --columns --loss-on --chat-template
            --template-var --skip-bad --allow-drop --vocab --base --device --threads --json --help'
        paths=1
        ;;
    export)
        flags='--to --dtype --adapter --base --force --threads --json --help'
        paths=1
        ;;
    generate)
        flags='--prompt --system --raw --max-new --temperature --top-k --top-p --min-p --repetition-penalty --seed
            --context --data --out --samples --best-of --logprobs --slots --ids --json --quiet --base --device
            --threads --activations --help'
        paths=1
        ;;
    init)
        flags='--preset --list --config --from --layers --depth --dtype --seed --tokenizer --no-tokenizer --to
            --force --shard-size --threads --json --help'
        paths=1
        ;;
    inspect)
        flags='--base --tensors --no-hash --threads --json --help'
        paths=1
        ;;
    merge)
        flags='--dtype --to --shard-size --base --force --no-tokenizer --threads --json --help'
        paths=1
        ;;
    plan)
        flags='--teacher --student --base --data --eval-data --out --divergence --beta --skew --temperature --alpha
            --kd-weight --ce-weight --t2 --lr --lr-class --optimizer --betas --eps --weight-decay --schedule
            --warmup --decay --lr-floor --max-grad-norm --batch --micro-batch --teacher-batch --teacher-weights
            --teacher-memory --seq-len --steps --tokens --epochs --time --lora --lora-rank --lora-alpha
            --lora-dropout --lora-targets --merge --freeze --recompute --zero --head-chunk --memory-limit
            --columns --loss-on --chat-template --template-var --skip-bad --allow-drop --vocab
            --allow-degenerate --held-out --eval-every --eval-rows --stop-if-worse --sample-prompts
            --sample-tokens --save-every --keep --save --save-dtype --control --dump-step --seed --held-seed
            --device --on-device-failure --device-timeout --keep-host-copy --device-memory --kernels --cublaslt
            --tune --sync --threads --config --fit --devices --ops --json --help'
        ;;
    quantize)
        flags='--dtype --to --base --force --no-tokenizer --threads --json --help'
        paths=1
        ;;
    report)
        flags='--out --json --help'
        paths=1
        ;;
    serve)
        flags='--port --host --name --slots --context --cache-positions --top-logprobs --max-queue --max-body
            --max-uploads --timeout --idle-timeout --token-file --cors --quiet --base --device --threads --help'
        paths=1
        ;;
    tokenize)
        flags='--model --out --show --seq-len --loss-on --columns --chat-template --template-var --now --eos
            --skip-bad --allow-drop --shard-tokens --vocab --verify --force --threads --ids --decode
            --no-special --json --help'
        paths=1
        ;;
    train)
        flags='--student --base --data --eval-data --out --ce-weight --lr --lr-class --optimizer --betas --eps
            --weight-decay --schedule --warmup --decay --lr-floor --max-grad-norm --batch --micro-batch
            --seq-len --steps --tokens --epochs --time --lora --lora-rank --lora-alpha --lora-dropout
            --lora-targets --merge --freeze --recompute --zero --head-chunk --memory-limit --columns --loss-on
            --chat-template --template-var --skip-bad --allow-drop --vocab --held-out --eval-every --eval-rows
            --stop-if-worse --sample-prompts --sample-tokens --save-every --keep --save --save-dtype --dump-step
            --seed --held-seed --device --on-device-failure --device-timeout --keep-host-copy --device-memory
            --kernels --cublaslt --tune --sync --threads --config --fit --smoke --resume --override --devices
            --restarts --log-every --quiet --json --help'
        ;;
    verify)
        flags='--backend --op --case --quick --large --device --threads --isa --memory-limit --kernels --cublaslt
            --sync --list --json --help'
        paths=1
        ;;
    *) return ;;
    esac
    if [[ $cur == -* && $given != *" -- "* ]]; then
        for word in $flags; do
            case $word in
            --beside | --data | --eval-data | --freeze | --from | --join | --require | --tasks | --template-var) ;; # may be repeated
            *) [[ $given == *" $word "* ]] && continue ;;
            esac
            _retort_offer "$word"
        done
    elif [[ $paths ]]; then
        _retort_paths -f
    fi
}
complete -F _retort retort
