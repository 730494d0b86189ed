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

.PHONY: bench-cpu
