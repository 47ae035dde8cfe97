/*
 * pages.c - see pages.h.
 *
 * A node knows how many of its slots are used; one that falls to none is freed, up to the root. The
 * tree does not lose height until it is empty: a file that shrinks mostly grows again.
 */
#include "core/object/pages.h"
#include "core/base/bits.h"

#define WAYS (1u << VLI_PAGES_NODE_BITS)

struct vli_pages_node {
    uint64_t used; /* one bit a slot */
    void *slot[WAYS];
};

static struct vl_cache *node_cache;

enum vl_status vli_pages_init(void)
{
    const struct vl_cache_spec spec = {.name = "page_tree", .size = sizeof(struct vli_pages_node)};

    return vl_cache_create(&spec, &node_cache);
}

/* Indices that a tree of @height levels can hold end here. */
static uint64_t reach(uint32_t height)
{
    return (uint64_t)1 << (VLI_PAGES_NODE_BITS * height);
}

/* Which slot of a node @level levels above the frames (1: the lowest node) leads to @index. */
static unsigned slot_of(uint64_t index, uint32_t level)
{
    return (unsigned)(index >> (VLI_PAGES_NODE_BITS * (level - 1))) & (WAYS - 1);
}

/* The lowest node on the way to @index, or NULL. */
static struct vli_pages_node *leaf_of(const struct vli_pages *pages, uint64_t index)
{
    void *at = pages->root;

    if (index >= reach(pages->height)) {
        return NULL;
    }
    for (uint32_t level = pages->height; level > 1 && at != NULL; level--) {
        at = ((struct vli_pages_node *)at)->slot[slot_of(index, level)];
    }
    return at;
}

struct vl_frame *vli_pages_find(const struct vli_pages *pages, uint64_t index)
{
    struct vli_pages_node *leaf;

    if (pages->height == 0) {
        return index == 0 ? pages->root : NULL;
    }
    leaf = leaf_of(pages, index);
    return leaf != NULL ? leaf->slot[slot_of(index, 1)] : NULL;
}

void vli_pages_find_run(const struct vli_pages *pages, uint64_t first, unsigned count,
                        struct vl_frame **out)
{
    struct vli_pages_node *leaf;
    unsigned stop;

    if (pages->height == 0) {
        for (unsigned i = 0; i < count; i++) {
            out[i] = first + i == 0 ? pages->root : NULL;
        }
        return;
    }
    for (unsigned i = 0; i < count; i = stop) {
        unsigned slot = slot_of(first + i, 1);

        leaf = leaf_of(pages, first + i);
        stop = count - i > WAYS - slot ? i + WAYS - slot : count;
        for (; i < stop; i++, slot++) {
            out[i] = leaf != NULL ? leaf->slot[slot] : NULL;
        }
    }
}

/* From @index upwards in one descent: the frame found, or NULL with *@index moved to where the
 * search goes on (the next range that no examined node covers). */
static struct vl_frame *descend(const struct vli_pages *pages, uint64_t *index)
{
    void *at = pages->root;
    uint64_t unit;
    uint64_t rest;
    unsigned slot;

    for (uint32_t level = pages->height; level > 0; level--) {
        unit = reach(level - 1);
        slot = slot_of(*index, level);
        rest = ((struct vli_pages_node *)at)->used >> slot;
        if (rest == 0) {
            *index = vli_round_down(*index, reach(level)) + reach(level);
            return NULL;
        }
        if ((rest & 1) == 0) {
            *index = vli_round_down(*index, unit) + unit * vli_bit_lowest(rest);
            slot = slot_of(*index, level);
        }
        at = ((struct vli_pages_node *)at)->slot[slot];
    }
    return at;
}

struct vl_frame *vli_pages_next(const struct vli_pages *pages, uint64_t *index, uint64_t end)
{
    struct vl_frame *frame = NULL;

    /* Each round that finds nothing leaves a used node behind for good. */
    while (pages->root != NULL && *index < end && *index < reach(pages->height)) {
        frame = descend(pages, index);
        if (frame != NULL) {
            return *index < end ? frame : NULL;
        }
    }
    return NULL;
}

static struct vli_pages_node *node_take(struct vli_pages_reserve *reserve)
{
    struct vli_pages_node *node;

    if (reserve->count != 0) {
        node = reserve->node[--reserve->count];
    } else {
        node = vl_cache_alloc(node_cache, VL_ATOMIC);
    }
    if (node != NULL) {
        node->used = 0;
        for (unsigned i = 0; i < WAYS; i++) {
            node->slot[i] = NULL;
        }
    }
    return node;
}

static void slot_set(struct vli_pages_node *node, unsigned slot, void *value)
{
    node->slot[slot] = value;
    node->used |= (uint64_t)1 << slot;
}

/* Raise the tree until it reaches @index. */
static enum vl_status grow(struct vli_pages *pages, uint64_t index,
                           struct vli_pages_reserve *reserve)
{
    struct vli_pages_node *node;

    while (index >= reach(pages->height)) {
        if (pages->root != NULL) {
            node = node_take(reserve);
            if (node == NULL) {
                return VL_ENOMEM;
            }
            slot_set(node, 0, pages->root);
            pages->root = node;
        }
        pages->height++;
    }
    return VL_OK;
}

/* Frees the nodes on the way to @index that have no used slot, from the lowest one up. */
static void prune(struct vli_pages *pages, uint64_t index)
{
    struct vli_pages_node *path[VLI_PAGES_HEIGHT_MAX + 1];
    void *at = pages->root;
    uint32_t level;

    for (level = pages->height; level > 0 && at != NULL; level--) {
        path[level] = at;
        at = path[level]->slot[slot_of(index, level)];
    }
    for (level++; level <= pages->height && path[level]->used == 0; level++) {
        vl_cache_free(node_cache, path[level]);
        if (level == pages->height) {
            pages->root = NULL;
            break;
        }
        path[level + 1]->slot[slot_of(index, level + 1)] = NULL;
        path[level + 1]->used &= ~((uint64_t)1 << slot_of(index, level + 1));
    }
    if (pages->root == NULL) {
        pages->height = 0;
    }
}

enum vl_status vli_pages_insert(struct vli_pages *pages, uint64_t index, struct vl_frame *frame,
                                struct vli_pages_reserve *reserve)
{
    struct vli_pages_node *node = NULL;
    struct vli_pages_node *below;
    unsigned slot = 0;

    VL_ASSERT(index < VLI_PAGES_INDEX_END);
    if (grow(pages, index, reserve) != VL_OK) {
        return VL_ENOMEM;
    }
    for (uint32_t level = pages->height; level > 0; level--) {
        below = node == NULL ? pages->root : node->slot[slot];
        if (below == NULL) {
            below = node_take(reserve);
            if (below == NULL) {
                prune(pages, index);
                return VL_ENOMEM;
            }
            if (node == NULL) {
                pages->root = below;
            } else {
                slot_set(node, slot, below);
            }
        }
        node = below;
        slot = slot_of(index, level);
    }
    if ((node == NULL ? pages->root : node->slot[slot]) != NULL) {
        return VL_EEXIST;
    }
    if (node == NULL) {
        pages->root = frame;
    } else {
        slot_set(node, slot, frame);
    }
    pages->count++;
    return VL_OK;
}

struct vl_frame *vli_pages_remove(struct vli_pages *pages, uint64_t index)
{
    struct vli_pages_node *leaf;
    struct vl_frame *frame;
    unsigned slot = slot_of(index, 1);

    pages->count--;
    if (pages->height == 0) {
        frame = pages->root;
        pages->root = NULL;
        return frame;
    }
    leaf = leaf_of(pages, index);
    VL_ASSERT(leaf != NULL && leaf->slot[slot] != NULL);
    frame = leaf->slot[slot];
    leaf->slot[slot] = NULL;
    leaf->used &= ~((uint64_t)1 << slot);
    if (leaf->used == 0) {
        prune(pages, index);
    }
    return frame;
}

enum vl_status vli_pages_reserve_fill(struct vli_pages_reserve *reserve, vl_how_t how)
{
    struct vli_pages_node *node;

    while (reserve->count < VLI_PAGES_HEIGHT_MAX) {
        node = vl_cache_alloc(node_cache, how);
        if (node == NULL) {
            return VL_ENOMEM;
        }
        reserve->node[reserve->count++] = node;
    }
    return VL_OK;
}

void vli_pages_reserve_drop(struct vli_pages_reserve *reserve)
{
    while (reserve->count != 0) {
        vl_cache_free(node_cache, reserve->node[--reserve->count]);
    }
}

/* Every node on the way to @index agrees with its bits. */
static void validate_path(const struct vli_pages *pages, uint64_t index)
{
    const struct vli_pages_node *node = pages->root;

    for (uint32_t level = pages->height; level > 0; level--) {
        VL_ASSERT(node->used != 0);
        for (unsigned i = 0; i < WAYS; i++) {
            VL_ASSERT((node->slot[i] != NULL) == ((node->used >> i & 1) != 0));
        }
        node = node->slot[slot_of(index, level)];
    }
}

void vli_pages_validate(const struct vli_pages *pages)
{
    struct vl_frame *frame;
    uint64_t index = 0;
    uint64_t count = 0;

    VL_ASSERT(pages->height <= VLI_PAGES_HEIGHT_MAX);
    while ((frame = vli_pages_next(pages, &index, VLI_PAGES_INDEX_END)) != NULL) {
        VL_ASSERT(vli_frame_index(frame) == index);
        validate_path(pages, index);
        count++;
        index++;
    }
    VL_ASSERT(count == pages->count);
}
