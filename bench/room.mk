# make bench-cpu: each CPU operation against ceilings measured in the same run. The threaded OpenBLAS that is one of the
# ceilings is opened at run time, never linked.
BENCH_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard bench/bench_cpu.c))
ALL_OBJS += $(BENCH_OBJS)

$(BUILD)/bench_cpu: $(BENCH_OBJS) $(LIBRETORT) $(BUILD)/link.stamp
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(BENCH_OBJS) $(LDLIBS) -o $@

bench-cpu:
	@tools/setup.sh --bench
	@+$(MAKE) --no-print-directory $(jobs) $(BUILD)/bench_cpu
	$(EMU) $(BUILD)/bench_cpu $(BENCH_FLAGS)

# make bench-text: encoding beside the `tokenizers` package, from the environment of `make test-interop`.
BENCH_TEXT_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard bench/bench_text.c))
ALL_OBJS += $(BENCH_TEXT_OBJS)

$(BUILD)/bench_text: $(BENCH_TEXT_OBJS) $(LIBRETORT) $(BUILD)/link.stamp
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(BENCH_TEXT_OBJS) $(LDLIBS) -o $@

bench-text:
	@tools/setup.sh --interop
	@+$(MAKE) --no-print-directory $(jobs) all $(BUILD)/bench_text $(VENV)/light.stamp
	$(VENV)/bin/python bench/bench_text.py --build $(BUILD) $(BENCH_FLAGS)
	$(PYTHON) bench/bench_format.py --retort $(BUILD)/retort --folder $(BUILD)

# make bench-table: Parquet and CSV as records beside pyarrow, MB of text a second on one core.
bench-table:
	@tools/setup.sh --interop
	@+$(MAKE) --no-print-directory $(jobs) $(BUILD)/interop/table_cli $(VENV)/light.stamp
	$(VENV)/bin/python bench/bench_table.py --build $(BUILD) $(BENCH_FLAGS)

# make bench-cache: bytes, rates and errors of what a teacher says, on disk.
BENCH_CACHE_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard bench/bench_cache.c))
ALL_OBJS += $(BENCH_CACHE_OBJS)

$(BUILD)/bench_cache: $(BENCH_CACHE_OBJS) $(LIBRETORT) $(BUILD)/link.stamp
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(BENCH_CACHE_OBJS) $(LDLIBS) -o $@

bench-cache:
	@+$(MAKE) --no-print-directory $(jobs) $(BUILD)/bench_cache
	$(BUILD)/bench_cache $(BENCH_FLAGS)

# make bench-serve BENCH_FLAGS='--model M': prompts scored and answers made over HTTP, beside retort eval.
bench-serve: all
	$(PYTHON) bench/bench_serve.py --retort $(BUILD)/retort $(BENCH_FLAGS)

# make bench-peer-cpu: a distillation step beside PyTorch's on this processor.
bench-peer-cpu:
	@tools/setup.sh --interop
	@+$(MAKE) --no-print-directory $(jobs) all $(VENV)/torch.stamp
	$(VENV)/bin/python bench/peer_cpu.py --retort $(BUILD)/retort --tmp $(BUILD) $(BENCH_FLAGS)

# make bench-gpu: the rates that are asked of a GPU, in one run. BENCH_FLAGS='--peer FILE --peer-head FILE
# --step-budget FILE' sets PyTorch's and a step's floor beside them; bench/bench_gpu.py --help says more. bench_cuda is
# built with the tests, which run it on the processor.
BENCH_CUDA_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard bench/bench_cuda.c bench/bench_fill.c bench/op_rows.c))
BENCH_CUDA_CLI  := $(BUILD)/src/cli/environment.o $(BUILD)/src/cli/print.o
ALL_OBJS += $(BENCH_CUDA_OBJS)

$(BUILD)/bench_cuda: $(BENCH_CUDA_OBJS) $(BENCH_CUDA_CLI) $(LIBRETORT) $(BUILD)/link.stamp
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(BENCH_CUDA_OBJS) $(BENCH_CUDA_CLI) $(LDLIBS) -o $@

tests: $(BUILD)/bench_cuda $(BUILD)/bench_decode

# make bench-decode: generation beside its floor, op by op. BENCH_FLAGS='--only 7b-q4-64' runs one case.
BENCH_DECODE_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard bench/bench_decode.c bench/bench_fill.c bench/op_rows.c))
ALL_OBJS += $(BUILD)/bench/bench_decode.o

$(BUILD)/bench_decode: $(BENCH_DECODE_OBJS) $(BENCH_CUDA_CLI) $(LIBRETORT) $(BUILD)/link.stamp
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(BENCH_DECODE_OBJS) $(BENCH_CUDA_CLI) $(LDLIBS) -o $@

bench-decode:
	@tools/setup.sh
	@+$(MAKE) --no-print-directory $(jobs) $(BUILD)/bench_decode
	$(BUILD)/bench_decode $(BENCH_FLAGS)

# make bench-vulkan: bytes and operations that instrumented shaders count, beside what plans say of each op. The counted
# shaders take the place of those of the library. BENCH_FLAGS=attn runs the ops with that in their names.
BENCH_VULKAN_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard bench/bench_vulkan.c bench/bench_fill.c bench/op_rows.c)) $(BUILD)/vk_counted.o
ALL_OBJS += $(BUILD)/bench/bench_vulkan.o

$(BUILD)/bench_vulkan: $(BENCH_VULKAN_OBJS) $(BENCH_CUDA_CLI) $(LIBRETORT) $(BUILD)/link.stamp
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(BENCH_VULKAN_OBJS) $(BENCH_CUDA_CLI) $(LDLIBS) -o $@

bench-vulkan:
	@tools/setup.sh --vulkan
	@+$(MAKE) --no-print-directory $(jobs) $(BUILD)/bench_vulkan
	$(BUILD)/bench_vulkan $(BENCH_FLAGS)

bench-gpu:
	@tools/setup.sh
	@+$(MAKE) --no-print-directory $(jobs) all $(BUILD)/bench_cuda
	$(PYTHON) bench/bench_gpu.py --build $(BUILD) --json $(BUILD)/bench-gpu.json $(BENCH_FLAGS)

.PHONY: bench-cache bench-cpu bench-decode bench-gpu bench-peer-cpu bench-serve bench-table bench-text bench-vulkan
