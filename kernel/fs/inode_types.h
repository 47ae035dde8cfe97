/*
 * inode_types.h - between the files that make inodes and dentries; nobody else needs it.
 */
#ifndef KERNEL_FS_INODE_TYPES_H
#define KERNEL_FS_INODE_TYPES_H

#include "core/base/log.h"
#include "kernel/fs/vfs.h"

/** inode_init() - make the cache. Once, at start-up. */
void inode_init(void);
/** dentry_init() - make the cache. Once, at start-up. */
void dentry_init(void);
/** file_init(), fdtable_init() - the same. */
void file_init(void);
void fdtable_init(void);
/** ram_fill() - fs_type.fill of what lives in memory: an empty root directory. */
long ram_fill(struct super *super, const char *options);
/** inode_free() - free the struct; called by inode_put(), or by the object's release. */
void inode_free(struct inode *inode);
/** dentry_child() - the entry of @dir with the least cookie ≥ @pos, with a reference, or NULL. */
struct dentry *dentry_child(struct dentry *dir, uint64_t pos);
/** dir_table_make() - an empty table. NULL: no memory. */
struct dir_table *dir_table_make(void);
/** dir_table_free() - free an empty one. */
void dir_table_free(struct dir_table *table);
/** locks_forget() - the last reference of @inode goes: so do its advisory locks. */
void locks_forget(struct inode *inode);
/** ram_describe() - vl_object_ops.describe of a regular file. */
void ram_describe(void *owner, char *path, size_t size, uint32_t *out_dev, uint64_t *out_inode);

#endif
