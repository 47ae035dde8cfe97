/*
 * interval.c - see interval.h. Loops go down one path of a balanced tree.
 */
#include "core/rmap/interval.h"
#include "core/base/assert.h"

static struct vli_interval *of(const struct vli_tree_node *node)
{
    return vli_container_of(node, struct vli_interval, node);
}

static uint64_t computed_last_max(const struct vli_tree_node *node)
{
    uint64_t last = of(node)->last;

    if (node->left != NULL && of(node->left)->last_max > last) {
        last = of(node->left)->last_max;
    }
    if (node->right != NULL && of(node->right)->last_max > last) {
        last = of(node->right)->last_max;
    }
    return last;
}

static bool summarize(struct vli_tree_node *node)
{
    uint64_t last = computed_last_max(node);
    bool changed = of(node)->last_max != last;

    of(node)->last_max = last;
    return changed;
}

void vli_interval_insert(struct vli_tree *tree, struct vli_interval *it, uint64_t first,
                         uint64_t last)
{
    struct vli_tree_node **link = &tree->root;
    struct vli_tree_node *parent = NULL;

    VL_ASSERT(first <= last);
    it->first = first;
    it->last = last;
    it->last_max = last;
    while (*link != NULL) {
        parent = *link;
        link = first < of(parent)->first ? &parent->left : &parent->right;
    }
    vli_tree_insert(tree, &it->node, parent, link, summarize);
}

void vli_interval_remove(struct vli_tree *tree, struct vli_interval *it)
{
    vli_tree_remove(tree, &it->node, summarize);
}

/* The leftmost overlapping range of @node's subtree, which has one whose last is >= @first. */
static struct vli_interval *leftmost(struct vli_tree_node *node, uint64_t first, uint64_t last)
{
    for (;;) {
        /* A left subtree that reaches @first holds the answer, if there is any: were its ranges
         * all beyond @last, so would be everything to the right. */
        if (node->left != NULL && of(node->left)->last_max >= first) {
            node = node->left;
            continue;
        }
        if (of(node)->first > last) {
            return NULL;
        }
        if (of(node)->last >= first) {
            return of(node);
        }
        node = node->right;
        if (node == NULL || of(node)->last_max < first) {
            return NULL;
        }
    }
}

struct vli_interval *vli_interval_first(const struct vli_tree *tree, uint64_t first, uint64_t last)
{
    if (tree->root == NULL || of(tree->root)->last_max < first) {
        return NULL;
    }
    return leftmost(tree->root, first, last);
}

struct vli_interval *vli_interval_next(struct vli_interval *it, uint64_t first, uint64_t last)
{
    struct vli_tree_node *node = &it->node;
    struct vli_tree_node *below;

    for (;;) {
        if (node->right != NULL && of(node->right)->last_max >= first) {
            return leftmost(node->right, first, last);
        }
        do {
            below = node;
            node = vli_tree_parent(node);
            if (node == NULL) {
                return NULL;
            }
        } while (node->right == below);
        if (of(node)->first > last) {
            return NULL;
        }
        if (of(node)->last >= first) {
            return of(node);
        }
    }
}

size_t vli_interval_validate(const struct vli_tree *tree)
{
    struct vli_tree_node *node;
    uint64_t before = 0;

    for (node = vli_tree_first(tree); node != NULL; node = vli_tree_next(node)) {
        VL_ASSERT(of(node)->first >= before);
        VL_ASSERT(of(node)->last_max == computed_last_max(node));
        before = of(node)->first;
    }
    return vli_tree_validate(tree);
}
