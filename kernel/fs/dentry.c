/*
 * dentry.c - names: the tables of directories, and the counting of dentries.
 *
 * A directory's table hashes names into chains and keeps a tree by cookie, the position that
 * readdir hands out. A cookie never changes and is never used twice, so a listing survives any
 * change between two calls. Both are changed under the directory's mutex *and* its spin lock and
 * read under either: a path walk needs the spin lock alone.
 */
#include "kernel/fs/inode_types.h"
#include "core/base/bits.h"
#include "kernel/lib/mem.h"

#define BUCKETS_FIRST 8u
#define BUCKETS_MAX   (1u << 19) /* one kmalloc of 4 MiB */
#define COOKIE_FIRST  ((uint64_t)1 << 62)

static struct vl_cache *dentry_cache;

/* Changed by each move: a path that was put together meanwhile is put together again. */
static _Atomic uint32_t move_count;

void dentry_init(void)
{
    static const struct vl_cache_spec spec = {
        .name = "dentry", .size = sizeof(struct dentry), .align = 64};

    if (vl_cache_create(&spec, &dentry_cache) != VL_OK) {
        vli_panic("no memory for the cache of names");
    }
}

struct dir_table *dir_table_make(void)
{
    struct dir_table *table = vl_kmalloc(sizeof(*table), VL_WAIT | VL_ZEROED);

    if (table != NULL) {
        table->next_cookie = COOKIE_FIRST;
    }
    return table;
}

void dir_table_free(struct dir_table *table)
{
    VL_ASSERT(table->count == 0);
    vl_kfree(table->buckets);
    vl_kfree(table);
}

static uint32_t name_hash(const char *name, size_t len)
{
    uint32_t hash = (uint32_t)len;

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 0x9e3779b1u;
    }
    return hash ^ hash >> 15;
}

/* Point @dentry's name at a copy of @name; @own is room for one that does not fit inline. */
static void set_name(struct dentry *dentry, const char *name, size_t len, char *own)
{
    dentry->name = own != NULL ? own : dentry->inline_name;
    dentry->is_name_own = own != NULL;
    memcpy(dentry->name, name, len);
    dentry->name_len = (uint16_t)len;
    dentry->hash = name_hash(name, len);
}

/* Room for a name that does not fit into a dentry. Returns: false when there is no memory. */
static bool name_room(size_t len, char **out)
{
    *out = NULL;
    if (len <= sizeof(((struct dentry *)0)->inline_name)) {
        return true;
    }
    *out = vl_kmalloc(len, VL_WAIT);
    return *out != NULL;
}

struct dentry *dentry_make(struct dentry *parent, const char *name, size_t len, struct inode *inode)
{
    struct dentry *dentry = vl_cache_alloc(dentry_cache, VL_WAIT | VL_ZEROED);
    char *own;

    if (dentry == NULL) {
        return NULL;
    }
    if (!name_room(len, &own)) {
        vl_cache_free(dentry_cache, dentry);
        return NULL;
    }
    set_name(dentry, name, len, own);
    name_lock_init(&dentry->lock);
    atomic_init(&dentry->references, 1);
    if (parent != NULL) {
        dentry_get(parent);
    }
    dentry->parent = parent;
    inode_get(inode);
    dentry->inode = inode;
    return dentry;
}

void dentry_put(struct dentry *dentry)
{
    /* Each turn frees one and goes on with its parent, so no depth of directories overflows the
     * stack. Release and acquire: as in inode_put(). */
    while (dentry != NULL &&
           atomic_fetch_sub_explicit(&dentry->references, 1, memory_order_release) == 1) {
        struct dentry *parent = dentry->parent;

        atomic_thread_fence(memory_order_acquire);
        VL_ASSERT(!dentry->is_hashed);
        inode_put(dentry->inode);
        if (dentry->is_name_own) {
            vl_kfree(dentry->name);
        }
        vl_cache_free(dentry_cache, dentry);
        dentry = parent;
    }
}

/* ------------------------------------------------------------------------------- tables */

static struct dentry **bucket_of(struct dir_table *table, uint32_t hash)
{
    return &table->buckets[hash & table->bucket_mask];
}

struct dentry *dentry_find(struct dentry *dir, const char *name, size_t len)
{
    struct dir_table *table = dir->inode->u.table;
    uint32_t hash = name_hash(name, len);
    struct dentry *found = NULL;

    name_read_lock(&dir->lock, KRANK_DIR);
    if (table->count != 0) {
        for (found = *bucket_of(table, hash); found != NULL; found = found->hash_next) {
            if (found->hash == hash && found->name_len == len &&
                memcmp(found->name, name, len) == 0) {
                dentry_get(found);
                break;
            }
        }
    }
    name_read_unlock(&dir->lock, KRANK_DIR);
    return found;
}

long dentry_lookup(struct dentry *dir, const char *name, size_t len, struct dentry **out)
{
    const struct inode_ops *ops = dir->inode->ops;

    if (dir->inode->u.table == NULL || ops->lookup != NULL) {
        return ops->lookup != NULL ? ops->lookup(dir, name, len, out) : -ENOENT;
    }
    *out = dentry_find(dir, name, len);
    return *out != NULL ? 0 : -ENOENT;
}

/* Put all entries of @table into @fresh buckets. The directory's spin lock is held. */
static void rehash(struct dir_table *table, struct dentry **fresh, uint32_t mask)
{
    struct dentry **old = table->buckets;
    uint32_t old_count = old != NULL ? table->bucket_mask + 1 : 0;

    for (uint32_t i = 0; i < old_count; i++) {
        for (struct dentry *entry = old[i], *next; entry != NULL; entry = next) {
            next = entry->hash_next;
            entry->hash_next = fresh[entry->hash & mask];
            fresh[entry->hash & mask] = entry;
        }
    }
    table->buckets = fresh;
    table->bucket_mask = mask;
}

/* Make room for one more entry; the directory's mutex is held. 0 or -ENOMEM. */
static long table_reserve(struct dentry *dir)
{
    struct dir_table *table = dir->inode->u.table;
    uint32_t buckets = table->buckets != NULL ? table->bucket_mask + 1 : 0;
    struct dentry **old = table->buckets;
    struct dentry **fresh;

    VL_ASSERT(mutex_is_held_by_me(&dir->inode->mutex));
    if (table->count < buckets * 2 || buckets >= BUCKETS_MAX) {
        return 0;
    }
    buckets = buckets == 0 ? BUCKETS_FIRST : buckets * 2;
    fresh = vl_kmalloc(buckets * sizeof(struct dentry *), VL_WAIT | VL_ZEROED);
    if (fresh == NULL) {
        return old != NULL ? 0 : -ENOMEM; /* longer chains will do */
    }
    name_write_lock(&dir->lock, KRANK_DIR);
    rehash(table, fresh, buckets - 1);
    name_write_unlock(&dir->lock, KRANK_DIR);
    vl_kfree(old);
    return 0;
}

/* Put @dentry into @table. The directory's mutex and spin lock are held. */
static void table_link(struct dir_table *table, struct dentry *dentry)
{
    struct dentry **bucket = bucket_of(table, dentry->hash);
    struct vli_tree_node *parent = NULL;
    struct vli_tree_node **link = &table->by_cookie.root;

    dentry->hash_next = *bucket;
    *bucket = dentry;
    dentry->cookie = table->next_cookie--;
    while (*link != NULL) { /* the least cookie so far: leftmost */
        parent = *link;
        link = &parent->left;
    }
    vli_tree_insert(&table->by_cookie, &dentry->by_cookie, parent, link, NULL);
    dentry->is_hashed = 1;
    table->count++;
}

/* Take @dentry out of @table. The directory's mutex and spin lock are held. */
static void table_unlink(struct dir_table *table, struct dentry *dentry)
{
    struct dentry **link = bucket_of(table, dentry->hash);

    while (*link != dentry) {
        link = &(*link)->hash_next;
    }
    *link = dentry->hash_next;
    dentry->hash_next = NULL;
    vli_tree_remove(&table->by_cookie, &dentry->by_cookie, NULL);
    dentry->is_hashed = 0;
    table->count--;
}

/* The alias of a regular file is a hint for maps: any of its names that is in a table. */
static void alias_set(struct dentry *dentry)
{
    struct inode *inode = dentry->inode;

    if (inode_is(inode, S_IFREG)) {
        vli_spin_lock(&inode->spin, KRANK_FILES);
        if (inode->alias == NULL) {
            inode->alias = dentry;
        }
        vli_spin_unlock(&inode->spin, KRANK_FILES);
    }
}

static void alias_clear(struct dentry *dentry)
{
    struct inode *inode = dentry->inode;

    if (inode_is(inode, S_IFREG)) {
        vli_spin_lock(&inode->spin, KRANK_FILES);
        if (inode->alias == dentry) {
            inode->alias = NULL;
        }
        vli_spin_unlock(&inode->spin, KRANK_FILES);
    }
}

long dentry_add(struct dentry *dentry)
{
    struct dentry *dir = dentry->parent;
    long result = table_reserve(dir);

    if (result != 0) {
        return result;
    }
    dentry_get(dentry);
    name_write_lock(&dir->lock, KRANK_DIR);
    table_link(dir->inode->u.table, dentry);
    name_write_unlock(&dir->lock, KRANK_DIR);
    alias_set(dentry);
    return 0;
}

void dentry_remove(struct dentry *dentry)
{
    struct dentry *dir = dentry->parent;

    VL_ASSERT(mutex_is_held_by_me(&dir->inode->mutex));
    alias_clear(dentry);
    name_write_lock(&dir->lock, KRANK_DIR);
    table_unlink(dir->inode->u.table, dentry);
    name_write_unlock(&dir->lock, KRANK_DIR);
    dentry_put(dentry);
}

bool dentry_is_empty(struct dentry *dir)
{
    struct dir_table *table = dir->inode->u.table;

    return table == NULL || table->count == 0;
}

/* -------------------------------------------------------------------------------- moving */

/* Take the spin locks of two directories, which may be one. */
static void lock_dirs(struct dentry *first, struct dentry *second) VL_NO_LOCK_CHECK
{
    if (first == second) {
        name_write_lock(&first->lock, KRANK_DIR);
    } else if ((uintptr_t)first < (uintptr_t)second) {
        name_write_lock(&first->lock, KRANK_DIR);
        name_write_lock(&second->lock, KRANK_DIR_SECOND);
    } else {
        name_write_lock(&second->lock, KRANK_DIR);
        name_write_lock(&first->lock, KRANK_DIR_SECOND);
    }
}

static void unlock_dirs(struct dentry *first, struct dentry *second) VL_NO_LOCK_CHECK
{
    if (first == second) {
        name_write_unlock(&first->lock, KRANK_DIR);
    } else if ((uintptr_t)first < (uintptr_t)second) {
        name_write_unlock(&second->lock, KRANK_DIR_SECOND);
        name_write_unlock(&first->lock, KRANK_DIR);
    } else {
        name_write_unlock(&first->lock, KRANK_DIR_SECOND);
        name_write_unlock(&second->lock, KRANK_DIR);
    }
}

long dentry_move(struct dentry *dentry, struct dentry *dir, const char *name, size_t len,
                 struct dentry *displaced)
{
    struct dentry *old_dir = dentry->parent;
    char *old_name = NULL;
    char *own;

    if (table_reserve(dir) != 0 || !name_room(len, &own)) {
        return -ENOMEM;
    }
    if (displaced != NULL) {
        alias_clear(displaced);
    }
    dentry_get(dir);
    lock_dirs(old_dir, dir);
    name_write_lock(&dentry->lock, KRANK_DENTRY);
    if (displaced != NULL) {
        table_unlink(dir->inode->u.table, displaced);
    }
    table_unlink(old_dir->inode->u.table, dentry);
    if (dentry->is_name_own) {
        old_name = dentry->name;
    }
    set_name(dentry, name, len, own);
    dentry->parent = dir;
    table_link(dir->inode->u.table, dentry);
    atomic_fetch_add_explicit(&move_count, 1, memory_order_release);
    name_write_unlock(&dentry->lock, KRANK_DENTRY);
    unlock_dirs(old_dir, dir);
    vl_kfree(old_name);
    dentry_put(old_dir);
    dentry_put(displaced);
    return 0;
}

/* The two have each other's name and parent; tables and locks are the caller's. */
static void swap_names(struct dentry *first, struct dentry *second)
{
    struct dentry copy = *first;
    bool is_first_own = first->is_name_own != 0;
    bool is_second_own = second->is_name_own != 0;

    set_name(first, second->name, second->name_len, is_second_own ? second->name : NULL);
    set_name(second, is_first_own ? copy.name : copy.inline_name, copy.name_len,
             is_first_own ? copy.name : NULL);
    first->parent = second->parent;
    second->parent = copy.parent;
}

long dentry_exchange(struct dentry *first, struct dentry *second) VL_NO_LOCK_CHECK
{
    struct dentry *first_dir = first->parent;
    struct dentry *second_dir = second->parent;
    struct dentry *low = (uintptr_t)first < (uintptr_t)second ? first : second;
    struct dentry *high = low == first ? second : first;

    lock_dirs(first_dir, second_dir);
    name_write_lock(&low->lock, KRANK_DENTRY);
    name_write_lock(&high->lock, KRANK_FILES);
    table_unlink(first_dir->inode->u.table, first);
    table_unlink(second_dir->inode->u.table, second);
    swap_names(first, second);
    table_link(second_dir->inode->u.table, first);
    table_link(first_dir->inode->u.table, second);
    atomic_fetch_add_explicit(&move_count, 1, memory_order_release);
    name_write_unlock(&high->lock, KRANK_FILES);
    name_write_unlock(&low->lock, KRANK_DENTRY);
    unlock_dirs(first_dir, second_dir);
    return 0;
}

/* ------------------------------------------------------------------------------- upwards */

/* Parent, or what a file system's root covers; NULL at the top. With a reference. */
static struct dentry *step_up(struct dentry *dentry, bool *out_is_mount)
{
    struct dentry *up;

    name_read_lock(&dentry->lock, KRANK_DENTRY);
    up = dentry->parent;
    *out_is_mount = false;
    if (up == NULL && dentry == dentry->inode->super->root) {
        up = dentry->inode->super->covers;
        *out_is_mount = true;
    }
    if (up != NULL) {
        dentry_get(up);
    }
    name_read_unlock(&dentry->lock, KRANK_DENTRY);
    return up;
}

struct dentry *dentry_uncover(struct dentry *dentry)
{
    for (;;) {
        struct super *super;
        struct dentry *root = NULL;

        /* Relaxed: looked at again under the lock. */
        if (atomic_load_explicit(&dentry->mounted, memory_order_relaxed) == NULL) {
            return dentry;
        }
        name_read_lock(&dentry->lock, KRANK_DENTRY);
        super = atomic_load_explicit(&dentry->mounted, memory_order_relaxed);
        if (super != NULL) {
            root = super->root;
            dentry_get(root);
        }
        name_read_unlock(&dentry->lock, KRANK_DENTRY);
        if (root == NULL) {
            return dentry;
        }
        dentry_put(dentry);
        dentry = root;
    }
}

struct dentry *dentry_parent(struct dentry *dentry, struct dentry *root)
{
    dentry_get(dentry);
    while (dentry != root) {
        bool is_mount;
        struct dentry *up = step_up(dentry, &is_mount);

        if (up == NULL) {
            break;
        }
        dentry_put(dentry);
        dentry = up;
        if (!is_mount) {
            return dentry_uncover(dentry);
        }
    }
    return dentry;
}

/* A copy of @dentry's name in front of *@pos. Returns: false when it does not fit. */
static bool prepend_name(struct dentry *dentry, char *out, size_t *pos)
{
    bool fits;

    name_read_lock(&dentry->lock, KRANK_DENTRY);
    fits = *pos > dentry->name_len;
    if (fits) {
        *pos -= dentry->name_len;
        memcpy(out + *pos, dentry->name, dentry->name_len);
    }
    name_read_unlock(&dentry->lock, KRANK_DENTRY);
    if (fits) {
        out[--*pos] = '/';
    }
    return fits;
}

/* One try of dentry_path(): the text ends at out[size - 1]. Returns: where it starts, or -errno. */
static long path_try(struct dentry *dentry, struct dentry *root, char *out, size_t size,
                     enum path_state *out_state)
{
    size_t pos = size - 1;

    out[pos] = 0;
    dentry_get(dentry);
    while (dentry != root) {
        bool is_mount;
        struct dentry *up = step_up(dentry, &is_mount);

        if (up == NULL) {
            *out_state = PATH_OUTSIDE;
            break;
        }
        if (!is_mount && !prepend_name(dentry, out, &pos)) {
            dentry_put(up);
            dentry_put(dentry);
            return -ENAMETOOLONG;
        }
        dentry_put(dentry);
        dentry = up;
    }
    dentry_put(dentry);
    if (out[pos] == 0) {
        if (pos == 0) {
            return -ENAMETOOLONG;
        }
        out[--pos] = '/';
    }
    return (long)pos;
}

/* Was this name taken out of a table? */
static bool is_deleted(struct dentry *dentry)
{
    bool result;

    name_read_lock(&dentry->lock, KRANK_DENTRY);
    result = dentry->parent != NULL && dentry->parent->inode->u.table != NULL && !dentry->is_hashed;
    name_read_unlock(&dentry->lock, KRANK_DENTRY);
    return result;
}

/* A nameless file's dentry has a name and no parent. */
static long nameless_path(struct dentry *dentry, char *out, size_t size)
{
    if (dentry->name_len >= size) {
        return -ENAMETOOLONG;
    }
    memcpy(out, dentry->name, dentry->name_len);
    out[dentry->name_len] = 0;
    return dentry->name_len;
}

long dentry_path(struct dentry *dentry, struct dentry *root, char *out, size_t size,
                 enum path_state *out_state)
{
    long start;
    uint32_t moves;

    VL_ASSERT(size >= 2);
    *out_state = PATH_LIVE;
    if (dentry->parent == NULL && dentry != dentry->inode->super->root) {
        return nameless_path(dentry, out, size);
    }
    for (unsigned tries = 0; tries < 8; tries++) {
        /* Acquire: pairs with the release of a move. */
        moves = atomic_load_explicit(&move_count, memory_order_acquire);
        *out_state = PATH_LIVE;
        start = path_try(dentry, root, out, size, out_state);
        if (moves == atomic_load_explicit(&move_count, memory_order_acquire)) {
            break;
        }
    }
    if (start < 0) {
        return start;
    }
    if (*out_state == PATH_LIVE && is_deleted(dentry)) {
        *out_state = PATH_DELETED;
    }
    memmove(out, out + start, size - (size_t)start);
    return (long)size - 1 - start;
}

/* ------------------------------------------------------------------------------- listing */

/* The entry with the least cookie ≥ @pos; the directory's spin lock or mutex is held. */
static struct dentry *entry_from(struct dir_table *table, uint64_t pos)
{
    struct vli_tree_node *node = table->by_cookie.root;
    struct dentry *best = NULL;

    while (node != NULL) {
        struct dentry *entry = vli_container_of(node, struct dentry, by_cookie);

        if (entry->cookie >= pos) {
            best = entry;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return best;
}

struct dentry *dentry_child(struct dentry *dir, uint64_t pos)
{
    struct dir_table *table = inode_is(dir->inode, S_IFDIR) ? dir->inode->u.table : NULL;
    struct dentry *child;

    if (table == NULL) {
        return NULL;
    }
    name_read_lock(&dir->lock, KRANK_DIR);
    child = entry_from(table, pos);
    if (child != NULL) {
        dentry_get(child);
    }
    name_read_unlock(&dir->lock, KRANK_DIR);
    return child;
}

long dentry_list(struct file *file, struct dir_sink *sink)
{
    struct dentry *dir = file->dentry;
    struct dir_table *table = dir->inode->u.table;
    struct dentry *entry;

    /* The mutex keeps the entries in place while the sink copies to the user. */
    mutex_lock(&dir->inode->mutex);
    entry = entry_from(table, file->pos);
    while (entry != NULL) {
        struct inode *inode = entry->inode;
        struct vli_tree_node *next = vli_tree_next(&entry->by_cookie);

        if (!sink->add(sink, entry->name, entry->name_len, entry->cookie + 1, inode->number,
                       inode->mode)) {
            break;
        }
        file->pos = entry->cookie + 1;
        entry = next != NULL ? vli_container_of(next, struct dentry, by_cookie) : NULL;
    }
    mutex_unlock(&dir->inode->mutex);
    return 0;
}
