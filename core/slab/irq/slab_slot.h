/*
 * slab_slot.h (irq) - the slot's list changes with interrupts off: how it was done before 2007.
 */
#ifndef VLI_SLAB_SLOT_H
#define VLI_SLAB_SLOT_H

#include "core/slab/linked/slot_irq.h"

#endif
