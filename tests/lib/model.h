/*
 * model.h - the plainest address space: an array of pages, each with its rights and two words.
 *
 * It knows no areas, no page tables, no sharing of frames: fork copies every private word, a shared
 * page looks its words up in the object. What the core does must look like this from outside.
 */
#ifndef TESTS_MODEL_H
#define TESTS_MODEL_H

#include <vellum/vellum.h>

#define MODEL_PAGES_MAX   4096u
#define MODEL_OBJECTS_MAX 64u
#define MODEL_INDEX_MAX   160u /* pages that an object may have */
/* The words of a page that are looked at: at its first and at its last 8 bytes. */
#define MODEL_WORDS     2u
#define MODEL_STACK_MAX 2048u /* the default limit, 8 MiB */
#define MODEL_GUARD     256u

/* What backs shared pages, and private ones that nobody wrote to. */
struct model_object {
    struct vl_object *real; /* NULL: anonymous shared memory, or nobody can reach it any more */
    bool is_used;
    uint64_t size;
    uint64_t word[MODEL_INDEX_MAX][MODEL_WORDS];
};

struct model_page {
    uint64_t number; /* virtual page */
    uint32_t prot;
    uint32_t prot_max;
    bool is_shared;
    bool is_stack;
    bool is_own;    /* private and written to: the words below are its contents */
    uint8_t object; /* number + 1; 0: anonymous */
    uint32_t index; /* in the object */
    uint64_t word[MODEL_WORDS];
};

struct model_space {
    struct model_page page[MODEL_PAGES_MAX]; /* ascending */
    unsigned count;
    vl_va brk_start, brk_end;
};

/** model_find() - the page, or NULL when nothing is mapped there. */
struct model_page *model_find(struct model_space *space, uint64_t number);
/** model_lower() - position of the first page at or above @number. */
unsigned model_lower(const struct model_space *space, uint64_t number);
/** model_is_free() - is nothing mapped in the @count pages from @number on? */
bool model_is_free(const struct model_space *space, uint64_t number, uint64_t count);
/** model_remove() - unmap; holes are no error. */
void model_remove(struct model_space *space, uint64_t number, uint64_t count);
/** model_add() - map @count pages like @like, whose index counts up; what was there goes. */
void model_add(struct model_space *space, const struct model_page *like, uint64_t number,
               uint64_t count);
/** model_fits() - is there room for so many pages more? */
bool model_fits(const struct model_space *space, uint64_t count);
/** model_copy() - fork. */
void model_copy(struct model_space *to, const struct model_space *from);

/**
 * model_grow() - an access meets nothing at @number: does a stack above grow down to it? As Linux
 * does it: within MODEL_STACK_MAX pages, with 256 pages free below unless another stack or memory
 * that cannot be accessed lies there. True when the page is mapped now.
 */
bool model_grow(struct model_space *space, uint64_t number);

/** model_access() - what an access of a program must give, as vl_space_fault() says it. */
enum vl_status model_access(const struct model_object *objects, const struct model_page *page,
                            uint32_t access);
/** model_word() - where the contents of a mapped page's word are now. */
uint64_t *model_word(struct model_object *objects, struct model_page *page, unsigned which);
/** model_write() - a program writes the word; a private page becomes its own. */
void model_write(struct model_object *objects, struct model_page *page, unsigned which,
                 uint64_t value);
/** model_lose() - pages [@first, @end) of the object leave every mapping of the space. */
void model_lose(struct model_space *space, uint8_t object, uint64_t first, uint64_t end);

#endif
