/*
 * mmu.c - the MMU of the simulated machine: for now it keeps no translations, so that flushes have
 * nothing to do.
 */
#include "machine/sim/machine.h"

void vl_host_table_switch(struct vl_pa root)
{
    (void)root;
}

void vl_host_flush_remote(const struct vl_cpumask *mask, struct vl_pa root,
                          const struct vl_flush_range *ranges, size_t count)
{
    (void)mask;
    (void)root;
    (void)ranges;
    (void)count;
}
