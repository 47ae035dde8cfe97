/*
 * interval_state.h - one range of page indices as a node of a tree.
 */
#ifndef VLI_INTERVAL_STATE_H
#define VLI_INTERVAL_STATE_H

#include "core/base/tree.h"

struct vli_interval {
    struct vli_tree_node node;
    uint64_t first;
    uint64_t last;     /* inclusive */
    uint64_t last_max; /* largest last of the subtree */
};

#endif
