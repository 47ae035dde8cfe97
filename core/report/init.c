/*
 * init.c - starting the core, and giving everything back.
 *
 * It stands on the highest floor since it alone must see all the others. Each floor is started
 * after those below it, which it may use from its first line; a failure leaves the core unusable,
 * and the embedder is told why by the floor that failed.
 *
 * vl_drain_all() goes the other way, from what holds frames to what they return to: cached tables,
 * then the objects that CPUs keep and the empty slabs, then the stocks of frames.
 */
#include <vellum/vellum.h>
#include "core/base/log.h"
#include "core/base/percpu.h"
#include "core/base/rank.h"
#include "core/base/restart.h"
#include "core/frame/frame.h"
#include "core/object/object.h"
#include "core/rmap/rmap.h"
#include "core/slab/slab.h"
#include "core/space/space.h"
#include "core/table/table.h"

static void percpu_init(unsigned count)
{
    struct vli_percpu *area;

    for (unsigned cpu = 0; cpu < count; cpu++) {
        area = vli_percpu_of(cpu);
        area->self = area;
        area->cpu = cpu;
    }
}

enum vl_status vl_init(void)
{
    enum vl_status (*const start[])(void) = {vli_frame_init, vli_slab_init, vli_rmap_init,
                                             vli_object_init, vli_space_init};
    unsigned count = vl_host_cpu_count();
    enum vl_status status;

    if (count == 0 || count > VL_CPUS_MAX) {
        vli_log(VL_LOG_ERROR, "vellum: %u CPUs, which is not 1 … %u", count, VL_CPUS_MAX);
        return VL_EINVAL;
    }
    percpu_init(count);
    vli_restart_init();
    for (size_t i = 0; i < VLI_COUNT_OF(start); i++) {
        status = start[i]();
        if (status != VL_OK) {
            return status;
        }
    }
    return VL_OK;
}

void vl_cpu_online(unsigned cpu)
{
    VL_ASSERT(cpu < vl_host_cpu_count());
    VL_ASSERT(vli_percpu_of(cpu)->self == vli_percpu_of(cpu));
    vli_frame_cpu_online(cpu);
}

void vl_drain_all(void)
{
    vli_rank_assert_none();
    (void)vli_table_drain();
    vli_slab_drain();
    vli_frame_drain();
}
