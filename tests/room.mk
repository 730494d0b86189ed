# Every tests/unit/test_*.c is a program of its own; structure and cli tests are scripts; fuzz targets replay their
# corpora. tools/run_tests.py runs them all, counts their cases and ends with `N passed, N failed`.
UNIT_SRCS  := $(sort $(wildcard tests/unit/test_*.c))
UNIT_OBJS  := $(UNIT_SRCS:%.c=$(BUILD)/%.o)
UNIT_PROGS := $(UNIT_SRCS:tests/unit/%.c=$(BUILD)/tests/%)
STRUCTURE_TESTS := $(sort $(wildcard tests/structure/test_*.py tests/structure/test_*.sh))
CLI_TESTS       := $(sort $(wildcard tests/cli/*.sh))
ALL_OBJS += $(UNIT_OBJS)
include tests/browser.mk tests/fuzz.mk tests/gpu.mk tests/interop.mk
KILL_CHECKER := $(BUILD)/tests/check_checkpoints
ALL_OBJS += $(BUILD)/tests/kill/check_checkpoints.o
WRITE_RECORDER := $(BUILD)/tests/record_writes.so
FAST_CLOCK     := $(BUILD)/tests/fast_clock.so
VK_FAULTS      := $(if $(VULKAN_HEADERS),$(BUILD)/tests/faults/libvulkan.so.1)

# For programs that hang, on a machine that others use too. Emulated and sanitized programs are many times slower.
TEST_TIMEOUT ?= $(if $(CROSS)$(SAN),900,600)
RUN_TESTS = BUILD='$(BUILD)' CC='$(CC)' NM='$(NM)' SAN_FLAGS='$(SAN_FLAGS)' LIBS_LINE='$(LIBS_LINE)' \
            $(PYTHON) tools/run_tests.py --jobs $(JOBS) --timeout $(TEST_TIMEOUT) --emu '$(EMU)' --retort $(BUILD)/retort

# The libraries are looked for when the Makefile is read, so what set-up has just installed is seen by the second make.
# Without -j on the command line that one uses every core.
jobs = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))
# No test runs a kernel where there is no GPU: they are compiled for who asks for them (CUDA_ARCHS), as .ci/run does.
TEST_NVCC = $(if $(filter file,$(origin CUDA_ARCHS)),$(NO_GPU_NVCC))
test:
	@tools/setup.sh --vulkan $(if $(CROSS),--cross)
	@+$(MAKE) --no-print-directory $(jobs) $(TEST_NVCC) run-test

test-quick:
	@tools/setup.sh $(if $(CROSS),--cross)
	@+$(MAKE) --no-print-directory $(jobs) run-test-quick

run-test: all tests lib
	@echo '$(CUDA_NOTE)'
	@$(RUN_TESTS) --verify cpu --verify ref --structure $(STRUCTURE_TESTS) --cli $(CLI_TESTS) --unit $(UNIT_PROGS) \
	    --replay $(REPLAY_PROGS)

# What a tool adds nothing to is left out: the thread sanitizer to programs of one thread (those that take seconds), the
# address sanitizer to plans of large shapes, an emulated CPU to what is above arithmetic, memory layout and parsing.
SKIP_thread  := cuda_backend cuda_fit cuda_tune decoder gguf lower num quant report settings_yaml tokenizer_parts verify vocab_convert
SKIP_address := cuda_fit
SKIP_aarch64 := api audit convert cuda_backend cuda_fit cuda_train cuda_tune decoder dump evidence init oom report run_ahead run_memory \
                run_plan run_verify samples
QUICK_SKIP   := $(SKIP_$(SAN)) $(if $(CROSS),$(SKIP_$(ARCH)))
QUICK_PROGS   = $(filter-out $(QUICK_SKIP:%=$(BUILD)/tests/test_%),$(UNIT_PROGS))
run-test-quick: all $(QUICK_PROGS) $(REPLAY_PROGS)
	@$(RUN_TESTS) --quick --verify cpu --verify ref --unit $(QUICK_PROGS) --replay $(REPLAY_PROGS)

# The fastest linker that is here. retort itself is linked by the compiler's own.
linker_here = $(shell for l in lld gold; do $(CC) -fuse-ld=$$l -Wl,--version >/dev/null 2>&1 && echo -fuse-ld=$$l && break; done)
TEST_LD = $(eval TEST_LD := $$(linker_here))$(TEST_LD)

tests: $(UNIT_PROGS) $(REPLAY_PROGS) $(KILL_CHECKER) $(WRITE_RECORDER) $(FAST_CLOCK) $(VK_FAULTS) $(GPU_TRACE)

# Programs of their own: those that stand in for functions or data of the library or of the C library.
OWN_PROGS := $(filter $(BUILD)/tests/test_cuda_% $(BUILD)/tests/test_estimate $(BUILD)/tests/test_tfevents,$(UNIT_PROGS))
$(OWN_PROGS): $(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(LIBRETORT) $(BUILD)/link.stamp
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TEST_LD) $(ALL_LDFLAGS) $(TEST_LDFLAGS) $< $(LIB_cmocka) $(LDLIBS) -o $@

# The others are one, under all of their names (tests/one_program.c).
ONE_PROGRAM := $(BUILD)/tests/one_program
ONE_NAMES   := $(patsubst $(BUILD)/tests/%,%,$(filter-out $(OWN_PROGS),$(UNIT_PROGS)))
ONE_OBJS    := $(ONE_NAMES:%=$(BUILD)/tests/unit/%.one.o)
ALL_OBJS    += $(BUILD)/tests/one_program.o
one_names.stamp_TEXT = $(ONE_NAMES)
$(BUILD)/tests/unit/%.one.o: $(BUILD)/tests/unit/%.o
	$(Q)$(OBJCOPY) --redefine-sym main=$*_main $< $@
$(BUILD)/tests/one_program.o: ROOM_CPPFLAGS := -DRT_TESTS='$(foreach n,$(ONE_NAMES),X($n))'
$(BUILD)/tests/one_program.o: $(BUILD)/one_names.stamp
$(ONE_PROGRAM): $(BUILD)/tests/one_program.o $(ONE_OBJS) $(LIBRETORT) $(BUILD)/link.stamp
	$(call say,LD,$@)
	$(Q)$(CC) $(TEST_LD) $(ALL_LDFLAGS) $(TEST_LDFLAGS) $< $(ONE_OBJS) $(LIB_cmocka) $(LDLIBS) -o $@
$(ONE_NAMES:%=$(BUILD)/tests/%): $(ONE_PROGRAM)
	$(Q)ln -f $< $@

# A stand-in for NVIDIA's libraries, which the CUDA backend opens by name: these tests look for them beside themselves.
STANDIN := $(BUILD)/tests/standin/libcuda.so.1
CUDA_TESTS := $(filter $(BUILD)/tests/test_cuda_%,$(UNIT_PROGS))
$(STANDIN): tests/cuda/standin.c $(wildcard tests/cuda/*.h src/backend/cuda/*.h src/backend/cuda/libs/*.h src/num/*.h) $(BUILD)/cflags.stamp
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -g -fPIC -shared -Isrc -o $@ $< -lm
	$(Q)ln -sf $(@F) $(@D)/libcublasLt.so.13
	$(Q)ln -sf $(@F) $(@D)/libnccl.so.2
$(CUDA_TESTS): $(STANDIN)
# The old kind of path is also looked at when a sanitizer's dlopen stands between.
$(CUDA_TESTS): TEST_LDFLAGS += -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/standin'

# On a clock of its own.
$(BUILD)/tests/test_estimate: TEST_LDFLAGS += -Wl,--wrap=rt_now

# On the stand-in every module of kernels is found by name.
comma := ,
CUDA_MODULES := $(notdir $(basename $(wildcard src/backend/cuda/kernels/*.cu)))
CUDA_TEST_OBJS := $(CUDA_TESTS:$(BUILD)/tests/%=$(BUILD)/tests/unit/%.o)
$(CUDA_TEST_OBJS): $(wildcard src/backend/cuda/kernels/*.cu)
$(CUDA_TEST_OBJS): ROOM_CPPFLAGS := -DRT_CUDA_MODULE_COUNT=$(words $(CUDA_MODULES)) \
    -DRT_CUDA_MODULES='"$(subst $(empty) $(empty),$(comma),$(CUDA_MODULES))"'

$(KILL_CHECKER): $(BUILD)/tests/kill/check_checkpoints.o $(LIBRETORT) $(BUILD)/link.stamp
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TEST_LD) $(ALL_LDFLAGS) $< $(LDLIBS) -o $@

# Preloaded into a run: tools/crash_test.py, tests/cli/terminal.py.
$(WRITE_RECORDER): tests/kill/record_writes.c
$(FAST_CLOCK): tests/clock/fast_clock.c
$(WRITE_RECORDER) $(FAST_CLOCK): $(BUILD)/cflags.stamp
	$(call say,CC,$(filter %.c,$^))
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -g -fPIC -shared -o $@ $(filter %.c,$^)

# Stands before the machine's Vulkan loader: tests/cli/ladder.sh, tools/ladder_test.py.
$(BUILD)/tests/faults/libvulkan.so.1: tests/vulkan/faults.c src/backend/vulkan/vk_driver.h $(BUILD)/cflags.stamp
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -g -fPIC -shared -Isrc $(SYSROOT_CFLAGS) -o $@ $<

run-test-ladder: all $(VK_FAULTS)
	$(PYTHON) tools/ladder_test.py --retort $(BUILD)/retort --loader $(VK_FAULTS) $(LADDER_FLAGS)

test-ladder:
	@tools/setup.sh --vulkan
	@+$(MAKE) --no-print-directory $(jobs) run-test-ladder

test-crash:
	@tools/setup.sh
	@+$(MAKE) --no-print-directory $(jobs) run-test-crash

run-test-crash: all $(WRITE_RECORDER)
	$(PYTHON) tools/crash_test.py --retort $(BUILD)/retort --recorder $(WRITE_RECORDER) $(CRASH_FLAGS)

test-kill:
	@tools/setup.sh $(if $(CROSS),--cross)
	@+$(MAKE) --no-print-directory $(jobs) run-test-kill

run-test-kill: all $(KILL_CHECKER)
	$(PYTHON) tools/kill_test.py --retort $(BUILD)/retort --checker $(KILL_CHECKER) --emu '$(EMU)' $(KILL_FLAGS)

test-alter:
	@tools/setup.sh $(if $(CROSS),--cross)
	@+$(MAKE) --no-print-directory $(jobs) run-test-alter

# Longer, in parts that add up: ALTER_FLAGS='--trials 2000 --seconds 600 --tally FILE'.
run-test-alter: all
	$(PYTHON) tools/alter_test.py verify --retort $(BUILD)/retort --emu '$(EMU)' $(ALTER_FLAGS)
	$(PYTHON) tools/alter_test.py resume --retort $(BUILD)/retort --emu '$(EMU)' $(ALTER_FLAGS)

mutants:
	@tools/setup.sh $(if $(CROSS),--cross)
	@+$(MAKE) --no-print-directory $(jobs) NVCC= CUDA_WHY='no mutant is in them' all tests
	$(PYTHON) tools/mutants.py --build '$(BUILD)' $(MUTANT_FLAGS)

mutants-step:
	@tools/setup.sh $(if $(CROSS),--cross)
	@+$(MAKE) --no-print-directory $(jobs) NVCC= CUDA_WHY='no mutant is in them' all tests
	$(PYTHON) tools/mutants.py --rooms model,infer,teacher,teacher/cache,teacher/remote,train,job/prepare,job/run,evidence,report --build '$(BUILD)' $(MUTANT_FLAGS)

.SECONDARY: $(UNIT_OBJS) $(ONE_OBJS)
.PHONY: test-ladder run-test-ladder test test-quick run-test run-test-quick tests test-kill run-test-kill test-crash run-test-crash test-alter run-test-alter
.PHONY: mutants mutants-step
