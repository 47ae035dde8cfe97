/*
 * drive_map.c - the steps that change what is mapped: map, unmap, protect, brk, remap, advise.
 */
#include <string.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"
#include "tests/lib/drive_steps.h"

#define PAGES_MANY 700u

/* --------------------------------------------------------------------------------- mapping */

static void request_choose(struct drive *drive, struct vl_map_request *request,
                           struct model_page *like)
{
    memset(like, 0, sizeof(*like));
    memset(request, 0, sizeof(*request));
    like->prot = drive_prots[drive_choose(drive, DRIVE_PROTS)];
    like->prot_max = drive_chance(drive, 8) ? like->prot | VL_READ : 7;
    like->is_shared = drive_chance(drive, 3);
    if (drive_chance(drive, 2)) {
        like->object = drive_any_file(drive);
        like->index = (uint32_t)drive_choose(drive, MODEL_INDEX_MAX - RUN_MAX);
        request->object = drive->object[like->object - 1].real;
        request->offset = (uint64_t)like->index * PAGE;
    } else if (!like->is_shared && drive_chance(drive, 12)) {
        like->is_stack = true;
    }
    request->prot = like->prot;
    request->prot_max = like->prot_max == 7 ? 0 : like->prot_max;
    request->kind = like->is_shared ? VL_MAP_SHARED : VL_MAP_PRIVATE;
    request->grows_down = like->is_stack;
    /* How far it comes without memory is not told. */
    request->populate = !drive->is_failing && drive_chance(drive, 8);
    request->place = drive_chance(drive, 4)   ? VL_MAP_ANYWHERE
                     : drive_chance(drive, 4) ? VL_MAP_FIXED_NOREPLACE
                                              : VL_MAP_FIXED;
}

/* Populating a private writable range copies what it finds in the file there and then. */
static void populate_model(struct drive *drive, struct model_space *model, uint64_t number,
                           uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct model_page *page = model_find(model, number + i);

        if (!page->is_shared && model_access(drive->object, page, VL_WRITE) == VL_OK) {
            model_write(drive->object, page, 0, *model_word(drive->object, page, 0));
        }
    }
}

bool drive_step_map(struct drive *drive)
{
    unsigned s = drive_any_space(drive);
    struct model_space *model = drive->model[s];
    struct vl_map_request request;
    struct model_page like;
    uint64_t number = drive_any_page(drive, model, 2), count = drive_run_length(drive, number);
    enum vl_status want = VL_OK, got;
    vl_va va = 0;

    request_choose(drive, &request, &like);
    if (!model_fits(model, count)) {
        return false;
    }
    if (like.is_shared && like.object == 0) {
        like.object = drive_object_slot(drive);
        if (like.object == 0) {
            return false;
        }
        drive->object[like.object - 1].size = count * PAGE;
    }
    request.hint = drive_chance(drive, 4) && request.place == VL_MAP_ANYWHERE ? 0 : number * PAGE;
    request.len = count * PAGE - drive_choose(drive, drive_chance(drive, 4) ? PAGE : 1);
    if (request.place == VL_MAP_FIXED_NOREPLACE && !model_is_free(model, number, count)) {
        want = VL_EEXIST;
    }
    got = vl_space_map(drive->space[s], &request, &va);
    if (!drive_had_memory(drive, got)) {
        return false;
    }
    drive_expect(got, want, "map", number * PAGE);
    if (got != VL_OK) {
        return false;
    }
    if (va % PAGE != 0 || va < VL_USER_MIN || va > VL_USER_END || count * PAGE > VL_USER_END - va ||
        (request.place != VL_MAP_ANYWHERE && va != number * PAGE) ||
        (request.place == VL_MAP_ANYWHERE && !model_is_free(model, va / PAGE, count))) {
        drive_differ("map chose %llx for %llx", (unsigned long long)va,
                     (unsigned long long)request.hint);
    }
    model_add(model, &like, va / PAGE, count);
    if (request.populate) {
        populate_model(drive, model, va / PAGE, count);
    }
    return true;
}

bool drive_step_unmap(struct drive *drive)
{
    unsigned s = drive_any_space(drive);
    uint64_t number = drive_any_page(drive, drive->model[s], 4),
             count = drive_run_length(drive, number);
    enum vl_status got;

    /* Now and then a space gets small again. */
    if (drive->model[s]->count > PAGES_MANY) {
        number -= number > FIRST_PAGE + 512 ? 512 : 0;
        count = 2048 < END_PAGE - number ? 2048 : END_PAGE - number;
    }
    got = vl_space_unmap(drive->space[s], number * PAGE, count * PAGE);
    if (!drive_had_memory(drive, got)) {
        return false;
    }
    drive_expect(got, VL_OK, "unmap", number * PAGE);
    model_remove(drive->model[s], number, count);
    return true;
}

bool drive_step_protect(struct drive *drive)
{
    unsigned s = drive_any_space(drive);
    struct model_space *model = drive->model[s];
    uint64_t number = drive_any_page(drive, model, 16), count = drive_run_length(drive, number);
    uint32_t prot = drive_prots[drive_choose(drive, DRIVE_PROTS)];
    enum vl_status want = VL_OK, got;
    uint64_t done = 0;

    for (; done < count && want == VL_OK; done++) {
        struct model_page *page = model_find(model, number + done);

        want = page == NULL ? VL_ENOMEM : (prot & ~page->prot_max) != 0 ? VL_EACCES : VL_OK;
        done -= want != VL_OK;
    }
    if (drive->is_failing && want == VL_ENOMEM) {
        return false; /* the answer would not tell which of the two it is */
    }
    got = vl_space_protect(drive->space[s], number * PAGE, count * PAGE, prot);
    if (!drive_had_memory(drive, got)) {
        return false;
    }
    drive_expect(got, want, "protect", number * PAGE);
    for (uint64_t i = 0; i < done; i++) {
        model_find(model, number + i)->prot = prot;
    }
    return want == VL_OK;
}

bool drive_step_brk(struct drive *drive)
{
    unsigned s = drive_any_space(drive);
    struct model_space *model = drive->model[s];
    const struct model_page like = {.prot = VL_READ | VL_WRITE, .prot_max = 7};
    vl_va want = model->brk_start + drive_choose(drive, 30 * PAGE);
    uint64_t old_end = (model->brk_end + PAGE - 1) / PAGE, new_end = (want + PAGE - 1) / PAGE;
    vl_va got;

    if (!model_fits(model, 31)) {
        return false;
    }
    if (drive_chance(drive, 8)) {
        want = drive_chance(drive, 2) ? 0 : VL_USER_END;
        got = vl_space_brk(drive->space[s], want);
        if (got != model->brk_end) {
            drive_differ("brk(%llx) moved it", (unsigned long long)want);
        }
        return true;
    }
    got = vl_space_brk(drive->space[s], want);
    if (drive->is_failing && got == model->brk_end) {
        return false;
    }
    if (new_end > old_end &&
        (!model_is_free(model, old_end, new_end - old_end) ||
         drive_is_near_stack(model, new_end - 1) || drive_is_near_stack(model, new_end))) {
        if (got != model->brk_end && !model_is_free(model, old_end, new_end - old_end)) {
            drive_differ("brk went over another mapping to %llx", (unsigned long long)got);
        }
        if (got != want) {
            return false;
        }
    }
    if (got != want) {
        drive_differ("brk(%llx) gave %llx", (unsigned long long)want, (unsigned long long)got);
    }
    if (new_end < old_end) {
        model_remove(model, new_end, old_end - new_end);
    } else if (new_end > old_end) {
        model_add(model, &like, old_end, new_end - old_end);
    }
    model->brk_end = want;
    return true;
}
/* ------------------------------------------------------------------------------------ remap */

/* What mremap() did to the model: @count pages moved from @from to @to, and the rest is new. */
static void remap_model(struct drive *drive, struct model_space *model, uint64_t from,
                        uint64_t count, uint64_t to, uint64_t new_count, bool keeps_old)
{
    static struct model_page moved[RUN_MAX];
    struct model_page like = *model_find(model, from), old = like;
    uint64_t kept = count < new_count ? count : new_count;

    (void)drive;
    for (uint64_t i = 0; i < kept; i++) {
        moved[i] = *model_find(model, from + i);
    }
    like.is_own = old.is_own = false;
    model_remove(model, from, count);
    model_add(model, &like, to, new_count);
    for (uint64_t i = 0; i < kept; i++) {
        struct model_page *page = model_find(model, to + i);

        page->is_own = moved[i].is_own;
        memcpy(page->word, moved[i].word, sizeof(page->word));
    }
    if (keeps_old) {
        model_add(model, &old, from, count);
    }
}

bool drive_step_remap(struct drive *drive)
{
    unsigned s = drive_any_space(drive);
    struct model_space *model = drive->model[s];
    uint64_t number = drive_any_page(drive, model, 32);
    uint64_t count = drive_alike(model, number, 1 + drive_choose(drive, RUN_MAX));
    uint64_t new_count = 1 + drive_choose(drive, RUN_MAX);
    struct model_page *first = model_find(model, number);
    uint32_t flags = drive_chance(drive, 4) ? 0 : 1;
    uint64_t target = drive_any_page(drive, model, 2);
    enum vl_status got;
    vl_va va = 0;

    if (first == NULL) {
        if (!drive->is_failing && !drive_is_near_stack(model, number)) {
            drive_expect(vl_space_remap(drive->space[s], number * PAGE, PAGE, 2 * PAGE, 1, 0, &va),
                         VL_EFAULT, "remap of nothing", number * PAGE);
        }
        return false;
    }
    if (first->is_stack || !model_fits(model, new_count) ||
        (first->object != 0 && first->index + new_count > MODEL_INDEX_MAX)) {
        return false;
    }
    if (flags != 0 && drive_chance(drive, 2) && target + new_count <= END_PAGE &&
        (target + new_count <= number || number + count <= target)) {
        flags |= 2;
    }
    if (flags == 1 && drive_chance(drive, 3) && first->object == 0 && !first->is_shared) {
        flags |= 4;
        new_count = count;
    }
    got = vl_space_remap(drive->space[s], number * PAGE, count * PAGE, new_count * PAGE, flags,
                         target * PAGE, &va);
    if (!drive_had_memory(drive, got)) {
        return false;
    }
    if (got == VL_EFAULT && !drive_covers(drive, s, number, count)) {
        return false;
    }
    if (got == VL_ENOMEM && flags == 0 && new_count > count &&
        !model_is_free(model, number + count, new_count - count)) {
        return false;
    }
    if (got == VL_ENOMEM && flags == 0 && new_count > count &&
        (number + new_count > END_PAGE || drive_is_near_stack(model, number + new_count - 1))) {
        return false;
    }
    drive_expect(got, VL_OK, "remap", number * PAGE);
    if ((flags & 2) != 0) {
        if (va != target * PAGE) {
            drive_differ("remap to a fixed place went elsewhere");
        }
    } else if (va != number * PAGE) {
        if (flags == 0 || new_count < count || !model_is_free(model, va / PAGE, new_count)) {
            drive_differ("remap moved %llx to %llx", (unsigned long long)number * PAGE,
                         (unsigned long long)va);
        }
    } else if ((flags & 4) != 0 ||
               (new_count > count && !model_is_free(model, number + count, new_count - count))) {
        drive_differ("remap grew over another mapping at %llx", (unsigned long long)va);
    }
    remap_model(drive, model, number, count, va / PAGE, new_count, (flags & 4) != 0);
    return true;
}
/* ----------------------------------------------------------------------------------- advice */

bool drive_step_advise(struct drive *drive)
{
    static const enum vl_advice advice[] = {VL_ADVISE_DONTNEED, VL_ADVISE_DONTNEED,
                                            VL_ADVISE_WILLNEED, VL_ADVISE_NORMAL,
                                            VL_ADVISE_RANDOM,   VL_ADVISE_SEQUENTIAL};
    unsigned s = drive_any_space(drive);
    struct model_space *model = drive->model[s];
    uint64_t number = drive_any_page(drive, model, 16), count = drive_run_length(drive, number);
    enum vl_advice what = advice[drive_choose(drive, sizeof(advice) / sizeof(advice[0]))];
    enum vl_status want = VL_OK, got;

    for (uint64_t i = 0; i < count; i++) {
        want = model_find(model, number + i) == NULL ? VL_ENOMEM : want;
    }
    if (drive->is_failing && want == VL_ENOMEM) {
        return false;
    }
    got = vl_space_advise(drive->space[s], number * PAGE, count * PAGE, what);
    if (!drive_had_memory(drive, got)) {
        return false;
    }
    drive_expect(got, want, "advise", number * PAGE);
    for (uint64_t i = 0; what == VL_ADVISE_DONTNEED && i < count; i++) {
        struct model_page *page = model_find(model, number + i);

        if (page != NULL) {
            page->is_own = false;
        }
    }
    return want == VL_OK;
}
