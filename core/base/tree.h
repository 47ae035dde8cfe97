/*
 * tree.h - balanced binary search trees, intrusive, each node with a summary of its subtree.
 *
 * The user searches by its own loop (no comparison callback in the hot path), remembers where the
 * search fell off, and links the new node there. A tree with summaries ("the largest gap below",
 * "the largest end below") is given a function that recomputes one node's summary from its own
 * value and its children's; it is called from the changed place up to the root. Depth is at most
 * 2 log2(n + 1).
 *
 * Locks: the tree has none; the user's lock covers it.
 */
#ifndef VLI_TREE_H
#define VLI_TREE_H

#include "core/base/compiler.h"

struct vli_tree_node {
    uintptr_t parent_color; /* parent's address, colour in bit 0 */
    struct vli_tree_node *left;
    struct vli_tree_node *right;
};

struct vli_tree {
    struct vli_tree_node *root;
};

/* Recompute @node's summary from itself and its children. Returns true when it changed; then the
 * caller goes on upwards. */
typedef bool vli_tree_summary_fn(struct vli_tree_node *node);

/**
 * vli_tree_insert() - link @node under @parent and rebalance.
 * @parent:  last node of the search, or NULL in an empty tree.
 * @link:    &parent->left, &parent->right or &tree->root: where the search fell off.
 * @summary: may be NULL.
 * Cost: O(log n).
 */
void vli_tree_insert(struct vli_tree *tree, struct vli_tree_node *node,
                     struct vli_tree_node *parent, struct vli_tree_node **link,
                     vli_tree_summary_fn *summary);
/** vli_tree_remove() - unlink @node and rebalance. Cost: O(log n). */
void vli_tree_remove(struct vli_tree *tree, struct vli_tree_node *node,
                     vli_tree_summary_fn *summary);
/** vli_tree_replace() - put @fresh where @old was; same key, same summary. Cost: O(1). */
void vli_tree_replace(struct vli_tree *tree, struct vli_tree_node *old,
                      struct vli_tree_node *fresh);
/** vli_tree_mirror() - @node gets the colour of @old and these neighbours: for whoever copies a
 * whole tree, node by node, into one of the same shape. Cost: O(1). */
static inline void vli_tree_mirror(struct vli_tree_node *node, const struct vli_tree_node *old,
                                   struct vli_tree_node *left, struct vli_tree_node *right,
                                   struct vli_tree_node *parent)
{
    node->left = left;
    node->right = right;
    node->parent_color = (uintptr_t)parent | (old->parent_color & 1);
}

/** vli_tree_update() - @node's own value changed: mend the summaries from it to the root. */
void vli_tree_update(struct vli_tree_node *node, vli_tree_summary_fn *summary);

/** vli_tree_first() - least node, or NULL. */
struct vli_tree_node *vli_tree_first(const struct vli_tree *tree);
/** vli_tree_last() - greatest node, or NULL. */
struct vli_tree_node *vli_tree_last(const struct vli_tree *tree);
/** vli_tree_next() - the one after, or NULL. O(1) on average. */
struct vli_tree_node *vli_tree_next(const struct vli_tree_node *node);
/** vli_tree_prev() - the one before, or NULL. */
struct vli_tree_node *vli_tree_prev(const struct vli_tree_node *node);

/** vli_tree_parent() - NULL at the root. */
static inline struct vli_tree_node *vli_tree_parent(const struct vli_tree_node *node)
{
    return (struct vli_tree_node *)(node->parent_color & ~(uintptr_t)1);
}

/** vli_tree_validate() - order of colours, black height and parent links; panics when broken.
 * Returns the number of nodes. */
size_t vli_tree_validate(const struct vli_tree *tree);

#endif
