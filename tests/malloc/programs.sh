#!/bin/bash
# Goal: real programs run on the library as they do without it: same output, same status.
# Method: each is run plain and with LD_PRELOAD, in both modes and the secure one. Speaks TAP.
# usage: programs.sh LIBRARY
set -u
library=$(readlink -f "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")/../.." || exit 1
number=0
failed=0

# try NAME COMMAND... - one test.
try() {
    local name=$1 mode
    shift
    number=$((number + 1))
    if ! command -v "$1" >/dev/null; then
        echo "not ok $number - $name: there is no $1, which tools/setup installs"
        failed=1
        return
    fi
    timeout 60 "$@" >"$folder/plain" 2>&1
    echo "status $?" >>"$folder/plain"
    for mode in percpu=1 percpu=0 secure; do
        LD_PRELOAD=$library VELLUM_MALLOC=$mode timeout 60 "$@" >"$folder/ours" 2>&1
        echo "status $?" >>"$folder/ours"
        if ! cmp -s "$folder/plain" "$folder/ours"; then
            echo "not ok $number - $name ($mode)"
            diff "$folder/plain" "$folder/ours" | head -n 20 | sed 's/^/# /'
            failed=1
            return
        fi
    done
    echo "ok $number - $name"
}

cat >"$folder/a.c" <<'TEXT'
#include <stdio.h>
#include <stdlib.h>
static int by(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void)
{
    int list[1000];
    for (int i = 0; i < 1000; i++) { list[i] = i * 7919 % 1000; }
    qsort(list, 1000, sizeof(int), by);
    printf("%d %d\n", list[0], list[999]);
    return 0;
}
TEXT
python=$(command -v /usr/bin/python3 || command -v python3 || echo python3)

echo 1..9
try ls ls -laR core include
try 'sort and tr' bash -c 'cat core/*/*.c | tr -cs a-z "\n" | sort | uniq -c | sort -rn | head -n 50'
try gcc gcc -O2 -Wall "$folder/a.c" -o "$folder/a"
try clang clang -O2 -c "$folder/a.c" -o "$folder/a.o"
try make make -s config
try git git log --stat -n 20
try perl perl -e 'my %h; $h{$_ % 5000} .= "x$_" for 1 .. 100000; print join(",", map { length } @h{1 .. 20}), "\n"'
try python3 "$python" -c '
import threading, json, re
out = []
def work(n):
    d = {str(i): [i] * (i % 50) for i in range(3000)}
    out.append((n, len(json.dumps(d)), len(re.findall("[0-9]+", str(d)))))
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print(sorted(out))'
try sqlite3 sqlite3 :memory: 'create table t(a integer primary key, b text);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 50000)
insert into t select x, printf("%08x", x * 2654435761 % 4294967296) from c;
create index i on t(b); select count(*), min(b), max(b) from t;
select a from t order by b limit 10;'
exit $failed
