/*
 * local.pml - the protocol of SLAB=local as a Spin model: one CPU's {list, id} changed by one
 * unlocked compare-and-exchange, beside interrupts, moves to another CPU and frees by others.
 *
 * What runs: two threads (THREADS), and interrupts on both CPUs. A thread allocates and frees for
 * ever; each of its steps is made on any CPU, so it may have moved, or yielded to the other thread,
 * before any of them, as long as its interrupts are on. An interrupt strikes before any step, on any
 * CPU whose interrupts are on, as often as it likes; it allocates, frees, or gives up its CPU's slab
 * (the call that vli_slab_flush() sends). Anyone may free what anyone allocated, so frees from other
 * CPUs are among these. Three units, in one slab (SLABS=1) or in two, of two and one (SLABS=2).
 * Nothing bounds the number of operations: the states are finite, and all are visited.
 *
 * A step is one access to memory that others see. What nobody else can see is no step of its own:
 * what an interrupt's fast path does, since nothing else runs on its CPU; what slow paths do to
 * their own CPU's slot with interrupts off (a thread that peeked at this slot and moved away sees
 * it, but its exchange fails); what is done under the node's lock, but for its one change of W; the
 * loop of a compare-and-exchange that depends on nothing but the word it read.
 *
 * The code, and its step here:
 *
 *      vli_slot_pop(), vli_slot_push()   slot_pop, slot_push: slot_pair.h; LOCAL1: local1's
 *      vli_slot_exchange()               exchange
 *      slot_set()                        SLOT_SET
 *      word_take()                       WORD_TAKE
 *      slab_give()                       slab_give, with give_word() and give_locked()
 *      slot_leave()                      slot_empty, then slab_give
 *      vli_slab_alloc_slow()             alloc_slow, with slot_take(), slot_from_partial() and
 *                                        slot_install()
 *      slab_new(), slab_release()        slab_new, slab_release
 *
 * Addresses: unit u is at u; slab 1 begins at 1, slab 2 at 3. 0 is no unit. A unit in use has JUNK
 * where a free one has its link, and so has memory that is no slab.
 *
 * The id does not repeat in 2^64 changes (local1's count: 2^32). That is modelled as what it is
 * good for: seen[p] says of which CPU process p has read the id, and each change of that CPU's slot
 * takes this away. So ids need no numbers, and the states are finite.
 *
 * Memory is in order: a slot's words are written by its CPU alone, which sees its own writes; a
 * thread that moves has the scheduler's barriers on its way; W is changed by locked instructions.
 *
 * Checked: a unit given out is in nobody's hand; links lead to units; memory is read where there is
 * some; and whenever nobody is at work, each unit of each slab is in exactly one hand or list, and
 * each slab in the state that its lists say (check_slab()).
 *
 * LOCAL1: the one-word form, {offset, count}, with preemption off. Mutants, each of which must be
 * caught: NO_ID: the exchange compares the list alone. ID_LATE: the id is read after the link.
 * PUSH_APART: push reads each word of the CPU that it is on then. NO_IRQ_OFF: slow paths leave
 * interrupts on. BLIND_STORE: W is written without comparing. NO_RECHECK (with LOCAL1): pop trusts
 * a base that may be another slab's than the word's.
 */
#ifndef SLABS
#define SLABS 2
#endif

#ifndef THREADS
#define THREADS 2
#endif

#define UNITS     3
#define JUNK      7
#define INTERRUPT THREADS /* number of the process; those below are the threads */
#define BASE(s)   ((s) == 1 -> 1 : 3)
#if SLABS == 2
#define LEN(s)    ((s) == 1 -> 2 : 1)
#define SLAB(u)   ((u) == 3 -> 2 : 1)
#else
#define LEN(s)    3
#define SLAB(u)   1
#endif

byte slot_list[2], slot_base[2], slot_bytes[2];
byte link[UNITS + 1];
byte word_head[SLABS + 1], word_free[SLABS + 1]; /* W: list, how many, frozen */
bool word_frozen[SLABS + 1];
bool exists[SLABS + 1]; /* the slab's memory is a slab */
byte partial[2];        /* the node's list, in order; 0: none */
bool in_hand[UNITS + 1];

bool taken[2];  /* the CPU runs somebody with interrupts off */
bool pinned[2]; /* LOCAL1: a thread with preemption off */
byte seen[3];   /* 1 + the CPU whose id the process has read, if that has not changed since */
bool busy[3];

/* The registers of a process; 0 when it does not need them. */
#define LOCALS                                                                                     \
    byte c, peeked, unit, list, next, base, slab, fresh_slab, first, last, count, at;              \
    byte old_head, old_free, fresh_head, fresh_free;                                               \
    bool leaves, old_frozen, fresh_frozen, done

/* A step on any CPU where it can be made: c. An interrupt stays where it struck. */
#define MAY_RUN(n) (!taken[n] && !pinned[n])
#define SOMEWHERE                                                                                  \
    if                                                                                             \
    :: _pid != INTERRUPT && MAY_RUN(0) -> c = 0                                                    \
    :: _pid != INTERRUPT && MAY_RUN(1) -> c = 1                                                    \
    :: _pid == INTERRUPT                                                                           \
    fi
#define GONE c = (_pid == INTERRUPT -> c : 0)

/* Turns interrupts off: from here it stays on c. */
#ifdef NO_IRQ_OFF
#define IRQ_SAVE    SOMEWHERE
#define IRQ_RESTORE GONE
#else
#define IRQ_SAVE    SOMEWHERE; taken[c] = true
#define IRQ_RESTORE taken[c] = (_pid == INTERRUPT); GONE
#endif

/* Slot c changed: every id that was read of it is an old one. */
#define CHANGED                                                                                    \
    seen[0] = (seen[0] == c + 1 -> 0 : seen[0]);                                                   \
    seen[1] = (seen[1] == c + 1 -> 0 : seen[1]);                                                   \
    seen[2] = (seen[2] == c + 1 -> 0 : seen[2])

#ifdef NO_ID
#define SAME_ID true
#else
#define SAME_ID (seen[_pid] == c + 1)
#endif
#define FORGET_ID seen[_pid] = 0

/* One unlocked compare-and-exchange of slot c. */
inline exchange(old, fresh)
{
    if
    :: slot_list[c] == old && SAME_ID ->
        assert(fresh <= UNITS);
        slot_list[c] = fresh;
        CHANGED;
        done = true
    :: else -> done = false
    fi;
    FORGET_ID
}

/* ---- fast paths; they go on at got or slow, at put or give ---- */

#define POPPED                                                                                     \
    if                                                                                             \
    :: done -> done = false; goto got                                                              \
    :: else -> unit = 0; goto slow                                                                 \
    fi
#define IS_IN_SLAB(n) (unit >= slot_base[n] && unit - slot_base[n] < slot_bytes[n])
#define PUSHED                                                                                     \
    if                                                                                             \
    :: done -> goto put                                                                            \
    :: else -> GIVE_ONE; goto give                                                                 \
    fi
#define GIVE_ONE slab = SLAB(unit); first = unit; last = unit; count = 1; unit = 0

#define SOME_IN_HAND (in_hand[1] || in_hand[2] || in_hand[3])
/* A unit in use to be freed, whoever got it. */
inline pick()
{
    if
    :: in_hand[1] -> unit = 1
    :: in_hand[2] -> unit = 2
    :: in_hand[3] -> unit = 3
    fi;
    in_hand[unit] = false;
    busy[_pid] = true
}

#ifdef LOCAL1
#define PIN   SOMEWHERE; pinned[c] = (pinned[c] || _pid != INTERRUPT)
#define UNPIN pinned[c] = (_pid == INTERRUPT -> pinned[c] : false); GONE

#ifdef NO_RECHECK
#define WORD_STANDS true
#else
#define WORD_STANDS (seen[_pid] == c + 1)
#endif

/* The word is {offset, count}: @list is the offset of the first unit plus 1; the count is the id.
 * While the word stands, the slab's base is the one that the offset counts from. */
#define LOAD_WORD                                                                                  \
    list = (slot_list[c] == 0 -> 0 : slot_list[c] - slot_base[c] + 1);                             \
    seen[_pid] = c + 1

inline slot_pop()
{
    atomic { PIN; LOAD_WORD; busy[_pid] = true }
    atomic { base = slot_base[c]; unit = (list == 0 -> 0 : base + list - 1); list = 0 }
    atomic {
        if
        :: unit == 0 || !WORD_STANDS -> unit = 0; base = 0; FORGET_ID; UNPIN; goto slow
        :: else -> assert(base != 0 && unit <= UNITS); base = 0
        fi
    }
    next = link[unit];
    atomic {
        exchange(unit, next);
        next = 0;
        UNPIN;
        POPPED
    }
}

inline slot_push()
{
    atomic { SOME_IN_HAND -> PIN; pick(); list = slot_list[c]; seen[_pid] = c + 1 }
    atomic { /* whatever changes between base and bytes makes the exchange fail, too */
        if
        :: IS_IN_SLAB(c) -> link[unit] = list
        :: else -> list = 0; FORGET_ID; UNPIN; PUSHED
        fi
    }
    atomic { exchange(list, unit); list = 0; UNPIN; PUSHED }
}
#else

inline slot_pop()
{
#ifndef ID_LATE
    atomic { SOMEWHERE; seen[_pid] = c + 1; GONE; busy[_pid] = true }
#endif
    atomic {
        SOMEWHERE;
        unit = slot_list[c];
        GONE;
        busy[_pid] = true;
        if
        :: unit == 0 -> FORGET_ID; goto slow
        :: else
        fi
    }
    next = link[unit];
#ifdef ID_LATE
    atomic { SOMEWHERE; seen[_pid] = c + 1; GONE }
#endif
    atomic {
        SOMEWHERE;
        exchange(unit, next);
        next = 0;
        GONE;
        POPPED
    }
}

/* vli_percpu_peek(): the pointer first, then everything through it. */
#ifdef PUSH_APART
#define PEEKED c
#else
#define PEEKED peeked
#endif

inline slot_push()
{
    atomic { SOME_IN_HAND -> SOMEWHERE; peeked = c; GONE; seen[_pid] = peeked + 1; pick() }
    atomic { /* whatever changes between base and bytes makes the exchange fail, too */
        SOMEWHERE;
        if
        :: IS_IN_SLAB(PEEKED) -> GONE
        :: else -> peeked = 0; FORGET_ID; GONE; PUSHED
        fi
    }
    atomic { SOMEWHERE; list = slot_list[PEEKED]; GONE; peeked = 0; link[unit] = list }
    atomic { SOMEWHERE; exchange(list, unit); list = 0; GONE; PUSHED }
}
#endif

/* ---- slow paths ---- */

#define SLOT_SET(b, n, l) slot_base[c] = b; slot_bytes[c] = n; slot_list[c] = l; CHANGED

#define LOAD_OLD(s) old_head = word_head[s]; old_free = word_free[s]; old_frozen = word_frozen[s]
#ifdef BLIND_STORE
#define IS_OLD(s) true
#else
#define IS_OLD(s)                                                                                  \
    (word_head[s] == old_head && word_free[s] == old_free && word_frozen[s] == old_frozen)
#endif
#define FORGET_WORDS                                                                               \
    old_head = 0; old_free = 0; old_frozen = false; fresh_head = 0; fresh_free = 0;                \
    fresh_frozen = false

/* All that W's list has. */
#define WORD_TAKE(s, l)                                                                            \
    l = word_head[s]; word_head[s] = 0; word_free[s] = 0; word_frozen[s] = true

inline partial_remove(s)
{
    assert(partial[0] == s || partial[1] == s);
    if
    :: partial[0] == s -> partial[0] = partial[1]
    :: else
    fi;
    partial[1] = 0
}

inline partial_add(s, to_end)
{
    assert(partial[1] == 0 && partial[0] != s);
    if
    :: to_end && partial[0] != 0 -> partial[1] = s
    :: else -> partial[1] = partial[0]; partial[0] = s
    fi
}

/* Cuts the memory of slab @s into units, frozen. Nobody else knows of it. */
inline slab_new(s)
{
    exists[s] = true;
    at = BASE(s);
    do
    :: at < BASE(s) + LEN(s) -> link[at] = (at + 1 < BASE(s) + LEN(s) -> at + 1 : 0); at++
    :: else -> break
    od;
    at = 0;
    word_head[s] = BASE(s);
    word_free[s] = LEN(s);
    word_frozen[s] = true
}

/* Back to frame: what was there is not a slab any more. */
inline slab_release(s)
{
    assert(word_free[s] == LEN(s));
    exists[s] = false;
    word_head[s] = 0;
    word_free[s] = 0;
    word_frozen[s] = false;
    at = BASE(s);
    do
    :: at < BASE(s) + LEN(s) -> assert(!in_hand[at]); link[at] = JUNK; at++
    :: else -> break
    od;
    at = 0
}

#define OLD_LISTED   (!old_frozen && old_free != 0)
#define FRESH_LISTED (!fresh_frozen && fresh_free != 0)

/* The list first…last of @count units goes to W of @slab; @leaves: the CPU leaves the slab. */
inline slab_give()
{
    do
    :: atomic { /* give_word(); the last unit is still the giver's own */
           LOAD_OLD(slab);
           fresh_frozen = (leaves -> false : old_frozen);
           fresh_free = old_free + count;
           fresh_head = (count == 0 -> old_head : first);
           if
           :: count != 0 -> link[last] = old_head
           :: else
           fi
       }
       atomic {
           if
           :: IS_OLD(slab) ->
               word_head[slab] = fresh_head;
               word_free[slab] = fresh_free;
               word_frozen[slab] = fresh_frozen;
               if
               :: FRESH_LISTED && (!OLD_LISTED || fresh_free == LEN(slab)) -> /* give_locked() */
                   if
                   :: OLD_LISTED -> partial_remove(slab)
                   :: else
                   fi;
                   if /* few empty slabs are kept; how many does not matter here */
                   :: fresh_free == LEN(slab) -> slab_release(slab)
                   :: partial_add(slab, fresh_free == LEN(slab))
                   fi
               :: else
               fi;
               FORGET_WORDS;
               slab = 0; first = 0; last = 0; count = 0; leaves = false;
               break
           :: else -> FORGET_WORDS
           fi
       }
    od
}

/* slot_leave() up to its slab_give(). */
inline slot_empty()
{
    leaves = true;
    slab = SLAB(slot_base[c]);
    first = slot_list[c];
    at = first;
    do
    :: at != 0 -> assert(at <= UNITS); last = at; count++; at = link[at]
    :: else -> break
    od;
    SLOT_SET(0, 0, 0)
}

/* @unit off a list whose rest is the slot's from now on. */
#define TAKE                                                                                       \
    assert(unit != 0 && unit <= UNITS && link[unit] <= UNITS); slot_list[c] = link[unit]; CHANGED

inline alloc_slow()
{
    atomic {
        IRQ_SAVE;
        unit = slot_list[c];
        if
        :: unit != 0 -> TAKE; IRQ_RESTORE; goto got
        :: unit == 0 && slot_bytes[c] == 0 -> goto look
        :: else
        fi
    }
    atomic {
        WORD_TAKE(SLAB(slot_base[c]), unit);
        if
        :: unit != 0 -> TAKE; IRQ_RESTORE; goto got
        :: else -> slot_empty() /* full, unless somebody frees into it just now */
        fi
    }
    slab_give();
look:
    atomic { /* slot_from_partial(); or else slab_new(), with interrupts on again */
        if
        :: partial[0] != 0 ->
            slab = partial[0];
            partial_remove(slab);
            WORD_TAKE(slab, unit);
            SLOT_SET(BASE(slab), LEN(slab), unit);
            slab = 0;
            TAKE;
            IRQ_RESTORE;
            goto got
        :: else
        fi;
        IRQ_RESTORE;
        if
        :: !exists[1] -> fresh_slab = 1; slab_new(1)
#if SLABS == 2
        :: !exists[2] -> fresh_slab = 2; slab_new(2)
#endif
        :: goto got /* there is no memory */
        fi
    }
    atomic { /* slot_install() */
        IRQ_SAVE;
        if
        :: slot_bytes[c] != 0 -> slot_empty()
        :: else -> goto install
        fi
    }
    slab_give();
install:
    atomic {
        WORD_TAKE(fresh_slab, unit);
        SLOT_SET(BASE(fresh_slab), LEN(fresh_slab), unit);
        fresh_slab = 0;
        TAKE;
        IRQ_RESTORE;
        goto got
    }
}

/* ---- what is checked ---- */

/* Counts the units of a list that lies in slab @s. */
inline walk(from, s)
{
    at = from;
    do
    :: at != 0 ->
        assert(at <= UNITS);
        assert(SLAB(at) == s);
        assert(!in_hand[at]);
        count++;
        assert(count <= LEN(s)); /* a unit in two lists, or a ring, would count more */
        at = link[at]
    :: else -> break
    od
}

inline check_slab(s)
{
    if
    :: exists[s] ->
        count = 0;
        walk(word_head[s], s);
        assert(count == word_free[s]);
        last = 0; /* CPUs whose slab it is */
        if
        :: slot_base[0] == BASE(s) -> last++; walk(slot_list[0], s)
        :: else
        fi;
        if
        :: slot_base[1] == BASE(s) -> last++; walk(slot_list[1], s)
        :: else
        fi;
        assert(last <= 1);
        assert(word_frozen[s] == last);
        at = BASE(s);
        do
        :: at < BASE(s) + LEN(s) -> count = count + in_hand[at]; at++
        :: else -> break
        od;
        assert(count == LEN(s));
        assert((partial[0] == s || partial[1] == s) == (!word_frozen[s] && word_free[s] != 0))
    :: else -> assert(partial[0] != s && partial[1] != s)
    fi
}

/* This one is done. When nobody is at work, everything is somewhere, once. */
inline finish()
{
    busy[_pid] = false;
    if
    :: !busy[0] && !busy[1] && !busy[2] ->
        check_slab(1);
#if SLABS == 2
        check_slab(2);
#endif
        at = 0;
        count = 0;
        last = 0
    :: else
    fi
}

/* ---- who does it ---- */

inline allocated()
{
    if
    :: unit != 0 -> assert(unit <= UNITS && !in_hand[unit]); in_hand[unit] = true; link[unit] = JUNK
    :: else
    fi;
    unit = 0;
    finish()
}

inline freed()
{
    unit = 0;
    done = false;
    finish()
}

active [THREADS] proctype thread()
{
    LOCALS;
quiet:
    if
    :: slot_pop()
    :: slot_push()
    fi;
slow:
    skip;
    alloc_slow();
got:
    atomic { allocated(); goto quiet }
give:
    slab_give();
put:
    atomic { freed(); goto quiet }
}

active proctype interrupt()
{
    LOCALS;
quiet:
    atomic {
        if
        :: !taken[0] -> c = 0
        :: !taken[1] -> c = 1
        fi;
        taken[c] = true;
        if
        :: slot_pop()
        :: slot_push()
        :: slot_bytes[c] != 0 -> /* flush_cpu() */
            slot_empty();
            busy[_pid] = true;
            goto give
        fi
    }
slow:
    atomic { alloc_slow() }
got:
    atomic { allocated(); goto leave }
give:
    atomic { slab_give() }
put:
    atomic {
        freed();
leave:
        taken[c] = false;
        c = 0;
        goto quiet
    }
}

