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

# make bench-peer-cpu: a distillation step beside PyTorch's on this processor.
bench-peer-cpu:
	@tools/setup.sh --interop
	@+$(MAKE) --no-print-directory $(jobs) all $(VENV)/torch.stamp
	$(VENV)/bin/python bench/peer_cpu.py --retort $(BUILD)/retort --tmp $(BUILD) $(BENCH_FLAGS)

.PHONY: bench-cpu bench-peer-cpu bench-text
