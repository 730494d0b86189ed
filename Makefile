# retort: one non-recursive Makefile; every room adds its files from its own room.mk. `make help` lists the targets.
#
# A room appends to these lists:
#   LIB_SRCS      ordinary library sources            -> libretort.a
#   CLI_SRCS      sources of the binary alone         -> retort
#   REF_SRCS      compiled twice, for float and double (RT_REAL_FLOAT, RT_REAL_DOUBLE)
#   CPU_ISA_SRCS  compiled once per instruction set (RT_ISA=<isa>, RT_ISA_<isa>=1), chosen at run time
#   EMBED_SRCS    files put into the library byte by byte: src/report/report.html becomes rt_embed_report_html
#   USES          names of libraries, linked statically where there is an archive
#
# Variants, each with a build folder of its own: SAN=address, SAN=thread, DEBUG=1, ARCH=aarch64. Others name theirs:
# `make CC=clang BUILD=build/clang`. WERROR=1 makes warnings fail; V=1 shows whole commands.
MAKEFLAGS += --no-builtin-rules --no-builtin-variables
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# ---- what is built, for what, where ---------------------------------------------------------------------------------

HOST_ARCH := $(patsubst arm64,aarch64,$(patsubst amd64,x86_64,$(shell uname -m)))
ARCH      ?= $(HOST_ARCH)
TRIPLET   := $(ARCH)-linux-gnu
CROSS     := $(if $(filter $(HOST_ARCH),$(ARCH)),,1)

# `make` itself gives CC and AR a value, so ?= would never apply.
ifneq ($(filter default undefined,$(origin CC)),)
CC := $(if $(CROSS),$(TRIPLET)-gcc,gcc)
endif
ifneq ($(filter default undefined,$(origin AR)),)
AR := $(if $(CROSS),$(TRIPLET)-ar,ar)
endif
NM           ?= $(if $(CROSS),$(TRIPLET)-nm,nm)
OBJCOPY      ?= $(if $(CROSS),$(TRIPLET)-objcopy,objcopy)
PYTHON       ?= python3
CLANG_FORMAT ?= clang-format
PREFIX       ?= /usr/local
JOBS         ?= $(shell nproc 2>/dev/null || echo 1)

ifneq ($(filter-out address thread,$(SAN)),)
$(error SAN=$(SAN) is unknown; it is one of: address, thread)
endif
VARIANT_address := asan
VARIANT_thread  := tsan
empty           :=
VARIANT := $(if $(CROSS),$(ARCH)) $(if $(SAN),$(VARIANT_$(SAN))) $(if $(filter 1,$(DEBUG)),debug)
VARIANT := $(subst $(empty) ,-,$(strip $(VARIANT)))
BUILD   ?= build$(if $(VARIANT),/$(VARIANT))
ifeq ($(strip $(BUILD)),)
$(error BUILD is empty; it names the build folder)
endif

# Runs a program of the target on this machine. The thread sanitizer of gcc 12 cannot place its shadow memory when the
# kernel randomises addresses widely, so its programs run without; where that is forbidden they run as they are.
ifndef EMU
ifdef CROSS
EMU := qemu-$(ARCH) -L /usr/$(TRIPLET)
else ifeq ($(SAN),thread)
EMU := $(shell setarch -R true 2>/dev/null && echo setarch -R)
endif
endif

# ---- libraries: the archive where there is one, else the shared library; `make` prints which ------------------------

# Cross builds take their libraries from packages unpacked below build/; the C library comes with the cross compiler.
ifdef CROSS
SYSROOT ?= build/sysroot-$(ARCH)
ifeq ($(filter clean help format check-layers,$(MAKECMDGOALS)),)
include $(SYSROOT)/sysroot.mk
endif
SYSROOT_CFLAGS := -isystem $(SYSROOT)/usr/include -isystem $(SYSROOT)/usr/include/$(TRIPLET)
SYSROOT_LDFLAGS := -L$(SYSROOT)/usr/lib/$(TRIPLET)
TEST_LDFLAGS := -Wl,-rpath,$(abspath $(SYSROOT)/usr/lib/$(TRIPLET))
endif
LIB_DIR := $(SYSROOT)/usr/lib/$(TRIPLET)
INC_DIR := $(SYSROOT)/usr/include/$(TRIPLET)

LIB_openblas    ?= $(or $(firstword $(wildcard $(LIB_DIR)/openblas-serial/libopenblas.a)),-lopenblas)
CFLAGS_openblas ?= $(addprefix -isystem ,$(wildcard $(INC_DIR)/openblas-serial))
LIB_cmocka      ?= -lcmocka
# A room that needs another library appends its name, as in libNAME.a, to USES; LIB_NAME=... overrides what is found.
USES := jansson xxhash
library = $(or $(LIB_$(1)),$(firstword $(wildcard $(LIB_DIR)/lib$(1).a)),-l$(1))

# OpenBLAS as Debian builds its serial flavour hands one work buffer to two threads that ask at the same moment, and
# both get wrong numbers. cpu_blas_guard.c stands in for two functions of the archive, or, where there is only a shared
# library whose inside cannot be reached, lets one call in at a time. cpu_blas_core.c stands in for the function that
# chooses the kernels.
ifneq ($(filter %.a,$(LIB_openblas)),)
BLAS_WRAP     := -Wl,--wrap=blas_memory_alloc -Wl,--wrap=blas_memory_free -Wl,--wrap=gotoblas_dynamic_init
BLAS_CPPFLAGS := -DRT_BLAS_ARCHIVE=1
BLAS_NOTE     :=
else
BLAS_WRAP     := -Wl,--wrap=cblas_sgemm
BLAS_CPPFLAGS := -DRT_BLAS_ARCHIVE=0
BLAS_NOTE     := (one call at a time, slow: no archive found)
endif

# ---- flags ----------------------------------------------------------------------------------------------------------

# Sanitized kernels compile three times slower at -O3 with full debug information; lines are all that a report needs.
CFLAGS ?= $(if $(SAN),-O1 -g1,$(if $(filter 1,$(DEBUG)),-O1,-O2) -g)
WARN   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef $(if $(filter 1,$(WERROR)),-Werror)
# Strict IEEE everywhere: no -ffast-math, no -march=native, no contraction. Kernel objects opt into contraction below.
BASE_CFLAGS := -std=c11 -D_GNU_SOURCE $(WARN) -fvisibility=hidden -fno-math-errno -ffp-contract=off -Isrc
ifeq ($(DEBUG),1)
BASE_CFLAGS += -DRT_DEBUG=1
endif
SAN_FLAGS_address := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SAN_FLAGS_thread  := -fsanitize=thread -fno-omit-frame-pointer
SAN_FLAGS  := $(SAN_FLAGS_$(SAN))
ALL_CFLAGS  = $(BASE_CFLAGS) $(SAN_FLAGS) $(SYSROOT_CFLAGS) $(CFLAGS_openblas) $(CPPFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(SAN_FLAGS) $(SYSROOT_LDFLAGS) $(BLAS_WRAP) $(LDFLAGS)

# Every architecture has the generic kernels; the others are compiled for one instruction set each.
ISAS_x86_64  := generic avx2 avx512
ISAS_aarch64 := generic neon
CPU_ISAS     := $(or $(ISAS_$(ARCH)),generic)
ISA_FLAGS_generic :=
ISA_FLAGS_avx2    := -mavx2 -mfma -mf16c
ISA_FLAGS_avx512  := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -mprefer-vector-width=512
ISA_FLAGS_neon    := -march=armv8.2-a+fp16
# Instructions for sums of products of bytes, which not every machine of an instruction set has; nor every compiler.
DOT_FLAGS_avx2    := $(if $(filter avx2,$(CPU_ISAS)),$(shell $(CC) -mavxvnni -E - </dev/null >/dev/null 2>&1 && echo -mavxvnni))
DOT_FLAGS_avx512  := -mavx512vnni
DOT_FLAGS_neon    := -march=armv8.2-a+fp16+dotprod
DOT_ISAS          := $(foreach i,$(CPU_ISAS),$(if $(DOT_FLAGS_$(i)),$(i)))
KERNEL_CFLAGS     := $(if $(SAN),-O1,-O3) -ffp-contract=fast -fno-math-errno -fno-trapping-math
# The specification in vectors: what is independent side by side, every sum in the order that is written.
REF_CFLAGS        := $(if $(SAN),,-O3)
# What `retort --version` says besides the version; one object is compiled again when it changes.
BUILD_ID          := $(or $(shell git describe --always --dirty --tags 2>/dev/null),unknown)
CPU_CPPFLAGS      := $(CPU_ISAS:%=-DRT_HAVE_%=1) $(DOT_ISAS:%=-DRT_HAVE_%_dot=1) $(BLAS_CPPFLAGS)

# ---- rooms ----------------------------------------------------------------------------------------------------------

# The sources of a room are those in its folder.
files_of = $(sort $(wildcard $(1)/*.c))
LIB_SRCS     :=
CLI_SRCS     :=
REF_SRCS     :=
CPU_ISA_SRCS :=
CPU_DOT_SRCS :=
EMBED_SRCS   :=
ROOMS := $(sort $(wildcard src/*/room.mk src/*/*/room.mk))
include $(ROOMS)
LIB_SRCS += src/backend/cpu/cpu_blas_guard.c

REALS    := float double
REF_OBJS := $(foreach r,$(REALS),$(REF_SRCS:%.c=$(BUILD)/%.$(r).o))
ISA_OBJS := $(foreach i,$(CPU_ISAS),$(CPU_ISA_SRCS:%.c=$(BUILD)/%.$(i).o)) \
            $(foreach i,$(DOT_ISAS),$(CPU_DOT_SRCS:%.c=$(BUILD)/%.$(i)_dot.o))
EMBED_OBJS := $(EMBED_SRCS:%=$(BUILD)/%.o)
CUDA_OBJ := $(BUILD)/cuda_kernels.o
VK_OBJ := $(BUILD)/vk_shaders.o
LIB_OBJS := $(sort $(LIB_SRCS:%.c=$(BUILD)/%.o) $(REF_OBJS) $(ISA_OBJS) $(EMBED_OBJS) $(CUDA_OBJ) $(VK_OBJ))
CLI_OBJS := $(sort $(CLI_SRCS:%.c=$(BUILD)/%.o))
ALL_OBJS := $(LIB_OBJS) $(CLI_OBJS)

# The library calls OpenBLAS, and OpenBLAS's archive calls the guard in the library: a group is searched until nothing
# is missing.
LIBRETORT := $(BUILD)/libretort.a
OTHER_LIBS := $(foreach name,$(USES),$(call library,$(name)))
LDLIBS := -Wl,--start-group $(LIBRETORT) $(LIB_openblas) -Wl,--end-group $(OTHER_LIBS) -lm -lpthread -ldl
how_linked = $(if $(filter %.a,$(1)),static $(filter %.a,$(1)),shared $(1))
LIBS_LINE := openblas: $(call how_linked,$(LIB_openblas))$(if $(BLAS_NOTE), $(BLAS_NOTE)) \
             $(foreach name,$(USES),; $(name): $(call how_linked,$(call library,$(name))))
LIBS_LINE := $(subst $(empty) ;,;,$(strip $(LIBS_LINE)))

include $(wildcard tests/room.mk bench/room.mk)

# ---- rules ----------------------------------------------------------------------------------------------------------

ifeq ($(V),1)
Q   :=
say :=
else
Q   := @
say  = @printf '  %-7s %s\n' $(1) $(2)
endif

all: $(BUILD)/retort

libs:
	@echo '$(LIBS_LINE)'
	@echo '$(CUDA_NOTE)'
	@echo '$(VK_NOTE)'

$(BUILD)/retort: $(CLI_OBJS) $(LIBRETORT) $(BUILD)/link.stamp | libs
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(CLI_OBJS) $(LDLIBS) -o $@

$(LIBRETORT): $(LIB_OBJS) $(BUILD)/objects.stamp
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(LIB_OBJS)

# The public library: what src/api reaches in the other rooms and in the libraries, linked into one object in which
# retort_* are the only names left. Whoever links it needs nothing but what lib/libs says.
API_LIB := $(BUILD)/lib/libretort.a
lib: $(API_LIB)
$(API_LIB): $(LIBRETORT) $(BUILD)/link.stamp
	$(call say,LIB,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -r -nostdlib $(BLAS_WRAP) $(API_SRCS:%.c=$(BUILD)/%.o) -Wl,--start-group $(LIBRETORT) \
	    $(filter %.a,$(LIB_openblas)) -Wl,--end-group $(filter %.a,$(OTHER_LIBS)) -o $(@D)/retort.o
	$(Q)$(OBJCOPY) --wildcard --keep-global-symbol='retort_*' $(@D)/retort.o
	$(Q)echo '$(filter-out %.a,$(LIB_openblas) $(OTHER_LIBS)) -lm -lpthread -ldl' > $(@D)/libs
	$(Q)rm -f $@ && $(AR) rcs $@ $(@D)/retort.o && rm -f $(@D)/retort.o

$(BUILD)/%.o: %.c $(BUILD)/cflags.stamp | libs
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(ROOM_CPPFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/src/backend/cpu/%.o: ROOM_CPPFLAGS := $(CPU_CPPFLAGS)
$(BUILD)/src/cli/environment.o: ROOM_CPPFLAGS := -Iinclude -DRT_BUILD_ID='"$(BUILD_ID)"'
$(BUILD)/src/cli/environment.o: $(BUILD)/version.stamp

define REAL_RULE
$$(BUILD)/%.$(1).o: %.c $$(BUILD)/cflags.stamp | libs
	$$(call say,CC,'$$< ($(1))')
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(ALL_CFLAGS) $$(REF_CFLAGS) -DRT_REAL_$(2) -MMD -MP -c $$< -o $$@
endef
$(eval $(call REAL_RULE,float,FLOAT))
$(eval $(call REAL_RULE,double,DOUBLE))

define ISA_RULE
$$(BUILD)/%.$(1)$(2).o: %.c $$(BUILD)/cflags.stamp | libs
	$$(call say,CC,'$$< ($(1)$(2))')
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(ALL_CFLAGS) $$(CPU_CPPFLAGS) $$(KERNEL_CFLAGS) $$(ISA_FLAGS_$(1)) $(if $(2),$$(DOT_FLAGS_$(1))) \
	    -DRT_ISA=$(1) -DRT_ISA_$(1)=1 -DRT_HAVE_DOT=$(if $(DOT_FLAGS_$(1)),1,0) -DRT_DOT=$(if $(2),1,0) \
	    -MMD -MP -c $$< -o $$@
endef
$(foreach i,$(CPU_ISAS),$(eval $(call ISA_RULE,$(i))))
$(foreach i,$(DOT_ISAS),$(eval $(call ISA_RULE,$(i),_dot)))

$(EMBED_OBJS): $(BUILD)/%.o: % src/base/embed.S $(BUILD)/cflags.stamp | libs
	$(call say,EMBED,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -DRT_EMBED_FILE='"$<"' -DRT_EMBED_NAME=rt_embed_$(subst -,_,$(subst .,_,$(notdir $<))) \
	    -c src/base/embed.S -o $@

include src/backend/cuda/kernels.mk
include src/backend/vulkan/shaders.mk

# A stamp is rewritten only when its text changes, so another compiler, flag or list of objects rebuilds what it should.
STAMPS := $(addprefix $(BUILD)/,cflags.stamp kernels.stamp link.stamp objects.stamp version.stamp one_names.stamp)
cflags.stamp_TEXT  = $(CC) $(ALL_CFLAGS) $(CPU_CPPFLAGS) $(KERNEL_CFLAGS) $(REF_CFLAGS) $(foreach i,$(CPU_ISAS),$(ISA_FLAGS_$(i)) $(DOT_FLAGS_$(i)))
kernels.stamp_TEXT = $(CUDA_VERSION) $(CUDA_FILES) $(VK_FILES)
link.stamp_TEXT    = $(CC) $(ALL_LDFLAGS) $(CLI_OBJS) $(LDLIBS)
objects.stamp_TEXT = $(AR) $(LIB_OBJS)
version.stamp_TEXT = $(BUILD_ID)
$(STAMPS): $(BUILD)/%.stamp: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$($*.stamp_TEXT))' > $@.new
	@if cmp -s $@.new $@; then rm -f $@.new; else mv -f $@.new $@; fi

ifdef CROSS
$(SYSROOT)/sysroot.mk: tools/sysroot.sh
	tools/sysroot.sh $(ARCH) $(SYSROOT)
endif

# ---- development ----------------------------------------------------------------------------------------------------

# docs/demo.md: three small models trained on this repository's sources; and a public model into fewer of its layers.
# Without a GPU it waits for no kernels, unless some are there already; the next make adds them.
GPU_OR_KERNELS = $(wildcard /dev/nvidia0 /dev/dxg $(CUDA_DIR)/sm_*)
NO_GPU_WHY  = there is no GPU here (CUDA_ARCHS=90 compiles them)
NO_GPU_NVCC = $(if $(NVCC),$(if $(GPU_OR_KERNELS),,NVCC= CUDA_WHY='$(NO_GPU_WHY)'))
demo:
	@tools/setup.sh
	@+$(MAKE) --no-print-directory $(jobs) $(NO_GPU_NVCC) all
	@RETORT='$(BUILD)/retort' DEMO='$(BUILD)/demo' tools/demo.sh small

demo-real:
	@tools/setup.sh --interop
	@+$(MAKE) --no-print-directory $(jobs) $(NO_GPU_NVCC) all
	@RETORT='$(BUILD)/retort' DEMO='$(BUILD)/demo-real' tools/demo.sh real

check-layers:
	$(PYTHON) tools/check_layers.py

format:
	$(CLANG_FORMAT) -i $$(find src include examples tests bench -name '*.[ch]')

# Man pages and shell completions, from the tables that --help prints; they are kept in the tree.
help-files: $(BUILD)/retort
	EMU='$(EMU)' $(PYTHON) tools/gen_help.py --retort $(BUILD)/retort

# The binary with its man pages and completions; header, library and its pkg-config file, for
# `cc $(pkg-config --cflags --libs retort)`.
SHARE = $(DESTDIR)$(PREFIX)/share
install: $(BUILD)/retort $(API_LIB)
	install -D -m 755 $(BUILD)/retort '$(DESTDIR)$(PREFIX)/bin/retort'
	install -D -m 644 -t '$(SHARE)/man/man1' docs/man/*.1
	install -D -m 644 completions/retort.bash '$(SHARE)/bash-completion/completions/retort'
	install -D -m 644 -t '$(SHARE)/zsh/site-functions' completions/_retort
	install -D -m 644 -t '$(SHARE)/fish/vendor_completions.d' completions/retort.fish
	install -D -m 644 include/retort.h '$(DESTDIR)$(PREFIX)/include/retort.h'
	install -D -m 644 $(API_LIB) '$(DESTDIR)$(PREFIX)/lib/libretort.a'
	@mkdir -p '$(DESTDIR)$(PREFIX)/lib/pkgconfig'
	sed -e 's,@PREFIX@,$(PREFIX),' -e "s,@LIBS@,$$(cat $(BUILD)/lib/libs)," \
	    -e "s,@VERSION@,$$(sed -n 's/^.define RETORT_VERSION \"\(.*\)\"$$/\1/p' include/retort.h)," \
	    src/api/retort.pc.in > '$(DESTDIR)$(PREFIX)/lib/pkgconfig/retort.pc'

clean:
	rm -rf '$(BUILD)'

help:
	@echo 'make               build $(BUILD)/retort'
	@echo 'make release       the same with kernels for every GPU from sm_75 on (RELEASE_ARCHS)'
	@echo 'make lib           build $(API_LIB), the C API of include/retort.h'
	@echo 'make demo          install what is missing, build, distil a small model: minutes; ends with a page to look at'
	@echo 'make demo-real     a public model of 135 M parameters into 18 of its layers: minutes; DATA=path for your own text'
	@echo 'make test          install what is missing (tools/setup.sh), build, run every test'
	@echo 'make test-quick    unit tests and verify --quick; with SAN=address, SAN=thread or ARCH=aarch64 too'
	@echo 'make test-interop  models and text beside the public Python packages; test-interop-light: without PyTorch'
	@echo 'make test-browser  the page of retort report in headless Chromium (tools/setup.sh --browser installs it)'
	@echo 'make fuzz          every parser, FUZZ_SECONDS=600 each; FUZZ="name ..." for some'
	@echo 'make bench-cpu     speed of the CPU operations against ceilings measured in the same run'
	@echo 'make bench-vulkan  bytes and operations that Vulkan shaders count, beside their plans; BENCH_FLAGS=attn for some ops'
	@echo 'make bench-gpu     the rates that are asked of an NVIDIA GPU: steps, ops, the head; BENCH_FLAGS=--help says more'
	@echo 'make bench-text    encoding beside the tokenizers package, opening and converting beside a copy'
	@echo 'make bench-table   Parquet and CSV as records beside pyarrow, on one core, for each codec'
	@echo 'make bench-cache   bytes a position, rates and errors of a cache of a teacher'
	@echo "make bench-serve   prompts scored and answers made over HTTP, beside retort eval; BENCH_FLAGS='--model M'"
	@echo 'make bench-peer-cpu  a distillation step beside PyTorch on this processor'
	@echo 'make test-gpu      everything but speed on a machine with an NVIDIA GPU'
	@echo 'make test-kill     a run killed at 65 moments and resumed: the same bits as one left alone'
	@echo 'make test-ladder   devices that fail at random moments of a run, which goes on elsewhere'
	@echo 'make test-crash    a thousand disks that a power failure could leave: each resumes to the same bits'
	@echo 'make test-alter    one byte of a run changed at random, 100 times: verify finds it, --resume refuses or gives the same bits'
	@echo 'make mutants       100 mechanical mutations; each should turn a test red; mutants-step: of what makes a run'
	@echo 'tools/dispatch.sh  a run on another machine, over ssh; --help says more'
	@echo 'make check-layers  which room may include which'
	@echo 'make format        clang-format on every C file'
	@echo 'make help-files    man pages and shell completions again, after a change of a flag or its help'
	@echo 'make install       binary, man pages, completions, C header and library into $$DESTDIR$$PREFIX (PREFIX=$(PREFIX))'
	@echo 'make clean         remove $(BUILD)'
	@echo 'Variables: SAN=address|thread DEBUG=1 ARCH=aarch64 CC=clang BUILD=dir WERROR=1 V=1 CFLAGS LDFLAGS'
	@echo 'NVCC CUDA_ARCHS CUDA_PTX LIB_openblas CFLAGS_openblas LIB_cmocka $(USES:%=LIB_%) EMU JOBS'

FORCE:
.PHONY: all lib libs demo demo-real check-layers format help-files install clean help FORCE

-include $(ALL_OBJS:.o=.d)
