/*
 * tree.c - red-black trees with summaries (Guibas and Sedgewick 1978; insertion and removal as in
 * Cormen et al., with absent leaves as NULL instead of a sentinel).
 *
 * Invariants: the root is black; a red node has no red child; every path from the root to an absent
 * leaf meets the same number of black nodes. Hence the depth is at most 2 log2(n + 1), which bounds
 * every loop here.
 *
 * Summaries. Linking or unlinking changes the set of nodes below each ancestor, so it walks up
 * from the change and stops where a summary did not change. A rotation changes no ancestor's set:
 * only the two nodes that turn are recomputed, the lower one first.
 */
#include "core/base/tree.h"
#include "core/base/assert.h"

#define RED ((uintptr_t)1)

static bool is_red(const struct vli_tree_node *node)
{
    return node != NULL && (node->parent_color & RED) != 0;
}

static void set_parent(struct vli_tree_node *node, struct vli_tree_node *parent)
{
    node->parent_color = (uintptr_t)parent | (node->parent_color & RED);
}

static void set_red(struct vli_tree_node *node)
{
    node->parent_color |= RED;
}

static void set_black(struct vli_tree_node *node)
{
    node->parent_color &= ~RED;
}

/* Mends @node for certain, then its ancestors as far as anything changes. */
static void mend_up(struct vli_tree_node *node, vli_tree_summary_fn *summary)
{
    if (summary == NULL || node == NULL) {
        return;
    }
    summary(node);
    for (node = vli_tree_parent(node); node != NULL && summary(node);
         node = vli_tree_parent(node)) {
    }
}

/* Where @parent (or the tree) points to @node. */
static struct vli_tree_node **link_of(struct vli_tree *tree, struct vli_tree_node *parent,
                                      const struct vli_tree_node *node)
{
    if (parent == NULL) {
        return &tree->root;
    }
    return parent->left == node ? &parent->left : &parent->right;
}

/* The right child of @node rises above it. */
static void rotate_left(struct vli_tree *tree, struct vli_tree_node *node,
                        vli_tree_summary_fn *summary)
{
    struct vli_tree_node *parent = vli_tree_parent(node);
    struct vli_tree_node *up = node->right;

    *link_of(tree, parent, node) = up;
    set_parent(up, parent);
    node->right = up->left;
    if (node->right != NULL) {
        set_parent(node->right, node);
    }
    up->left = node;
    set_parent(node, up);
    if (summary != NULL) {
        summary(node);
        summary(up);
    }
}

/* The left child of @node rises above it. */
static void rotate_right(struct vli_tree *tree, struct vli_tree_node *node,
                         vli_tree_summary_fn *summary)
{
    struct vli_tree_node *parent = vli_tree_parent(node);
    struct vli_tree_node *up = node->left;

    *link_of(tree, parent, node) = up;
    set_parent(up, parent);
    node->left = up->right;
    if (node->left != NULL) {
        set_parent(node->left, node);
    }
    up->right = node;
    set_parent(node, up);
    if (summary != NULL) {
        summary(node);
        summary(up);
    }
}

/* @parent and @node are red, @grand black, the uncle black: one or two rotations end it. */
static void insert_rotate(struct vli_tree *tree, struct vli_tree_node *node,
                          struct vli_tree_node *parent, struct vli_tree_node *grand,
                          vli_tree_summary_fn *summary)
{
    bool is_left = grand->left == parent;
    struct vli_tree_node *top = parent;

    if (is_left && parent->right == node) {
        rotate_left(tree, parent, summary);
        top = node;
    } else if (!is_left && parent->left == node) {
        rotate_right(tree, parent, summary);
        top = node;
    }
    set_black(top);
    set_red(grand);
    if (is_left) {
        rotate_right(tree, grand, summary);
    } else {
        rotate_left(tree, grand, summary);
    }
}

void vli_tree_insert(struct vli_tree *tree, struct vli_tree_node *node,
                     struct vli_tree_node *parent, struct vli_tree_node **link,
                     vli_tree_summary_fn *summary)
{
    struct vli_tree_node *grand;
    struct vli_tree_node *uncle;

    VL_ASSERT(*link == NULL);
    node->left = NULL;
    node->right = NULL;
    node->parent_color = (uintptr_t)parent | RED;
    *link = node;
    mend_up(node, summary);
    while (is_red(parent)) {
        grand = vli_tree_parent(parent); /* a red node is not the root */
        uncle = grand->left == parent ? grand->right : grand->left;
        if (!is_red(uncle)) {
            insert_rotate(tree, node, parent, grand, summary);
            break;
        }
        set_black(parent);
        set_black(uncle);
        set_red(grand);
        node = grand;
        parent = vli_tree_parent(node);
    }
    set_black(tree->root);
}

/*
 * The paths through @node (which may be absent), child of @parent on the side @is_left, are one
 * black node short, and @sibling is black. Returns true when that was mended here; false when the
 * shortage moved up to @parent.
 */
static bool remove_mend(struct vli_tree *tree, struct vli_tree_node *parent,
                        struct vli_tree_node *sibling, bool is_left, vli_tree_summary_fn *summary)
{
    struct vli_tree_node *near = is_left ? sibling->left : sibling->right;
    struct vli_tree_node *far = is_left ? sibling->right : sibling->left;

    if (!is_red(near) && !is_red(far)) {
        set_red(sibling);
        if (!is_red(parent)) {
            return false;
        }
        set_black(parent);
        return true;
    }
    if (!is_red(far)) {
        set_black(near);
        set_red(sibling);
        if (is_left) {
            rotate_right(tree, sibling, summary);
        } else {
            rotate_left(tree, sibling, summary);
        }
        far = sibling;
        sibling = near;
    }
    if (is_red(parent)) {
        set_red(sibling);
    } else {
        set_black(sibling);
    }
    set_black(parent);
    set_black(far);
    if (is_left) {
        rotate_left(tree, parent, summary);
    } else {
        rotate_right(tree, parent, summary);
    }
    return true;
}

/* The paths through @node, child of @parent, are one black node short: restores the balance. */
static void remove_rebalance(struct vli_tree *tree, struct vli_tree_node *node,
                             struct vli_tree_node *parent, vli_tree_summary_fn *summary)
{
    struct vli_tree_node *sibling;
    bool is_left;

    while (parent != NULL && !is_red(node)) {
        is_left = parent->left == node;
        sibling = is_left ? parent->right : parent->left;
        if (is_red(sibling)) {
            set_black(sibling);
            set_red(parent);
            if (is_left) {
                rotate_left(tree, parent, summary);
            } else {
                rotate_right(tree, parent, summary);
            }
            sibling = is_left ? parent->right : parent->left;
        }
        if (remove_mend(tree, parent, sibling, is_left, summary)) {
            return;
        }
        node = parent;
        parent = vli_tree_parent(node);
    }
    if (node != NULL) {
        set_black(node);
    }
}

void vli_tree_remove(struct vli_tree *tree, struct vli_tree_node *node,
                     vli_tree_summary_fn *summary)
{
    struct vli_tree_node *out = node; /* what leaves its place: @node or its successor */
    struct vli_tree_node *child;
    struct vli_tree_node *parent;
    bool was_red;

    if (node->left != NULL && node->right != NULL) {
        for (out = node->right; out->left != NULL; out = out->left) {
        }
    }
    child = out->left != NULL ? out->left : out->right;
    parent = vli_tree_parent(out);
    was_red = is_red(out);
    *link_of(tree, parent, out) = child;
    if (child != NULL) {
        set_parent(child, parent);
    }
    if (out != node) {
        if (parent == node) {
            parent = out;
        }
        vli_tree_replace(tree, node, out);
    }
    mend_up(parent, summary);
    if (out != node && parent != out) {
        mend_up(out, summary); /* the walk may have stopped below it */
    }
    if (!was_red) {
        remove_rebalance(tree, child, parent, summary);
    }
    node->parent_color = 0;
    node->left = NULL;
    node->right = NULL;
}

void vli_tree_replace(struct vli_tree *tree, struct vli_tree_node *old, struct vli_tree_node *fresh)
{
    *fresh = *old;
    *link_of(tree, vli_tree_parent(old), old) = fresh;
    if (fresh->left != NULL) {
        set_parent(fresh->left, fresh);
    }
    if (fresh->right != NULL) {
        set_parent(fresh->right, fresh);
    }
}

void vli_tree_update(struct vli_tree_node *node, vli_tree_summary_fn *summary)
{
    while (node != NULL && summary(node)) {
        node = vli_tree_parent(node);
    }
}

struct vli_tree_node *vli_tree_first(const struct vli_tree *tree)
{
    struct vli_tree_node *node = tree->root;

    while (node != NULL && node->left != NULL) {
        node = node->left;
    }
    return node;
}

struct vli_tree_node *vli_tree_last(const struct vli_tree *tree)
{
    struct vli_tree_node *node = tree->root;

    while (node != NULL && node->right != NULL) {
        node = node->right;
    }
    return node;
}

struct vli_tree_node *vli_tree_next(const struct vli_tree_node *node)
{
    struct vli_tree_node *at = node->right;

    if (at != NULL) {
        while (at->left != NULL) {
            at = at->left;
        }
        return at;
    }
    for (at = vli_tree_parent(node); at != NULL && at->right == node; at = vli_tree_parent(at)) {
        node = at;
    }
    return at;
}

struct vli_tree_node *vli_tree_prev(const struct vli_tree_node *node)
{
    struct vli_tree_node *at = node->left;

    if (at != NULL) {
        while (at->right != NULL) {
            at = at->right;
        }
        return at;
    }
    for (at = vli_tree_parent(node); at != NULL && at->left == node; at = vli_tree_parent(at)) {
        node = at;
    }
    return at;
}

/* Black nodes from @node up to the root. */
static size_t black_above(const struct vli_tree_node *node)
{
    size_t count = 0;

    for (; node != NULL; node = vli_tree_parent(node)) {
        count += is_red(node) ? 0u : 1u;
    }
    return count;
}

size_t vli_tree_validate(const struct vli_tree *tree)
{
    const struct vli_tree_node *node;
    size_t height = 0;
    size_t count = 0;

    VL_ASSERT(!is_red(tree->root));
    VL_ASSERT(tree->root == NULL || vli_tree_parent(tree->root) == NULL);
    for (node = vli_tree_first(tree); node != NULL; node = vli_tree_next(node)) {
        VL_ASSERT(!is_red(node) || (!is_red(node->left) && !is_red(node->right)));
        VL_ASSERT(node->left == NULL || vli_tree_parent(node->left) == node);
        VL_ASSERT(node->right == NULL || vli_tree_parent(node->right) == node);
        if (node->left == NULL || node->right == NULL) {
            if (height == 0) {
                height = black_above(node);
            }
            VL_ASSERT(black_above(node) == height);
        }
        count++;
    }
    return count;
}
