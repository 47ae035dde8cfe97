/*
 * context.c - working directory, root and umask: shared by the threads of a process, copied by
 * fork. A kernel thread has none and sees the root file system.
 */
#include "kernel/fs/context.h"
#include "kernel/proc/process.h"

struct fs_context *fs_context_create(void)
{
    struct fs_context *context = vl_kmalloc(sizeof(*context), VL_WAIT | VL_ZEROED);

    if (context == NULL) {
        return NULL;
    }
    atomic_init(&context->references, 1);
    vli_spin_init(&context->lock);
    atomic_init(&context->umask, 022);
    context->root = dentry_uncover(fs_root());
    context->cwd = context->root;
    dentry_get(context->cwd);
    return context;
}

struct fs_context *fs_context_clone(struct fs_context *context)
{
    struct fs_context *clone = vl_kmalloc(sizeof(*clone), VL_WAIT | VL_ZEROED);

    if (clone == NULL) {
        return NULL;
    }
    atomic_init(&clone->references, 1);
    vli_spin_init(&clone->lock);
    atomic_init(&clone->umask, atomic_load_explicit(&context->umask, memory_order_relaxed));
    vli_spin_lock(&context->lock, KRANK_FILES);
    clone->root = context->root;
    clone->cwd = context->cwd;
    dentry_get(clone->root);
    dentry_get(clone->cwd);
    vli_spin_unlock(&context->lock, KRANK_FILES);
    return clone;
}

void fs_context_get(struct fs_context *context)
{
    atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
}

void fs_context_put(struct fs_context *context)
{
    /* Acquire and release: the last one sees what all others did. */
    if (atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) == 1) {
        dentry_put(context->cwd);
        dentry_put(context->root);
        vl_kfree(context);
    }
}

struct dentry *fs_context_dir(struct fs_context *context, bool want_root)
{
    struct dentry *dentry;

    vli_spin_lock(&context->lock, KRANK_FILES);
    dentry = want_root ? context->root : context->cwd;
    dentry_get(dentry);
    vli_spin_unlock(&context->lock, KRANK_FILES);
    return dentry;
}

static struct fs_context *own_context(void)
{
    struct process *process = current_process();

    return process != NULL ? process->fs : NULL;
}

struct dentry *fs_root(void)
{
    struct fs_context *context = own_context();
    struct dentry *dentry;

    if (context != NULL) {
        return fs_context_dir(context, true);
    }
    dentry = root_super()->root;
    dentry_get(dentry);
    return dentry;
}

struct dentry *fs_cwd(void)
{
    struct fs_context *context = own_context();

    return context != NULL ? fs_context_dir(context, false) : fs_root();
}

uint32_t fs_umask(void)
{
    struct fs_context *context = own_context();

    return context != NULL ? atomic_load_explicit(&context->umask, memory_order_relaxed) : 0;
}

uint32_t fs_set_umask(uint32_t mask)
{
    return atomic_exchange_explicit(&current_fs()->umask, mask & 0777u, memory_order_relaxed);
}

void fs_set_cwd(struct dentry *dentry)
{
    struct fs_context *context = current_fs();
    struct dentry *old;

    vli_spin_lock(&context->lock, KRANK_FILES);
    old = context->cwd;
    context->cwd = dentry;
    vli_spin_unlock(&context->lock, KRANK_FILES);
    dentry_put(old);
}

void fs_set_root(struct dentry *dentry)
{
    struct fs_context *context = current_fs();
    struct dentry *old;

    vli_spin_lock(&context->lock, KRANK_FILES);
    old = context->root;
    context->root = dentry;
    vli_spin_unlock(&context->lock, KRANK_FILES);
    dentry_put(old);
}
