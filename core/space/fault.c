/*
 * fault.c - making a page accessible.
 *
 * A fault holds the space's lock for reading. It finds the leaf entry without its lock, decides
 * what is missing, prepares a frame (zeroing and copying run under no spin lock), then takes the
 * leaf page's lock, sees that the entry is still what it was, and fills it. Who loses a race throws
 * the frame away and lets the access be tried again.
 *
 *      entry      access    area                what is done
 *      empty      read      anonymous           the zero page, read-only
 *      empty      write     anonymous           a zeroed frame
 *      empty      read      object              the object's page and its neighbours (fault-around)
 *      empty      write     object, shared      the object's page
 *      empty      write     object, private     a copy of the object's page
 *      read-only  write     private, last user  the right to write (references == 1)
 *      read-only  write     private             a copy
 *
 * Memory. Everything is asked for with VL_ATOMIC. What cannot be had is named in fault->lacks; then
 * all locks are left, the lack is filled with VL_WAIT, kept in the struct fault, and the fault
 * starts again.
 */
#include "core/base/count.h"
#include "core/space/area.h"
#include "core/base/bits.h"

/* Pages mapped around a read fault on an object, a power of 2. */
#define AROUND_PAGES 16u

enum lack { LACKS_NOTHING, LACKS_FRAME, LACKS_TABLE, LACKS_NODES, LACKS_RMAP };

struct fault {
    struct vl_space *space;
    struct vli_area *area;
    vl_va va;
    uint32_t access;
    enum lack lacks;
    struct vl_frame *spare; /* a frame in hand, or NULL */
    struct vli_table_slot slot;
    struct vli_pages_reserve reserve;
};

enum vl_status vli_area_allows(const struct vli_area *area, uint32_t access)
{
    uint32_t prot = area->attributes & VLI_AREA_PROT;

    /* What can be written or executed can be read: x86 knows no other. */
    if (access == VL_READ) {
        return prot != 0 ? VL_OK : VL_EACCES;
    }
    return (prot & access) == access ? VL_OK : VL_EACCES;
}

/* Would @area continue into @next, a neighbour of the fault's, if their rights were equal? */
static bool could_join(const struct vli_area *area, const struct vli_area *next)
{
    return area->rmap.end == next->rmap.start && area->object == next->object &&
           ((area->attributes ^ next->attributes) & ~VLI_AREA_PROT) == 0 &&
           area->rmap.first_index + vli_area_pages(area) == next->rmap.first_index;
}

/* The area's first page of its own is about to be made. */
static VLI_NOINLINE bool prepare_first(struct fault *fault)
{
    struct vli_area *prev = vli_area_prev(fault->space, fault->area);
    struct vli_area *next = vli_area_next(fault->space, fault->area);
    struct vli_rmap_area *beside = NULL;

    if (prev != NULL && could_join(prev, fault->area)) {
        beside = &prev->rmap;
    } else if (next != NULL && could_join(fault->area, next)) {
        beside = &next->rmap;
    }
    if (vli_rmap_area_prepare(&fault->area->rmap, beside, VL_ATOMIC) == VL_OK) {
        return true;
    }
    fault->lacks = LACKS_RMAP;
    return false;
}

/* May an anonymous page be made in the area? If not, the lack is noted. */
static bool prepare(struct fault *fault)
{
    return VLI_LIKELY(vli_rmap_area_is_prepared(&fault->area->rmap)) || prepare_first(fault);
}

/* A frame for the taking, contents unknown. NULL: fault->lacks says so. */
static struct vl_frame *frame_take(struct fault *fault)
{
    struct vl_frame *frame = fault->spare;

    if (frame == NULL) {
        /* The reserves are for those who cannot wait: a fault can. */
        frame = vli_frame_get(0, VL_ATOMIC | VL_MAY_FAIL);
        if (VLI_UNLIKELY(frame == NULL)) {
            fault->lacks = LACKS_FRAME;
        }
        return frame;
    }
    fault->spare = NULL;
    return frame;
}

/* A frame that was not needed after all. */
static void frame_return(struct fault *fault, struct vl_frame *frame)
{
    VL_ASSERT(fault->spare == NULL);
    fault->spare = frame;
}

/* The leaf entry of a page of the area, with rights as they are now; @write: may write at once. */
static uint64_t make_pte(const struct vli_area *area, struct vl_frame *frame, bool write)
{
    return vli_pte_make(vli_frame_pfn(frame), write, (area->attributes & VL_EXEC) != 0);
}

static void count_add(_Atomic uint64_t *count, uint64_t n)
{
    atomic_fetch_add_explicit(count, n, memory_order_relaxed);
}

/* ------------------------------------------------------------------------- empty entries */

/* @frame becomes the area's own page at the fault's address, unless the entry is taken. */
static void install_anon(struct fault *fault, struct vl_frame *frame)
{
    uint64_t pte = make_pte(fault->area, frame, true) | VLI_PTE_ACCESSED | VLI_PTE_DIRTY;

    vli_table_relock(&fault->slot);
    if (VLI_UNLIKELY(vli_entry_load(&fault->slot) != 0)) {
        vli_table_unlock(&fault->slot);
        frame_return(fault, frame);
        return;
    }
    vli_rmap_anon_new(frame, &fault->area->rmap, fault->va, &fault->slot);
    vli_entry_set(&fault->slot, fault->va, pte);
    count_add(&fault->space->table.anon_pages, 1);
    vli_table_unlock(&fault->slot);
}

static enum vl_status anon_write(struct fault *fault)
{
    struct vl_frame *frame;

    if (VLI_UNLIKELY(!prepare(fault))) {
        return VL_EAGAIN;
    }
    frame = frame_take(fault);
    if (VLI_UNLIKELY(frame == NULL)) {
        return VL_EAGAIN;
    }
    vli_frame_zero(vli_frame_pfn(frame));
    install_anon(fault, frame);
    return VL_OK;
}

static enum vl_status anon_read(struct fault *fault)
{
    uint64_t pte = make_pte(fault->area, vli_frame_of(vli_zero_pfn), false) | VLI_PTE_ACCESSED;

    vli_table_relock(&fault->slot);
    if (vli_entry_load(&fault->slot) == 0) {
        vli_entry_set(&fault->slot, fault->va, pte);
    }
    vli_table_unlock(&fault->slot);
    return VL_OK;
}

/* The object has no page at @index: make one of zeros, or find the index beyond the end. */
static VLI_NOINLINE enum vl_status fill_hole(struct fault *fault, uint64_t index)
{
    struct vl_object *object = fault->area->object;
    struct vl_frame *frame;
    enum vl_status status;

    if (index >= vli_object_page_count(object)) {
        return VL_EBUSERROR;
    }
    frame = frame_take(fault);
    if (frame == NULL) {
        return VL_EAGAIN;
    }
    vli_frame_zero(vli_frame_pfn(frame));
    status = vli_object_insert(object, index, frame, &fault->reserve);
    if (status != VL_OK) {
        frame_return(fault, frame);
    }
    if (status == VL_ENOMEM) {
        fault->lacks = LACKS_NODES;
        return VL_EAGAIN;
    }
    return status == VL_EEXIST ? VL_OK : status;
}

/* Fill the empty ones of @count entries from the slot on with @frames, whose references are used
 * up. The leaf page is locked. */
static void install_pages(struct fault *fault, vl_va va, struct vl_frame *const *frames,
                          unsigned count)
{
    struct vli_table_slot slot = fault->slot;
    struct vli_area *area = fault->area;
    bool write = vli_area_is_shared(area) && (area->attributes & VL_WRITE) != 0;
    /* The entry of frame 0: what differs from one to the next is added. */
    uint64_t rights = vli_pte_make((struct vl_pfn){0}, write, (area->attributes & VL_EXEC) != 0);
    uint64_t mapped = 0;

    slot.entry -= (fault->va - va) >> VL_PAGE_SHIFT;
    for (unsigned i = 0; i < count; i++, va += VL_PAGE_SIZE, slot.entry++) {
        if (frames[i] == NULL) {
            continue;
        }
        if (vli_entry_load(&slot) != 0) {
            vli_rmap_frame_put(frames[i]);
            continue;
        }
        vli_rmap_dup(frames[i], &area->rmap, va, &slot);
        vli_entry_set(&slot, va, rights | vl_pfn_to_pa(vli_frame_pfn(frames[i])).a);
        mapped++;
    }
    count_add(&fault->space->table.file_pages, mapped);
}

/* Which pages to map at once: those of the aligned window that lie in the area, hence in one leaf
 * table page. A write, an area said to be read at random, and anonymous shared memory, which is
 * mostly filled by its faults, want one.
 */
static vl_va around(const struct fault *fault, unsigned *out_count)
{
    vl_va start = (vl_va)vli_round_down(fault->va, AROUND_PAGES * VL_PAGE_SIZE);
    vl_va end = start + AROUND_PAGES * VL_PAGE_SIZE;

    if (fault->access == VL_WRITE || (fault->area->attributes & VLI_AREA_RANDOM) != 0 ||
        fault->area->object->kind == VLI_OBJECT_SHARED) {
        *out_count = 1;
        return fault->va;
    }
    start = start > fault->area->rmap.start ? start : fault->area->rmap.start;
    end = end < fault->area->rmap.end ? end : fault->area->rmap.end;
    *out_count = (unsigned)((end - start) >> VL_PAGE_SHIFT);
    return start;
}

static VLI_NOINLINE enum vl_status object_map(struct fault *fault)
{
    struct vl_frame *frames[AROUND_PAGES];
    struct vl_object *object = fault->area->object;
    unsigned count;
    vl_va start = around(fault, &count);
    enum vl_status status;

    if (vli_rmap_reserve(&fault->space->rmap, count, VL_ATOMIC) != VL_OK) {
        fault->lacks = LACKS_RMAP;
        return VL_EAGAIN;
    }
    for (;;) {
        vli_table_relock(&fault->slot);
        (void)vli_object_find(object, vli_area_index(fault->area, start), count, frames);
        install_pages(fault, start, frames, count);
        /* Whoever filled the entry meanwhile may have removed it again: then look once more. */
        if (vli_entry_load(&fault->slot) != 0) {
            vli_table_unlock(&fault->slot);
            return VL_OK;
        }
        vli_table_unlock(&fault->slot);
        status = fill_hole(fault, vli_area_index(fault->area, fault->va));
        if (status != VL_OK) {
            return status;
        }
        start = fault->va;
        count = 1;
    }
}

/* A private write to a page of the object that is not mapped yet: straight to a copy. */
static VLI_NOINLINE enum vl_status object_copy(struct fault *fault)
{
    struct vl_object *object = fault->area->object;
    uint64_t index = vli_area_index(fault->area, fault->va);
    struct vl_frame *source;
    struct vl_frame *frame;

    if (!prepare(fault)) {
        return VL_EAGAIN;
    }
    if (index >= vli_object_page_count(object)) {
        return VL_EBUSERROR;
    }
    frame = frame_take(fault);
    if (frame == NULL) {
        return VL_EAGAIN;
    }
    (void)vli_object_find(object, index, 1, &source);
    if (source != NULL) {
        vli_frame_copy(vli_frame_pfn(frame), vli_frame_pfn(source));
    } else {
        vli_frame_zero(vli_frame_pfn(frame));
    }
    vli_table_relock(&fault->slot);
    /* Truncation shrinks the size, or takes the page out, before it comes to this leaf page. */
    if (vli_entry_load(&fault->slot) != 0 || index >= vli_object_page_count(object) ||
        (source != NULL && vli_object_of(source) != object)) {
        vli_table_unlock(&fault->slot);
        frame_return(fault, frame);
    } else {
        vli_rmap_anon_new(frame, &fault->area->rmap, fault->va, &fault->slot);
        vli_entry_set(&fault->slot, fault->va,
                      make_pte(fault->area, frame, true) | VLI_PTE_ACCESSED | VLI_PTE_DIRTY);
        count_add(&fault->space->table.anon_pages, 1);
        vli_table_unlock(&fault->slot);
    }
    if (source != NULL) {
        vli_rmap_frame_put(source);
    }
    return VL_OK;
}

static enum vl_status fault_empty(struct fault *fault)
{
    if (fault->area->object == NULL) {
        return fault->access == VL_WRITE ? anon_write(fault) : anon_read(fault);
    }
    if (fault->access == VL_WRITE && !vli_area_is_shared(fault->area)) {
        return object_copy(fault);
    }
    return object_map(fault);
}

/* ----------------------------------------------------------------------- copy on write */

/* Do two values of an entry differ only in what the MMU writes? */
static bool is_same_entry(uint64_t a, uint64_t b)
{
    return ((a ^ b) & ~(VLI_PTE_ACCESSED | VLI_PTE_DIRTY)) == 0;
}

/* The entry still maps @old read-only: put @frame, its copy, in its place, and drop @old's entry.
 * The leaf page is locked and is unlocked here. */
static VLI_NOINLINE void replace(struct fault *fault, struct vl_frame *old, struct vl_frame *frame)
{
    struct vli_table *table = &fault->space->table;
    struct vli_gather gather;
    bool is_full;

    vli_gather_begin(&gather, table, false);
    vli_entry_change(&gather, &fault->slot, fault->va,
                     make_pte(fault->area, frame, true) | VLI_PTE_ACCESSED | VLI_PTE_DIRTY);
    vli_rmap_anon_new(frame, &fault->area->rmap, fault->va, &fault->slot);
    if (!vli_frame_is_marked(old, VLI_FRAME_PINNED)) {
        if (vli_frame_type(old) == VLI_FRAME_FILE) {
            atomic_fetch_sub_explicit(&table->file_pages, 1, memory_order_relaxed);
            count_add(&table->anon_pages, 1);
        }
        vli_rmap_unmap(old, &fault->area->rmap, fault->va, &fault->slot);
        is_full = vli_gather_frame(&gather, old);
        VL_ASSERT(!is_full);
    } else {
        count_add(&table->anon_pages, 1);
    }
    vli_table_unlock(&fault->slot);
    vli_gather_end(&gather);
}

/* Copies the frame of @entry, which was seen under the lock and holds a reference (or is the zero
 * page), and puts the copy in its place. */
static enum vl_status copy_shared(struct fault *fault, struct vl_frame *old, uint64_t entry)
{
    bool is_zero = vli_frame_is_marked(old, VLI_FRAME_PINNED);
    struct vl_frame *frame = frame_take(fault);
    enum vl_status status = VL_EAGAIN;

    if (frame != NULL) {
        if (is_zero) {
            vli_frame_zero(vli_frame_pfn(frame));
        } else {
            vli_frame_copy(vli_frame_pfn(frame), vli_frame_pfn(old));
        }
        vli_table_relock(&fault->slot);
        if (is_same_entry(vli_entry_load(&fault->slot), entry)) {
            replace(fault, old, frame);
        } else {
            vli_table_unlock(&fault->slot);
            frame_return(fault, frame);
        }
        status = VL_OK;
    }
    if (!is_zero) {
        vli_rmap_frame_put(old);
    }
    return status;
}

/* A write to a private page that is mapped read-only. */
static VLI_NOINLINE enum vl_status copy_on_write(struct fault *fault)
{
    struct vl_frame *old;
    uint64_t entry;

    if (!prepare(fault)) {
        return VL_EAGAIN;
    }
    vli_table_relock(&fault->slot);
    entry = vli_entry_load(&fault->slot);
    if (!vli_pte_is_present(entry) || vli_pte_can_write(entry)) {
        vli_table_unlock(&fault->slot);
        return VL_OK;
    }
    old = vli_frame_of(vli_pte_pfn(entry));
    /* One reference, this entry's: nobody else sees the page or can come to see it. Acquire: pairs
     * with the release of the last other user. */
    if (vli_frame_type(old) == VLI_FRAME_ANON &&
        atomic_load_explicit(&old->refs, memory_order_acquire) == 1) {
        vli_rmap_anon_reuse(old, &fault->area->rmap, fault->va);
        vli_entry_set(&fault->slot, fault->va,
                      entry | VLI_PTE_WRITE | VLI_PTE_ACCESSED | VLI_PTE_DIRTY);
        vli_table_unlock(&fault->slot);
        return VL_OK;
    }
    if (!vli_frame_is_marked(old, VLI_FRAME_PINNED)) {
        vli_frame_ref_get(old);
    }
    vli_table_unlock(&fault->slot);
    return copy_shared(fault, old, entry);
}

/* ------------------------------------------------------------------------------- driving */

/*
 * The leaf entry of the fault. The space remembers the leaf table page of the last fault as one
 * word, (va >> 21) << 32 | frame number. Table pages stay while the space's lock is held, and who
 * frees some under it clears the word first.
 */
static enum vl_status find_slot(struct fault *fault)
{
    uint64_t tag = fault->va >> vli_table_shift(1);
    /* Acquire: pairs with the release below; the page is zero before it is known. */
    uint64_t leaf = atomic_load_explicit(&fault->space->leaf, memory_order_acquire);
    struct vl_pfn pfn = {(uint32_t)leaf};

    if (VLI_LIKELY(leaf >> 32 == tag)) {
        fault->slot.page = vli_frame_of(pfn);
        fault->slot.entry = &vli_table_entries(vl_pfn_to_pa(pfn).a)[vli_table_index(fault->va, 0)];
        return VL_OK;
    }
    if (vli_table_find_alloc(&fault->space->table, fault->va, VL_ATOMIC, &fault->slot) != VL_OK) {
        fault->lacks = LACKS_TABLE;
        return VL_EAGAIN;
    }
    atomic_store_explicit(&fault->space->leaf, tag << 32 | vli_frame_pfn(fault->slot.page).n,
                          memory_order_release);
    return VL_OK;
}

/* The space's lock is held for reading, the area found and willing. */
static enum vl_status fault_locked(struct fault *fault)
{
    uint64_t entry;

    if (VLI_UNLIKELY(find_slot(fault) != VL_OK)) {
        return VL_EAGAIN;
    }
    entry = vli_entry_load(&fault->slot);
    if (entry == 0) {
        return fault_empty(fault);
    }
    if (fault->access != VL_WRITE || vli_pte_can_write(entry)) {
        return VL_OK; /* another thread was here first */
    }
    /* Shared pages are mapped with all the rights of their area. */
    VL_ASSERT(!vli_area_is_shared(fault->area));
    return copy_on_write(fault);
}

/* The area at the fault's address, most often the one of the last fault. */
static struct vli_area *area_at(struct vl_space *space, vl_va va)
{
    struct vli_area *area = atomic_load_explicit(&space->hit, memory_order_relaxed);

    if (area != NULL && va >= area->rmap.start && va < area->rmap.end) {
        return area;
    }
    area = vli_area_find(space, va);
    if (area == NULL || va < area->rmap.start) {
        return NULL;
    }
    atomic_store_explicit(&space->hit, area, memory_order_relaxed);
    return area;
}

/* One try under the lock. VL_ENOENT: no area there. */
static enum vl_status fault_try(struct fault *fault)
{
    enum vl_status status = VL_ENOENT;

    vli_rw_read_lock(&fault->space->lock);
    fault->area = area_at(fault->space, fault->va);
    if (VLI_LIKELY(fault->area != NULL)) {
        status = vli_area_allows(fault->area, fault->access);
        if (VLI_LIKELY(status == VL_OK)) {
            status = fault_locked(fault);
        }
    }
    vli_rw_read_unlock(&fault->space->lock);
    return status;
}

/* Get with VL_WAIT what the last try lacked. No lock held. */
static enum vl_status fill_lack(struct fault *fault)
{
    enum vl_status status = VL_OK;

    switch (fault->lacks) {
    case LACKS_FRAME:
        fault->spare = vli_frame_get(0, VL_WAIT);
        status = fault->spare != NULL ? VL_OK : VL_ENOMEM;
        break;
    case LACKS_NODES:
        status = vli_pages_reserve_fill(&fault->reserve, VL_WAIT);
        break;
    default:
        break;
    }
    if (status != VL_OK || fault->lacks == LACKS_TABLE || fault->lacks == LACKS_RMAP) {
        status = vli_refill();
    }
    fault->lacks = LACKS_NOTHING;
    return status;
}

/* Nothing is mapped there: perhaps a stack just above grows. */
static VLI_COLD enum vl_status grow(struct fault *fault)
{
    enum vl_status status;

    vli_rw_write_lock(&fault->space->lock);
    status = vli_stack_grow(fault->space, fault->va);
    vli_rw_write_unlock(&fault->space->lock);
    return status;
}

enum vl_status vl_space_fault(struct vl_space *space, vl_va va, uint32_t access)
{
    struct fault fault;
    enum vl_status status;

    if (VLI_UNLIKELY(va >= VL_USER_END)) {
        return VL_EFAULT;
    }
    fault.space = space;
    fault.va = va & ~(vl_va)VL_PAGE_MASK;
    fault.access = access;
    fault.lacks = LACKS_NOTHING;
    fault.spare = NULL;
    fault.reserve.count = 0;
    atomic_fetch_add_explicit(&space->faults, 1, memory_order_relaxed);
    vli_count_add(VLI_COUNT_FAULT, 1);
    while (VLI_UNLIKELY((status = fault_try(&fault)) != VL_OK)) {
        if (status == VL_ENOENT) {
            status = grow(&fault);
        } else if (status == VL_EAGAIN) {
            status = fill_lack(&fault);
        }
        if (status != VL_OK) {
            break;
        }
    }
    if (VLI_UNLIKELY(fault.spare != NULL)) {
        vli_frame_put(fault.spare, 0);
    }
    if (VLI_UNLIKELY(fault.reserve.count != 0)) {
        vli_pages_reserve_drop(&fault.reserve);
    }
    return status;
}

void vli_populate(struct vl_space *space, vl_va start, vl_va end, uint32_t access)
{
    enum vl_status status = VL_OK;

    access = (access & VL_WRITE) != 0 ? VL_WRITE : VL_READ;
    for (vl_va va = start; va < end && status == VL_OK; va += VL_PAGE_SIZE) {
        status = vl_space_fault(space, va, access);
        /* A thread that is being killed has no use for the rest. */
        if ((atomic_load_explicit(&vl_host_thread()->flags, memory_order_relaxed) &
             VL_THREAD_KILLED) != 0) {
            break;
        }
    }
}

/* The frame of a present entry that allows @access, with a reference; NULL: it has to be faulted.
 */
static struct vl_frame *frame_at(struct vl_space *space, vl_va va, uint32_t access)
{
    struct vl_frame *frame = NULL;
    struct vli_table_slot slot;
    uint64_t entry;

    if (!vli_table_lock(&space->table, va, &slot)) {
        return NULL;
    }
    entry = vli_entry_load(&slot);
    if (vli_pte_is_present(entry) && (access != VL_WRITE || vli_pte_can_write(entry))) {
        frame = vli_frame_of(vli_pte_pfn(entry));
        vli_frame_ref_get(frame);
    }
    vli_table_unlock(&slot);
    return frame;
}

enum vl_status vl_space_frame_get(struct vl_space *space, vl_va va, uint32_t access,
                                  struct vl_pfn *out)
{
    struct vl_frame *frame;
    struct vli_area *area;
    enum vl_status status;

    if (va >= VL_USER_END) {
        return VL_EFAULT;
    }
    va &= ~(vl_va)VL_PAGE_MASK;
    for (;;) {
        frame = NULL;
        vli_rw_read_lock(&space->lock);
        area = vli_area_find(space, va);
        if (area != NULL && area->rmap.start <= va && vli_area_allows(area, access) == VL_OK) {
            frame = frame_at(space, va, access);
        }
        vli_rw_read_unlock(&space->lock);
        if (frame != NULL) {
            *out = vli_frame_pfn(frame);
            return VL_OK;
        }
        status = vl_space_fault(space, va, access);
        if (status != VL_OK) {
            return status;
        }
    }
}
