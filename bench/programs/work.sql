-- Work for sqlite3: import of build/bench-programs/rows.csv (id, word, number), indexes, queries,
-- updates. What it prints is computed by tools/bench_programs.py as well.
.mode csv
.import build/bench-programs/rows.csv rows
create table facts (id integer primary key, word text, number integer);
insert into facts select cast(id as integer), word, cast(number as integer) from rows;
drop table rows;
create index by_word on facts (word, number);
.mode list
select count(*), sum(number) from facts;
select count(*), sum(length) from (select length(group_concat(id)) as length from facts group by word);
select count(*) from facts a join facts b on b.word = a.word and b.number = a.number + 1;
update facts set word = word || number where id % 5 = 0;
select count(distinct word) from facts;
delete from facts where number % 2 = 0;
select count(*), sum(id) from facts;
pragma integrity_check;
