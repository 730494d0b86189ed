# Fuzz targets: every tests/fuzz/fuzz_NAME.c, with its corpus in tests/fuzz/corpus/NAME and, where there is one, its
# dictionary tests/fuzz/NAME.dict.
#
#   make fuzz [FUZZ="jinja encode"] [FUZZ_SECONDS=600]   libFuzzer with sanitizers, one target after another
#   make fuzz-merge [FUZZ=...]                           adds what widens coverage to the committed corpora
#
#   make fuzz-cli [FUZZ_SECONDS=600] [SAN=address]         command lines and YAML by grammar, from where it was cut off
#
# `make test` replays the corpora: the same sources, with a main() of their own (tests/fuzz/replay.h).
FUZZ_SECONDS ?= 600
FUZZ_SRCS    := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_NAMES   := $(FUZZ_SRCS:tests/fuzz/fuzz_%.c=%)
FUZZ         ?= $(FUZZ_NAMES)
REPLAY_OBJS  := $(FUZZ_SRCS:%.c=$(BUILD)/%.replay.o)
REPLAY_PROGS := $(FUZZ_NAMES:%=$(BUILD)/replay/%)
ALL_OBJS     += $(REPLAY_OBJS)

$(BUILD)/%.replay.o: %.c $(BUILD)/cflags.stamp | libs
	$(call say,CC,'$< (replay)')
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -DRT_FUZZ_REPLAY -MMD -MP -c $< -o $@

$(REPLAY_PROGS): $(BUILD)/replay/%: $(BUILD)/tests/fuzz/fuzz_%.replay.o $(LIBRETORT) $(BUILD)/link.stamp
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TEST_LD) $(ALL_LDFLAGS) $< $(LDLIBS) -o $@

# The parsers' rooms alone are instrumented: the others are slow to compile so and read no file.
FUZZ_ROOMS := base num format text settings teacher/cache teacher/remote
FUZZ_OBJS  := $(filter $(FUZZ_ROOMS:%=$(BUILD)/src/%/%),$(LIB_OBJS))
# Files of other rooms, each for its own target, which stands in for what they call there.
FUZZ_FILES_answers := job/job_answers_file job/job_tell
FUZZ_FILES_ask     := serve/serve_ask serve/serve_fields
FUZZ_FILES_tasks   := job/job_tasks_file job/job_tasks_ids job/job_tasks_score job/job_tell
FUZZ_FILES = $(FUZZ_FILES_$(1):%=$(BUILD)/src/%.o)
FUZZ_MORE := $(sort $(foreach f,$(FUZZ_NAMES),$(call FUZZ_FILES,$f)))
FUZZ_PROGS := $(FUZZ_NAMES:%=$(BUILD)/fuzz_%)
FUZZ_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
ALL_OBJS   += $(FUZZ_SRCS:%.c=$(BUILD)/%.o)

$(FUZZ_PROGS): $(BUILD)/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(FUZZ_OBJS) $(FUZZ_MORE) $(BUILD)/link.stamp
	$(call say,LD,$@)
	$(Q)$(CC) $(SAN_FLAGS) -fsanitize=fuzzer $(LDFLAGS) $< $(FUZZ_OBJS) $(call FUZZ_FILES,$*) $(OTHER_LIBS) -lm -lpthread -ldl -o $@

fuzz-programs: $(FUZZ:%=$(BUILD)/fuzz_%)

fuzz-build:
	@tools/setup.sh --fuzz
	@+$(MAKE) --no-print-directory $(jobs) BUILD=$(BUILD)/fuzz CC=clang CFLAGS='-O1 -g1' FUZZ='$(FUZZ)' \
	    SAN_FLAGS='$(FUZZ_FLAGS) -fsanitize=fuzzer-no-link' fuzz-programs

fuzz: fuzz-build
	$(PYTHON) tests/fuzz/run.py --build $(BUILD)/fuzz --seconds $(FUZZ_SECONDS) $(FUZZ)

fuzz-merge: fuzz-build
	$(PYTHON) tests/fuzz/run.py --build $(BUILD)/fuzz --merge $(FUZZ)

fuzz-cli: $(BUILD)/retort
	$(PYTHON) tests/fuzz/cli.py $(BUILD)/retort --seconds $(FUZZ_SECONDS) --work $(BUILD)/fuzz-cli

.SECONDARY: $(REPLAY_OBJS)
.PHONY: fuzz fuzz-build fuzz-programs fuzz-merge fuzz-cli
