/*
 * model.c - see model.h. Nothing here is clever.
 */
#include <assert.h>
#include <string.h>
#include "tests/lib/model.h"

unsigned model_lower(const struct model_space *space, uint64_t number)
{
    unsigned low = 0, high = space->count;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (space->page[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct model_page *model_find(struct model_space *space, uint64_t number)
{
    unsigned at = model_lower(space, number);

    return at < space->count && space->page[at].number == number ? &space->page[at] : NULL;
}

bool model_is_free(const struct model_space *space, uint64_t number, uint64_t count)
{
    return model_lower(space, number) == model_lower(space, number + count);
}

void model_remove(struct model_space *space, uint64_t number, uint64_t count)
{
    unsigned from = model_lower(space, number);
    unsigned to = model_lower(space, number + count);

    memmove(&space->page[from], &space->page[to], (space->count - to) * sizeof(space->page[0]));
    space->count -= to - from;
}

bool model_fits(const struct model_space *space, uint64_t count)
{
    return space->count + count <= MODEL_PAGES_MAX;
}

void model_add(struct model_space *space, const struct model_page *like, uint64_t number,
               uint64_t count)
{
    struct model_page copy = *like;
    unsigned at;

    model_remove(space, number, count);
    assert(model_fits(space, count));
    at = model_lower(space, number);
    memmove(&space->page[at + count], &space->page[at],
            (space->count - at) * sizeof(space->page[0]));
    space->count += (unsigned)count;
    for (uint64_t i = 0; i < count; i++) {
        space->page[at + i] = copy;
        space->page[at + i].number = number + i;
        space->page[at + i].index = copy.index + (uint32_t)i;
    }
}

void model_copy(struct model_space *to, const struct model_space *from)
{
    to->count = from->count;
    to->brk_start = from->brk_start;
    to->brk_end = from->brk_end;
    memcpy(to->page, from->page, from->count * sizeof(from->page[0]));
}

bool model_grow(struct model_space *space, uint64_t number)
{
    unsigned at = model_lower(space, number), end = at;
    const struct model_page *below = at > 0 ? &space->page[at - 1] : NULL;
    struct model_page like;
    uint64_t count;

    if (at == space->count || !space->page[at].is_stack || number < VL_USER_MIN / VL_PAGE_SIZE ||
        (below != NULL && !below->is_stack && below->prot != 0 &&
         number - (below->number + 1) < MODEL_GUARD)) {
        return false;
    }
    while (end < space->count && space->page[end].is_stack &&
           space->page[end].number == space->page[at].number + (end - at) &&
           space->page[end].prot == space->page[at].prot) {
        end++;
    }
    like = space->page[at];
    count = like.number - number;
    if (count + (end - at) > MODEL_STACK_MAX || !model_fits(space, count)) {
        return false;
    }
    like.is_own = false;
    model_add(space, &like, number, count);
    return true;
}

enum vl_status model_access(const struct model_object *objects, const struct model_page *page,
                            uint32_t access)
{
    if (page == NULL) {
        return VL_EFAULT;
    }
    /* x86: what can be written or executed can be read. */
    if (access == VL_READ ? page->prot == 0 : (page->prot & access) == 0) {
        return VL_EACCES;
    }
    if (page->object != 0 && !page->is_own &&
        (uint64_t)page->index * VL_PAGE_SIZE >= objects[page->object - 1].size) {
        return VL_EBUSERROR;
    }
    return VL_OK;
}

uint64_t *model_word(struct model_object *objects, struct model_page *page, unsigned which)
{
    static uint64_t zero;

    zero = 0;
    if (page->is_own) {
        return &page->word[which];
    }
    return page->object == 0 ? &zero : &objects[page->object - 1].word[page->index][which];
}

void model_write(struct model_object *objects, struct model_page *page, unsigned which,
                 uint64_t value)
{
    if (page->is_shared) {
        objects[page->object - 1].word[page->index][which] = value;
        return;
    }
    if (!page->is_own) {
        for (unsigned i = 0; i < MODEL_WORDS; i++) {
            page->word[i] = *model_word(objects, page, i);
        }
        page->is_own = true;
    }
    page->word[which] = value;
}

void model_lose(struct model_space *space, uint8_t object, uint64_t first, uint64_t end)
{
    for (unsigned i = 0; i < space->count; i++) {
        struct model_page *page = &space->page[i];

        if (page->object == object && page->index >= first && page->index < end) {
            page->is_own = false;
        }
    }
}
