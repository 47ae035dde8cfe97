#!/bin/sh
# Goal: the simulated machine sees each of the faults of core/table/mutant.h (the flush skipped, the
# frames freed before it, a CPU forgotten in the mask, a range one page short), and nothing else.
# Method: one build in which a test chooses the fault, the contract test of table/ run with none and
# with each; a caught fault ends it in a panic of the machine's MMU. Speaks TAP.
cd "$(dirname "$0")/../.." || exit 1
make -s -j2 MUTANTS=1 "build/$(make -s MUTANTS=1 config)/tests/contract/table" >&2 || exit 1
program="build/$(make -s MUTANTS=1 config)/tests/contract/table"
log="$program.log"
number=1
failed=0

verdict() { # status name
    if [ "$1" -eq 0 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        failed=1
        grep -v '^cpu ' "$log" | sed 's/^/# /' | tail -20
    fi
    number=$((number + 1))
}

echo 1..5
VL_MUTANT=0 timeout 120 "$program" >"$log" 2>&1
verdict $? "no fault: nothing is reported"
for mutant in 1:flush-skipped 2:freed-before-flush 3:wrong-mask 4:range-too-short; do
    VL_MUTANT=${mutant%%:*} timeout 120 "$program" >"$log" 2>&1
    grep -q '^panic on CPU [0-9]*: mmu: ' "$log"
    verdict $? "${mutant#*:} is caught"
    grep '^panic' "$log" | sed 's/^/# /'
done
exit $failed
