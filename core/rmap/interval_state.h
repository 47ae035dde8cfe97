/*
 * interval_state.h - one range of page indices, as a node of a tree or behind one.
 */
#ifndef VLI_INTERVAL_STATE_H
#define VLI_INTERVAL_STATE_H

#include "core/base/list.h"
#include "core/base/tree.h"

struct vli_interval {
    struct vli_tree_node node; /* while is_head */
    struct vli_list twins;     /* the ring of all with this very range */
    uint64_t first;
    uint64_t last;     /* inclusive */
    uint64_t last_max; /* largest last of the subtree; while is_head */
    bool is_head;      /* stands in the tree for all of its ring */
};

#endif
