# What we make of models and text beside what the public Python packages make of them.
#
#   make test-interop         every tests/interop/test_*.py, PyTorch's included
#   make test-interop-light   those that need no PyTorch (all but *_torch.py and *_large.py), on fewer texts; .ci/run runs it
#   INTEROP=tokenizers,jinja  only tests whose names contain one of these
#
# The packages go into a virtual environment in the build folder. tests/interop/NAME_cli.c become programs that a test
# talks to, in $(BUILD)/interop.
VENV         := $(BUILD)/venv
INTEROP      ?=
INTEROP_SRCS := $(sort $(wildcard tests/interop/*_cli.c))
INTEROP_OBJS := $(INTEROP_SRCS:%.c=$(BUILD)/%.o)
INTEROP_PROGS := $(INTEROP_SRCS:tests/interop/%.c=$(BUILD)/interop/%)
ALL_OBJS += $(INTEROP_OBJS)

$(INTEROP_PROGS): $(BUILD)/interop/%: $(BUILD)/tests/interop/%.o $(LIBRETORT) $(BUILD)/link.stamp
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) $< $(LDLIBS) -o $@

$(VENV)/light.stamp: tests/interop/requirements.txt
	$(call say,PIP,$<)
	$(Q)$(PYTHON) -m venv $(VENV) && $(VENV)/bin/pip install --quiet -r $< && touch $@

$(VENV)/torch.stamp: tests/interop/requirements-torch.txt $(VENV)/light.stamp
	$(call say,PIP,$<)
	$(Q)$(VENV)/bin/pip install --quiet -r $< && touch $@

RUN_INTEROP = BUILD='$(BUILD)' RETORT='$(BUILD)/retort' $(VENV)/bin/python tests/interop/run.py --only '$(INTEROP)'

test-interop:
	@tools/setup.sh --interop
	@+$(MAKE) --no-print-directory $(jobs) run-test-interop

test-interop-light:
	@tools/setup.sh --interop
	@+$(MAKE) --no-print-directory $(jobs) run-test-interop-light

run-test-interop: all $(INTEROP_PROGS) $(VENV)/torch.stamp
	@$(RUN_INTEROP)

run-test-interop-light: all $(INTEROP_PROGS) $(VENV)/light.stamp
	@$(RUN_INTEROP) --light

.SECONDARY: $(INTEROP_OBJS)
.PHONY: test-interop test-interop-light run-test-interop run-test-interop-light
