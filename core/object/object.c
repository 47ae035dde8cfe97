/*
 * object.c - objects that live in memory: life, size, pages, truncation. The rules of locking are
 * in object.h.
 *
 * A frame of an object has type FILE, names the object as its owner, and holds one reference for
 * its place in the tree, one for each entry that maps it, one for each holder. Taking it out of the
 * tree clears the owner and drops the first.
 */
#include "core/base/count.h"
#include "core/object/object.h"
#include "core/rmap/unmap.h"
#include <vellum/host.h>

#define SIZE_END (VLI_PAGES_INDEX_END << VL_PAGE_SHIFT)
/* Pages taken out of the tree under one hold of its lock. */
#define REMOVE_BATCH 32u

static struct vl_cache *object_cache;

enum vl_status vli_object_init(void)
{
    const struct vl_cache_spec spec = {.name = "object", .size = sizeof(struct vl_object)};
    enum vl_status status = vli_pages_init();

    return status == VL_OK ? vl_cache_create(&spec, &object_cache) : status;
}

static struct vl_object *object_new(enum vli_object_kind kind, uint64_t size)
{
    struct vl_object *object = vl_cache_alloc(object_cache, VL_WAIT);

    if (object == NULL) {
        return NULL;
    }
    atomic_store_explicit(&object->refs, 1, memory_order_relaxed);
    object->kind = kind;
    vli_spin_init(&object->pages_lock);
    atomic_store_explicit(&object->size, size, memory_order_relaxed);
    object->pages = (struct vli_pages){NULL, 0, 0};
    atomic_store_explicit(&object->count, 0, memory_order_relaxed);
    vli_rmap_object_init(&object->rmap);
    vli_rw_init(&object->lock, VLI_RANK_OBJECT);
    object->ops = NULL;
    object->owner = NULL;
    return object;
}

enum vl_status vl_object_create(const struct vl_object_ops *ops, void *owner,
                                struct vl_object **out)
{
    struct vl_object *object = object_new(VLI_OBJECT_FILE, 0);

    if (object == NULL) {
        return VL_ENOMEM;
    }
    object->ops = ops;
    object->owner = owner;
    *out = object;
    return VL_OK;
}

enum vl_status vli_object_create_shared(uint64_t size, struct vl_object **out)
{
    struct vl_object *object = object_new(VLI_OBJECT_SHARED, size);

    if (object == NULL) {
        return VL_ENOMEM;
    }
    *out = object;
    return VL_OK;
}

void vl_object_get(struct vl_object *object)
{
    VL_ASSERT(atomic_load_explicit(&object->refs, memory_order_relaxed) != 0);
    atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
}

bool vl_object_try_get(struct vl_object *object)
{
    uint32_t refs = atomic_load_explicit(&object->refs, memory_order_relaxed);

    while (refs != 0) {
        /* Relaxed: a reference gives access to nothing that its lender could not reach. */
        if (atomic_compare_exchange_weak_explicit(&object->refs, &refs, refs + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

uint32_t vl_object_references(const struct vl_object *object)
{
    return atomic_load_explicit(&object->refs, memory_order_relaxed);
}

/* The pages of [@first, @end) leave the tree. */
static void pages_remove(struct vl_object *object, uint64_t first, uint64_t end)
{
    struct vl_frame *batch[REMOVE_BATCH];
    struct vl_frame *frame;
    uint64_t index = first;
    unsigned count;

    do {
        count = 0;
        vli_spin_lock(&object->pages_lock, VLI_RANK_PAGES);
        while (count < REMOVE_BATCH &&
               (frame = vli_pages_next(&object->pages, &index, end)) != NULL) {
            vli_pages_remove(&object->pages, index);
            atomic_store_explicit(&frame->owner, 0, memory_order_release);
            batch[count++] = frame;
        }
        atomic_store_explicit(&object->count, object->pages.count, memory_order_relaxed);
        vli_count_sub(VLI_COUNT_FILE, count);
        vli_count_sub(VLI_COUNT_SHARED, object->kind == VLI_OBJECT_SHARED ? count : 0);
        vli_spin_unlock(&object->pages_lock, VLI_RANK_PAGES);
        for (unsigned i = 0; i < count; i++) {
            vli_rmap_frame_put(batch[i]);
        }
    } while (count == REMOVE_BATCH);
}

void vl_object_put(struct vl_object *object)
{
    /* Release and acquire: what every holder did comes before the end. */
    if (atomic_fetch_sub_explicit(&object->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    VL_ASSERT(object->rmap.areas.root == NULL);
    pages_remove(object, 0, VLI_PAGES_INDEX_END);
    if (object->ops != NULL && object->ops->release != NULL) {
        object->ops->release(object->owner);
    }
    vl_cache_free(object_cache, object);
}

void *vl_object_owner(const struct vl_object *object)
{
    return object->owner;
}

uint64_t vl_object_size(const struct vl_object *object)
{
    return atomic_load_explicit(&object->size, memory_order_acquire);
}

uint64_t vl_object_pages(const struct vl_object *object)
{
    return atomic_load_explicit(&object->count, memory_order_relaxed);
}

enum vl_status vli_refill(void)
{
    struct vl_frame *frame;

    vli_rank_assert_none();
    if (vli_table_reserve(VL_WAIT) == VL_OK) {
        frame = vli_frame_get(0, VL_WAIT);
        if (frame != NULL) {
            vli_frame_put(frame, 0);
            return VL_OK;
        }
    }
    /* What the CPUs keep as table pages, beyond what each may have reserved, is memory, too. */
    if (vli_table_drain() > VLI_TABLE_LEVELS * vl_host_cpu_count()) {
        return VL_OK;
    }
    if ((atomic_load_explicit(&vl_host_thread()->flags, memory_order_relaxed) & VL_THREAD_KILLED) !=
        0) {
        return VL_ENOMEM;
    }
    return vl_host_out_of_memory(1) ? VL_OK : VL_ENOMEM;
}

/* ------------------------------------------------------------------------ size, truncation */

static void size_set(struct vl_object *object, uint64_t size)
{
    vli_spin_lock(&object->pages_lock, VLI_RANK_PAGES);
    /* Release: pairs with the acquire in vli_object_page_count(). */
    atomic_store_explicit(&object->size, size, memory_order_release);
    vli_spin_unlock(&object->pages_lock, VLI_RANK_PAGES);
}

enum vl_status vl_object_extend(struct vl_object *object, uint64_t size)
{
    if (size > SIZE_END - VL_PAGE_SIZE) {
        return VL_EFBIG;
    }
    vli_rw_write_lock(&object->lock);
    if (size > vl_object_size(object)) {
        size_set(object, size);
    }
    vli_rw_write_unlock(&object->lock);
    return VL_OK;
}

static void empty_range(void *ctx, struct vli_rmap_area *area, vl_va start, vl_va end)
{
    struct vli_gather gather;

    (void)ctx;
    vli_gather_begin(&gather, area->space->table, false);
    vli_rmap_unmap_range(&gather, area, start, end);
    vli_gather_end(&gather);
}

/* The pages of [@first, @end) leave the tree, then every mapping: also the private copies, as
 * POSIX's bus error beyond the end wants it. */
static void pages_drop(struct vl_object *object, uint64_t first, uint64_t end)
{
    pages_remove(object, first, end);
    vli_rmap_walk_range(&object->rmap, first, end, empty_range, NULL);
}

/* Zeroes a page from byte @from on. Programs may write it meanwhile: hence atomic stores, in no
 * order.
 */
static void bytes_zero(void *page, size_t from)
{
    _Atomic unsigned char *bytes = page;
    _Atomic uint64_t *words = page;

    for (; from % sizeof(*words) != 0; from++) {
        atomic_store_explicit(&bytes[from], 0, memory_order_relaxed);
    }
    for (; from < VL_PAGE_SIZE; from += sizeof(*words)) {
        atomic_store_explicit(&words[from / sizeof(*words)], 0, memory_order_relaxed);
    }
}

/* Bytes of page @index from @from on read as zeros. */
static void tail_zero(struct vl_object *object, uint64_t index, size_t from)
{
    struct vl_frame *frame;

    vli_spin_lock(&object->pages_lock, VLI_RANK_PAGES);
    frame = vli_pages_find(&object->pages, index);
    if (frame != NULL) {
        vli_frame_ref_get(frame);
    }
    vli_spin_unlock(&object->pages_lock, VLI_RANK_PAGES);
    if (frame == NULL) {
        return;
    }
    bytes_zero(vli_frame_virt(vli_frame_pfn(frame)), from);
    vli_rmap_frame_put(frame);
}

enum vl_status vl_object_truncate(struct vl_object *object, uint64_t size)
{
    uint64_t old;
    uint64_t first;

    if (size > SIZE_END - VL_PAGE_SIZE) {
        return VL_EFBIG;
    }
    vli_rw_write_lock(&object->lock);
    old = vl_object_size(object);
    size_set(object, size);
    if (size < old) {
        first = vli_object_page_count(object);
        pages_drop(object, first, VLI_PAGES_INDEX_END);
        if ((size & VL_PAGE_MASK) != 0) {
            tail_zero(object, first - 1, size & VL_PAGE_MASK);
        }
    }
    vli_rw_write_unlock(&object->lock);
    return VL_OK;
}

enum vl_status vl_object_punch(struct vl_object *object, uint64_t start, uint64_t end)
{
    if ((start & VL_PAGE_MASK) != 0 || (end & VL_PAGE_MASK) != 0 || start > end || end > SIZE_END) {
        return VL_EINVAL;
    }
    vli_rw_write_lock(&object->lock);
    pages_drop(object, start >> VL_PAGE_SHIFT, end >> VL_PAGE_SHIFT);
    vli_rw_write_unlock(&object->lock);
    return VL_OK;
}

/* -------------------------------------------------------------------------------- pages */

unsigned vli_object_find(struct vl_object *object, uint64_t first, unsigned count,
                         struct vl_frame **out)
{
    uint64_t limit;
    unsigned inside;
    unsigned found = 0;

    vli_spin_lock(&object->pages_lock, VLI_RANK_PAGES);
    limit = vli_object_page_count(object);
    limit = limit > first ? limit - first : 0;
    inside = limit < count ? (unsigned)limit : count;
    vli_pages_find_run(&object->pages, first, inside, out);
    for (unsigned i = 0; i < inside; i++) {
        if (out[i] != NULL) {
            vli_frame_ref_get(out[i]);
            found++;
        }
    }
    for (unsigned i = inside; i < count; i++) {
        out[i] = NULL;
    }
    vli_spin_unlock(&object->pages_lock, VLI_RANK_PAGES);
    return found;
}

/* pages_lock held: @frame, whose only user the caller is, becomes page @index. */
static enum vl_status insert_locked(struct vl_object *object, uint64_t index,
                                    struct vl_frame *frame, struct vli_pages_reserve *reserve)
{
    enum vl_status status = vli_pages_insert(&object->pages, index, frame, reserve);

    if (status == VL_OK) {
        vli_frame_set_type(frame, VLI_FRAME_FILE);
        vli_frame_set_index(frame, index);
        atomic_store_explicit(&frame->mappings, 0, memory_order_relaxed);
        atomic_store_explicit(&frame->owner, (uintptr_t)object, memory_order_release);
        atomic_store_explicit(&object->count, object->pages.count, memory_order_relaxed);
        vli_count_add(VLI_COUNT_FILE, 1);
        vli_count_add(VLI_COUNT_SHARED, object->kind == VLI_OBJECT_SHARED ? 1 : 0);
    }
    return status;
}

enum vl_status vli_object_insert(struct vl_object *object, uint64_t index, struct vl_frame *frame,
                                 struct vli_pages_reserve *reserve)
{
    enum vl_status status = VL_EBUSERROR;

    vli_spin_lock(&object->pages_lock, VLI_RANK_PAGES);
    if (index < vli_object_page_count(object)) {
        status = insert_locked(object, index, frame, reserve);
    }
    vli_spin_unlock(&object->pages_lock, VLI_RANK_PAGES);
    return status;
}

/* Page @index with a reference if it is there; else @fresh, when given, becomes it. */
static enum vl_status find_or_insert(struct vl_object *object, uint64_t index,
                                     struct vl_frame *fresh, struct vli_pages_reserve *reserve,
                                     struct vl_frame **out)
{
    struct vl_frame *frame;
    enum vl_status status = VL_ENOENT;

    vli_spin_lock(&object->pages_lock, VLI_RANK_PAGES);
    frame = vli_pages_find(&object->pages, index);
    if (frame == NULL && fresh != NULL) {
        status = insert_locked(object, index, fresh, reserve);
        frame = status == VL_OK ? fresh : NULL;
    }
    if (frame != NULL) {
        vli_frame_ref_get(frame);
        *out = frame;
        status = VL_OK;
    }
    vli_spin_unlock(&object->pages_lock, VLI_RANK_PAGES);
    return status;
}

/* A zeroed frame for a hole at @index; loses gracefully against another who fills it. */
static enum vl_status page_make(struct vl_object *object, uint64_t index, struct vl_frame **out)
{
    struct vli_pages_reserve reserve = {.count = 0};
    struct vl_frame *fresh = vli_frame_get(0, VL_WAIT | VL_ZEROED);
    enum vl_status status;

    if (fresh == NULL) {
        return VL_ENOMEM;
    }
    status = find_or_insert(object, index, fresh, &reserve, out);
    if (status == VL_ENOMEM) {
        status = vli_pages_reserve_fill(&reserve, VL_WAIT);
        if (status == VL_OK) {
            status = find_or_insert(object, index, fresh, &reserve, out);
        }
    }
    vli_pages_reserve_drop(&reserve);
    if (status != VL_OK || *out != fresh) {
        vli_frame_put(fresh, 0);
    }
    return status;
}

enum vl_status vl_object_page_get(struct vl_object *object, uint64_t index, enum vl_page_mode mode,
                                  struct vl_pfn *out)
{
    struct vl_frame *frame = NULL;
    enum vl_status status;

    if (index >= VLI_PAGES_INDEX_END) {
        return VL_EFBIG;
    }
    status = find_or_insert(object, index, NULL, NULL, &frame);
    while (status == VL_ENOENT && mode == VL_PAGE_CREATE) {
        status = page_make(object, index, &frame);
        if (status == VL_ENOMEM && vli_refill() == VL_OK) {
            status = VL_ENOENT;
        }
    }
    if (status == VL_OK) {
        *out = vli_frame_pfn(frame);
    }
    return status;
}

void vl_object_page_put(struct vl_pfn pfn)
{
    vli_rmap_frame_put(vli_frame_of(pfn));
}

enum vl_status vl_object_adopt(struct vl_object *object, uint64_t index, struct vl_pfn pfn,
                               size_t valid)
{
    struct vli_pages_reserve reserve = {.count = 0};
    struct vl_frame *frame;
    unsigned char *bytes;
    enum vl_status status;

    if (index >= VLI_PAGES_INDEX_END || !vli_frame_has(pfn)) {
        return VL_EINVAL;
    }
    status = vli_pages_reserve_fill(&reserve, VL_WAIT);
    if (status != VL_OK) {
        goto drop;
    }
    frame = vli_frame_of(pfn);
    vli_spin_lock(&object->pages_lock, VLI_RANK_PAGES);
    status = vli_pages_find(&object->pages, index) != NULL ? VL_EEXIST : VL_OK;
    if (status == VL_OK && !vli_frame_adopt(frame)) {
        status = VL_EINVAL;
    }
    if (status == VL_OK) {
        bytes = vli_frame_virt(pfn);
        for (size_t i = valid; i < VL_PAGE_SIZE; i++) {
            bytes[i] = 0;
        }
        status = insert_locked(object, index, frame, &reserve);
        VL_ASSERT(status == VL_OK);
    }
    vli_spin_unlock(&object->pages_lock, VLI_RANK_PAGES);
drop:
    vli_pages_reserve_drop(&reserve);
    return status;
}

void vli_object_validate(struct vl_object *object)
{
    struct vl_frame *frame;
    uint64_t index = 0;

    vli_pages_validate(&object->pages);
    while ((frame = vli_pages_next(&object->pages, &index, VLI_PAGES_INDEX_END)) != NULL) {
        VL_ASSERT(vli_frame_type(frame) == VLI_FRAME_FILE);
        VL_ASSERT(vli_object_of(frame) == object);
        VL_ASSERT(index < vli_object_page_count(object) || object->kind == VLI_OBJECT_FILE);
        index++;
    }
    VL_ASSERT(vl_object_pages(object) == object->pages.count);
}
