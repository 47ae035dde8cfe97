#!/bin/sh
# Forks, pipes and files as a shell script uses them; every line of output is compared with Linux.
# guest: seconds=90
work=/tmp/script.$$
mkdir -p $work && cd $work || exit 1

section() {
    echo "== $1"
}

section arithmetic
echo $((7 * 6)) $((1 << 20)) $((-7 / 2)) $((-7 % 3)) $((0x1f + 010))
i=0
while [ $i -lt 5 ]; do
    i=$((i + 1))
    [ $i -eq 3 ] && continue
    echo "turn $i"
done
factorial() {
    if [ "$1" -le 1 ]; then
        echo 1
    else
        echo $(($1 * $(factorial $(($1 - 1)))))
    fi
}
echo "10! = $(factorial 10)"

section redirection
echo one >file
echo two >>file
cat <file
cat file missing 2>errors || echo "status $?"
cat errors
{ echo out; echo err >&2; } >both 2>&1
cat both
exec 3>third
echo "to the third" >&3
exec 3>&-
cat third
exec 4<file
read -r first <&4
read -r second <&4
exec 4<&-
echo "read: $first $second"
: >empty
wc -c <empty
echo overwritten >file
cat file

section here-documents
name=world
cat <<TEXT
hello $name, $(echo substituted), $((2 + 3))
TEXT
cat <<'TEXT'
hello $name, $(not substituted)
TEXT
tr a-z A-Z <<TEXT | sed 's/L/_/g'
small letters
TEXT

section pipes
seq 1 1000 | awk '{ sum += $1 } END { print sum }'
seq 1 20000 | sort -rn | head -n 3
seq 1 20000 | wc
yes pattern | head -n 5000 | uniq -c | sed 's/^ *//'
echo "a b c" | tr ' ' '\n' | sort -r | tr '\n' ' '
echo
dd if=/dev/zero bs=65536 count=64 2>/dev/null | wc -c
dd if=/dev/zero bs=1024 count=4096 2>/dev/null | md5sum
true | false
echo "status of a pipe: $?"
echo x | cat | cat | cat | cat | cat | cat | cat | cat
yes | head -n 1

section text tools
printf 'pear 3\napple 10\nfig 7\napple 2\n' >fruit
sort fruit
sort -k2 -n fruit
grep -c apple fruit
grep -n g fruit
grep -v apple fruit
grep plum fruit
echo "grep found nothing: $?"
sed -n '2p;$p' fruit
sed 's/apple/APPLE/;s/\([a-z]*\) \([0-9]*\)/\2 \1/' fruit
awk '{ count[$1] += $2 } END { for (f in count) print f, count[f] }' fruit | sort
cut -d' ' -f2 fruit | sort -n | paste -s -d+ -
head -n 2 fruit | tail -n 1
printf '%5d|%-5s|%05.1f|%x\n' 42 ab 3.14159 255
echo "word splitting:" $(echo "  many   spaces  ")
expr length "twelve chars"
basename /a/b/c.txt .txt
dirname /a/b/c.txt

section files
mkdir -p tree/a/b/c tree/d
for f in tree/x tree/a/y tree/a/b/z tree/a/b/c/w tree/d/v; do
    echo "$f" >$f
done
find tree | sort
find tree -type f -name '[xyz]' | sort
ls tree
ls -A tree/a
ls -l tree/x | awk '{ print $1, $2, $5 }'
ln tree/x tree/hard
ln -s a/y tree/soft
cat tree/hard tree/soft
readlink tree/soft
[ tree/x -ef tree/hard ] && echo "the same file"
[ -L tree/soft ] && [ -f tree/soft ] && [ ! -d tree/soft ] && echo "a link to a file"
mv tree/x tree/moved
ls tree
cp -r tree copy
diff -r tree copy && echo "copies are the same"
echo changed >copy/d/v
diff tree/d/v copy/d/v
chmod 600 tree/moved
stat -c '%a %s %F' tree/moved
stat -c '%a %F' tree
touch -d '2020-02-03 04:05:06' tree/moved
stat -c %y tree/moved | cut -c1-19
rm tree/moved tree/hard
cat tree/moved 2>/dev/null || echo "gone"
rmdir tree 2>/dev/null || echo "not empty"
rm -r tree
[ -e tree ] || echo "removed"
tar cf archive.tar copy
rm -r copy
tar xf archive.tar
find copy -type f | sort | xargs cat
gzip -c archive.tar | gunzip -c | cmp - archive.tar && echo "gzip gives back what it took"
truncate -s 100000 big
stat -c %s big
dd if=fruit of=big bs=1 seek=50000 conv=notrunc 2>/dev/null
tr -d '\0' <big | head -n 1
deep=deep
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    deep=$deep/level$n
done
mkdir -p $deep && echo bottom >$deep/file && cat $deep/file
find deep -type d | wc -l
(cd $deep && cd ../../.. && pwd | sed "s,$work,WORK,")
rm -r deep
n=0
while [ $n -lt 200 ]; do
    echo $n >many.$n
    n=$((n + 1))
done
ls many.* | wc -l
cat many.* | sort -n | tail -n 1
rm many.*
ls

section jobs
sleep 0.3 &
first=$!
(sleep 0.1; exit 5) &
second=$!
wait $second
echo "second ended with $?"
wait $first
echo "first ended with $?"
for n in 1 2 3 4 5 6 7 8; do
    (echo "job $n" >job.$n) &
done
wait
cat job.*
sleep 100 &
kill $!
wait $! 2>/dev/null
echo "killed: $?"
sleep 100 &
kill -9 $!
wait $! 2>/dev/null
echo "killed hard: $?"
sh -c 'kill -STOP $$; echo continued' &
stopped=$!
# How soon it stops is not known: a CONT that comes early is lost, so several are sent.
(for n in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; kill -CONT $stopped; done) 2>/dev/null &
wait $stopped
echo "stopped and continued: $?"
wait
mkfifo fifo
(echo "through the fifo" >fifo) &
cat fifo
wait

section traps
(trap 'echo trapped USR1' USR1; kill -USR1 $(sh -c 'echo $PPID'); echo after)
(trap 'echo leaving' EXIT; echo working)
(trap '' TERM; sh -c 'kill -TERM $PPID'; echo "TERM is ignored")
sh -c 'trap "echo got INT; exit 3" INT; kill -INT $$; echo not reached'
echo "status $?"
timeout 1 sleep 10 2>/dev/null
echo "timeout: $?"

section status
sh -c 'exit 42'
echo $?
sh -c 'kill -SEGV $$' 2>/dev/null
echo $?
./missing 2>/dev/null
echo $?
./fruit 2>/dev/null
echo $?
false || echo "or"
true && echo "and"
! false && echo "not"
(exit 3) || (exit 4) || echo "both failed: $?"

section variables
unset none
echo "${none:-default} ${name:+set} ${#name} ${name%ld} ${name#wo}"
set -- a "b c" d
echo "$# arguments: $1, $2, $3"
for word in "$@"; do echo "[$word]"; done
shift 2
echo "$1"
exported=yes sh -c 'echo "exported: $exported"'
env -i A=1 B=2 /bin/sh -c 'echo $A$B'
case $name in
w*d) echo "pattern" ;;
*) echo "no pattern" ;;
esac
seq 3 | while read -r line; do echo "line $line"; done
IFS=: read -r user rest <<TEXT
root:x:0
TEXT
echo "$user, $rest"
eval 'echo evaluated $name'
echo one two three | xargs -n 1 echo item
printf 'a\nb\n' | xargs -I{} sh -c 'echo sub {}'
umask 077
touch private
stat -c %a private
pwd | sed "s,$work,WORK,"
cd / && rm -r $work && [ ! -e $work ] && echo "cleaned up"
