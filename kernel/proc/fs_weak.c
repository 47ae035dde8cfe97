/*
 * fs_weak.c - weak stand-ins for kernel/fs, so that the kernel links and starts without it.
 */
#include "kernel/proc/internal.h"

VLI_WEAK void file_get(VLI_UNUSED struct file *file)
{
}
VLI_WEAK void file_put(VLI_UNUSED struct file *file)
{
}
VLI_WEAK long file_read_kernel(VLI_UNUSED struct file *file, VLI_UNUSED void *out,
                               VLI_UNUSED size_t len, VLI_UNUSED uint64_t pos)
{
    return -ENOSYS;
}
VLI_WEAK uint32_t file_mode(VLI_UNUSED const struct file *file)
{
    return 0;
}
VLI_WEAK void file_owner(VLI_UNUSED const struct file *file, uint32_t *out_uid, uint32_t *out_gid)
{
    *out_uid = 0;
    *out_gid = 0;
}
VLI_WEAK long file_map(VLI_UNUSED struct file *file, VLI_UNUSED uint32_t prot,
                       VLI_UNUSED bool shared, VLI_UNUSED struct vl_object **out_object,
                       VLI_UNUSED uint32_t *out_prot_max)
{
    return -ENODEV;
}
VLI_WEAK long vfs_open_exec(VLI_UNUSED int dirfd, VLI_UNUSED const char *path,
                            VLI_UNUSED unsigned at_flags, VLI_UNUSED struct file **out)
{
    return -ENOSYS;
}
VLI_WEAK long vfs_open_console(VLI_UNUSED struct files *files)
{
    return -ENOSYS;
}
VLI_WEAK long user_path_get(VLI_UNUSED char **out, VLI_UNUSED uint64_t user_path,
                            VLI_UNUSED enum path_empty empty)
{
    return -ENOSYS;
}
VLI_WEAK void user_path_put(VLI_UNUSED char *path)
{
}
VLI_WEAK struct files *files_create(void)
{
    return NULL;
}
VLI_WEAK struct files *files_clone(VLI_UNUSED struct files *files)
{
    return NULL;
}
VLI_WEAK void files_get(VLI_UNUSED struct files *files)
{
}
VLI_WEAK void files_put(VLI_UNUSED struct files *files)
{
}
VLI_WEAK void files_close_on_exec(VLI_UNUSED struct files *files)
{
}
VLI_WEAK struct file *files_file_get(VLI_UNUSED struct files *files, VLI_UNUSED int fd)
{
    return NULL;
}
VLI_WEAK struct fs_context *fs_context_create(void)
{
    return NULL;
}
VLI_WEAK struct fs_context *fs_context_clone(VLI_UNUSED struct fs_context *context)
{
    return NULL;
}
VLI_WEAK void fs_context_get(VLI_UNUSED struct fs_context *context)
{
}
VLI_WEAK void fs_context_put(VLI_UNUSED struct fs_context *context)
{
}
