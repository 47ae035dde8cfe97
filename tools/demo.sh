#!/bin/sh
# What ./vellum run shows on the kernel: Debian's busybox at work. Each command is printed, then run.
run() {
    echo "\$ $1"
    eval "$1"
}
mkdir -p /tmp/demo && cd /tmp/demo || exit 1
echo
run 'uname -a'
run 'hello'
run 'ls /'
run 'ls /bin | wc -l'
run 'ls /bin | grep sort | sort -r'
run 'seq 1 100000 | sort -rn | head -n 2'
run 'echo written >file; echo appended >>file; cat <file; wc -c file'
run '(sleep 0.2; echo "the background job ends") & echo "the shell goes on"; wait'
run 'for n in 1 2 3; do (echo "job $n" >job.$n) & done; wait; cat job.*'
run 'find / -xdev -type l | wc -l'
run 'tar cf - /bin/busybox 2>/dev/null | gzip | gunzip | wc -c'
run 'grep -E "MemTotal|MemFree" /proc/meminfo'
run 'sh -c "kill -SEGV \$\$"; echo "status $?"'
