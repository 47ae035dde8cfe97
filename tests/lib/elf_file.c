#include "tests/lib/elf_file.h"

struct file {
    struct vl_object *object;
    const unsigned char *bytes;
    size_t size;
};

static struct file the_file;

/* Fills the object from the image. Returns: false: no memory. */
static bool file_begin(const void *image, size_t size)
{
    size_t at;

    the_file = (struct file){.bytes = image, .size = size};
    if (vl_object_create(NULL, NULL, &the_file.object) != VL_OK) {
        return false;
    }
    if (vl_object_extend(the_file.object, size) != VL_OK) {
        return false;
    }
    for (at = 0; at < size; at += VL_PAGE_SIZE) {
        size_t part = size - at < VL_PAGE_SIZE ? size - at : VL_PAGE_SIZE;
        struct vl_pfn pfn;

        if (vl_object_page_get(the_file.object, at / VL_PAGE_SIZE, VL_PAGE_CREATE, &pfn) != VL_OK) {
            return false;
        }
        memcpy(vl_frame_to_virt(pfn), the_file.bytes + at, part);
        vl_object_page_put(pfn);
    }
    return true;
}

long file_read_kernel(struct file *file, void *out, size_t len, uint64_t pos)
{
    size_t part;

    if (pos >= file->size) {
        return 0;
    }
    part = file->size - pos < len ? file->size - (size_t)pos : len;
    memcpy(out, file->bytes + pos, part);
    return (long)part;
}

long file_map(struct file *file, uint32_t prot, bool shared, struct vl_object **out_object,
              uint32_t *out_prot_max)
{
    (void)prot;
    (void)shared;
    *out_object = file->object;
    *out_prot_max = 0;
    return 0;
}

long vfs_open_exec(int dirfd, const char *path, unsigned at_flags, struct file **out)
{
    (void)dirfd;
    (void)at_flags;
    VL_ASSERT(strlen(path) < PATH_MAX_BYTES);
    *out = &the_file;
    return 0;
}

void file_put(struct file *file)
{
    VL_ASSERT(file == &the_file);
}

long elf_file_load(const void *image, size_t size, struct exec *out)
{
    memset(out, 0, sizeof(*out));
    if (!file_begin(image, size)) {
        return -ENOMEM;
    }
    out->file = &the_file;
    out->head_len = (uint64_t)file_read_kernel(out->file, out->head, EXEC_HEAD_BYTES, 0);
    if (vl_space_create(&out->space) != VL_OK) {
        out->space = NULL;
        return -ENOMEM;
    }
    return elf_load(out);
}

void elf_file_end(struct exec *exec)
{
    if (exec->space != NULL) {
        vl_space_validate(exec->space);
        vl_space_put(exec->space);
        exec->space = NULL;
    }
    if (the_file.object != NULL) {
        vl_object_put(the_file.object);
        the_file.object = NULL;
    }
}

bool elf_file_read(struct exec *exec, vl_va va, void *out, size_t len)
{
    char *to = out;

    for (; len != 0; va++, to++, len--) {
        struct vl_pfn pfn;

        if (vl_space_frame_get(exec->space, va, VL_READ, &pfn) != VL_OK) {
            return false;
        }
        *to = ((const char *)vl_frame_to_virt(pfn))[va & VL_PAGE_MASK];
        vl_frame_ref_put(pfn);
    }
    return true;
}
