/*
 * drive.c - see drive.h.
 *
 * Pages are chosen from a few windows where table pages meet (2 MiB, 1 GiB, 512 GiB, the lowest and
 * the highest user address), so that operations meet each other's ranges. Every value written is
 * new, so that a word read shows which write it came from. With failing allocations an operation
 * may answer VL_ENOMEM; then nothing may have changed, which the next comparisons show.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"
#include "tests/lib/drive_steps.h"

static const uint64_t windows[] = {FIRST_PAGE, 0x40000 - WINDOW / 2, 0x8000000 - WINDOW / 2,
                                   0x7f00000 + 512 - WINDOW / 2, END_PAGE - WINDOW};

const uint32_t drive_prots[DRIVE_PROTS] = {VL_READ | VL_WRITE,
                                           VL_READ | VL_WRITE,
                                           VL_READ | VL_WRITE,
                                           VL_READ,
                                           VL_READ | VL_EXEC,
                                           VL_READ | VL_WRITE | VL_EXEC,
                                           0,
                                           VL_WRITE,
                                           VL_EXEC};

enum {
    MAP,
    UNMAP,
    PROTECT,
    BRK,
    FORK,
    EXIT,
    LOAD,
    STORE,
    FETCH,
    FAULT,
    REMAP,
    ADVISE,
    TRUNCATE,
    EXTEND,
    PUNCH,
    OBJECT_WRITE,
    OBJECT_NEW,
    FIND,
    RESIDENT,
    KEY,
    BAD,
    LIMIT,
    KINDS
};

static const char *const names[] = {
    "map",        "unmap", "protect",  "brk",    "fork",          "exit",   "load",  "store",
    "fetch",      "fault", "remap",    "advise", "truncate",      "extend", "punch", "object write",
    "object new", "find",  "resident", "key",    "bad arguments", "limit"};

/* How often each kind comes, of the sum. */
static const unsigned weights[KINDS] = {
    [MAP] = 80,          [UNMAP] = 40,     [PROTECT] = 50, [BRK] = 10,      [FORK] = 8,
    [EXIT] = 8,          [LOAD] = 250,     [STORE] = 300,  [FETCH] = 20,    [FAULT] = 20,
    [REMAP] = 30,        [ADVISE] = 15,    [TRUNCATE] = 6, [EXTEND] = 6,    [PUNCH] = 3,
    [OBJECT_WRITE] = 10, [OBJECT_NEW] = 1, [FIND] = 20,    [RESIDENT] = 10, [KEY] = 5,
    [BAD] = 10,          [LIMIT] = 3};

/* Whose state is dumped when something differs. */
static struct drive *current;

const char *drive_name(unsigned kind)
{
    return kind < KINDS ? names[kind] : NULL;
}

uint64_t drive_seeded(struct drive *drive, uint64_t n)
{
    return sim_random(&drive->random) % n;
}

uint64_t drive_choose(struct drive *drive, uint64_t n)
{
    return drive->choose(drive, n);
}

bool drive_chance(struct drive *drive, unsigned one_in)
{
    return drive_choose(drive, one_in) == 0;
}

/* What each side has mapped, range by range; what was done last comes first. */
static void dump(void)
{
    for (unsigned s = 0; s < DRIVE_SPACES; s++) {
        struct model_space *model = current->model[s];
        struct vl_area_info info = {.end = 0};

        if (current->space[s] == NULL) {
            continue;
        }
        while (vl_space_find(current->space[s], info.end, &info) == VL_OK) {
            fprintf(stderr, "# space %u: core %llx to %llx prot %u%s%s\n", s,
                    (unsigned long long)info.start, (unsigned long long)info.end, info.prot,
                    info.kind == VL_MAP_SHARED ? " shared" : "", info.grows_down ? " stack" : "");
        }
        for (unsigned i = 0; i < model->count;) {
            uint64_t count = drive_alike(model, model->page[i].number, MODEL_PAGES_MAX);
            const struct model_page *page = &model->page[i];

            fprintf(stderr, "# space %u: model %llx to %llx prot %u%s%s object %u index %u\n", s,
                    (unsigned long long)page->number * PAGE,
                    (unsigned long long)(page->number + count) * PAGE, page->prot,
                    page->is_shared ? " shared" : "", page->is_stack ? " stack" : "", page->object,
                    page->index);
            i += (unsigned)count;
        }
    }
}

/* The core and the model disagree. */
void drive_differ(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "# the core and the model differ: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    fprintf(stderr, "# after operations:");
    for (uint64_t i = 1; i <= DRIVE_LAST && i <= current->steps; i++) {
        fprintf(stderr, " %s", names[current->last[(current->steps - i) % DRIVE_LAST]]);
    }
    fprintf(stderr, "\n");
    dump();
    abort();
}

void drive_expect(enum vl_status got, enum vl_status want, const char *what, uint64_t va)
{
    if (got != want) {
        drive_differ("%s at %llx: the core says %d, the model %d", what, (unsigned long long)va,
                     (int)got, (int)want);
    }
}
/* ---------------------------------------------------------------------------------- choices */

unsigned drive_any_space(struct drive *drive)
{
    unsigned at = (unsigned)drive_choose(drive, DRIVE_SPACES);

    while (drive->space[at] == NULL) {
        at = (at + 1) % DRIVE_SPACES;
    }
    return at;
}

/* A page of a window, or mostly one that is mapped. */
uint64_t drive_any_page(struct drive *drive, struct model_space *model, unsigned one_outside_in)
{
    if (model->count != 0 && !drive_chance(drive, one_outside_in)) {
        const struct model_page *page = &model->page[drive_choose(drive, model->count)];
        uint64_t below = 1 + drive_choose(drive, 12);

        /* Below a stack it gets interesting. */
        return page->is_stack && page->number >= FIRST_PAGE + below && below < 4
                   ? page->number - below
                   : page->number;
    }
    return windows[drive_choose(drive, sizeof(windows) / sizeof(windows[0]))] +
           drive_choose(drive, WINDOW);
}

uint64_t drive_run_length(struct drive *drive, uint64_t number)
{
    uint64_t count = 1 + drive_choose(drive, drive_chance(drive, 2) ? RUN_MAX : 4);

    return number + count > END_PAGE ? END_PAGE - number : count;
}

/* One of the first objects, which are files that the test holds. */
uint8_t drive_any_file(struct drive *drive)
{
    return (uint8_t)(1 + drive_choose(drive, DRIVE_FILES));
}

uint8_t drive_object_slot(struct drive *drive)
{
    bool used[MODEL_OBJECTS_MAX + 1] = {false};

    for (unsigned s = 0; s < DRIVE_SPACES; s++) {
        for (unsigned i = 0; drive->space[s] != NULL && i < drive->model[s]->count; i++) {
            used[drive->model[s]->page[i].object] = true;
        }
    }
    for (uint8_t at = DRIVE_FILES; at < MODEL_OBJECTS_MAX; at++) {
        if (!used[at + 1]) {
            memset(&drive->object[at], 0, sizeof(drive->object[at]));
            return (uint8_t)(at + 1);
        }
    }
    return 0;
}

/* True when the operation may go on; false: it failed for want of memory, as it was made to. */
bool drive_had_memory(struct drive *drive, enum vl_status status)
{
    if (status == VL_ENOMEM && drive->is_failing) {
        drive->lacked++;
        return false;
    }
    return true;
}
/* A stack grows into free pages below it, but not near another mapping; those are left alone. */
bool drive_is_near_stack(struct model_space *model, uint64_t number)
{
    unsigned at = model_lower(model, number);

    return at < model->count && model->page[at].is_stack && model->page[at].number != number;
}

/* How many pages from @number on, up to @most, were mapped alike. */
uint64_t drive_alike(struct model_space *model, uint64_t number, uint64_t most)
{
    const struct model_page *first = model_find(model, number);
    uint64_t count = 0;

    for (; first != NULL && count < most; count++) {
        const struct model_page *page = model_find(model, number + count);

        if (page == NULL || page->prot != first->prot || page->prot_max != first->prot_max ||
            page->is_shared != first->is_shared || page->is_stack != first->is_stack ||
            page->object != first->object ||
            (page->object != 0 && page->index != first->index + count)) {
            break;
        }
    }
    return count;
}

bool drive_covers(struct drive *drive, unsigned s, uint64_t number, uint64_t count)
{
    struct vl_area_info info;

    return vl_space_find(drive->space[s], number * PAGE, &info) == VL_OK &&
           info.start <= number * PAGE && info.end >= (number + count) * PAGE;
}

/* -------------------------------------------------------------------------------- accesses */

static enum vl_status do_access(unsigned kind, vl_va va, uint64_t *value)
{
    switch (kind) {
    case LOAD:
        return sim_load(va, value);
    case STORE:
        return sim_store(va, *value);
    default:
        return sim_fetch(va);
    }
}

static bool step_access(struct drive *drive, unsigned kind)
{
    unsigned s = drive_any_space(drive);
    struct model_space *model = drive->model[s];
    uint64_t number = drive_any_page(drive, model, 16);
    struct model_page *page = model_find(model, number);
    unsigned which = (unsigned)drive_choose(drive, MODEL_WORDS);
    vl_va va = number * PAGE + (which == 0 ? 0 : LAST_WORD);
    uint32_t access = kind == LOAD ? VL_READ : kind == STORE ? VL_WRITE : VL_EXEC;
    uint64_t value = ++drive->next_value;
    enum vl_status want, got;

    if (page == NULL && model_grow(model, number)) {
        page = model_find(model, number);
    }
    want = model_access(drive->object, page, access);
    sim_space_switch(drive->space[s]);
    got = do_access(kind, va, &value);
    if (!drive_had_memory(drive, got)) {
        return false;
    }
    drive_expect(got, want, names[kind], va);
    if (got != VL_OK) {
        return false;
    }
    if (kind == STORE) {
        model_write(drive->object, page, which, value);
    } else if (kind == LOAD && value != *model_word(drive->object, page, which)) {
        drive_differ("load at %llx of space %u: the core has %llu, the model %llu",
                     (unsigned long long)va, s, (unsigned long long)value,
                     (unsigned long long)*model_word(drive->object, page, which));
    }
    return true;
}

/* The kernel's way: hold the frame and look into it. */
static bool step_fault(struct drive *drive)
{
    unsigned s = drive_any_space(drive);
    struct model_space *model = drive->model[s];
    uint64_t number = drive_any_page(drive, model, 16);
    struct model_page *page = model_find(model, number);
    uint32_t access = drive_chance(drive, 2) ? VL_READ : VL_WRITE;
    enum vl_status want, got;
    struct vl_pfn pfn;
    uint64_t *words;

    if (page == NULL && model_grow(model, number)) {
        page = model_find(model, number);
    }
    want = model_access(drive->object, page, access);
    got = vl_space_frame_get(drive->space[s], number * PAGE, access, &pfn);
    if (!drive_had_memory(drive, got)) {
        return false;
    }
    drive_expect(got, want, "frame_get", number * PAGE);
    if (got != VL_OK) {
        return false;
    }
    words = vl_frame_to_virt(pfn);
    if (access == VL_WRITE) {
        words[0] = ++drive->next_value;
        model_write(drive->object, page, 0, words[0]);
    }
    if (words[0] != *model_word(drive->object, page, 0) ||
        words[LAST_WORD / 8] != *model_word(drive->object, page, 1)) {
        drive_differ("frame at %llx of space %u: wrong words", (unsigned long long)number * PAGE,
                     s);
    }
    vl_frame_ref_put(pfn);
    return true;
}
/* ------------------------------------------------------------------------------- fork, exit */

static bool step_fork(struct drive *drive)
{
    unsigned s = drive_any_space(drive), to = 0;
    enum vl_status got;
    struct vl_space *child = NULL;

    while (to < DRIVE_SPACES && drive->space[to] != NULL) {
        to++;
    }
    if (to == DRIVE_SPACES) {
        return false;
    }
    if (drive_chance(drive, 2)) {
        sim_space_switch(drive->space[s]);
    }
    got = vl_space_fork(drive->space[s], &child);
    if (!drive_had_memory(drive, got)) {
        return false;
    }
    drive_expect(got, VL_OK, "fork", 0);
    drive->space[to] = child;
    model_copy(drive->model[to], drive->model[s]);
    return true;
}

static bool step_exit(struct drive *drive)
{
    unsigned s = drive_any_space(drive), alive = 0;

    for (unsigned i = 0; i < DRIVE_SPACES; i++) {
        alive += drive->space[i] != NULL;
    }
    if (alive < 2) {
        return false;
    }
    /* A CPU may still have it active: as a kernel thread that borrowed it. */
    if (drive_chance(drive, 2)) {
        sim_space_switch(NULL);
    }
    vl_space_put(drive->space[s]);
    sim_space_switch(NULL);
    drive->space[s] = NULL;
    drive->model[s]->count = 0;
    return true;
}
/* ---------------------------------------------------------------------------------- queries */

static bool step_find(struct drive *drive)
{
    unsigned s = drive_any_space(drive);
    struct model_space *model = drive->model[s];
    uint64_t number = drive_any_page(drive, model, 4);
    unsigned at = model_lower(model, number);
    struct vl_area_info info;
    enum vl_status got = vl_space_find(drive->space[s], number * PAGE, &info);
    const struct model_page *page = &model->page[at];
    uint64_t count;

    drive_expect(got, at < model->count ? VL_OK : VL_ENOENT, "find", number * PAGE);
    if (got != VL_OK) {
        return true;
    }
    count = (info.end - info.start) / PAGE;
    if (info.start > page->number * PAGE || info.end <= page->number * PAGE ||
        (page->number > number && info.start != page->number * PAGE) || info.prot != page->prot ||
        (info.kind == VL_MAP_SHARED) != page->is_shared || info.grows_down != page->is_stack ||
        drive_alike(model, info.start / PAGE, count) != count) {
        drive_differ("find at %llx: area %llx to %llx, prot %u", (unsigned long long)number * PAGE,
                     (unsigned long long)info.start, (unsigned long long)info.end, info.prot);
    }
    return true;
}

static bool step_resident(struct drive *drive)
{
    unsigned s = drive_any_space(drive);
    struct model_space *model = drive->model[s];
    uint64_t number = drive_any_page(drive, model, 8), count = drive_run_length(drive, number);
    unsigned char resident[RUN_MAX];
    enum vl_status want = VL_OK;

    for (uint64_t i = 0; i < count; i++) {
        want = model_find(model, number + i) == NULL ? VL_ENOMEM : want;
    }
    drive_expect(vl_space_resident(drive->space[s], number * PAGE, count * PAGE, resident), want,
                 "resident", number * PAGE);
    for (uint64_t i = 0; want == VL_OK && i < count; i++) {
        if (model_find(model, number + i)->is_own && (resident[i] & 1) == 0) {
            drive_differ("page %llx was written to and is not resident",
                         (unsigned long long)number + i);
        }
    }
    return want == VL_OK;
}

static bool step_key(struct drive *drive)
{
    unsigned a = drive_any_space(drive), b = drive_any_space(drive);
    uint64_t number = drive_any_page(drive, drive->model[a], 8);
    struct model_page *page = model_find(drive->model[a], number);
    struct model_page *other = model_find(drive->model[b], number);
    struct vl_memory_key key, key_other;

    drive_expect(vl_space_key(drive->space[a], number * PAGE, &key),
                 page == NULL ? VL_EFAULT : VL_OK, "key", number * PAGE);
    if (page == NULL || other == NULL || a == b) {
        return false;
    }
    drive_expect(vl_space_key(drive->space[b], number * PAGE, &key_other), VL_OK, "key",
                 number * PAGE);
    if ((key.id == key_other.id && key.offset == key_other.offset) !=
        (page->is_shared && other->is_shared && page->object == other->object &&
         page->index == other->index)) {
        drive_differ("keys of %llx in two spaces", (unsigned long long)number * PAGE);
    }
    return true;
}
/* ------------------------------------------------------------------------- refused requests */

static bool step_bad(struct drive *drive)
{
    struct vl_space *space = drive->space[drive_any_space(drive)];
    struct vl_map_request request = {.len = PAGE, .prot = VL_READ, .place = VL_MAP_FIXED};
    struct vl_object *file = drive->object[0].real;
    vl_va va = 0;

    switch (drive_choose(drive, 12)) {
    case 0:
        drive_expect(vl_space_unmap(space, 0x10001, PAGE), VL_EINVAL, "unmap misaligned", 0);
        break;
    case 1:
        drive_expect(vl_space_unmap(space, 0x10000, 0), VL_EINVAL, "unmap of nothing", 0);
        break;
    case 2:
        drive_expect(vl_space_unmap(space, VL_USER_END - PAGE, SIZE_MAX - 5), VL_EINVAL,
                     "unmap wraps", 0);
        break;
    case 3:
        request.hint = 0x20001;
        drive_expect(vl_space_map(space, &request, &va), VL_EINVAL, "map misaligned", 0);
        break;
    case 4:
        request.hint = 0x20000;
        request.len = 0;
        drive_expect(vl_space_map(space, &request, &va), VL_EINVAL, "map of nothing", 0);
        break;
    case 5:
        request.hint = VL_USER_MIN - PAGE;
        drive_expect(vl_space_map(space, &request, &va), VL_EPERM, "map low", 0);
        break;
    case 6:
        request.hint = VL_USER_END - PAGE;
        request.len = 2 * PAGE;
        drive_expect(vl_space_map(space, &request, &va), VL_ENOMEM, "map high", 0);
        break;
    case 7:
        request.hint = 0x20000;
        request.object = file;
        request.offset = UINT64_MAX - PAGE + 1;
        drive_expect(vl_space_map(space, &request, &va), VL_EOVERFLOW, "map wraps in the file", 0);
        break;
    case 8:
        request.place = VL_MAP_ANYWHERE;
        request.len = SIZE_MAX;
        drive_expect(vl_space_map(space, &request, &va), VL_ENOMEM, "map of everything", 0);
        break;
    case 9:
        drive_expect(vl_space_protect(space, 0x10001, PAGE, VL_READ), VL_EINVAL,
                     "protect misaligned", 0);
        break;
    case 10:
        drive_expect(vl_space_remap(space, 0x10001, PAGE, PAGE, 1, 0, &va), VL_EINVAL,
                     "remap misaligned", 0);
        break;
    default:
        sim_space_switch(space);
        drive_expect(sim_store(VL_USER_END + PAGE * drive_choose(drive, 1000), 1), VL_EFAULT,
                     "store high", 0);
        break;
    }
    return true;
}

static bool step_limit(struct drive *drive)
{
    unsigned s = drive_any_space(drive);
    struct vl_space_limits limits = {UINT64_MAX, 8u << 20, UINT64_MAX};
    struct vl_map_request request = {.len = 5 * PAGE, .prot = VL_READ};
    vl_va va = 0;

    limits.address_space = (drive->model[s]->count + 4) * PAGE;
    vl_space_set_limits(drive->space[s], &limits);
    drive_expect(vl_space_map(drive->space[s], &request, &va), VL_ENOMEM, "map beyond the limit",
                 0);
    limits.address_space = UINT64_MAX;
    vl_space_set_limits(drive->space[s], &limits);
    return true;
}
/* -------------------------------------------------------------------------------- the driver */

static bool step_kind(struct drive *drive, unsigned kind)
{
    static bool (*const steps[KINDS])(struct drive * drive) = {[MAP] = drive_step_map,
                                                               [UNMAP] = drive_step_unmap,
                                                               [PROTECT] = drive_step_protect,
                                                               [BRK] = drive_step_brk,
                                                               [FORK] = step_fork,
                                                               [EXIT] = step_exit,
                                                               [FAULT] = step_fault,
                                                               [REMAP] = drive_step_remap,
                                                               [ADVISE] = drive_step_advise,
                                                               [TRUNCATE] = drive_step_truncate,
                                                               [EXTEND] = drive_step_extend,
                                                               [PUNCH] = drive_step_punch,
                                                               [OBJECT_WRITE] =
                                                                   drive_step_object_write,
                                                               [OBJECT_NEW] = drive_step_object_new,
                                                               [FIND] = step_find,
                                                               [RESIDENT] = step_resident,
                                                               [KEY] = step_key,
                                                               [BAD] = step_bad,
                                                               [LIMIT] = step_limit};

    return steps[kind] != NULL ? steps[kind](drive) : step_access(drive, kind);
}

/* After every step: as many pages mapped as the model has. */
static void check_counts(struct drive *drive)
{
    struct vl_space_usage usage;

    for (unsigned s = 0; s < DRIVE_SPACES; s++) {
        if (drive->space[s] != NULL) {
            vl_space_usage(drive->space[s], &usage);
            if (usage.mapped != drive->model[s]->count) {
                drive_differ("space %u: %llu pages mapped, the model has %u", s,
                             (unsigned long long)usage.mapped, drive->model[s]->count);
            }
        }
    }
}

void drive_step(struct drive *drive)
{
    unsigned sum = 0, kind = 0;
    uint64_t at;
    bool fails = drive->is_failing;

    for (unsigned i = 0; i < KINDS; i++) {
        sum += weights[i];
    }
    for (at = drive_choose(drive, sum); at >= weights[kind]; kind++) {
        at -= weights[kind];
    }
    /* Only some steps run short of memory, so that the others tell what the failed ones left. */
    drive->is_failing = (fails && drive_chance(drive, 4)) || drive->is_short;
    if (drive->is_failing && !drive->is_short) {
        sim_fail_after(drive_choose(drive, 12));
    }
    current = drive;
    drive->last[drive->steps++ % DRIVE_LAST] = (uint8_t)kind;
    drive->tries[kind]++;
    drive->done[kind] += step_kind(drive, kind);
    check_counts(drive);
    if (drive->is_failing) {
        sim_fail_after(UINT64_MAX);
    }
    drive->is_failing = fails;
}

static void check_space(struct drive *drive, unsigned s)
{
    struct model_space *model = drive->model[s];
    struct vl_space_usage usage;
    uint64_t own = 0;

    vl_space_usage(drive->space[s], &usage);
    for (unsigned i = 0; i < model->count; i++) {
        own += model->page[i].is_own;
    }
    if (usage.mapped != model->count || usage.anonymous < own) {
        drive_differ("space %u: %llu pages mapped, the model has %u; %llu anonymous, at least %llu",
                     s, (unsigned long long)usage.mapped, model->count,
                     (unsigned long long)usage.anonymous, (unsigned long long)own);
    }
    sim_space_switch(drive->space[s]);
    for (unsigned i = 0; i < model->count; i++) {
        struct model_page *page = &model->page[i];
        vl_va va = page->number * PAGE;
        uint64_t value;
        enum vl_status got = sim_load(va, &value);

        if (got == VL_ENOMEM && drive->is_short) {
            continue;
        }
        drive_expect(got, model_access(drive->object, page, VL_READ), "check", va);
        if (got == VL_OK && value != *model_word(drive->object, page, 0)) {
            drive_differ("space %u at %llx: the core has %llu, the model %llu", s,
                         (unsigned long long)va, (unsigned long long)value,
                         (unsigned long long)*model_word(drive->object, page, 0));
        }
    }
    vl_space_validate(drive->space[s]);
}

/* The files as read() would see them. */
static void peek_objects(struct drive *drive)
{
    for (unsigned i = 0; i < DRIVE_FILES; i++) {
        struct model_object *object = &drive->object[i];

        for (uint64_t index = 0; index < MODEL_INDEX_MAX; index++) {
            struct vl_pfn pfn;
            uint64_t word = 0;

            if (vl_object_page_get(object->real, index, VL_PAGE_FIND, &pfn) == VL_OK) {
                word = *(uint64_t *)vl_frame_to_virt(pfn);
                vl_object_page_put(pfn);
            }
            if (word != object->word[index][0]) {
                drive_differ("page %llu of file %u: the core has %llu, the model %llu",
                             (unsigned long long)index, i, (unsigned long long)word,
                             (unsigned long long)object->word[index][0]);
            }
        }
    }
}

void drive_peek(struct drive *drive)
{
    peek_objects(drive);
    for (unsigned s = 0; s < DRIVE_SPACES; s++) {
        sim_space_switch(drive->space[s]);
        for (unsigned i = 0; drive->space[s] != NULL && i < drive->model[s]->count; i++) {
            struct model_page *page = &drive->model[s]->page[i];
            vl_va va = page->number * PAGE;
            uint64_t value = 0;
            bool there = page->prot != 0 && sim_peek(va, &value);

            if ((there && value != *model_word(drive->object, page, 0)) ||
                (!there && page->is_own && page->prot != 0)) {
                drive_differ("space %u at %llx: the core has %llu, the model %llu", s,
                             (unsigned long long)va, (unsigned long long)value,
                             (unsigned long long)*model_word(drive->object, page, 0));
            }
        }
    }
}

void drive_check(struct drive *drive)
{
    drive_peek(drive);
    for (unsigned s = 0; s < DRIVE_SPACES; s++) {
        if (drive->space[s] != NULL) {
            check_space(drive, s);
        }
    }
    sim_mmu_validate();
}

void drive_start(struct drive *drive)
{
    current = drive;
    drive->steps = 0;
    drive->lacked = 0;
    memset(drive->object, 0, sizeof(drive->object));
    for (unsigned i = 0; i < DRIVE_FILES; i++) {
        drive_expect(vl_object_create(NULL, NULL, &drive->object[i].real), VL_OK, "object_create",
                     0);
    }
    for (unsigned s = 0; s < DRIVE_SPACES; s++) {
        drive->space[s] = NULL;
        drive->model[s] = calloc(1, sizeof(*drive->model[s]));
    }
    drive_expect(vl_space_create(&drive->space[0]), VL_OK, "create", 0);
    drive->model[0]->brk_start = drive->model[0]->brk_end = windows[1] * PAGE + 8 * PAGE + 123;
    vl_space_set_brk(drive->space[0], drive->model[0]->brk_start);
}

void drive_end(struct drive *drive)
{
    sim_space_switch(NULL);
    for (unsigned s = 0; s < DRIVE_SPACES; s++) {
        if (drive->space[s] != NULL) {
            vl_space_put(drive->space[s]);
        }
        free(drive->model[s]);
    }
    for (unsigned i = 0; i < DRIVE_FILES; i++) {
        vl_object_put(drive->object[i].real);
    }
}
