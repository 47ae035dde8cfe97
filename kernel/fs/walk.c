/*
 * walk.c - from a path to a dentry.
 *
 * One loop takes name after name. A symbolic link's text is put before what is left of the path,
 * in one buffer, so nested links need no stack; 40 of them are allowed, as on Linux. References:
 * the walk holds the directory it stands in, takes the child's under the directory's spin lock,
 * and drops the directory's.
 */
#include "kernel/fs/context.h"
#include "kernel/fs/fdtable.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define LINKS_MAX 40u

struct walk {
    struct dentry *at;   /* counted */
    struct dentry *root; /* counted */
    const char *rest;
    char *buffer; /* what rest points into, if a link was followed */
    unsigned links;
    unsigned flags;
    bool stop_at_parent;
    const char *name; /* the name at hand */
    size_t len;
    bool is_last;
    bool has_slash; /* slashes stand behind it */
};

/* Take the next name off the rest. Returns: false when there is none. */
static bool next_name(struct walk *walk)
{
    const char *c = walk->rest;

    while (*c == '/') {
        c++;
    }
    walk->name = c;
    while (*c != 0 && *c != '/') {
        c++;
    }
    walk->len = (size_t)(c - walk->name);
    walk->has_slash = *c == '/';
    while (*c == '/') {
        c++;
    }
    walk->rest = c;
    walk->is_last = *c == 0;
    return walk->len != 0;
}

static void stand_at(struct walk *walk, struct dentry *dentry)
{
    dentry_put(walk->at);
    walk->at = dentry;
}

/* Read a link's text and put it in front of the rest. 0 or an errno. */
static long splice_link(struct walk *walk, struct inode *inode)
{
    size_t rest_len = strlen(walk->rest);
    char *buffer = vl_kmalloc(PATH_MAX_BYTES + rest_len + 2, VL_WAIT);
    long len;

    if (buffer == NULL) {
        return -ENOMEM;
    }
    len = inode->ops->read_link(inode, buffer, PATH_MAX_BYTES);
    if (len <= 0) {
        vl_kfree(buffer);
        return len < 0 ? len : -ENOENT;
    }
    if (walk->has_slash) {
        buffer[len++] = '/';
    }
    memcpy(buffer + len, walk->rest, rest_len + 1);
    vl_kfree(walk->buffer);
    walk->buffer = buffer;
    walk->rest = buffer;
    return 0;
}

/* Go where @link leads. 0 or an errno. */
static long follow_link(struct walk *walk, struct dentry *link)
{
    struct inode *inode = link->inode;
    long result;

    if (++walk->links > LINKS_MAX) {
        return -ELOOP;
    }
    if (inode->ops->follow != NULL) {
        struct dentry *target;

        result = inode->ops->follow(inode, &target);
        if (result == 0) {
            stand_at(walk, target);
        }
        return result;
    }
    result = splice_link(walk, inode);
    if (result == 0 && walk->buffer[0] == '/') {
        dentry_get(walk->root);
        stand_at(walk, walk->root);
    }
    return result;
}

/* Stand at the entry walk->name of where the walk stands. 0 or an errno. */
static long step_down(struct walk *walk)
{
    struct dentry *child;
    long result = dentry_lookup(walk->at, walk->name, walk->len, &child);

    if (result != 0) {
        return result;
    }
    child = dentry_uncover(child);
    if (inode_is(child->inode, S_IFLNK) &&
        (!walk->is_last || walk->has_slash || (walk->flags & WALK_FOLLOW) != 0)) {
        result = follow_link(walk, child);
        dentry_put(child);
        return result;
    }
    stand_at(walk, child);
    return 0;
}

static bool is_dots(const struct walk *walk, size_t count)
{
    return walk->len == count && walk->name[0] == '.' && walk->name[count - 1] == '.';
}

/* Take all names, but the last with stop_at_parent. 0 or an errno. */
static long walk_names(struct walk *walk)
{
    bool must_be_directory = (walk->flags & WALK_DIRECTORY) != 0;

    while (next_name(walk)) {
        struct inode *dir = walk->at->inode;
        long result = 0;

        if (!inode_is(dir, S_IFDIR)) {
            return -ENOTDIR;
        }
        result = inode_permission(dir, MAY_EXEC);
        if (result != 0) {
            return result;
        }
        if (walk->len > NAME_MAX_BYTES) {
            return -ENAMETOOLONG;
        }
        if (walk->stop_at_parent && walk->is_last) {
            return 0;
        }
        if (is_dots(walk, 2)) {
            stand_at(walk, dentry_parent(walk->at, walk->root));
        } else if (!is_dots(walk, 1)) {
            result = step_down(walk);
        }
        if (result != 0) {
            return result;
        }
        must_be_directory = (walk->flags & WALK_DIRECTORY) != 0 || walk->has_slash;
    }
    return must_be_directory && !inode_is(walk->at->inode, S_IFDIR) ? -ENOTDIR : 0;
}

long path_start(int dirfd, const char *path, struct dentry **out)
{
    struct fd_ref ref;
    long result = 0;

    if (path[0] == '/') {
        *out = fs_root();
        return 0;
    }
    if (dirfd == AT_FDCWD) {
        *out = fs_cwd();
        return 0;
    }
    if (!fd_ref_get(dirfd, FD_PATH_TOO, &ref)) {
        return -EBADF;
    }
    if (ref.file->dentry == NULL || !inode_is(ref.file->inode, S_IFDIR)) {
        result = -ENOTDIR;
    } else {
        dentry_get(ref.file->dentry);
        *out = ref.file->dentry;
    }
    fd_ref_put(&ref);
    return result;
}

static void walk_begin(struct walk *walk, struct dentry *start, const char *path, unsigned flags)
{
    memset(walk, 0, sizeof(*walk));
    walk->root = fs_root();
    walk->flags = flags;
    walk->rest = path;
    if (path[0] == '/') {
        dentry_get(walk->root);
        walk->at = walk->root;
    } else {
        dentry_get(start);
        walk->at = start;
    }
}

long path_lookup_at(struct dentry *start, const char *path, unsigned flags, struct dentry **out)
{
    struct walk walk;
    long result;

    walk_begin(&walk, start, path, flags);
    result = walk_names(&walk);
    if (result == 0) {
        *out = walk.at;
    } else {
        dentry_put(walk.at);
    }
    dentry_put(walk.root);
    vl_kfree(walk.buffer);
    return result;
}

long path_lookup(int dirfd, const char *path, unsigned flags, struct dentry **out)
{
    struct dentry *start;
    long result;

    if (path[0] == 0) {
        return -ENOENT;
    }
    result = path_start(dirfd, path, &start);
    if (result == 0) {
        result = path_lookup_at(start, path, flags, out);
        dentry_put(start);
    }
    return result;
}

long path_parent_at(struct dentry *start, const char *path, struct path_end *out)
{
    struct walk walk;
    long result;

    memset(out, 0, sizeof(*out));
    walk_begin(&walk, start, path, 0);
    walk.stop_at_parent = true;
    result = walk_names(&walk);
    dentry_put(walk.root);
    if (result != 0) {
        dentry_put(walk.at);
        vl_kfree(walk.buffer);
        return result;
    }
    out->dir = walk.at;
    out->link = walk.buffer;
    out->name = walk.name;
    out->len = walk.len;
    out->has_slash = walk.has_slash;
    out->kind = walk.len == 0       ? END_ROOT
                : is_dots(&walk, 2) ? END_DOTDOT
                : is_dots(&walk, 1) ? END_DOT
                                    : END_NAME;
    return 0;
}

long path_parent(int dirfd, const char *path, struct path_end *out)
{
    struct dentry *start;
    long result;

    if (path[0] == 0) {
        return -ENOENT;
    }
    result = path_start(dirfd, path, &start);
    if (result == 0) {
        result = path_parent_at(start, path, out);
        dentry_put(start);
    }
    return result;
}

void path_end_put(struct path_end *end)
{
    dentry_put(end->dir);
    vl_kfree(end->link);
}
