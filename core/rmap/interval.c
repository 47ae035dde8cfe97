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

void vli_interval_insert_twin(struct vli_interval *it, struct vli_interval *twin)
{
    it->first = twin->first;
    it->last = twin->last;
    it->is_head = false;
    vli_list_insert_after(&twin->twins, &it->twins);
}

void vli_interval_insert(struct vli_tree *tree, struct vli_interval *it, uint64_t first,
                         uint64_t last)
{
    struct vli_tree_node **link = &tree->root;
    struct vli_tree_node *parent = NULL;
    struct vli_interval *at;

    VL_ASSERT(first <= last);
    while (*link != NULL) {
        parent = *link;
        at = of(parent);
        if (at->first == first && at->last == last) {
            vli_interval_insert_twin(it,
                                     vli_list_entry(at->twins.prev, struct vli_interval, twins));
            return;
        }
        link = first < at->first || (first == at->first && last < at->last) ? &parent->left
                                                                            : &parent->right;
    }
    it->first = first;
    it->last = last;
    it->last_max = last;
    it->is_head = true;
    vli_list_init(&it->twins);
    vli_tree_insert(tree, &it->node, parent, link, summarize);
}

void vli_interval_remove(struct vli_tree *tree, struct vli_interval *it)
{
    struct vli_interval *heir = vli_list_entry(it->twins.next, struct vli_interval, twins);

    if (!it->is_head) {
        vli_list_remove(&it->twins);
    } else if (heir != it) {
        heir->last_max = it->last_max;
        heir->is_head = true;
        vli_tree_replace(tree, &it->node, &heir->node);
        vli_list_remove(&it->twins);
    } else {
        vli_tree_remove(tree, &it->node, summarize);
    }
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
    struct vli_interval *twin = vli_list_entry(it->twins.next, struct vli_interval, twins);
    struct vli_tree_node *node = &twin->node;
    struct vli_tree_node *below;

    if (!twin->is_head) {
        return twin;
    }
    /* The ring is at its end, where its head stands for the place in the tree. */
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

/* One ring: equal ranges, one head. Returns how many. */
static size_t ring_validate(const struct vli_interval *head)
{
    const struct vli_list *link;
    size_t count = 1;

    VL_ASSERT(head->is_head);
    for (link = head->twins.next; link != &head->twins; link = link->next) {
        const struct vli_interval *twin = vli_list_entry(link, struct vli_interval, twins);

        VL_ASSERT(!twin->is_head);
        VL_ASSERT(twin->first == head->first && twin->last == head->last);
        count++;
    }
    return count;
}

size_t vli_interval_validate(const struct vli_tree *tree)
{
    struct vli_tree_node *node;
    const struct vli_interval *before = NULL;
    size_t count = 0;

    vli_tree_validate(tree);
    for (node = vli_tree_first(tree); node != NULL; node = vli_tree_next(node)) {
        VL_ASSERT(before == NULL || of(node)->first > before->first ||
                  (of(node)->first == before->first && of(node)->last > before->last));
        VL_ASSERT(of(node)->last_max == computed_last_max(node));
        count += ring_validate(of(node));
        before = of(node);
    }
    return count;
}
