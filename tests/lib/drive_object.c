/*
 * drive_object.c - the steps on files: truncate, extend, punch, write, replace.
 */
#include <string.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"
#include "tests/lib/drive_steps.h"

/* ---------------------------------------------------------------------------------- objects */

static void lose_everywhere(struct drive *drive, uint8_t object, uint64_t first, uint64_t end)
{
    for (unsigned s = 0; s < DRIVE_SPACES; s++) {
        if (drive->space[s] != NULL) {
            model_lose(drive->model[s], object, first, end);
        }
    }
    for (uint64_t i = first; i < end && i < MODEL_INDEX_MAX; i++) {
        memset(drive->object[object - 1].word[i], 0, sizeof(drive->object[0].word[0]));
    }
}

bool drive_step_truncate(struct drive *drive)
{
    uint8_t number = drive_any_file(drive);
    struct model_object *object = &drive->object[number - 1];
    uint64_t size = drive_choose(drive, MODEL_INDEX_MAX) * PAGE + (drive_chance(drive, 2) ? 8 : 0);
    uint64_t pages = (size + PAGE - 1) / PAGE;
    enum vl_status got = vl_object_truncate(object->real, size);

    if (!drive_had_memory(drive, got)) {
        return false;
    }
    drive_expect(got, VL_OK, "truncate", size);
    if (size < object->size) {
        lose_everywhere(drive, number, pages, MODEL_INDEX_MAX);
        if (size % PAGE != 0) {
            object->word[pages - 1][1] = 0;
        }
    }
    object->size = size;
    return true;
}

bool drive_step_extend(struct drive *drive)
{
    struct model_object *object = &drive->object[drive_any_file(drive) - 1];
    uint64_t size = drive_choose(drive, MODEL_INDEX_MAX * PAGE);
    enum vl_status got = vl_object_extend(object->real, size);

    if (!drive_had_memory(drive, got)) {
        return false;
    }
    drive_expect(got, VL_OK, "extend", size);
    object->size = size > object->size ? size : object->size;
    if (vl_object_size(object->real) != object->size) {
        drive_differ("size of an object");
    }
    return true;
}

bool drive_step_punch(struct drive *drive)
{
    uint8_t number = drive_any_file(drive);
    uint64_t first = drive_choose(drive, MODEL_INDEX_MAX), end = first + drive_choose(drive, 20);
    enum vl_status got = vl_object_punch(drive->object[number - 1].real, first * PAGE, end * PAGE);

    if (!drive_had_memory(drive, got)) {
        return false;
    }
    drive_expect(got, VL_OK, "punch", first);
    lose_everywhere(drive, number, first, end);
    return true;
}

bool drive_step_object_write(struct drive *drive)
{
    struct model_object *object = &drive->object[drive_any_file(drive) - 1];
    uint64_t pages = object->size / PAGE, index;
    enum vl_status got;
    struct vl_pfn pfn;
    uint64_t *words;

    if (pages == 0) {
        return false;
    }
    index = drive_choose(drive, pages);
    got = vl_object_page_get(object->real, index, VL_PAGE_CREATE, &pfn);
    if (!drive_had_memory(drive, got)) {
        return false;
    }
    drive_expect(got, VL_OK, "page_get", index);
    words = vl_frame_to_virt(pfn);
    if (words[0] != object->word[index][0] || words[LAST_WORD / 8] != object->word[index][1]) {
        drive_differ("page %llu of an object has wrong words", (unsigned long long)index);
    }
    words[0] = object->word[index][0] = ++drive->next_value;
    vl_object_page_put(pfn);
    return true;
}

/* The file is forgotten by its maker; mappings keep it. */
bool drive_step_object_new(struct drive *drive)
{
    uint8_t number = drive_any_file(drive), slot = drive_object_slot(drive);
    struct vl_object *fresh;
    enum vl_status got;

    if (slot == 0) {
        return false;
    }
    got = vl_object_create(NULL, NULL, &fresh);
    if (!drive_had_memory(drive, got)) {
        return false;
    }
    drive_expect(got, VL_OK, "object_create", 0);
    vl_object_put(drive->object[number - 1].real);
    drive->object[slot - 1] = drive->object[number - 1];
    drive->object[slot - 1].real = NULL;
    for (unsigned s = 0; s < DRIVE_SPACES; s++) {
        for (unsigned i = 0; drive->space[s] != NULL && i < drive->model[s]->count; i++) {
            struct model_page *page = &drive->model[s]->page[i];

            page->object = page->object == number ? slot : page->object;
        }
    }
    memset(&drive->object[number - 1], 0, sizeof(drive->object[0]));
    drive->object[number - 1].real = fresh;
    return true;
}
