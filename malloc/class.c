/*
 * class.c - size classes: which cache of the core serves a size.
 *
 * 8, 16, 24, 32, 48, 64, 80 … 128, then eight to each doubling: what is lost to rounding is at most
 * 1/8 (below 128 at most 15 bytes). More classes would round less, but each holds what it held at
 * its own peak, and peaks of fewer objects are further from their mean: eight is where random churn
 * holds least (docs/malloc.md). A class is an ordinary cache of the core; two tables lead from a
 * size to its number by one load. Objects of 16 bytes and more are aligned to 16, but those of 24,
 * aligned to 8: an object with alignment 16 has a size that is a multiple of 16, so none of 24
 * bytes needs more (only one that ends in a flexible array could; the option align16 is for it).
 * Classes that are powers of 2 are aligned to themselves, up to a page.
 *
 * An aligned request takes the first class whose units all stand on multiples of the alignment:
 * slabs begin on page boundaries, so the unit's length tells. Blocks have no headers and no
 * offsets: every pointer that leaves is the first byte of a unit.
 */
#include "malloc/face.h"
#include "core/base/bits.h"

#define CLASSES_MAX 80u

uint8_t vli_class_coarse[VLI_CLASS_MAX / 128u + 1u];
uint32_t vli_class_bytes[VLI_CACHES_MAX];

/* The classes in ascending order. */
static uint32_t sizes[CLASSES_MAX];
static uint8_t numbers[CLASSES_MAX];
static size_t count;

static uint32_t next_size(uint32_t size)
{
    if (size < 32) {
        return size == 16 && vli_options.align16 ? 32 : size + 8;
    }
    if (size < 128) {
        return size + 16;
    }
    return size + (1u << (vli_bit_highest(size) - 3u));
}

static bool class_make(uint32_t size)
{
    size_t align = vli_is_power_of_2(size) ? size : (size % 16u == 0 ? 16u : 8u);
    struct vl_cache_spec spec = {.name = "malloc", .size = size, .flags = VL_CACHE_NO_MERGE};
    struct vl_cache *cache;

    spec.align = align < VL_PAGE_SIZE ? align : VL_PAGE_SIZE;
    if (vl_cache_create(&spec, &cache) != VL_OK) {
        return false;
    }
    sizes[count] = size;
    numbers[count] = (uint8_t)cache->index;
    vli_class_bytes[cache->index] = size;
    count++;
    return true;
}

bool vli_class_init(void)
{
    size_t class = 0;

    for (uint32_t size = 8; size <= VLI_CLASS_MAX; size = next_size(size)) {
        VL_ASSERT(count < CLASSES_MAX);
        if (!class_make(size)) {
            return false;
        }
    }
    for (size_t i = 0; i < VLI_COUNT_OF(vli_class_fine); i++) {
        while (sizes[class] < i) {
            class ++;
        }
        vli_class_fine[i] = numbers[class];
    }
    for (size_t i = VLI_TABLE_FINE / 128u; i < VLI_COUNT_OF(vli_class_coarse); i++) {
        while (sizes[class] < i * 128u) {
            class ++;
        }
        vli_class_coarse[i] = numbers[class];
    }
    return true;
}

size_t vli_class_aligned(size_t size, size_t align)
{
    for (size_t i = 0; i < count && align <= VL_PAGE_SIZE; i++) {
        if (sizes[i] >= size && sizes[i] % align == 0) {
            return numbers[i];
        }
    }
    return 0;
}
