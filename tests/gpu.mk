# make test-gpu: all that is right or wrong on a machine with an NVIDIA GPU (docs/cuda.md, Tests); no part of `make test`.
#
#   GPU_FLAGS='--only verify,bits --jobs 4'   some parts; tests/gpu/run.py --help says more
#
# Results as JSON in $(BUILD)/test-gpu.json.
GPU_TRACE := $(BUILD)/tests/gpu_trace.so
$(GPU_TRACE): tests/gpu/trace.c $(wildcard src/backend/cuda/*.h) $(BUILD)/cflags.stamp
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -g -fPIC -shared -Isrc -o $@ $<

test-gpu:
	@tools/setup.sh
	@+$(MAKE) --no-print-directory $(jobs) run-test-gpu

run-test-gpu: all $(KILL_CHECKER) $(GPU_TRACE)
	@$(PYTHON) tests/gpu/run.py --retort $(BUILD)/retort --build $(BUILD) --json $(BUILD)/test-gpu.json $(GPU_FLAGS)

.PHONY: test-gpu run-test-gpu
