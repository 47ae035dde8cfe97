/*
 * space.h - address spaces: areas, faults, fork.
 */
#ifndef VELLUM_SPACE_H
#define VELLUM_SPACE_H

#include <vellum/types.h>
#include <vellum/object.h>

struct vl_space;

/* Access and protection bits; the numbers are POSIX's PROT_*. */
#define VL_READ  1u
#define VL_WRITE 2u
#define VL_EXEC  4u

/* Lowest and end address that a user may map. */
#define VL_USER_MIN ((vl_va)0x10000)
#define VL_USER_END ((vl_va)0x7ffffffff000)

enum vl_map_kind { VL_MAP_PRIVATE, VL_MAP_SHARED };

enum vl_map_place {
    VL_MAP_ANYWHERE,       /* hint is a wish: used when free */
    VL_MAP_FIXED,          /* exactly there; what is there is unmapped first */
    VL_MAP_FIXED_NOREPLACE /* exactly there, or VL_EEXIST */
};

/* A request to map; zeroed fields are the usual ones. */
struct vl_map_request {
    struct vl_object *object; /* NULL: anonymous */
    uint64_t offset;          /* into the object, bytes, page-aligned */
    vl_va hint;
    size_t len;        /* bytes > 0; rounded up to pages */
    uint32_t prot;     /* VL_READ | VL_WRITE | VL_EXEC */
    uint32_t prot_max; /* most that protect may later give; 0 means all */
    enum vl_map_kind kind;
    enum vl_map_place place;
    bool grows_down; /* a stack: faults just below extend it, to the stack limit */
    bool populate;   /* make it resident now, as far as memory allows */
};

/** vl_space_create() - an empty space with one reference. Context: thread; may sleep. */
VL_MUST_CHECK enum vl_status vl_space_create(struct vl_space **out);
/** vl_space_get() - one more reference. Context: any. */
void vl_space_get(struct vl_space *space);
/** vl_space_put() - drop one; the last unmaps everything. Context: thread; may sleep. */
void vl_space_put(struct vl_space *space);

/**
 * vl_space_fork() - a copy of @parent, private pages shared until one side writes.
 * On an error nothing is left of the child and the parent is unchanged in what it can see.
 * Context: thread; may sleep; no core lock held. Returns: VL_OK, VL_ENOMEM.
 */
VL_MUST_CHECK enum vl_status vl_space_fork(struct vl_space *parent, struct vl_space **out_child);

/** vl_space_switch() - make @space active on this CPU; NULL for none (a kernel thread may also
 * stay on the last one: lazy). Context: preemption off. */
void vl_space_switch(struct vl_space *space);

/**
 * vl_space_map() - give a range of the space a backing object or anonymous memory.
 * A reference on the object is taken on success only. Nothing is made resident (but populate).
 * Context: thread; may sleep. Cost: O(log areas).
 * Returns: VL_OK and *@out_va; VL_EINVAL (len 0, misaligned fixed hint or offset); VL_ENOMEM (no
 * such range, beyond the limit, too many areas); VL_EEXIST; VL_EOVERFLOW (offset + len); VL_EPERM
 * (fixed below VL_USER_MIN). On error the space is unchanged.
 */
VL_MUST_CHECK enum vl_status vl_space_map(struct vl_space *space,
                                          const struct vl_map_request *request, vl_va *out_va);

/** vl_space_unmap() - remove what is mapped in the range; holes are no error. Errors: VL_EINVAL,
 * VL_ENOMEM (a split would exceed the number of areas). */
VL_MUST_CHECK enum vl_status vl_space_unmap(struct vl_space *space, vl_va start, size_t len);

/** vl_space_protect() - set the protection of a range. VL_ENOMEM: holes (what lay before the hole
 * is changed, as in Linux); VL_EACCES: beyond prot_max; VL_EINVAL. */
VL_MUST_CHECK enum vl_status vl_space_protect(struct vl_space *space, vl_va start, size_t len,
                                              uint32_t prot);

/** vl_space_set_brk() - where the heap starts (after exec). */
void vl_space_set_brk(struct vl_space *space, vl_va start);
/** vl_space_brk() - move the end of the heap; @want 0 or impossible: unchanged. Returns: the end.
 */
vl_va vl_space_brk(struct vl_space *space, vl_va want);

/**
 * vl_space_remap() - as Linux's mremap(): grow, shrink or move; @flags: 1 may move, 2 to the fixed
 * @new_va, 4 leave the old range mapped and empty.
 * Returns: VL_OK and *@out_va; VL_EINVAL, VL_EFAULT (old range not mapped), VL_ENOMEM.
 */
VL_MUST_CHECK enum vl_status vl_space_remap(struct vl_space *space, vl_va old_va, size_t old_len,
                                            size_t new_len, uint32_t flags, vl_va new_va,
                                            vl_va *out_va);

enum vl_advice {
    VL_ADVISE_DONTNEED, /* drop private pages now; the next touch reads zeros or the file */
    VL_ADVISE_FREE,     /* the same, but only when memory is short (here: at once) */
    VL_ADVISE_WILLNEED,
    VL_ADVISE_NORMAL,
    VL_ADVISE_RANDOM,
    VL_ADVISE_SEQUENTIAL
};
/** vl_space_advise() - VL_ENOMEM: holes (the rest is done); VL_EINVAL. */
VL_MUST_CHECK enum vl_status vl_space_advise(struct vl_space *space, vl_va start, size_t len,
                                             enum vl_advice advice);
/** vl_space_resident() - one byte a page, bit 0: resident. VL_ENOMEM: holes. */
VL_MUST_CHECK enum vl_status vl_space_resident(struct vl_space *space, vl_va start, size_t len,
                                               uint8_t *out);
/** vl_space_find() - the area at @va or the next above: its range, protection and kind; the
 * object (no reference is taken) may be NULL. VL_ENOENT: none. */
struct vl_area_info {
    vl_va start;
    vl_va end;
    uint32_t prot;
    enum vl_map_kind kind;
    bool grows_down;
    struct vl_object *object;
    uint64_t offset;
};
VL_MUST_CHECK enum vl_status vl_space_find(struct vl_space *space, vl_va va,
                                           struct vl_area_info *out);

/**
 * vl_space_fault() - make @va accessible for @access (one of VL_READ, VL_WRITE, VL_EXEC), or say
 * why not.
 * Context: thread, interrupts on; may sleep; no core lock held.
 * Cost: O(log areas), no allocation but the page's; takes the space's lock for reading only.
 * Returns: VL_OK (retry the access); VL_EFAULT: nothing mapped there; VL_EACCES: not allowed;
 * VL_EBUSERROR: beyond the end of the object; VL_ENOMEM: none left even after the OOM policy.
 */
VL_MUST_CHECK enum vl_status vl_space_fault(struct vl_space *space, vl_va va, uint32_t access);

/**
 * vl_space_frame_get() - fault @va in for @access if need be and hold its frame, so that another
 * thread can read or write it (exec's argument pages, ptrace, futex). End with vl_frame_ref_put().
 * Returns: as vl_space_fault().
 */
VL_MUST_CHECK enum vl_status vl_space_frame_get(struct vl_space *space, vl_va va, uint32_t access,
                                                struct vl_pfn *out);

/** Identity of the memory behind an address, equal for all who share it: a futex key. */
struct vl_memory_key {
    uint64_t id;     /* of the object or, for private memory, of the space */
    uint64_t offset; /* in bytes */
};
/** vl_space_key() - VL_EFAULT when nothing is mapped at @va. */
VL_MUST_CHECK enum vl_status vl_space_key(struct vl_space *space, vl_va va,
                                          struct vl_memory_key *out);

/* Limits in bytes; UINT64_MAX for none. */
struct vl_space_limits {
    uint64_t address_space;
    uint64_t stack;
    uint64_t data;
};
/** vl_space_set_limits() - for what is asked from now on; what is mapped stays. May sleep. */
void vl_space_set_limits(struct vl_space *space, const struct vl_space_limits *limits);

/* What a space holds; counts of pages. */
struct vl_space_usage {
    uint64_t mapped;    /* all areas */
    uint64_t anonymous; /* resident anonymous pages */
    uint64_t file;      /* resident pages of objects */
    uint64_t tables;    /* table pages */
    uint64_t areas;     /* number of areas */
    uint64_t faults;    /* since the space was made */
    uint64_t resident_peak;
    uint64_t mapped_peak;
};
/** vl_space_usage() - a snapshot. Context: thread; may sleep. */
void vl_space_usage(struct vl_space *space, struct vl_space_usage *out);

/** vl_space_tables_set_kernel() - the page table whose upper half every new space shares. Before
 * the first vl_space_create(). Default: an empty upper half. */
void vl_space_tables_set_kernel(struct vl_pa root);

/**
 * vl_space_validate() - check every structure of the space against the page tables: areas, gaps,
 * counters, reverse map. Panics when broken. Nothing else may use the space meanwhile.
 */
void vl_space_validate(struct vl_space *space);

/** vl_tlb_flush_local() - arch/'s flush on this CPU; @count 0: everything that is not global.
 * Called by the host inside its remote-flush handler. Context: any. */
struct vl_flush_range;
void vl_tlb_flush_local(const struct vl_flush_range *ranges, size_t count);

#endif
