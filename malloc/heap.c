/*
 * heap.c - heaps confined to a region: two-level segregated fit (Masmano, Ripoll, Crespo and Real,
 * ECRTS 2004), with boundary tags.
 *
 * Why not slabs: a region may be a few KiB, and a hard cap is worth most where every byte of it can
 * be had. Blocks of any size here lie beside each other, and free neighbours are joined at once.
 * All operations take the same short time however full the heap is: two bit scans find the list.
 *
 *      region: | struct vl_heap, lists | block | block | ... | end |
 *
 *      block:  | head | bytes for the user ...           |   in use
 *              | head | next | previous | ...   | length |   free
 *
 * A block begins at 8 beyond a multiple of 16, so that what follows its head is aligned to 16. The
 * head is the block's length with two flags: is it free, is the one before it free. A free block's
 * length stands in its last word too, where the next one finds it. The end is a head of length 0,
 * in use.
 *
 * Lists: first level by the power of 2, second level 16 parts of it; a request is rounded up to the
 * next part, so that every block of the list is large enough, and when there is none the part that
 * the request lies in is looked through.
 *
 * Locks: each heap has one; vli_heaps_word guards the list of heaps, for fork.
 */
#include "malloc/face.h"
#include "core/base/bits.h"
#include <errno.h>
#include <string.h>
#include <vellum/malloc.h>

#define HEAD        8u
#define BLOCK_MIN   32u
#define PARTS       16u
#define LEVEL_FIRST 5u /* log2 of BLOCK_MIN */
#define LEVELS_MAX  48u
#define REGION_MIN  4096u

#define IS_FREE   ((size_t)1)
#define PREV_FREE ((size_t)2)
#define FLAGS     ((size_t)15)

struct block {
    size_t head;
    struct block *next; /* from here on: of a free one */
    struct block *prev;
};

struct vl_heap {
    _Atomic uint32_t word; /* lock */
    uint32_t levels;
    struct vl_heap *next; /* of all heaps */
    struct vl_heap *prev;
    unsigned char *start; /* first block */
    unsigned char *end;   /* the end's head */
    size_t used;
    size_t blocks;
    uint64_t nonempty;         /* bit k: level k has a block */
    uint16_t part[LEVELS_MAX]; /* bit p: list of part p has */
    struct block *list[];      /* levels * PARTS */
};

_Atomic uint32_t vli_heaps_word;
static struct vl_heap *heaps;

/* --------------------------------------------------------------------------------- blocks, lists
 */

static size_t length_of(const struct block *block)
{
    return block->head & ~FLAGS;
}

static struct block *at(void *start, size_t offset)
{
    return (struct block *)(void *)((char *)start + offset);
}

static struct block *after(struct block *block)
{
    return at(block, length_of(block));
}

static struct block *of(void *p)
{
    return (struct block *)(void *)((char *)p - HEAD);
}

/* Number of the list for a length. */
static size_t list_of(size_t length)
{
    unsigned top = vli_bit_highest(length);

    return (top - LEVEL_FIRST) * PARTS + (length >> (top - 4u)) % PARTS;
}

static void list_add(struct vl_heap *heap, struct block *block)
{
    size_t n = list_of(length_of(block));

    block->prev = NULL;
    block->next = heap->list[n];
    if (block->next != NULL) {
        block->next->prev = block;
    }
    heap->list[n] = block;
    heap->part[n / PARTS] |= (uint16_t)(1u << n % PARTS);
    heap->nonempty |= (uint64_t)1 << n / PARTS;
}

static void list_remove(struct vl_heap *heap, struct block *block)
{
    size_t n = list_of(length_of(block));

    if (block->next != NULL) {
        block->next->prev = block->prev;
    }
    if (block->prev != NULL) {
        block->prev->next = block->next;
        return;
    }
    heap->list[n] = block->next;
    if (block->next == NULL) {
        heap->part[n / PARTS] &= (uint16_t) ~(1u << n % PARTS);
        if (heap->part[n / PARTS] == 0) {
            heap->nonempty &= ~((uint64_t)1 << n / PARTS);
        }
    }
}

/* Makes [block, block + length) free and lists it; the neighbours are in use. */
static void set_free(struct vl_heap *heap, struct block *block, size_t length)
{
    block->head = length | IS_FREE;
    ((size_t *)(void *)after(block))[-1] = length;
    after(block)->head |= PREV_FREE;
    list_add(heap, block);
}

/* The first block of a list not below number @n, or NULL. */
static struct block *first_from(const struct vl_heap *heap, size_t n)
{
    size_t level = n / PARTS;
    unsigned parts;
    uint64_t levels;

    if (level >= heap->levels) {
        return NULL;
    }
    parts = heap->part[level] & (0xffffu << n % PARTS);
    if (parts == 0) {
        levels = heap->nonempty & ~(uint64_t)0 << level << 1;
        if (levels == 0) {
            return NULL;
        }
        level = vli_bit_lowest(levels);
        parts = heap->part[level];
    }
    return heap->list[level * PARTS + vli_bit_lowest(parts)];
}

/* A free block of at least @length, or NULL. */
static struct block *find(const struct vl_heap *heap, size_t length)
{
    size_t rounded = length + (((size_t)1 << (vli_bit_highest(length) - 4u)) - 1u);
    struct block *block = first_from(heap, list_of(rounded));

    if (block == NULL && list_of(length) / PARTS < heap->levels) {
        block = heap->list[list_of(length)];
        while (block != NULL && length_of(block) < length) {
            block = block->next;
        }
    }
    return block;
}

/* A listed block is taken; what is beyond @length goes back. */
static void take(struct vl_heap *heap, struct block *block, size_t length)
{
    size_t rest = length_of(block) - length;

    list_remove(heap, block);
    if (rest >= BLOCK_MIN) {
        block->head = length;
        set_free(heap, after(block), rest);
    } else {
        block->head = length + rest;
        after(block)->head &= ~PREV_FREE;
    }
    heap->used += length_of(block);
    heap->blocks++;
}

/* Length of the block for @size bytes; 0 when there is no such number. */
static size_t block_length(size_t size)
{
    size_t length;

    if (size > PTRDIFF_MAX - 64) {
        return 0;
    }
    length = (size_t)vli_round_up(size + HEAD, 16);
    return length < BLOCK_MIN ? BLOCK_MIN : length;
}

/* Gives back a block in use, joined with its free neighbours. */
static void give(struct vl_heap *heap, struct block *block)
{
    size_t length = length_of(block);
    struct block *next = after(block);

    heap->used -= length;
    heap->blocks--;
    block->head |= IS_FREE; /* remains in what it is joined to, for who frees it twice */
    if ((next->head & IS_FREE) != 0) {
        list_remove(heap, next);
        length += length_of(next);
    }
    if ((block->head & PREV_FREE) != 0) {
        size_t before = ((size_t *)(void *)block)[-1];

        block = at(block, 0 - before);
        list_remove(heap, block);
        length += before;
    }
    set_free(heap, block, length);
}

/* ------------------------------------------------------------------------------ heaps come and go
 */

VLI_EXPORT struct vl_heap *vl_heap_create(void *region, size_t bytes)
{
    uintptr_t start = (uintptr_t)vli_round_up((uintptr_t)region, 16);
    struct vl_heap *heap = (struct vl_heap *)start;
    uint32_t levels;
    uintptr_t first;
    uintptr_t end;

    if (region == NULL || bytes < REGION_MIN || (uintptr_t)region + bytes < (uintptr_t)region ||
        bytes >= (size_t)1 << (LEVELS_MAX + LEVEL_FIRST - 1u)) {
        errno = EINVAL;
        return NULL;
    }
    levels = vli_bit_highest(bytes) - LEVEL_FIRST + 1u;
    memset(heap, 0, sizeof(*heap) + levels * PARTS * sizeof(heap->list[0]));
    first = start + sizeof(*heap) + levels * PARTS * sizeof(heap->list[0]);
    first = (uintptr_t)vli_round_up(first, 16) + HEAD;
    end = (uintptr_t)vli_round_down((uintptr_t)region + bytes - HEAD - HEAD, 16) + HEAD;
    heap->levels = levels;
    heap->start = (unsigned char *)first;
    heap->end = (unsigned char *)end;
    at(heap->end, 0)->head = 0;
    set_free(heap, at(heap->start, 0), end - first);
    vl_host_lock(&vli_heaps_word);
    heap->next = heaps;
    if (heaps != NULL) {
        heaps->prev = heap;
    }
    heaps = heap;
    vl_host_unlock(&vli_heaps_word);
    return heap;
}

VLI_EXPORT void vl_heap_destroy(struct vl_heap *heap)
{
    vl_host_lock(&vli_heaps_word);
    if (heap->prev == NULL && heaps != heap) {
        vli_die("vellum malloc: heap %p: there is none, or it was destroyed already", (void *)heap);
    }
    if (heap->next != NULL) {
        heap->next->prev = heap->prev;
    }
    if (heap->prev != NULL) {
        heap->prev->next = heap->next;
    } else {
        heaps = heap->next;
    }
    heap->next = NULL;
    heap->prev = NULL;
    vl_host_unlock(&vli_heaps_word);
}

/* -------------------------------------------------------------------------------- blocks for users
 */

VLI_EXPORT void *vl_heap_alloc(struct vl_heap *heap, size_t size)
{
    size_t length = block_length(size);
    struct block *block = NULL;

    vl_host_lock(&heap->word);
    if (length != 0) {
        block = find(heap, length);
    }
    if (block != NULL) {
        take(heap, block, length);
    }
    vl_host_unlock(&heap->word);
    return block != NULL ? (char *)block + HEAD : NULL;
}

/* Bytes to leave free before an aligned block: none, or enough for a block. */
static size_t gap_of(const struct block *block, size_t align)
{
    uintptr_t start = (uintptr_t)block + HEAD;
    size_t gap = (size_t)(vli_round_up(start, align) - start);

    while (gap != 0 && gap < BLOCK_MIN) {
        gap += align;
    }
    return gap;
}

VLI_EXPORT void *vl_heap_alloc_aligned(struct vl_heap *heap, size_t align, size_t size)
{
    size_t length = block_length(size);
    struct block *block;
    size_t gap;

    if (align <= 16) {
        return vl_heap_alloc(heap, size);
    }
    if (!vli_is_power_of_2(align) || length == 0 || align > (size_t)PTRDIFF_MAX - length) {
        return NULL;
    }
    vl_host_lock(&heap->word);
    block = find(heap, length + align + BLOCK_MIN);
    if (block != NULL) {
        gap = gap_of(block, align);
        take(heap, block, length + gap);
        if (gap != 0) {
            struct block *aligned = at(block, gap);

            /* Two blocks in use, of which the first goes back. */
            aligned->head = length_of(block) - gap;
            block->head = gap | (block->head & PREV_FREE);
            heap->blocks++;
            give(heap, block);
            block = aligned;
        }
    }
    vl_host_unlock(&heap->word);
    return block != NULL ? (char *)block + HEAD : NULL;
}

/* Ends the program unless @p is a block of the heap that is out. */
static void check(const struct vl_heap *heap, void *p)
{
    const struct block *block = of(p);

    if ((unsigned char *)p < heap->start || (unsigned char *)p >= heap->end ||
        (uintptr_t)p % 16u != 0) {
        vli_die("vellum malloc: heap %p: %p is no block of it", (const void *)heap, p);
    }
    if ((block->head & IS_FREE) != 0) {
        vli_die("vellum malloc: heap %p: %p was freed already", (const void *)heap, p);
    }
    if (length_of(block) < BLOCK_MIN ||
        length_of(block) > (size_t)(heap->end - (const unsigned char *)block)) {
        vli_die("vellum malloc: heap %p: the head of %p was overwritten", (const void *)heap, p);
    }
}

VLI_EXPORT void vl_heap_free(struct vl_heap *heap, void *p)
{
    if (p == NULL) {
        return;
    }
    vl_host_lock(&heap->word);
    check(heap, p);
    give(heap, of(p));
    vl_host_unlock(&heap->word);
}

VLI_EXPORT size_t vl_heap_usable_size(const struct vl_heap *heap, const void *p)
{
    (void)heap;
    return p == NULL ? 0 : length_of(of((void *)(uintptr_t)p)) - HEAD;
}

/* Makes the block @length long where it is: shorter, or into a free block behind it. */
static bool resize(struct vl_heap *heap, struct block *block, size_t length)
{
    size_t have = length_of(block);
    size_t flags = block->head & FLAGS;
    struct block *next = after(block);
    struct block *rest;

    if (have < length) {
        if ((next->head & IS_FREE) == 0 || have + length_of(next) < length) {
            return false;
        }
        list_remove(heap, next);
        have += length_of(next);
        heap->used += length_of(next);
        block->head = have | flags;
        after(block)->head &= ~PREV_FREE;
    }
    if (have - length >= BLOCK_MIN) {
        block->head = length | flags;
        rest = after(block);
        rest->head = have - length;
        heap->blocks++;
        give(heap, rest);
    }
    return true;
}

VLI_EXPORT void *vl_heap_realloc(struct vl_heap *heap, void *p, size_t size)
{
    size_t length = block_length(size);
    size_t have;
    void *fresh;
    bool done;

    if (p == NULL) {
        return vl_heap_alloc(heap, size);
    }
    if (length == 0) {
        return NULL;
    }
    vl_host_lock(&heap->word);
    check(heap, p);
    done = resize(heap, of(p), length);
    have = length_of(of(p)) - HEAD;
    vl_host_unlock(&heap->word);
    if (done) {
        return p;
    }
    fresh = vl_heap_alloc(heap, size);
    if (fresh != NULL) {
        memcpy(fresh, p, have < size ? have : size);
        vl_heap_free(heap, p);
    }
    return fresh;
}

VLI_EXPORT void vl_heap_stats(struct vl_heap *heap, struct vl_heap_stats *out)
{
    size_t all = (size_t)(heap->end - heap->start);
    size_t top;

    vl_host_lock(&heap->word);
    *out = (struct vl_heap_stats){.bytes = all - HEAD, .used = heap->used, .blocks = heap->blocks};
    out->free = all - heap->used;
    if (heap->nonempty != 0) {
        top = vli_bit_highest(heap->nonempty);
        top = top * PARTS + vli_bit_highest(heap->part[top]);
        for (const struct block *block = heap->list[top]; block != NULL; block = block->next) {
            if (length_of(block) - HEAD > out->largest) {
                out->largest = length_of(block) - HEAD;
            }
        }
    }
    vl_host_unlock(&heap->word);
}

/* ------------------------------------------------------------------------------------------ fork
 */

void vli_heap_fork_prepare(void)
{
    vli_mutex_fork_take(&vli_heaps_word);
    for (struct vl_heap *heap = heaps; heap != NULL; heap = heap->next) {
        vli_mutex_fork_take(&heap->word);
    }
}

void vli_heap_fork_release(void)
{
    for (struct vl_heap *heap = heaps; heap != NULL; heap = heap->next) {
        vli_mutex_fork_give(&heap->word);
    }
    vli_mutex_fork_give(&vli_heaps_word);
}
