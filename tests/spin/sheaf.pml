/*
 * sheaf.pml - the protocol of SLAB=sheaf as a Spin model: a CPU's sheaf of units that changes by
 * restartable ranges, whole sheaves that are exchanged with a spare and a barn, and the taking of
 * all that a CPU keeps.
 *
 * What runs: THREADS threads, which allocate and free for ever; each of their steps is made on any
 * of two CPUs, so they may have moved, or been preempted by each other, before any of them. Anyone
 * may free what anyone allocated. Three units; sheaves that hold CAPACITY; memory for two sheaves,
 * so that there may be none left. Two forms, as in the code:
 *
 *  - the kernel's (arch/restart.h): an interrupt strikes before any step, on any CPU, as often as
 *    it likes, and allocates, frees, or gives up what its CPU keeps (flush_cpu()). A range reads
 *    and writes the words of the CPU that it is on.
 *  - RSEQ, the malloc face's (arch/rseq.h): a range finds its CPU's area in a table; a thread
 *    drains any CPU's area: it puts the stopped area into the table, has Linux restart all ranges
 *    (membarrier), takes what is there, and puts the area back (malloc/thread.c).
 *
 * The second thread takes and gives alone what its CPU's sheaf does not serve, as who has run out
 * of tries; with FINE it exchanges sheaves, too: many times as many states.
 *
 * A range goes back to its start when, since its last step, anything else ran on its CPU, or it
 * moved, or a barrier was asked for: range[p], the CPU of p's range, is 0 then. (That it may also
 * go back for no reason needs no steps: it is as if it had not begun.)
 *
 * A step is one access to memory that others see. What is done under the node's lock is one, and so
 * is all that an interrupt does: nothing else runs on its CPU, and with other CPUs it shares only
 * those locked parts, which are made one by one by threads. The code, and its step here:
 *
 *      vli_slot_pop(), _push(), _swap()  slot_pop, slot_push, slot_swap
 *      refill(), make_room(), use(), park()   exchange_sheaf: core/slab/sheaf/sheaf.c
 *      vli_barn_full(), _vacant(), _put()  find_full, find_vacant, barn_put: core/slab/sheaf/barn.c
 *      vli_unit_take(), _give()          alone; sheaf_new(), sheaf_end(), and the barn's empty
 *                                        sheaves: a block that is AWAY
 *      vli_slabs_take(), _give()         TAKE_BIT, give_bit: a unit is free in its slab
 *      drain_sheaf()                     drain_sheaf
 *      vli_sheaf_areas()                 drain, one CPU at a time
 *
 * A top is the number of its block times 4, plus the units that the sheaf holds; 0 is
 * VLI_SHEAF_NONE, empty for who takes and full for who gives. A place that was taken from has JUNK:
 * the code leaves the unit there, but who relied on it would be at fault as well. Slabs neither
 * come nor go: that is under the lock, too. After one exchange in which others were quicker a unit
 * is taken or given alone; TRIES in the code is more, of the same.
 *
 * Checked: a unit that is given out is in nobody's hand; nothing is taken that was not put there;
 * no sheaf over- or underflows; a unit that goes back to its slab is not there already; and
 * whenever nobody is at work, each unit is in exactly one hand, sheaf or slab, and each block in
 * one place.
 *
 * Mutants, each of which must be caught: NO_RESTART: ranges go on where they were. EARLY: push
 * moves the top before it stores the unit. NO_BARRIER (with RSEQ): draining does not restart
 * ranges. NO_STOP (with RSEQ): the area stays in the table.
 */
#ifndef CAPACITY
#define CAPACITY 1
#endif
#ifndef THREADS
#define THREADS 2
#endif

#define UNITS     3
#define BLOCKS    2
#define JUNK      7
#define NONE      0
#define STOPPED   255
#define INTERRUPT THREADS /* number of the process; those below are the threads */

#define FILL(t)    ((t) & 3)
#define BLOCK(t)   ((t) >> 2)
#define EMPTY(b)   ((b) << 2)
#define FULL(b)    (((b) << 2) + CAPACITY)
#define IS_FULL(t) ((t) == NONE || FILL(t) == CAPACITY)
/* The place of the unit below a top; the one at it is the next. */
#define BELOW(t)   (BLOCK(t) * CAPACITY + FILL(t) - 1)

byte word[4]; /* [c]: top in use of CPU c; [2 + c]: its spare */
byte cell[(BLOCKS + 1) * CAPACITY] = JUNK;
bool in_slab[UNITS + 1] = true; /* free there */
bool in_hand[UNITS + 1];
/* Where a block is. OUT: some CPU's, or in somebody's registers. */
#define AWAY    0
#define OUT     1
#define BARN    2
byte place[BLOCKS + 1];

byte range[3]; /* 1 + CPU while the process is in a range that nothing interrupted */
bool busy[3];
bool is_stopped[2]; /* RSEQ: the table leads to the stopped area */
bool drain_lock;

/* The registers of a process; 0 when it does not need them. */
#define LOCALS byte c, area, unit, top, sheaf, old, at, count; bool allocates, again

/* Somebody else runs on CPU n: whatever range was there starts anew. */
#define RUNS_ON(n)                                                                                 \
    range[0] = (_pid != 0 && range[0] == (n) + 1 -> 0 : range[0]);                                 \
    range[1] = (_pid != 1 && range[1] == (n) + 1 -> 0 : range[1])

/* On any CPU; a handler's is where it struck. */
#define SOMEWHERE                                                                                  \
    if                                                                                             \
    :: _pid != INTERRUPT -> c = 0                                                                  \
    :: _pid != INTERRUPT -> c = 1                                                                  \
    :: _pid == INTERRUPT                                                                           \
    fi
#define GONE c = (_pid == INTERRUPT -> c : 0)

#ifdef RSEQ
#define FIND_AREA area = (is_stopped[c] -> 0 : c + 1)
#else
#define FIND_AREA area = c + 1
#endif

/* A range begins. It has found its area and loads a word of it in the same step: all that may change
 * that word in between makes the range begin anew. */
#define BEGIN SOMEWHERE; RUNS_ON(c); range[_pid] = (_pid == INTERRUPT -> 0 : c + 1); FIND_AREA; GONE
#define END   range[_pid] = 0; area = 0

/* Later steps of a range: was it cut; and where they are. */
#ifdef NO_RESTART
#define WAS_CUT false
#ifdef RSEQ
#define STAY    skip
#else
#define STAY    SOMEWHERE; area = c + 1; GONE
#endif
#else
#define WAS_CUT (_pid != INTERRUPT && range[_pid] == 0)
#define STAY    skip
#endif

#define TOP    word[area - 1]
#define SPARE  word[area + 1]

/* Who exchanges no sheaves, but takes and gives alone, as who runs out of tries. */
#ifdef FINE
#define ALONE false
#else
#define ALONE (_pid == 1)
#endif

#define REFUSED                                                                                    \
    if                                                                                             \
    :: again || ALONE -> goto single                                                               \
    :: else -> goto slow                                                                           \
    fi

/* ---- ranges; pop and push go on at end, single or slow ---- */

/* Sets @unit to what was taken. */
inline slot_pop()
{
    do
    :: atomic {
           BEGIN;
           top = (area == 0 -> NONE : TOP);
           if
           :: FILL(top) == 0 -> top = 0; END; REFUSED
           :: else
           fi
       }
       if
       :: atomic { WAS_CUT -> top = 0; END }
       :: atomic { !WAS_CUT -> unit = cell[BELOW(top)] }
          if
          :: atomic { WAS_CUT -> unit = 0; top = 0; END }
          :: atomic {
                 !WAS_CUT -> STAY;
                 assert(unit != JUNK);
                 cell[BELOW(top)] = JUNK;
                 TOP = top - 1;
                 top = 0;
                 END;
                 goto end
             }
          fi
       fi
    od
}

/* What a cut push left above a top: nobody looks there, so it need not be told from JUNK. */
inline wipe()
{
    at = CAPACITY;
    do
    :: at < (BLOCKS + 1) * CAPACITY -> cell[at] = (cell[at] == unit -> JUNK : cell[at]); at++
    :: else -> break
    od;
    at = 0
}

/* Clears @unit when it was put. */
inline slot_push()
{
    do
    :: atomic {
           BEGIN;
           top = (area == 0 -> NONE : TOP);
           if
           :: IS_FULL(top) -> top = 0; END; REFUSED
           :: else
           fi
       }
#ifdef EARLY
       if
       :: atomic { WAS_CUT -> top = 0; END }
       :: atomic { !WAS_CUT -> STAY; TOP = top + 1; END }
          atomic { cell[BELOW(top + 1)] = unit; unit = 0; top = 0; goto end }
       fi
#else
       if
       :: atomic { WAS_CUT -> top = 0; END }
       :: atomic { !WAS_CUT -> cell[BELOW(top + 1)] = unit }
          if
          :: atomic { WAS_CUT -> top = 0; END; wipe() }
          :: atomic { !WAS_CUT -> STAY; TOP = top + 1; top = 0; unit = 0; END; goto end }
          fi
       fi
#endif
    od
}

/* @out: what the word was, or STOPPED. */
inline slot_swap(which, fresh, out)
{
    do
    :: atomic {
           BEGIN;
           if
           :: area == 0 -> out = STOPPED; END; break
           :: else -> out = which
           fi
       }
       if
       :: atomic { WAS_CUT -> out = 0; END }
       :: atomic { !WAS_CUT -> STAY; which = fresh; END; break }
       fi
    od
}

/* ---- under the node's lock ---- */

inline give_bit(u)
{
    assert(u != 0 && u <= UNITS && !in_slab[u] && !in_hand[u]);
    in_slab[u] = true
}

/* @out: a unit of the slab, or 0. */
#define TAKE_BIT(out)                                                                              \
    out = (in_slab[1] -> 1 : (in_slab[2] -> 2 : (in_slab[3] -> 3 : 0)));                                       \
    in_slab[out] = false

/* All units of a sheaf go back to the slab; it is EMPTY() then. */
inline empty_out(t)
{
    at = FILL(t);
    do
    :: at != 0 ->
        give_bit(cell[BLOCK(t) * CAPACITY + at - 1]);
        cell[BLOCK(t) * CAPACITY + at - 1] = JUNK;
        at--
    :: else -> break
    od
}

/* The first block in a place, 0 for none. */
#define FIRST_IN(p) (place[1] == p -> 1 : (place[2] == p -> 2 : 0))

inline barn_put(t)
{
    if
    :: FILL(t) == CAPACITY && FIRST_IN(BARN) == 0 -> place[BLOCK(t)] = BARN
    :: else -> empty_out(t); place[BLOCK(t)] = AWAY
    fi;
    t = 0
}

/* @sheaf, empty or NONE, becomes one that holds something, if there is any. */
inline find_full()
{
    if
    :: FIRST_IN(BARN) != 0 ->
        if
        :: sheaf != NONE -> place[BLOCK(sheaf)] = AWAY
        :: else
        fi;
        sheaf = FULL(FIRST_IN(BARN));
        place[BLOCK(sheaf)] = OUT
    :: else ->
        if
        :: sheaf == NONE && FIRST_IN(AWAY) != 0 -> /* sheaf_new() */
            sheaf = EMPTY(FIRST_IN(AWAY));
            place[BLOCK(sheaf)] = OUT
        :: else
        fi;
        do /* fill() */
        :: sheaf != NONE && FILL(sheaf) < CAPACITY && (in_slab[1] || in_slab[2] || in_slab[3]) ->
            TAKE_BIT(cell[BELOW(sheaf + 1)]);
            sheaf++
        :: else -> break
        od
    fi
}

/* @sheaf, full or NONE, becomes an empty one, or NONE. */
inline find_vacant()
{
    if
    :: sheaf != NONE && FIRST_IN(BARN) != 0 -> empty_out(sheaf); sheaf = EMPTY(BLOCK(sheaf))
    :: else ->
        if
        :: sheaf != NONE -> place[BLOCK(sheaf)] = BARN
        :: else
        fi;
        sheaf = EMPTY(FIRST_IN(AWAY)); /* sheaf_new() */
        if
        :: sheaf != NONE -> place[BLOCK(sheaf)] = OUT
        :: else
        fi
    fi
}

/* ---- slow paths ---- */

/* The CPU gets another sheaf, with units or with room; and the fast path once more. */
inline exchange_sheaf()
{
    slot_swap(SPARE, NONE, sheaf);
    atomic { /* refill(), make_room() */
        if
        :: sheaf == STOPPED -> sheaf = 0; goto single
        :: sheaf != STOPPED && allocates && FILL(sheaf) == 0 ->
            find_full();
            if
            :: sheaf == NONE -> goto single
            :: sheaf != NONE && FILL(sheaf) == 0 -> old = sheaf; sheaf = 0; again = true
            :: else
            fi
        :: sheaf != STOPPED && !allocates && IS_FULL(sheaf) ->
            find_vacant();
            if
            :: sheaf == NONE -> goto single
            :: else
            fi
        :: else
        fi
    }
    if
    :: !again ->
        slot_swap(TOP, sheaf, old); /* use() */
        atomic {
            if
            :: old == STOPPED -> old = 0; barn_put(sheaf); goto single
            :: else -> sheaf = 0
            fi
        }
    :: else
    fi;
    if /* park() */
    :: old != NONE ->
        slot_swap(SPARE, old, sheaf);
        atomic {
            if
            :: sheaf == STOPPED -> sheaf = old
            :: else
            fi;
            old = 0;
            if
            :: sheaf != NONE -> barn_put(sheaf)
            :: else
            fi
        }
    :: else
    fi
}

inline operate()
{
    if
    :: allocates -> slot_pop()
    :: else -> slot_push()
    fi;
slow:
    exchange_sheaf();
    if
    :: again -> goto single /* no unit anywhere */
    :: else -> again = true; goto fast
    fi
}

/* What the word of an area that nobody uses has goes back. */
inline drain_sheaf(w)
{
    sheaf = w;
    w = NONE;
    if
    :: sheaf != NONE -> empty_out(sheaf); place[BLOCK(sheaf)] = AWAY; sheaf = 0
    :: else
    fi
}

/* ---- what is checked ---- */

hidden byte units_seen, blocks_seen; /* sets */

/* The sheaf of a top, if any: it and its units are in no second place. */
inline see(t)
{
    if
    :: t != NONE ->
        assert(FILL(t) <= CAPACITY && (blocks_seen & (1 << BLOCK(t))) == 0);
        blocks_seen = blocks_seen | (1 << BLOCK(t));
        at = FILL(t);
        do
        :: at != 0 ->
            unit = cell[BLOCK(t) * CAPACITY + at - 1];
            assert(unit != 0 && unit <= UNITS && (units_seen & (1 << unit)) == 0);
            units_seen = units_seen | (1 << unit);
            at--
        :: else -> break
        od
    :: else
    fi
}

inline see_unit(u)
{
    assert(in_slab[u] + in_hand[u] + ((units_seen >> u) & 1) == 1)
}

inline see_block(b)
{
    assert((place[b] == OUT) == ((blocks_seen >> b) & 1))
}

/* This one is done. When nobody is at work, everything is somewhere, once. */
inline finish()
{
    busy[_pid] = false;
    if
    :: !busy[0] && !busy[1] && !busy[2] ->
        units_seen = 0; blocks_seen = 0;
        see(word[0]); see(word[1]); see(word[2]); see(word[3]);
        see_block(1); see_block(2);
        sheaf = FULL(FIRST_IN(BARN));
        if
        :: FIRST_IN(BARN) != 0 -> see(sheaf)
        :: else
        fi;
        see_unit(1); see_unit(2); see_unit(3);
        units_seen = 0; blocks_seen = 0; unit = 0; sheaf = 0
    :: else
    fi
}

/* ---- who does it ---- */

/* A unit in use to be freed, whoever got it. */
inline pick()
{
    if
    :: in_hand[1] -> unit = 1
    :: in_hand[2] -> unit = 2
    :: in_hand[3] -> unit = 3
    fi;
    in_hand[unit] = false
}
#define SOME_IN_HAND (in_hand[1] || in_hand[2] || in_hand[3])

inline begin()
{
    if
    :: allocates = true
    :: SOME_IN_HAND -> pick()
    fi;
    busy[_pid] = true
}

inline alone()
{
    if
    :: allocates -> TAKE_BIT(unit)
    :: else -> give_bit(unit); unit = 0
    fi
}

inline ended()
{
    if
    :: unit != 0 -> assert(allocates && unit <= UNITS && !in_hand[unit]); in_hand[unit] = true
    :: else
    fi;
    unit = 0; allocates = false; again = false;
    finish()
}

active [THREADS] proctype thread()
{
    LOCALS;
quiet:
    if
    :: atomic { begin() }
#ifdef RSEQ
    :: atomic {
           !drain_lock -> drain_lock = true;
           busy[_pid] = true;
           if
           :: c = 0
           :: c = 1
           fi;
#ifndef NO_STOP
           is_stopped[c] = true;
#endif
           goto drain
       }
#endif
    fi;
fast:
    operate();
single:
    atomic {
        alone();
end:
        ended();
        goto quiet
    }
#ifdef RSEQ
drain:
#ifndef NO_BARRIER
    atomic { range[0] = 0; range[1] = 0 }
#endif
    atomic { drain_sheaf(word[c]) }
    atomic { drain_sheaf(word[2 + c]) }
    atomic { is_stopped[c] = false; drain_lock = false; c = 0; finish(); goto quiet }
#endif
}

#ifndef RSEQ
active proctype interrupt()
{
    LOCALS;
quiet:
    atomic {
        if
        :: c = 0
        :: c = 1
        fi;
        RUNS_ON(c);
        if
        :: begin()
        :: drain_sheaf(word[c]); drain_sheaf(word[2 + c]); busy[_pid] = true; goto end
        fi;
fast:
        operate();
single:
        alone();
end:
        ended();
        c = 0;
        goto quiet
    }
}
#endif
