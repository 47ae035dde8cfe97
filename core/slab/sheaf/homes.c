/*
 * homes.c - the homes of a cache: how many there are, and what they do for each other.
 *
 * Each slab is of one home, whose number stands in its head's descriptor (slab_bits.h). Units that
 * come back go to their slab's home, whichever CPU they were freed on. A home that has no unit left
 * gets some of others before memory is asked for a new slab, so that a cache with many homes holds
 * what one with one would:
 *
 *   - Of a home with several slabs in its list all come over but the first, which it is using, as
 *     many as there is need for; from the end, where the empty ones are. So a CPU that goes on
 *     needing what others have gets slabs of its own.
 *   - Of one with a single slab units are taken, if nobody has its lock at the moment. If somebody
 *     has, two CPUs meet over that slab, and this home gets a new one: only where that happens
 *     does a cache come to hold a slab more, one a home at most.
 *   - When there is no memory for a new one, the lock is waited for.
 *
 * On a machine of several memory nodes only homes of CPUs of the same node do this for each other,
 * but for the last: what one node's CPUs have is asked of others when there is no memory for a new
 * slab. So a slab, made of memory that is near to its CPU, stays with CPUs that are.
 *
 * Sheaves themselves, whose cache has homes as any, each home makes for itself (barn.c).
 *
 * No two homes' locks are held at once. A slab moves thus:
 *
 *      lock of A                    (none)          lock of B
 *      out of A's list; place A ──► B | MOVES ────► into B's list; place ──► B
 *
 * Who gives back a unit of it reads the place, takes that home's lock and reads it again. Under A's
 * lock it finds that the slab has gone, or that it stays till the lock is left; under B's, that it
 * is B's already, or on its way: then B's lock guards its bits, and no list has it. As long as it
 * moves, units that come back are marked in it, and counted by who brings it.
 */
#include "core/slab/sheaf/slab_bits.h"
#include "core/slab/partial.h"
#include "core/base/memory.h"

/* Slabs that move at once. */
#define MOVES_MAX 8u

struct vli_slab_home vli_slab_homes[VLI_SLAB_HOMES][VLI_CACHES_MAX];
uint32_t vli_homes_mask;
uint32_t vli_homes_near[VLI_SLAB_HOMES];

/* Nodes of the CPUs that share a home, a bit each. */
static uint32_t nodes_of(uint32_t home)
{
    uint32_t cpus = vl_host_cpu_count();
    uint32_t nodes = 0;

    for (uint32_t cpu = home; cpu < cpus; cpu += vli_homes_mask + 1u) {
        nodes |= 1u << vli_percpu_of(cpu)->frame.node;
    }
    return nodes;
}

/* Where a host's numbers are no CPUs, homes beyond them have no node and are near to all. */
static void find_near(void)
{
    for (uint32_t home = 0; home <= vli_homes_mask; home++) {
        uint32_t nodes = nodes_of(home);

        vli_homes_near[home] = 0;
        for (uint32_t other = 0; other <= vli_homes_mask; other++) {
            uint32_t others = nodes_of(other);

            if (nodes == 0 || others == 0 || (nodes & others) != 0) {
                vli_homes_near[home] |= 1u << other;
            }
        }
    }
}

void vli_homes_init(void)
{
    static bool has_begun;
    uint32_t numbers = vli_slot_numbers();
    uint32_t homes = 1;

    while (homes < numbers && homes < VLI_SLAB_HOMES) {
        homes *= 2;
    }
    vli_homes_mask = homes - 1u;
    find_near();
    if (has_begun) { /* else they are zeros, and those that nobody needs shall not be touched */
        memset(vli_slab_homes, 0, sizeof(vli_slab_homes));
    }
    has_begun = true;
}

struct vli_slab_home *vli_home_lock(struct vl_cache *cache, struct vl_frame *head,
                                    unsigned long *flags) VL_NO_LOCK_CHECK
{
    for (;;) {
        uint32_t number = vli_slab_place(head) & ~VLI_HOME_MOVES;
        struct vli_slab_home *home = vli_home_at(cache, number);

        *flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);
        if ((vli_slab_place(head) & ~VLI_HOME_MOVES) == number) {
            return home;
        }
        vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, *flags);
    }
}

/* ------------------------------------------------------------------------------ slabs that move */

/* A slab that others may have. */
static bool has_spare(const struct vli_slab_home *home)
{
    return home->partial_count > 1 || home->empty_count > 0;
}

/* Slabs with @wanted units together, or as many as there are, leave a home's list for home number
 * @to. Returns: the first of them, linked by `next`. */
static uint32_t leave_for(struct vl_cache *cache, struct vli_slab_home *home, uint32_t to,
                          uint32_t wanted) VL_REQUIRES(&home->lock)
{
    uint32_t first = VLI_FRAME_LINK_NONE;
    uint32_t units = 0;

    for (uint32_t i = 0; i < MOVES_MAX && units < wanted && has_spare(home); i++) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){home->partial_last});
        struct vli_slab slab = vli_slab_of(cache, head);
        uint32_t free = vli_slab_free(head);

        vli_partial_remove(home, head);
        home->empty_count -= free == slab.shape->units ? 1u : 0u;
        home->units_free -= free;
        home->units -= slab.shape->units;
        head->next = first;
        first = vli_frame_pfn(head).n;
        units += free;
        vli_slab_set_place(head, to | VLI_HOME_MOVES);
    }
    return first;
}

/* They arrive at @home, number @number. */
static void arrive(struct vl_cache *cache, struct vli_slab_home *home, uint32_t number,
                   uint32_t first, struct vli_slabs_out *out) VL_REQUIRES(&home->lock)
{
    while (first != VLI_FRAME_LINK_NONE) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){first});
        struct vli_slab slab = vli_slab_of(cache, head);
        uint32_t free = vli_slab_free(head);

        first = head->next;
        home->units += slab.shape->units;
        vli_slab_set_place(head, number);
        vli_slab_set_free(head, 0);
        vli_slab_settle(cache, home, &slab, free, out);
    }
}

/* -------------------------------------------------------------------------------- units of others
 */

/* What a home seems to have. */
enum offer { OFFER_NONE, OFFER_FEW, OFFER_SPARE };

static VLI_RACY enum offer offer_of(const volatile struct vli_slab_home *home)
{
    uint32_t count = home->partial_count;

    if (count == 0) {
        return OFFER_NONE;
    }
    return count > 1 || home->empty_count > 0 ? OFFER_SPARE : OFFER_FEW;
}

/* From one home. */
static uint32_t take_from(struct vl_cache *cache, struct vli_slab_home *from, uint32_t here,
                          enum vli_wait wait, uint32_t count, uintptr_t *lowest) VL_NO_LOCK_CHECK
{
    struct vli_slab_home *home = vli_home_at(cache, here);
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};
    uint32_t first = VLI_FRAME_LINK_NONE;
    enum offer offer = offer_of(from);
    unsigned long flags;
    uint32_t had = 0;

    if (offer == OFFER_NONE) {
        return 0;
    }
    if (offer == OFFER_SPARE || wait == VLI_WAIT_LOCK) {
        flags = vli_spin_lock_irq(&from->lock, VLI_RANK_SLAB_NODE);
    } else if (!vli_spin_try_lock_irq(&from->lock, VLI_RANK_SLAB_NODE, &flags)) {
        return 0;
    }
    if (has_spare(from)) {
        first = leave_for(cache, from, here, count);
    } else {
        had = vli_slabs_take(cache, from, count, lowest);
    }
    vli_spin_unlock_irq(&from->lock, VLI_RANK_SLAB_NODE, flags);
    if (first == VLI_FRAME_LINK_NONE) {
        return had;
    }
    vli_home_use(cache, here);
    flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);
    arrive(cache, home, here, first, &out);
    had = vli_slabs_take(cache, home, count, lowest);
    vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    (void)vli_slabs_release(cache, &out);
    return had;
}

uint32_t vli_homes_take(struct vl_cache *cache, uint32_t here, enum vli_wait wait, uint32_t count,
                        uintptr_t *lowest)
{
    uint32_t had = 0;

    for (uint32_t i = 1; i <= vli_homes_mask && had == 0; i++) {
        uint32_t other = (here + i) & vli_homes_mask;

        if (vli_home_may_ask(here, other, wait)) {
            had = take_from(cache, vli_home_at(cache, other), here, wait, count, lowest);
        }
    }
    return had;
}

/* ------------------------------------------------------------------------------------- figures */

uint64_t vli_slabs_units_free(struct vl_cache *cache)
{
    uint64_t units = 0;

    for (uint32_t i = 0; i <= vli_homes_mask; i++) {
        struct vli_slab_home *home = vli_home_at(cache, i);
        unsigned long flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);

        units += home->units_free;
        vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    }
    return units;
}
