/*
 * fpu.c - FPU state in signal frames, at fork and exec (fpu_switch.h has the switch).
 *
 * Layout of an area, by the CPU: 512 bytes as FXSAVE writes them, then (XSAVE) a 64-byte header
 * whose first word says which components are not in their initial state, then the components in
 * standard format. In a signal frame Linux puts struct _fpx_sw_bytes into the FXSAVE image's last
 * 48 bytes (arch/x86/include/uapi/asm/sigcontext.h): magic, sizes, features; and a second magic
 * behind the whole.
 */
#include "kernel/cpu/fpu.h"
#include "core/base/assert.h"
#include "kernel/cpu/features.h"
#include "kernel/cpu/fpu_switch.h"
#include "kernel/cpu/trap.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/lib/mem.h"
#include "kernel/lib/printk.h"
#include "kernel/sched/thread_life.h"

#define FXSAVE_BYTES    512u
#define HEADER_BYTES    64u
#define SOFTWARE_OFFSET 464u
#define AREA_MAX        4096u
#define MXCSR_OFFSET    24u
#define MXCSR_DEFAULT   0x1f80u
#define MXCSR_MASK      0xffffu
#define FCW_DEFAULT     0x037fu
#define MAGIC_1         0x46505853u
#define MAGIC_2         0x46505845u

struct software_bytes {
    uint32_t magic1;
    uint32_t extended_size; /* of image and magic 2 */
    uint64_t features;
    uint32_t xstate_size;
    uint32_t padding[7];
};
_Static_assert(sizeof(struct software_bytes) == 48, "Linux's layout");

enum fpu_way fpu_way;

void fpu_init(void)
{
    fpu_way = !cpu_features()->xsave     ? FPU_FXSAVE
              : cpu_features()->xsaveopt ? FPU_XSAVEOPT
                                         : FPU_XSAVE;
    if (fpu_area_bytes() > AREA_MAX) {
        panic("fpu: an area of %zu bytes", fpu_area_bytes());
    }
}

size_t fpu_area_bytes(void)
{
    return fpu_way == FPU_FXSAVE ? FXSAVE_BYTES : cpu_features()->xsave_bytes;
}

size_t fpu_user_bytes(void)
{
    return fpu_area_bytes() + (fpu_way == FPU_FXSAVE ? 0 : sizeof(uint32_t));
}

/* The state of a fresh program: no component but the control words. */
static void init_area(uint8_t *area)
{
    static const uint16_t control = FCW_DEFAULT;
    static const uint32_t mxcsr = MXCSR_DEFAULT;

    memset(area, 0, fpu_area_bytes());
    memcpy(area, &control, sizeof(control));
    memcpy(area + MXCSR_OFFSET, &mxcsr, sizeof(mxcsr));
}

/* Load @area, which is @thread's, into the registers; they are its own from now on. */
static void load_own(struct thread *thread)
{
    struct cpu *cpu;

    vl_host_preempt_off();
    cpu = cpu_this();
    fpu_load_area(thread->fpu);
    cpu->fpu_owner = thread;
    thread->fpu_cpu = cpu->id;
    vl_host_preempt_on();
}

void fpu_first_use(struct thread *thread)
{
    uint8_t *area = thread_fpu_area(thread);

    init_area(area);
    thread->fpu = area;
    load_own(thread);
}

void fpu_reset(void)
{
    fpu_first_use(current());
}

/* The registers, which hold the running thread's state, into @area. */
static void save_registers(struct thread *thread, void *area)
{
    vl_host_preempt_off();
    VL_ASSERT(cpu_this()->fpu_owner == thread);
    if (fpu_way == FPU_FXSAVE) {
        __asm__ volatile("fxsave64 (%0)" : : "r"(area) : "memory");
    } else {
        /* Not XSAVEOPT: @area may be another one than the registers were loaded from. */
        __asm__ volatile("xsave64 (%0)" : : "r"(area), "a"(-1), "d"(-1) : "memory");
    }
    vl_host_preempt_on();
}

void fpu_copy_to(struct thread *child)
{
    uint8_t *area = thread_fpu_area(child);

    if (fpu_way != FPU_FXSAVE) {
        memset(area + FXSAVE_BYTES, 0, HEADER_BYTES);
    }
    child->fpu = area;
    child->fpu_cpu = UINT32_MAX;
    if (current()->fpu == NULL) {
        init_area(area);
        return;
    }
    save_registers(current(), area);
}

enum vl_status fpu_save_to_user(uint64_t user)
{
    static const uint32_t magic2 = MAGIC_2;
    struct thread *self = current();
    uint8_t *area = self->fpu;
    struct software_bytes software = {.magic1 = MAGIC_1,
                                      .extended_size = (uint32_t)fpu_user_bytes(),
                                      .features = cpu_features()->xcr0,
                                      .xstate_size = (uint32_t)fpu_area_bytes()};

    if (self->fpu == NULL) {
        return VL_EFAULT;
    }
    save_registers(self, area);
    if (copy_to_user(user, area, fpu_area_bytes()) != VL_OK) {
        return VL_EFAULT;
    }
    if (fpu_way == FPU_FXSAVE) {
        return VL_OK;
    }
    if (copy_to_user(user + SOFTWARE_OFFSET, &software, sizeof(software)) != VL_OK) {
        return VL_EFAULT;
    }
    return copy_to_user(user + fpu_area_bytes(), &magic2, sizeof(magic2));
}

/* Is there a whole XSAVE image, as fpu_save_to_user() makes it? Otherwise only the FXSAVE part
 * counts, as on Linux. */
static bool has_extended(const uint8_t *image, uint64_t user)
{
    struct software_bytes software;
    uint32_t magic2;

    if (fpu_way == FPU_FXSAVE) {
        return false;
    }
    memcpy(&software, image + SOFTWARE_OFFSET, sizeof(software));
    return software.magic1 == MAGIC_1 && software.xstate_size == fpu_area_bytes() &&
           get_user32(&magic2, user + fpu_area_bytes()) == VL_OK && magic2 == MAGIC_2;
}

/* Bring @area into a shape that the CPU loads without a fault. */
static bool make_loadable(uint8_t *area, bool extended)
{
    static const uint8_t zeros[HEADER_BYTES - 16];
    uint32_t mxcsr;
    uint64_t present = 3;

    memcpy(&mxcsr, area + MXCSR_OFFSET, sizeof(mxcsr));
    if ((mxcsr & ~MXCSR_MASK) != 0) {
        return false;
    }
    if (fpu_way == FPU_FXSAVE) {
        return true;
    }
    if (extended) {
        memcpy(&present, area + FXSAVE_BYTES, sizeof(present));
        if ((present & ~cpu_features()->xcr0) != 0 ||
            memcmp(area + FXSAVE_BYTES + 16, zeros, sizeof(zeros)) != 0) {
            return false;
        }
    }
    /* Legacy images and the second header word: only what is named is loaded. */
    memset(area + FXSAVE_BYTES, 0, HEADER_BYTES);
    memcpy(area + FXSAVE_BYTES, &present, sizeof(present));
    return true;
}

/* The thread has no FPU state for a while: a switch neither saves the registers into the area that
 * is being filled, nor loads it half filled. */
static void disown(struct thread *self)
{
    vl_host_preempt_off();
    self->fpu = NULL;
    if (cpu_this()->fpu_owner == self) {
        cpu_this()->fpu_owner = NULL;
    }
    vl_host_preempt_on();
}

enum vl_status fpu_load_from_user(uint64_t user)
{
    struct thread *self = current();
    uint8_t *area = self->fpu;
    enum vl_status status = VL_OK;
    bool extended = false;

    if (user == 0) {
        fpu_reset();
        return VL_OK;
    }
    disown(self);
    if (copy_from_user(area, user, FXSAVE_BYTES) != VL_OK) {
        status = VL_EFAULT;
    } else {
        extended = has_extended(area, user);
        if (extended && copy_from_user(area + FXSAVE_BYTES, user + FXSAVE_BYTES,
                                       fpu_area_bytes() - FXSAVE_BYTES) != VL_OK) {
            status = VL_EFAULT;
        } else if (!make_loadable(area, extended)) {
            status = VL_EINVAL;
        }
    }
    if (status != VL_OK) {
        init_area(area);
    }
    self->fpu = area;
    load_own(self);
    return status;
}
