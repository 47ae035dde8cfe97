/*
 * rmap_state.h (anon_vma) - what the strategy keeps in areas, objects and spaces.
 */
#ifndef VLI_RMAP_STATE_H
#define VLI_RMAP_STATE_H

#include <stdatomic.h>
#include "core/base/list.h"
#include "core/base/rwlock.h"
#include "core/rmap/interval_state.h"

struct vli_table;
struct vli_anon_vma;

struct vli_rmap_object {
    struct vli_rwlock lock; /* (O) */
    struct vli_tree areas;  /* (O) of struct vli_interval, by index in the object */
};

struct vli_rmap_space {
    struct vli_table *table;
};

/* Keys: (O) the object's lock and (G) the group's lock for writing, each if there is one, and the
 * space's lock for writing; reading needs one of them. (P) prepare, under the space's lock. */
struct vli_rmap_area {
    vl_va start, end;             /* (O, G) */
    uint64_t first_index;         /* (O, G) */
    struct vli_rmap_space *space; /* constant */
    struct vli_rmap_object *object;
    struct vli_interval in_object;       /* (O) */
    struct vli_list chains;              /* (P) ancestors first, its own last */
    _Atomic(struct vli_anon_vma *) anon; /* (P) names the pages that it makes; NULL: none yet */
    struct vli_spinlock prepare_lock;
};

#endif
