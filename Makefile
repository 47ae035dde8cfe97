# Builds the core, the simulated machine, the kernel and their tests.
#
# Strategy variables choose one folder each (docs: README, design); every combination has its own
# object folder, so that switching costs nothing. `./vellum build` is the front door.

BUDDY  ?= flags
SLAB   ?= sheaf
RMAP   ?= anon_vma
TABLES ?= areas
SMP    ?= 1
ARCH   ?= x86_64
DEBUG  ?= 0
# MUTANTS=1: faults that a test can switch on (core/table/mutant.h).
MUTANTS ?= 0
# SAN: none, address (with undefined), thread or fuzzer (clang only); for hosted builds only.
SAN    ?= none
CC     ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif

STRATEGY := $(BUDDY)-$(SLAB)-$(RMAP)-$(TABLES)-smp$(SMP)
CONFIG   := $(STRATEGY)$(if $(filter 1,$(MUTANTS)),-mutants)$(if $(filter 1,$(DEBUG)),-debug)$(if $(filter-out none,$(SAN)),-$(SAN))$(if $(filter-out gcc,$(CC)),-$(notdir $(CC)))
B        := build/$(CONFIG)

# V=1 shows whole command lines.
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
SAY = @$(if $(filter 1,$(V)),:,echo '  $(@F)')

WARN := -std=c11 -pedantic -Wall -Wextra -Wconversion -Wshadow -Wvla -Wmissing-prototypes -Werror
ifneq ($(findstring clang,$(CC)),)
WARN += -Wthread-safety
endif
# The four that keep lists share a family folder.
SLAB_FAMILY := $(if $(filter sheaf,$(SLAB)),,core/slab/linked)
STRATEGY_DIRS := core/frame/$(BUDDY) core/slab/$(SLAB) $(SLAB_FAMILY) core/rmap/$(RMAP) core/table/$(TABLES)
INCLUDES := -Iinclude -I. -Iarch/$(ARCH) $(addprefix -I,$(STRATEGY_DIRS))
DEFINES  := -DVL_SMP=$(SMP) $(if $(filter 1,$(DEBUG)),-DVL_DEBUG) $(if $(filter 1,$(MUTANTS)),-DVLI_MUTANTS)
# Fast paths without calls need no stack frame; a back trace lacks their caller at most.
%/core/slab/kmalloc.o: FAST := -momit-leaf-frame-pointer
COMMON    = $(WARN) -O2 -g -MMD -MP $(INCLUDES) $(DEFINES) -fno-strict-aliasing -fno-omit-frame-pointer $(FAST)

CORE_SRC := $(wildcard core/*/*.c) $(foreach d,$(STRATEGY_DIRS),$(wildcard $(d)/*.c)) $(wildcard arch/$(ARCH)/*.c)

# ------------------------------------------------------------------ the library: any embedder
LIB_FLAGS = $(COMMON) -ffreestanding -fno-stack-protector -fPIC
LIB_OBJ   := $(CORE_SRC:%.c=$(B)/lib/%.o)
$(B)/lib/%.o: %.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(LIB_FLAGS) -c $< -o $@
$(B)/libvellum.a: $(LIB_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

# --------------------------------------------------------------------- the reference kernel
KERNEL_FLAGS = $(COMMON) -ffreestanding -fno-stack-protector -fno-pic -fno-pie -mcmodel=kernel \
  -mno-red-zone -mgeneral-regs-only -fno-asynchronous-unwind-tables -fcf-protection=none \
  -DVL_HOST_INLINE='"kernel/host_inline.h"' -DVL_KERNEL
KERNEL_SRC := $(shell find kernel -name '*.c' 2>/dev/null)
KERNEL_ASM := $(shell find kernel -name '*.S' 2>/dev/null)
KERNEL_OBJ := $(CORE_SRC:%.c=$(B)/kernel-core/%.o) $(KERNEL_SRC:%.c=$(B)/%.o) $(KERNEL_ASM:%.S=$(B)/%.S.o)
$(B)/kernel-core/%.o: %.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(KERNEL_FLAGS) -c $< -o $@
$(B)/kernel/%.o: kernel/%.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(KERNEL_FLAGS) -c $< -o $@
$(B)/kernel/%.S.o: kernel/%.S
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(INCLUDES) $(DEFINES) -DVL_KERNEL -D__ASSEMBLER__ -g -MMD -MP -c $< -o $@
$(B)/vellum.elf: $(KERNEL_OBJ) kernel/kernel.ld
	$(SAY)
	$(Q)tools/link_kernel "$(CC)" $@ kernel/kernel.ld $(KERNEL_OBJ)

# ------------------------------------------------- hosted: the simulated machine and its tests
ifeq ($(SAN),address)
SAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all
endif
ifeq ($(SAN),thread)
SAN_FLAGS := -fsanitize=thread -DVLI_TSAN
endif
ifeq ($(SAN),fuzzer)
SAN_FLAGS := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
endif
SIM_FLAGS = $(COMMON) $(SAN_FLAGS) -DVL_SIM -DVL_EVENTS -DVL_HOST_INLINE='"machine/sim/host_inline.h"' -pthread
# The machine itself uses POSIX; the core under it is compiled as freestanding code.
SIM_CORE_OBJ := $(CORE_SRC:%.c=$(B)/sim-core/%.o)
SIM_OBJ      := $(patsubst %.c,$(B)/%.o,$(wildcard machine/sim/*.c))
# Its code gets a section of its own: the machine injects interrupts at any instruction of it.
$(B)/sim-core/%.o: %.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(SIM_FLAGS) -ffreestanding -c $< -o $@
	$(Q)objcopy --rename-section .text=vl_core_text $@
$(B)/machine/%.o: machine/%.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(SIM_FLAGS) -D_GNU_SOURCE -c $< -o $@
# The machine first: a linker takes the first member that answers, weak defaults included.
$(B)/libsim.a: $(SIM_OBJ) $(SIM_CORE_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

# Every tests/{unit,contract,model,sim}/NAME.c is one cmocka program on the simulated machine.
# Those that only some strategies have something for, where they have not.
TEST_NOT := $(if $(filter-out sheaf1,$(SLAB)$(SMP)),tests/unit/slab_homes.c)
TEST_SRC := $(filter-out $(TEST_NOT),$(wildcard tests/unit/*.c tests/contract/*.c tests/model/*.c tests/sim/*.c))
TEST_BIN := $(TEST_SRC:tests/%.c=$(B)/tests/%)
# Parsers of the kernel that know nothing of it are tested and fuzzed here too.
PARSER_SRC := kernel/fs/cpio.c kernel/proc/elf.c kernel/proc/space_write.c
TEST_LIB := $(patsubst %.c,$(B)/%.o,$(wildcard tests/lib/*.c)) $(PARSER_SRC:%.c=$(B)/hosted/%.o)
$(B)/hosted/%.o: %.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(SIM_FLAGS) -ffreestanding -c $< -o $@
$(B)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(SIM_FLAGS) -D_GNU_SOURCE -c $< -o $@
$(B)/tests/%: $(B)/tests/%.o $(TEST_LIB) $(B)/libsim.a
	$(SAY)
	$(Q)$(CC) $(SIM_FLAGS) $< $(TEST_LIB) $(B)/libsim.a -lcmocka -pthread -o $@

# One test is an embedder of its own: it has the hooks, and the library instead of the machine.
$(B)/tests/unit/selftest.o: tests/unit/selftest.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(COMMON) $(SAN_FLAGS) -D_GNU_SOURCE -c $< -o $@
$(B)/tests/unit/selftest: $(B)/tests/unit/selftest.o $(B)/libvellum.a
	$(SAY)
	$(Q)$(CC) $(COMMON) $(SAN_FLAGS) $< $(B)/libvellum.a -lcmocka -pthread -o $@

# Every tests/fuzz/NAME.c is one libFuzzer program: make fuzzers CC=clang SAN=fuzzer.
FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/*.c))
$(B)/libtests.a: $(TEST_LIB)
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(B)/libtests.a $(B)/libsim.a
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(SIM_FLAGS) -fsanitize=fuzzer $^ -pthread -o $@

# Programs for the guest: static, by musl, or by glibc when the name begins with glibc_; they know
# nothing of the library and run on Linux as well.
GUEST_FLAGS := -std=c11 -D_GNU_SOURCE -O2 -g0 -s -Wall -Wextra -Werror -static -pthread
GUEST_TESTS := $(patsubst tests/guest/%.c,build/guest/tests/%,$(wildcard tests/guest/*.c))
GUEST_BENCH := $(patsubst bench/guest/%.c,build/guest/bench/%,$(wildcard bench/guest/*.c))
build/guest/tests/glibc_%: tests/guest/glibc_%.c $(wildcard tests/guest/*.h)
	@mkdir -p $(@D)
	gcc $(GUEST_FLAGS) $< -o $@
build/guest/tests/%: tests/guest/%.c $(wildcard tests/guest/*.h)
	@mkdir -p $(@D)
	musl-gcc $(GUEST_FLAGS) $< -o $@
build/guest/bench/%: bench/guest/%.c $(wildcard bench/guest/*.h)
	@mkdir -p $(@D)
	musl-gcc $(GUEST_FLAGS) $< -o $@

# Every bench/sim/NAME.c is one program on the simulated machine, without VL_EVENTS and at -O2.
BENCH_FLAGS = $(COMMON) -DVL_BUDDY='"$(BUDDY)"' -DVL_SIM -DVL_HOST_INLINE='"machine/sim/host_inline.h"' -pthread
BENCH_CORE_OBJ := $(patsubst %.c,$(B)/bench-core/%.o,$(wildcard machine/sim/*.c)) $(CORE_SRC:%.c=$(B)/bench-core/%.o)
BENCH_BIN      := $(patsubst bench/sim/%.c,$(B)/bench/%,$(wildcard bench/sim/*.c))
$(B)/bench-core/machine/%.o: machine/%.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(BENCH_FLAGS) -D_GNU_SOURCE -c $< -o $@
$(B)/bench-core/%.o: %.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(BENCH_FLAGS) -ffreestanding -c $< -o $@
$(B)/bench/%.o: bench/sim/%.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(BENCH_FLAGS) -D_GNU_SOURCE -c $< -o $@
$(B)/libbench.a: $(BENCH_CORE_OBJ)
	$(SAY)
	$(Q)ar rcs $@.new $^ && mv $@.new $@
$(B)/bench/%: $(B)/bench/%.o $(B)/libbench.a
	$(SAY)
	$(Q)$(CC) $(BENCH_FLAGS) $^ -pthread -o $@

# ------------------------------------------------------------------------------ the malloc face
# The same core as code of a Linux process, position-independent, nothing visible but the functions
# of malloc; `make malloc` leaves build/libvellum-malloc.so and .a. The archive is one object whose
# inner names are local, so that a program may have the library as well.
# Two strategies are there for a process; the others turn interrupts off, or are single
# instructions against them, which a thread that is preempted anywhere has no use for.
ifneq ($(filter malloc malloc-tests malloc-benches,$(MAKECMDGOALS)),)
ifeq ($(filter sheaf local,$(SLAB)),)
$(error SLAB=$(SLAB) is for a kernel: the malloc face is built with SLAB=sheaf or SLAB=local (docs/malloc.md))
endif
endif
M := build/malloc-$(BUDDY)-$(SLAB)$(if $(filter-out none,$(SAN)),-$(SAN))$(if $(filter-out gcc,$(CC)),-$(notdir $(CC)))
MALLOC_DIRS  := core/frame/$(BUDDY) $(if $(filter sheaf,$(SLAB)),core/slab/sheaf,core/slab/linked_rseq core/slab/linked)
MALLOC_FLAGS = $(WARN) -O2 -g -MMD -MP -Iinclude -I. -Iarch/$(ARCH) $(addprefix -I,$(MALLOC_DIRS)) -DVL_SMP=1 \
  -DVL_HOST_INLINE='"malloc/host_inline.h"' -DVL_HOST_RSEQ \
  -fno-strict-aliasing -fPIC -fvisibility=hidden -ftls-model=initial-exec -fno-semantic-interposition \
  -fno-stack-protector -fcf-protection=none -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc \
  -fno-builtin-free -pthread $(SAN_FLAGS) $(LINUX_HEADERS)
# Debian's musl-gcc does not find Linux's own headers.
LINUX_HEADERS := $(if $(findstring musl,$(CC)),-idirafter /usr/include -idirafter /usr/include/$(ARCH)-linux-gnu)
# Sanitizers have a malloc of their own: ours gets other names there, also in its tests.
MALLOC_NAMES := $(if $(filter-out none,$(SAN)),-include malloc/rename.h)
MALLOC_CORE := $(filter-out core/base/host_default.c,$(wildcard core/base/*.c)) $(wildcard core/frame/*.c) \
  $(wildcard core/slab/*.c) $(filter-out core/slab/linked/linked.c,$(foreach d,$(MALLOC_DIRS),$(wildcard $(d)/*.c))) \
  core/base/host_default.c
# Sanitizers also have a vfork of their own.
MALLOC_OBJ  := $(patsubst %.c,$(M)/%.o,$(filter-out $(if $(MALLOC_NAMES),malloc/vfork.c),$(wildcard malloc/*.c)) $(MALLOC_CORE))
$(M)/core/%.o: core/%.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(MALLOC_FLAGS) -ffreestanding -c $< -o $@
$(M)/malloc/%.o: malloc/%.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(MALLOC_FLAGS) $(MALLOC_NAMES) -D_GNU_SOURCE -c $< -o $@
$(M)/libvellum-malloc.so: $(MALLOC_OBJ)
	$(SAY)
	$(Q)$(CC) -shared $(SAN_FLAGS) -Wl,-soname,libvellum-malloc.so -Wl,-z,nodelete,-z,initfirst,-z,now,-z,relro,-z,defs $^ -pthread -o $@
$(M)/libvellum-malloc.a: $(MALLOC_OBJ)
	$(SAY)
	$(Q)ld -r $^ -o $(M)/vellum-malloc.o && objcopy --localize-hidden $(M)/vellum-malloc.o
	$(Q)rm -f $@ && ar rcs $@ $(M)/vellum-malloc.o
# The default strategy's for glibc are copied into build/; others stay in their folder.
malloc: $(M)/libvellum-malloc.so $(M)/libvellum-malloc.a
	$(Q)$(if $(filter sheaf,$(SLAB)),$(if $(findstring musl,$(CC)),:,cp -f $^ build/),:)
# Every tests/malloc/NAME.c but child.c is one cmocka program that is linked with the library, so
# that its malloc is ours; NAME.cc is the same in C++. With a sanitizer: those that neither measure
# memory nor need the usual names.
MALLOC_TEST_ALL   := $(basename $(notdir $(wildcard tests/malloc/*.c tests/malloc/*.cc)))
MALLOC_TEST_NAMES := $(filter-out child $(if $(MALLOC_NAMES),memory failure operators hostile map steps refused interposed vforks fork_chain),$(MALLOC_TEST_ALL))
MALLOC_TEST_FLAGS = -O2 -g -Iinclude -I. -D_GNU_SOURCE -fno-builtin -pthread -Wall -Wextra -Werror \
  -Wno-unknown-warning-option -Wno-non-power-of-two-alignment -Wno-alloc-size-larger-than -Wno-use-after-free -Wno-free-nonheap-object \
  $(SAN_FLAGS) $(MALLOC_NAMES) $(if $(filter local,$(SLAB)),-DTEST_LISTS)
$(M)/tests/%.o: tests/malloc/%.c tests/malloc/child.h include/vellum/malloc.h
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) -std=c11 $(MALLOC_TEST_FLAGS) -c $< -o $@
$(M)/tests/%.o: tests/malloc/%.cc include/vellum/malloc.h
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CXX) -std=c++17 $(MALLOC_TEST_FLAGS) -c $< -o $@
$(M)/tests/%: $(M)/tests/%.o $(M)/tests/child.o $(M)/libvellum-malloc.so
	$(SAY)
	$(Q)$(if $(wildcard tests/malloc/$*.cc),$(CXX),$(CC)) $(SAN_FLAGS) $< $(M)/tests/child.o -L$(M) -lvellum-malloc -Wl,-rpath,'$$ORIGIN/..' -lcmocka -pthread -o $@
malloc-tests: $(addprefix $(M)/tests/,$(MALLOC_TEST_NAMES))
malloc-config:
	@echo $(M)
-include $(shell find $(M) -name '*.d' 2>/dev/null)

# The malloc benchmark: one program that knows no allocator, for LD_PRELOAD; then linked statically
# with those that come as archives (Debian's jemalloc and gperftools, where they are installed).
# Both name functions of glibc's malloc.o, which then comes along: the first definition wins.
MB := build/bench-malloc$(if $(filter-out sheaf,$(SLAB)),-$(SLAB))
MALLOC_BENCH_FLAGS := $(WARN) -D_GNU_SOURCE -O2 -g -MMD -MP -I. -Iinclude -fno-builtin -pthread
MALLOC_BENCH_OBJ   := $(patsubst bench/malloc/%.c,$(MB)/%.o,$(wildcard bench/malloc/*.c)) $(MB)/places.o
ARCHIVES := /usr/lib/x86_64-linux-gnu
MALLOC_BENCH_BIN := $(MB)/malloc $(MB)/malloc-static-glibc \
  $(if $(wildcard $(ARCHIVES)/libjemalloc.a),$(MB)/malloc-static-jemalloc) \
  $(if $(wildcard $(ARCHIVES)/libtcmalloc_minimal.a),$(MB)/malloc-static-tcmalloc) \
  $(if $(wildcard malloc),$(MB)/malloc-static-vellum)
$(MB)/%.o: bench/malloc/%.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(MALLOC_BENCH_FLAGS) -c $< -o $@
$(MB)/%.o: bench/malloc/%.S
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) -c $< -o $@
$(MB)/malloc: $(MALLOC_BENCH_OBJ)
	$(Q)$(CC) $^ -pthread -o $@
$(MB)/malloc-static-glibc: $(MALLOC_BENCH_OBJ)
	$(Q)$(CC) -static $^ -pthread -o $@
$(MB)/malloc-static-jemalloc: $(MALLOC_BENCH_OBJ)
	$(Q)$(CC) -static -Wl,--allow-multiple-definition $^ $(ARCHIVES)/libjemalloc.a -lm -pthread -o $@
$(MB)/malloc-static-tcmalloc: $(MALLOC_BENCH_OBJ)
	$(Q)$(CC) -static -Wl,--allow-multiple-definition $^ $(ARCHIVES)/libtcmalloc_minimal.a -lstdc++ -lm -pthread -o $@ 2>/dev/null
$(MB)/malloc-static-vellum: $(MALLOC_BENCH_OBJ) $(M)/libvellum-malloc.a
	$(Q)$(CC) -static -Wl,--allow-multiple-definition $^ -pthread -o $@
$(MB)/launch: bench/programs/launch.c
	@mkdir -p $(@D)
	$(SAY)
	$(Q)$(CC) $(WARN) -D_GNU_SOURCE -O2 $< -o $@
$(MB)/inlined: $(MB)/cache/cache.o $(MB)/lib.o $(M)/libvellum-malloc.a
	$(Q)$(CC) $^ -pthread -o $@
# A malloc that does nothing, to see what calling one costs.
$(MB)/empty.so: bench/malloc/empty/empty.c
	@mkdir -p $(@D); echo "  $(@F)"
	$(Q)$(CC) -std=gnu11 -O2 -Wall -Wextra -fPIC -shared -fno-builtin -ffreestanding -Wl,-z,now $< -o $@
malloc-benches: $(MALLOC_BENCH_BIN) $(MB)/empty.so $(MB)/launch $(if $(wildcard malloc),$(MB)/inlined)
-include $(wildcard $(MB)/*.d $(MB)/cache/*.d)

# Builds the mutants and checks that each is caught.
mutants:
	tests/sim/mutants.sh

# Builds the fuzzers and gives each FUZZ_SECONDS; `./vellum test` does the same.
FUZZ_SECONDS ?= 15
fuzz:
	$(MAKE) fuzzers CC=clang DEBUG=1 SAN=fuzzer
	for f in $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c)); do \
	  "build/$$($(MAKE) -s config CC=clang DEBUG=1 SAN=fuzzer)/fuzz/$$f" -seed=1 \
	    -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build/ || exit 1; done

.PHONY: test-list malloc malloc-benches fuzz mutants lib kernel sim tests fuzzers benches all config guest-tests guest-bench
# The folder of a configuration, and its test programs, for scripts.
config:
	@echo $(CONFIG)
test-list:
	@echo $(TEST_BIN)
all: lib kernel sim $(if $(filter none,$(SAN)),$(if $(filter sheaf local,$(SLAB)),malloc))
lib: $(B)/libvellum.a
kernel: $(B)/vellum.elf
sim: $(B)/libsim.a
tests: $(TEST_BIN)
fuzzers: $(FUZZ_BIN)
# The programs in examples/, built and run.
example: lib
	$(Q)$(MAKE) -s -C examples/first-page check
guest-tests: $(GUEST_TESTS)
guest-bench: $(GUEST_BENCH)
benches: $(BENCH_BIN)
.SECONDARY:
.DEFAULT_GOAL := all

-include $(shell find $(B) -name '*.d' 2>/dev/null)
