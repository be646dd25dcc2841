-- CLUSTER: a scan gives the rows in the order of the index, whatever was hot or cold before.
-- clustered_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA clustered;
SET search_path = clustered, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
SET max_parallel_workers_per_gather = 0;
-- The table as it is scanned, and whether that is the order asked for.
CREATE FUNCTION scanned(t text, by text) RETURNS TABLE (digest text, in_order boolean) LANGUAGE sql AS $$
    SELECT d, d = ordered(format('SELECT * FROM %s ORDER BY %s', t, by)) FROM ordered(format('SELECT * FROM %s', t)) d $$;
-- How the indexes see the table.
CREATE FUNCTION by_index(t text, condition text) RETURNS text LANGUAGE sql SET enable_seqscan = off SET howdah.columnar_scan = off AS $$
    SELECT ordered(format('SELECT * FROM %s WHERE %s ORDER BY a', t, condition)) $$;

CREATE TABLE t (a int PRIMARY KEY, b text COLLATE "C", k int, n numeric, d int[]);
CREATE INDEX t_b ON t (b, a DESC);
CREATE INDEX t_k ON t (k DESC NULLS LAST, a);
CREATE INDEX t_k_first ON t (k NULLS FIRST, n DESC, a);
CREATE INDEX t_expression ON t (lower(b) DESC, (-a));
CREATE INDEX t_d ON t USING gin (d);
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE sql AS $$
    INSERT INTO t SELECT (i * 7919) % 200003, 'w' || i % 1000, CASE WHEN i % 7 > 0 THEN i % 50 END, (i % 90) / 8.0,
        CASE WHEN i % 5 > 0 THEN ARRAY[i % 50, NULL, i % 3] END FROM generate_series(first, last) i $$;

-- Cold rows only.
SELECT fill(1, 6000);
CLUSTER t USING t_pkey;
SELECT * FROM scanned('t', 'a');
CLUSTER t USING t_b;
SELECT * FROM scanned('t', 'b, a DESC');
CLUSTER t USING t_k;
SELECT * FROM scanned('t', 'k DESC NULLS LAST, a');
CLUSTER t USING t_k_first;
SELECT * FROM scanned('t', 'k NULLS FIRST, n DESC, a');
CLUSTER t USING t_expression;
SELECT * FROM scanned('t', 'lower(b) DESC, -a');
SELECT by_index('t', 'a > 100000'), by_index('t', $$b = 'w17'$$), by_index('t', 'd @> ARRAY[7]');

-- Hot and cold ones, deleted and updated ones of both kinds.
SELECT fill(6001, 6200);
INSERT INTO t VALUES (-1, 'w', 3), (-2, 'W', NULL), (200004, NULL, NULL);
DELETE FROM t WHERE a % 11 = 3;
DELETE FROM t WHERE a BETWEEN 50000 AND 60000;
UPDATE t SET b = b || '!' WHERE a % 13 = 5;
UPDATE t SET k = k + 1 WHERE a % 17 = 5;
UPDATE t SET a = -a WHERE a % 101 = 5 AND a > 0;
UPDATE t SET n = n + 1 WHERE a < 0;
CLUSTER t USING t_pkey;
SELECT * FROM scanned('t', 'a');
SELECT by_index('t', 'a > 100000'), by_index('t', $$b >= 'w17'$$), by_index('t', 'd @> ARRAY[7]'), by_index('t', 'k = 8');
UPDATE t SET k = a % 60 WHERE a % 3 = 1;
CLUSTER t USING t_k;
SELECT * FROM scanned('t', 'k DESC NULLS LAST, a');
CLUSTER t;
SELECT * FROM scanned('t', 'k DESC NULLS LAST, a');
VACUUM FULL t;
SELECT * FROM scanned('t', 'k DESC NULLS LAST, a');
VACUUM (FREEZE, INDEX_CLEANUP on) t;
SELECT * FROM scanned('t', 'k DESC NULLS LAST, a');

-- Columns that came and went.
ALTER TABLE t ADD COLUMN late numeric DEFAULT 1.10, ADD COLUMN gone text DEFAULT 'gone';
SELECT fill(6201, 6900);
ALTER TABLE t DROP COLUMN gone, DROP COLUMN d;
ALTER TABLE t ADD COLUMN more text, ADD COLUMN computed int GENERATED ALWAYS AS (a * 2) STORED;
UPDATE t SET late = late + 1, more = repeat('more ', 2000) WHERE a % 97 = 1;
CLUSTER t USING t_pkey;
SELECT * FROM scanned('t', 'a');
CREATE FUNCTION fill_more(first int, last int) RETURNS void LANGUAGE sql AS $$
    INSERT INTO t SELECT (i * 7919) % 200003, 'w' || i % 1000, i % 50, i FROM generate_series(first, last) i $$;

-- In a transaction that did other things before, and ends this way or that.
BEGIN;
SELECT fill_more(7001, 8000);
DELETE FROM t WHERE a % 29 = 1;
SAVEPOINT one;
SELECT fill_more(8001, 9000);
DELETE FROM t WHERE a % 31 = 1;
UPDATE t SET k = -k WHERE a % 37 = 1;
CLUSTER t USING t_b;
SELECT * FROM scanned('t', 'b, a DESC');
SELECT fill_more(9001, 9100);
UPDATE t SET k = 1000 WHERE a % 41 = 1;
ROLLBACK TO one;
SELECT ordered('SELECT * FROM t ORDER BY a');
SELECT fill_more(10001, 10700);
UPDATE t SET k = 2000 WHERE a % 43 = 1;
UPDATE t SET k = 3000 WHERE a % 43 = 1 AND a % 2 = 0;
CLUSTER t USING t_k;
SELECT * FROM scanned('t', 'k DESC NULLS LAST, a');
DELETE FROM t WHERE k = 2000 AND a % 4 = 1;
CLUSTER t USING t_pkey;
SELECT * FROM scanned('t', 'a');
ROLLBACK;
SELECT * FROM scanned('t', 'a');
BEGIN;
SELECT fill_more(11001, 11700);
DELETE FROM t WHERE a % 29 = 2;
UPDATE t SET k = 2000 WHERE a % 43 = 2;
CLUSTER t USING t_k;
SELECT * FROM scanned('t', 'k DESC NULLS LAST, a');
UPDATE t SET k = 2001 WHERE a % 43 = 2 AND a > 100000;
DELETE FROM t WHERE a % 29 = 3;
COMMIT;
SELECT ordered('SELECT * FROM t ORDER BY a');
SELECT by_index('t', 'a > 100000'), by_index('t', $$b = 'w17'$$), by_index('t', 'k = 2001');
CLUSTER t;
SELECT * FROM scanned('t', 'k DESC NULLS LAST, a');

-- A key that cannot be computed any more.
CREATE FUNCTION key(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF a > 100000 AND current_setting('clustered.fails', true) = 'yes' THEN RAISE 'no key for you'; END IF;
    RETURN -a;
END $$;
CREATE INDEX t_key ON t (key(a));
SET clustered.fails = 'yes';
CLUSTER t USING t_key;
SET enable_indexscan = off;
CLUSTER t USING t_key;
SELECT * FROM scanned('t', 'k DESC NULLS LAST, a');
SET clustered.fails = 'no';
CLUSTER t USING t_key;
SELECT * FROM scanned('t', '-a');
RESET enable_indexscan;
CLUSTER t USING t_key;
SELECT * FROM scanned('t', '-a');
DROP INDEX t_key;

-- What cannot be clustered on.
CREATE INDEX t_partial ON t (k) WHERE k > 5;
CLUSTER t USING t_partial;
CREATE INDEX t_hash ON t USING hash (k);
CLUSTER t USING t_hash;

-- Sorted on disk, in more than one group.
SET maintenance_work_mem = '64kB';
SET howdah.row_group_bytes = '1MB';
UPDATE t SET more = repeat('x', 400 + a % 7);
CLUSTER t USING t_b;
SELECT * FROM scanned('t', 'b, a DESC');
RESET howdah.row_group_bytes;
RESET maintenance_work_mem;
SELECT by_index('t', 'a > 100000'), by_index('t', $$b = 'w17'$$);

-- Temporary, unlogged and partitioned tables.
CREATE TEMP TABLE s (a int PRIMARY KEY, b text);
INSERT INTO s SELECT (i * 7919) % 20011, 'b' || i FROM generate_series(1, 1000) i;
DELETE FROM s WHERE a % 5 = 0;
INSERT INTO s VALUES (-5, 'new');
CLUSTER s USING s_pkey;
SELECT * FROM scanned('s', 'a');
CREATE UNLOGGED TABLE u (a int PRIMARY KEY, b text);
INSERT INTO u TABLE s ORDER BY b;
CLUSTER u USING u_pkey;
SELECT * FROM scanned('u', 'a');
CREATE TABLE p (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (5000);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (5000) TO (15000) USING heap;
CREATE TABLE p3 PARTITION OF p DEFAULT PARTITION BY LIST (b);
CREATE TABLE p3_rest PARTITION OF p3 DEFAULT;
CREATE INDEX p_a ON p (a DESC);
INSERT INTO p TABLE s ORDER BY b;
UPDATE p SET a = a + 7000 WHERE a % 7 = 1;
CLUSTER p USING p_a;
SELECT part, s.* FROM unnest(ARRAY['p1', 'p2', 'p3_rest']) part, LATERAL scanned(part, 'a DESC') s;

-- Nothing to sort.
CREATE TABLE e (a int PRIMARY KEY);
CLUSTER e USING e_pkey;
INSERT INTO e SELECT generate_series(1, 400);
DELETE FROM e;
CLUSTER e;
SELECT * FROM scanned('e', 'a');
INSERT INTO e SELECT generate_series(400, 1, -1);
CLUSTER e;
SELECT * FROM scanned('e', 'a');
DROP SCHEMA clustered CASCADE;
