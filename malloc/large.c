/*
 * large.c - what is too large for the range: a mapping of its own for each.
 *
 * Which addresses are such mappings is written in a table of ours and nowhere near them: a block
 * has no header, so what a program does to the bytes before it cannot mislead us, and a pointer
 * that is not ours is known not to be. The table is open-addressed, by the page number's hash, at
 * most half full, in a mapping of its own that doubles; an entry is deleted by moving up those
 * behind it.
 *
 * A resize goes by mremap(): Linux moves page-table entries, not bytes. The entry is taken out
 * before, since the old addresses may be somebody else's mapping at once afterwards.
 *
 * A mapping that is freed is kept for a while, for who wants one as long or a little shorter: a
 * program that allocates and frees a large block again and again would otherwise pay a page fault
 * for each page each time, a hundred times what the rest costs. What is kept is bounded, goes back
 * after two looks of range.c in which nobody wanted it, and at once when memory is short.
 *
 * Linux has a limit of mappings (vm.max_map_count), beyond which one in the midst of others cannot
 * go, since that would make one more. It is emptied then, and noted as stuck in its own first
 * bytes; when neighbours have gone it can go, too.
 *
 * Locks: vli_large_word guards the table, what is kept and what is stuck; no system call but the
 * table's own growth runs under it.
 */
#include "malloc/face.h"
#include "malloc/calls.h"
#include "core/base/bits.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define ENTRIES_FIRST 256u

/* What is kept at most: so many, and bytes in proportion to the heap within these bounds. */
#define KEPT_MAX       32u
#define KEPT_SHARE     8u
#define KEPT_BYTES_MIN ((size_t)4 << 20)
#define KEPT_BYTES_MAX ((size_t)32 << 20)

struct entry {
    uintptr_t start; /* 0: none */
    size_t bytes;
};

_Atomic uint32_t vli_large_word;
static struct entry *table;
static size_t entries; /* a power of 2 */
static size_t used;    /* entries set, and those promised to a resize */
static _Atomic size_t total;

static struct kept {
    uintptr_t start;
    size_t bytes;
    uint32_t looks; /* since it was freed */
} kept[KEPT_MAX];
static size_t kept_count;
static _Atomic size_t kept_bytes;

static struct stuck {
    struct stuck *next;
    size_t bytes;
} * stuck;

/* Attempts at what is stuck, each time that somebody looks. */
#define STUCK_TRIES 256u

static size_t home_of(uintptr_t start)
{
    return (size_t)((start >> VL_PAGE_SHIFT) * 0x9e3779b97f4a7c15u >> 20) & (entries - 1);
}

/* Where the entry of @start is, or where it would be put. */
static size_t find(uintptr_t start)
{
    size_t at = home_of(start);

    while (table[at].start != 0 && table[at].start != start) {
        at = (at + 1) & (entries - 1);
    }
    return at;
}

static bool grow(void)
{
    struct entry *old = table;
    size_t old_entries = entries;
    size_t fresh = entries == 0 ? ENTRIES_FIRST : entries * 2;
    void *memory = vli_call_map(fresh * sizeof(struct entry), PROT_READ | PROT_WRITE, 0);

    if (memory == MAP_FAILED) {
        return false;
    }
    table = memory;
    entries = fresh;
    for (size_t i = 0; i < old_entries; i++) {
        if (old[i].start != 0) {
            table[find(old[i].start)] = old[i];
        }
    }
    if (old != NULL) {
        (void)munmap(old, old_entries * sizeof(struct entry));
    }
    return true;
}

/* Room for one more entry is set aside. */
static bool promise(void)
{
    bool good;

    vl_host_lock(&vli_large_word);
    good = used + 1 <= entries / 2 || grow();
    used += good ? 1 : 0;
    vl_host_unlock(&vli_large_word);
    return good;
}

static void unpromise(void)
{
    vl_host_lock(&vli_large_word);
    used--;
    vl_host_unlock(&vli_large_word);
}

/* Sets the promised entry. */
static void insert(void *start, size_t bytes)
{
    vl_host_lock(&vli_large_word);
    table[find((uintptr_t)start)] = (struct entry){(uintptr_t)start, bytes};
    vl_host_unlock(&vli_large_word);
    atomic_fetch_add_explicit(&total, bytes, memory_order_relaxed);
}

/* Takes an entry out and leaves its promise; returns the length, 0 when there is none. */
static size_t take_out(const void *start)
{
    size_t bytes = 0;
    size_t hole;

    vl_host_lock(&vli_large_word);
    if (entries != 0) {
        hole = find((uintptr_t)start);
        bytes = table[hole].bytes;
        table[hole] = (struct entry){0, 0};
        /* Those behind it that would no longer be found move up. */
        for (size_t at = (hole + 1) & (entries - 1); table[at].start != 0;
             at = (at + 1) & (entries - 1)) {
            size_t home = home_of(table[at].start);

            if (((at - home) & (entries - 1)) >= ((at - hole) & (entries - 1))) {
                table[hole] = table[at];
                table[at] = (struct entry){0, 0};
                hole = at;
            }
        }
    }
    vl_host_unlock(&vli_large_word);
    atomic_fetch_sub_explicit(&total, bytes, memory_order_relaxed);
    return bytes;
}

size_t vli_large_bytes(const void *p)
{
    size_t bytes = 0;

    if (((uintptr_t)p & VL_PAGE_MASK) != 0 || p == NULL) {
        return 0;
    }
    vl_host_lock(&vli_large_word);
    if (entries != 0) {
        bytes = table[find((uintptr_t)p)].bytes;
    }
    vl_host_unlock(&vli_large_word);
    return bytes;
}

size_t vli_large_total(void)
{
    return atomic_load_explicit(&total, memory_order_relaxed);
}

size_t vli_large_count(void)
{
    size_t count;

    vl_host_lock(&vli_large_word);
    count = used;
    vl_host_unlock(&vli_large_word);
    return count;
}

/* @bytes, a multiple of the page, at a multiple of @align. */
static void *map(size_t bytes, size_t align)
{
    size_t more = align > VL_PAGE_SIZE ? align - VL_PAGE_SIZE : 0;
    unsigned char *start;
    size_t before;
    void *memory;

    if (bytes + more < bytes) {
        return NULL;
    }
    memory = vli_call_map(bytes + more, PROT_READ | PROT_WRITE, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    start = memory;
    before = (size_t)(0 - (uintptr_t)start) & (align - 1);
    if (more != 0 && before != 0) {
        (void)munmap(start, before);
    }
    if (more != before) {
        (void)munmap(start + before + bytes, more - before);
    }
    return start + before;
}

/* ------------------------------------------------------------------------------ what is kept */

/* Takes entry @i out. The lock is held. */
static struct kept kept_remove(size_t i)
{
    struct kept out = kept[i];

    kept[i] = kept[--kept_count];
    atomic_fetch_sub_explicit(&kept_bytes, out.bytes, memory_order_relaxed);
    return out;
}

/* Bytes of mappings to keep: a share of the heap. */
static size_t kept_bound(void)
{
    struct vl_frame_counts counts;
    size_t share;

    vl_frame_counts(&counts);
    share = ((size_t)(counts.managed << VL_PAGE_SHIFT) + vli_large_total()) / KEPT_SHARE;
    share = share < KEPT_BYTES_MIN ? KEPT_BYTES_MIN : share;
    return share < KEPT_BYTES_MAX ? share : KEPT_BYTES_MAX;
}

/* Keeps a mapping, if there is room. */
static bool kept_add(void *start, size_t bytes)
{
    size_t bound = kept_bound();
    bool good;

    vl_host_lock(&vli_large_word);
    good = vli_options.purge_ms != 0 && kept_count < KEPT_MAX &&
           atomic_load_explicit(&kept_bytes, memory_order_relaxed) + bytes <= bound;
    if (good) {
        kept[kept_count++] = (struct kept){(uintptr_t)start, bytes, 0};
        atomic_fetch_add_explicit(&kept_bytes, bytes, memory_order_relaxed);
    }
    vl_host_unlock(&vli_large_word);
    return good;
}

/* The shortest that will do and is not longer by more than a quarter; length 0 when there is none.
 */
static struct kept kept_take(size_t bytes, size_t align)
{
    struct kept out = {0, 0, 0};
    size_t best = KEPT_MAX;

    vl_host_lock(&vli_large_word);
    for (size_t i = 0; i < kept_count; i++) {
        if (kept[i].bytes >= bytes && kept[i].bytes - bytes <= bytes / 4 &&
            (kept[i].start & (align - 1)) == 0 &&
            (best == KEPT_MAX || kept[i].bytes < kept[best].bytes)) {
            best = i;
        }
    }
    if (best != KEPT_MAX) {
        out = kept_remove(best);
    }
    vl_host_unlock(&vli_large_word);
    return out;
}

static void stuck_add(struct stuck *mapping)
{
    vl_host_lock(&vli_large_word);
    mapping->next = stuck;
    stuck = mapping;
    vl_host_unlock(&vli_large_word);
}

/* Back to Linux: at least what is behind it. */
static void unmap(void *start, size_t bytes)
{
    vli_limit_give(bytes);
    if (munmap(start, bytes) != 0) {
        (void)madvise(start, bytes, MADV_DONTNEED);
        ((struct stuck *)start)->bytes = bytes;
        stuck_add(start);
    }
}

/* Tries so many of what is stuck once more. */
static void stuck_retry(size_t tries)
{
    struct stuck *mapping;

    vl_host_lock(&vli_large_word);
    mapping = stuck;
    stuck = NULL;
    vl_host_unlock(&vli_large_word);
    while (mapping != NULL) {
        struct stuck *next = mapping->next;

        if (tries == 0 || munmap(mapping, mapping->bytes) != 0) {
            stuck_add(mapping);
        }
        tries -= tries > 0 ? 1u : 0u;
        mapping = next;
    }
}

size_t vli_large_purge(uint32_t looks)
{
    struct kept out[KEPT_MAX];
    size_t count = 0;
    size_t bytes = 0;

    vl_host_lock(&vli_large_word);
    for (size_t i = kept_count; i-- > 0;) {
        if (++kept[i].looks >= looks) {
            out[count++] = kept_remove(i);
        }
    }
    vl_host_unlock(&vli_large_word);
    for (size_t i = 0; i < count; i++) {
        unmap((void *)out[i].start, out[i].bytes);
        bytes += out[i].bytes;
    }
    stuck_retry(looks == 0 ? SIZE_MAX : STUCK_TRIES);
    return bytes;
}

size_t vli_large_kept(void)
{
    return atomic_load_explicit(&kept_bytes, memory_order_relaxed);
}

/* -------------------------------------------------------------------------------- for entry.c */

/* A new mapping, or NULL. */
static void *map_counted(size_t length, size_t align)
{
    void *start = NULL;

    if (!vli_limit_take(length)) {
        return NULL;
    }
    start = map(length, align);
    if (start == NULL) {
        vli_limit_give(length);
        return NULL;
    }
    vli_huge_advise(start, length);
    return start;
}

/* What is free and counts for the option `limit` goes back, or what is kept here. */
static void make_room(void)
{
    (void)vli_large_purge(0);
    if (vli_options.limit != 0) {
        (void)vli_range_trim(0);
    }
}

void *vli_large_alloc(size_t bytes, size_t align, enum vli_large_zero zero)
{
    size_t length = vli_round_up(bytes + (bytes == 0), VL_PAGE_SIZE);
    struct kept old;
    void *start;

    align = align < VL_PAGE_SIZE ? VL_PAGE_SIZE : align;
    if (length < bytes || length > PTRDIFF_MAX || !promise()) {
        return NULL;
    }
    old = kept_take(length, align);
    if (old.bytes != 0) {
        if (zero == VLI_LARGE_ZEROED) {
            memset((void *)old.start, 0, bytes);
        }
        insert((void *)old.start, old.bytes);
        return (void *)old.start;
    }
    start = map_counted(length, align);
    if (start == NULL) {
        make_room();
        start = map_counted(length, align);
    }
    if (start == NULL) {
        unpromise();
        return NULL;
    }
    insert(start, length);
    return start;
}

bool vli_large_free(void *p)
{
    size_t bytes = ((uintptr_t)p & VL_PAGE_MASK) != 0 ? 0 : take_out(p);

    if (bytes == 0) {
        return false;
    }
    unpromise();
    if (vli_options.secure || !kept_add(p, bytes)) {
        unmap(p, bytes);
    }
    return true;
}

/* Another length for a mapping, or NULL, and it is as it was. */
static void *resize_counted(void *p, size_t old, size_t length)
{
    void *moved;

    if (length > old && !vli_limit_take(length - old)) {
        return NULL;
    }
    (void)take_out(p);
    moved = mremap(p, old, length, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) {
        insert(p, old);
        if (length > old) {
            vli_limit_give(length - old);
        }
        return NULL;
    }
    insert(moved, length);
    if (length < old) {
        vli_limit_give(old - length);
    }
    return moved;
}

/* A longer one by a copy: a filter of system calls refuses mremap(), or parts of the mapping are
 * not alike for Linux any more (the program gave advice about some of its pages). */
static void *move_by_copy(void *p, size_t old, size_t bytes)
{
    void *moved = vli_large_alloc(bytes, 1, VLI_LARGE_ANY);

    if (moved != NULL) {
        memcpy(moved, p, old);
        if (!vli_large_free(p)) {
            vli_die("vellum malloc: realloc(%p): freed by another thread meanwhile", p);
        }
    }
    return moved;
}

void *vli_large_resize(void *p, size_t bytes)
{
    size_t length = vli_round_up(bytes, VL_PAGE_SIZE);
    size_t old;
    void *moved;

    if (length < bytes || length > PTRDIFF_MAX) {
        return NULL;
    }
    old = vli_large_bytes(p);
    if (old == length) {
        return p;
    }
    moved = resize_counted(p, old, length);
    if (moved == NULL) {
        make_room();
        moved = resize_counted(p, old, length);
    }
    if (moved == NULL) {
        moved = length < old ? p : move_by_copy(p, old, bytes); /* a shrink does not fail */
    }
    return moved;
}
