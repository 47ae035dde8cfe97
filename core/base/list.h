/*
 * list.h - circular doubly linked lists whose links are embedded in the elements.
 */
#ifndef VLI_LIST_H
#define VLI_LIST_H

#include "core/base/compiler.h"

struct vli_list {
    struct vli_list *next;
    struct vli_list *prev;
};

#define VLI_LIST_INIT(name)                                                                        \
    {                                                                                              \
        &(name), &(name)                                                                           \
    }

static inline void vli_list_init(struct vli_list *head)
{
    head->next = head;
    head->prev = head;
}

static inline bool vli_list_is_empty(const struct vli_list *head)
{
    return head->next == head;
}

/** vli_list_insert_after() - put @node behind @at, which may be a head (then it becomes first). */
static inline void vli_list_insert_after(struct vli_list *at, struct vli_list *node)
{
    node->prev = at;
    node->next = at->next;
    at->next->prev = node;
    at->next = node;
}

/** vli_list_insert_before() - put @node before @at, which may be a head (then it becomes last). */
static inline void vli_list_insert_before(struct vli_list *at, struct vli_list *node)
{
    vli_list_insert_after(at->prev, node);
}

/** vli_list_remove() - take @node out; it becomes a list of its own, so that removing twice does no
 * harm. */
static inline void vli_list_remove(struct vli_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    vli_list_init(node);
}

/** vli_list_splice() - move all of @from to the front of @to; @from is left empty. */
static inline void vli_list_splice(struct vli_list *from, struct vli_list *to)
{
    if (vli_list_is_empty(from)) {
        return;
    }
    from->next->prev = to;
    from->prev->next = to->next;
    to->next->prev = from->prev;
    to->next = from->next;
    vli_list_init(from);
}

#define vli_list_entry(node, type, member) vli_container_of(node, type, member)
#define vli_list_first(head, type, member) vli_list_entry((head)->next, type, member)
#define vli_list_last(head, type, member)  vli_list_entry((head)->prev, type, member)

#define vli_list_each(pos, head) for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
/* @next holds the following node, so that the body may remove @pos. */
#define vli_list_each_safe(pos, tmp, head)                                                         \
    for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head);                               \
         (pos) = (tmp), (tmp) = (pos)->next)

#endif
