/*
 * vfs.h - the inside of the file systems: inodes, names, mounts, what a kind of file supplies.
 *
 * Three structures:
 *   inode    the file itself: type, owner, times, contents. A regular file's contents are the
 *            pages of a vl_object, which is its page cache and what mmap and exec map.
 *   dentry   one name of an inode, in its directory. The tree of dentries *is* the name space of
 *            the file systems in memory: an entry of a directory's table holds one reference to
 *            its dentry, each dentry one to its parent and one to its inode.
 *   super    one mounted file system: its root and the dentry that it covers.
 *
 * A dentry of /proc is made by each lookup, is in no table, and goes with its last reference.
 *
 * Locks, outermost first (docs/locking.md of the kernel's part):
 *   (R) super->rename_mutex  renames between two directories: while it is held no directory of
 *                            this file system gets another parent
 *   (M) inode->mutex         a directory: changes of its table; a file: writes and truncation.
 *                            Two directories: the ancestor first, unrelated ones by address under
 *                            (R); a directory before its child
 *   (D) dentry->lock         spin, readers or a writer (name_lock.h): the table of this directory,
 *                            and the name and parent of each dentry in it. To change a name or a
 *                            parent, the locks of both old and new parent and of the dentry itself
 *                            are held, so any of them is enough to read. KRANK_DIR, _DIR_SECOND,
 *                            KRANK_DENTRY
 *   (A) atomic; (C) constant once published; (I) inode->spin
 *
 * A path walk takes (D) of one directory at a time, for a look into its table, and no other lock.
 */
#ifndef KERNEL_FS_VFS_H
#define KERNEL_FS_VFS_H

#include <stdatomic.h>
#include <vellum/vellum.h>
#include "core/base/list.h"
#include "core/base/tree.h"
#include "kernel/fs/file.h"
#include "kernel/fs/iter.h"
#include "kernel/fs/name_lock.h"
#include "kernel/sched/lock.h"
#include "kernel/sched/timer.h"

#define KRANK_DIR        KRANK_OUTER_1
#define KRANK_DIR_SECOND KRANK_OUTER_2
#define KRANK_DENTRY     KRANK_OUTER_3
#define KRANK_FILES      KRANK_OUTER_4 /* a descriptor table, an fs_context, an inode's spin */

/* Types and permission bits of a mode. */
#define S_IFMT   0170000u
#define S_IFSOCK 0140000u
#define S_IFLNK  0120000u
#define S_IFREG  0100000u
#define S_IFBLK  0060000u
#define S_IFDIR  0040000u
#define S_IFCHR  0020000u
#define S_IFIFO  0010000u
#define S_ISUID  0004000u
#define S_ISGID  0002000u
#define S_ISVTX  0001000u

#define MAY_EXEC  1u
#define MAY_WRITE 2u
#define MAY_READ  4u

struct dir_sink;
struct file_ops;
struct flock_list;
struct fs_type;
struct inode_ops;
struct pipe;
struct proc_entry;
struct poll_wait;
struct super;

/* The table of a directory in memory: a hash by name and a tree by cookie for readdir. */
struct dir_table {
    struct dentry **buckets; /* (D) NULL while empty */
    uint32_t bucket_mask;    /* (D) number of buckets - 1 */
    uint32_t count;          /* (D) entries */
    uint64_t next_cookie;    /* (D) counts down: the newest entry is listed first, as on Linux */
    struct vli_tree by_cookie;
};

struct inode {
    _Atomic uint32_t references;
    uint32_t mode; /* (M) S_IF* and permissions */
    uint32_t uid;  /* (M) */
    uint32_t gid;  /* (M) */
    _Atomic uint32_t links;
    uint32_t device;                 /* (C) what a device node names: major << 20 | minor */
    uint64_t number;                 /* (C) */
    struct super *super;             /* (C) holds a reference */
    const struct inode_ops *ops;     /* (C) */
    const struct file_ops *file_ops; /* (C) */
    struct mutex mutex;
    struct vli_spinlock spin;
    uint32_t flags;       /* (M) INODE_* */
    uint64_t accessed_ns; /* since 1970; torn reads are impossible on this CPU */
    uint64_t modified_ns;
    uint64_t changed_ns;
    uint64_t charged_pages; /* (M) of super->pages */
    union {
        struct vl_object *object; /* S_IFREG (C) */
        struct dir_table *table;  /* S_IFDIR (C); NULL in /proc */
        char *link;               /* S_IFLNK (C) */
        struct pipe *pipe;        /* S_IFIFO (I) NULL while nobody has it open */
    } u;
    const struct proc_entry *node_entry; /* /proc: what it shows (C) */
    uint64_t key;                        /* /proc: pid and the like (C) */
    struct dentry *alias;                /* (I) a name of a regular file, for maps; not counted */
    struct flock_list *locks;            /* (I) advisory locks, or NULL */
};
#define INODE_DEAD     1u /* a directory that was removed: nothing can be made in it */
#define INODE_LINKABLE 2u /* made by O_TMPFILE: may get its first link */

struct dentry {
    struct dentry *hash_next;        /* parent's (D) */
    struct vli_tree_node by_cookie;  /* parent's (D) */
    uint64_t cookie;                 /* parent's (D) */
    struct dentry *parent;           /* (D), counted; NULL: root of a file system, or nameless */
    struct inode *inode;             /* (C) counted */
    _Atomic(struct super *) mounted; /* what covers this; written under mounts' lock */
    _Atomic uint32_t references;
    struct name_lock lock; /* (D) */
    uint32_t hash;         /* parent's (D) */
    uint16_t name_len;     /* (D) */
    uint8_t is_hashed;     /* parent's (D): is in its table */
    uint8_t is_name_own;   /* (D): name was allocated apart */
    char *name;            /* (D) not ended by 0; points at inline_name if it fits */
    char inline_name[40];
};

/* One mounted file system. */
struct super {
    _Atomic uint32_t references; /* mounted, and one an inode */
    uint32_t device;             /* (C) st_dev */
    const struct fs_type *type;  /* (C) */
    struct dentry *root;         /* (C) counted while mounted */
    struct dentry *covers;       /* (D) of root; counted; NULL: the root file system */
    struct mutex rename_mutex;
    _Atomic uint64_t next_number;
    _Atomic int64_t pages; /* charged to files */
    int64_t pages_max;
    uint64_t flags; /* MS_* */
    char source[32];
    struct vli_list link; /* mounts' lock */
};

struct fs_type {
    const char *name;
    uint64_t magic; /* statfs */
    /* Make a file system: root dentry in super->root. 0 or an errno. */
    long (*fill)(struct super *super, const char *options);
};

/* What kinds of inodes do differently; every function may be NULL. */
struct inode_ops {
    /* Find @name in a directory that has no table. 0 and *@out with a reference; -ENOENT. */
    long (*lookup)(struct dentry *dir, const char *name, size_t len, struct dentry **out);
    /* List a directory that has no table. */
    long (*list)(struct file *file, struct dir_sink *sink);
    /* A new inode for a directory that can be changed. NULL: it cannot. */
    long (*make)(struct inode *dir, uint32_t mode, uint32_t device, const char *link,
                 struct inode **out);
    /* Text of a symbolic link. Returns its length or an errno. */
    long (*read_link)(struct inode *inode, char *out, size_t size);
    /* A link of /proc that leads to an object, not to a path. 0 and *@out with a reference. */
    long (*follow)(struct inode *inode, struct dentry **out);
    /* Opened or not? May refuse, and may set file->ops and file->private. */
    long (*open)(struct inode *inode, struct file *file);
    /* st_size and st_blocks where they are no object's. */
    uint64_t (*size)(struct inode *inode);
};

/* Where readdir puts an entry. Returns false when it has no room: stop. */
struct dir_sink {
    bool (*add)(struct dir_sink *sink, const char *name, size_t len, uint64_t next_pos,
                uint64_t inode, uint32_t mode);
};

struct file {
    _Atomic uint32_t references;
    _Atomic uint32_t flags;     /* O_*: access mode and status */
    const struct file_ops *ops; /* (C) */
    struct inode *inode;        /* (C) counted */
    struct dentry *dentry;      /* (C) counted, or NULL: nameless */
    uint64_t pos;               /* pos_mutex, if the file is seekable and shared */
    void *private_data;         /* (C) of ops */
    struct mutex pos_mutex;
    uint32_t owner_pid; /* F_SETOWN */
    uint32_t signal;    /* F_SETSIG */
};

/* What an open file does; NULL: -EINVAL, or as said. */
struct file_ops {
    const char *name; /* "pipe", "anon_inode:[eventpoll]": for nameless files */
    bool is_stream;   /* no position: lseek gives ESPIPE */
    bool is_endless;  /* the position means nothing: lseek gives 0 */
    long (*read)(struct file *file, struct user_iter *to, uint64_t *pos);
    long (*write)(struct file *file, struct user_iter *from, uint64_t *pos);
    long (*list)(struct file *file, struct dir_sink *sink);
    unsigned (*poll)(struct file *file, struct poll_wait *wait);      /* NULL: always ready */
    long (*ioctl)(struct file *file, unsigned command, uint64_t arg); /* NULL: ENOTTY */
    long (*map)(struct file *file, uint32_t prot, bool shared, struct vl_object **out_object,
                uint32_t *out_prot_max);                   /* NULL: ENODEV */
    void (*release)(struct file *file);                    /* last reference */
    void (*flush)(struct file *file, struct files *files); /* each close of a descriptor */
};

/* ------------------------------------------------------------------------------ inodes */

/** inode_make() - an inode of @super with one link and one reference; owner from the running
 * process. Its union member is for the caller to set. NULL: no memory. */
struct inode *inode_make(struct super *super, uint32_t mode, const struct inode_ops *ops,
                         const struct file_ops *file_ops);
/** inode_get() - one more reference. Context: any. */
static inline void inode_get(struct inode *inode)
{
    atomic_fetch_add_explicit(&inode->references, 1, memory_order_relaxed);
}
/** inode_put() - drop one; the last frees the inode, its pages as soon as no mapping has them. */
void inode_put(struct inode *inode);
/** inode_permission() - may the running process do @mask (MAY_*)? 0 or -EACCES. */
long inode_permission(const struct inode *inode, unsigned mask);
/** inode_permission_ids() - the same for given user and group ids (access(2): the real ones). */
long inode_permission_ids(const struct inode *inode, unsigned mask, uint32_t uid, uint32_t gid);
/** inode_is_owner() - is the running process its owner or root? */
bool inode_is_owner(const struct inode *inode);
/** inode_touch() - set times to now: a set of TOUCH_*. */
void inode_touch(struct inode *inode, unsigned which);
#define TOUCH_ACCESS 1u
#define TOUCH_MODIFY 2u
#define TOUCH_CHANGE 4u
/** inode_charge() - tell the file system how many pages @inode holds now. inode->mutex is held. */
void inode_charge(struct inode *inode);
/** inode_set_size() - truncate or extend a regular file. 0 or an errno. Takes inode->mutex. */
long inode_set_size(struct inode *inode, uint64_t size);
/** inode_set_size_locked() - the same; inode->mutex is held. */
long inode_set_size_locked(struct inode *inode, uint64_t size);
/** inode_size() - st_size. Context: any. */
uint64_t inode_size(struct inode *inode);

static inline bool inode_is(const struct inode *inode, uint32_t type)
{
    return (inode->mode & S_IFMT) == type;
}

/* ----------------------------------------------------------------------------- dentries */

/** dentry_make() - a dentry that is in no table; takes a reference on @inode, and on @parent if
 * there is one. NULL: no memory. */
struct dentry *dentry_make(struct dentry *parent, const char *name, size_t len,
                           struct inode *inode);
static inline void dentry_get(struct dentry *dentry)
{
    atomic_fetch_add_explicit(&dentry->references, 1, memory_order_relaxed);
}
/** dentry_put() - drop a reference; NULL is allowed. */
void dentry_put(struct dentry *dentry);
/** dentry_find() - the entry of a directory's table, with a reference, or NULL. */
struct dentry *dentry_find(struct dentry *dir, const char *name, size_t len);
/** dentry_lookup() - the same for any directory, /proc's too. 0; -ENOENT; other errnos. */
long dentry_lookup(struct dentry *dir, const char *name, size_t len, struct dentry **out);
/** dentry_add() - put a new dentry into its parent's table, whose mutex is held. 0; -ENOMEM. */
long dentry_add(struct dentry *dentry);
/** dentry_remove() - take it out of its parent's table, whose mutex is held; drops the table's
 * reference. */
void dentry_remove(struct dentry *dentry);
/** dentry_move() - give @dentry the place @name in @dir, displacing @displaced (NULL: nothing) in
 * the same step. Mutexes of both directories are held. 0; -ENOMEM: nothing changed. */
long dentry_move(struct dentry *dentry, struct dentry *dir, const char *name, size_t len,
                 struct dentry *displaced);
/** dentry_exchange() - swap the places of two. Mutexes of both directories are held. 0; -ENOMEM. */
long dentry_exchange(struct dentry *first, struct dentry *second);
/** dentry_parent() - what ".." means there, mounts and @root considered; with a reference. */
struct dentry *dentry_parent(struct dentry *dentry, struct dentry *root);
/** dentry_path() - absolute path as seen from @root. Returns its length, or -ENAMETOOLONG.
 * *@out_state says whether it is deleted or outside of @root. */
enum path_state { PATH_LIVE, PATH_DELETED, PATH_OUTSIDE };
long dentry_path(struct dentry *dentry, struct dentry *root, char *out, size_t size,
                 enum path_state *out_state);
/** dentry_uncover() - the root of what is mounted on @dentry, and so on; consumes the reference
 * and returns another. */
struct dentry *dentry_uncover(struct dentry *dentry);
/** dentry_is_empty() - a directory without entries. Its mutex is held. */
bool dentry_is_empty(struct dentry *dir);
/** dentry_list() - entries of a directory's table from file->pos on, into @sink. */
long dentry_list(struct file *file, struct dir_sink *sink);

/* ----------------------------------------------------------------------------- the walk */

#define WALK_FOLLOW    1u /* follow a symbolic link at the end */
#define WALK_DIRECTORY 2u /* the end must be a directory */

/* Where a name is to be made or removed: what path_parent() found. */
struct path_end {
    struct dentry *dir; /* counted: end with dentry_put() */
    const char *name;   /* within the path, or within @link */
    size_t len;
    enum { END_NAME, END_DOT, END_DOTDOT, END_ROOT } kind;
    bool has_slash; /* the path ended in '/' */
    char *link;     /* a link's text that name points into: kfree'd by path_end_put() */
};

/** path_start() - the directory that @path starts at: with a reference. @dirfd: AT_FDCWD or a
 * descriptor. 0; -EBADF; -ENOTDIR. */
long path_start(int dirfd, const char *path, struct dentry **out);
/** path_lookup() - what @path names. 0 and *@out with a reference; the errno that Linux gives. */
long path_lookup(int dirfd, const char *path, unsigned flags, struct dentry **out);
/** path_lookup_at() - path_lookup() from a given directory; no reference of it is consumed. */
long path_lookup_at(struct dentry *start, const char *path, unsigned flags, struct dentry **out);
/** path_parent() - the directory that the last name of @path stands in. End with path_end_put(). */
long path_parent(int dirfd, const char *path, struct path_end *out);
/** path_parent_at() - the same from a given directory. */
long path_parent_at(struct dentry *start, const char *path, struct path_end *out);
void path_end_put(struct path_end *end);
/** fs_root() - root directory of the running process, with a reference. */
struct dentry *fs_root(void);

/* ------------------------------------------------------------------- changes of the names */

/** node_make() - make @end.name: a file of type and permissions @mode (umask not applied).
 * @link: a symbolic link's text. @out: the new dentry with a reference, or NULL if not wanted.
 * 0; -EEXIST and the rest as Linux. */
long node_make(struct path_end *end, uint32_t mode, uint32_t device, const char *link,
               struct dentry **out);
/** node_make_locked() - the same with the directory's mutex held; the name was looked for. */
long node_make_locked(struct dentry *dir, const char *name, size_t len, uint32_t mode,
                      uint32_t device, const char *link, struct dentry **out);
long node_remove(struct path_end *end, bool directory);
long node_link(struct dentry *source, struct path_end *end);
#define RENAME_NOREPLACE 1u
#define RENAME_EXCHANGE  2u
long node_rename(struct path_end *from, struct path_end *to, unsigned flags);

/* --------------------------------------------------------------------------------- files */

/** file_make() - an open file on @inode (a reference is taken), nameless. NULL: no memory. */
struct file *file_make(struct inode *inode, const struct file_ops *ops, unsigned flags,
                       void *private_data);
/** dentry_open() - open what @dentry names; permissions were checked. O_TRUNC is done here. */
long dentry_open(struct dentry *dentry, unsigned flags, struct file **out);
/** file_open_at() - open(2) on a kernel path. */
long file_open_at(int dirfd, const char *path, unsigned flags, unsigned mode, struct file **out);
/** anon_file_make() - an open file on nothing in particular: eventfd, epoll. */
long anon_file_make(const struct file_ops *ops, unsigned flags, void *private_data,
                    struct file **out);

/** dentry_of_file() - its dentry, or a new one that only carries a name; with a reference. */
long dentry_of_file(struct file *file, struct dentry **out);
/** dentry_path_text() - path from the running process's root, with " (deleted)" where it belongs.
 */
long dentry_path_text(struct dentry *dentry, char *out, size_t size);

/* --------------------------------------------------------------------------------- mounts */

/* Flags of mount(2). */
#define MS_RDONLY       1u
#define MS_NOSUID       2u
#define MS_NODEV        4u
#define MS_NOEXEC       8u
#define MS_REMOUNT      32u
#define MS_NOATIME      1024u
#define MS_BIND         4096u
#define MS_MOVE         8192u
#define MS_PROPAGATION  0x1e0000u /* unbindable, private, slave, shared */
#define MNT_DETACH      2u
#define UMOUNT_NOFOLLOW 8u

/** mount_type() - mount(2) of a new file system of @type on directory @target. */
long mount_type(const char *source, const char *target, const char *type, uint64_t flags,
                const char *options);
/** mount_change() - mount(2) with MS_REMOUNT or a propagation. */
long mount_change(const char *target, uint64_t flags);
/** mount_detach() - umount2(2). */
long mount_detach(const char *target, unsigned flags);
/** mount_root() - make the root file system. Once, at start-up. */
void mount_root(void);
/** mount_limit_root() - from now on it may hold half of memory, as Linux's. */
void mount_limit_root(void);
/** mount_each() - call @see for each mounted file system, in order of mounting. */
void mount_each(void (*see)(struct super *super, void *arg), void *arg);
void super_put(struct super *super);
struct super *root_super(void);
/** super_internal() - the file system of pipes and other nameless files. */
struct super *super_internal(void);

extern const struct fs_type devtmpfs_type, procfs_type, sysfs_type;
/* All that can be mounted, ended by NULL. */
extern const struct fs_type *const fs_types[];
extern const struct file_ops file_ops_regular, file_ops_directory, file_ops_fifo;
extern const struct inode_ops inode_ops_ram;

/** device_open() - find the driver of a device node and open it: file->ops, file->private_data.
 * @is_plain: O_NOCTTY, a terminal does not become the controlling one. 0; -ENXIO. */
long device_open(struct inode *inode, struct file *file, bool is_plain);
#define DEVICE(major, minor) (((uint32_t)(major) << 20) | (uint32_t)(minor))

#endif
