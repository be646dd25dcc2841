-- Merge joins whose inner side is an index scan of its own: for each outer row of the same key the scan is set back to the
-- first inner row of that key. And index scans that several processes share.
-- merge_joins_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA merges;
SET search_path = merges, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
-- 50 keys: 20 outer and 200 inner rows of each, not in the order of the keys. Cold; some deleted, some updated, a few hot.
CREATE TABLE o (id int PRIMARY KEY, a int, n numeric, w text, b text);
CREATE TABLE i (id int PRIMARY KEY, a int, n numeric, w text, c text, d numeric, e float8, f timestamptz);
INSERT INTO o SELECT x, x * 7 % 50 + 1, (x * 7 % 50) / 4.0, 'w' || x % 3, CASE WHEN x % 9 > 0 THEN md5('o' || x) END FROM generate_series(1, 1000) x;
INSERT INTO i SELECT x, x * 11 % 50 + 1, (x * 11 % 50) / 4.0, 'w' || x % 3, CASE WHEN x % 9 > 0 THEN md5('i' || x) END, x / 7.0, sqrt(x),
    timestamptz '2026-01-01 UTC' + x * interval '1 min' FROM generate_series(1, 10000) x;
\if :cold
    CALL howdah.compact('o');
    CALL howdah.compact('i');
    -- The rest of the file means nothing if the rows are hot.
    DO $$ BEGIN ASSERT (SELECT sum(cold_rows) = 11000 FROM howdah.tables WHERE relation IN ('o'::regclass, 'i'::regclass)); END $$;
\endif
INSERT INTO o SELECT x, x % 50 + 1, (x % 50) / 4.0, 'w' || x % 3, 'hot' FROM generate_series(1001, 1020) x;
INSERT INTO i SELECT x, x % 50 + 1, (x % 50) / 4.0, 'w' || x % 3, 'hot', NULL, NULL, NULL FROM generate_series(10001, 10100) x;
DELETE FROM o WHERE id % 97 = 0;
DELETE FROM i WHERE id % 97 = 0 OR a = 33 AND id < 9000;
UPDATE o SET b = 'upd' WHERE id % 101 = 0;
UPDATE i SET c = 'upd' WHERE id % 101 = 0;
UPDATE i SET a = a % 50 + 1 WHERE id % 103 = 0;
CREATE INDEX o_a ON o (a, id);
CREATE INDEX o_n ON o (n, w, id);
CREATE INDEX i_a ON i (a, id);
CREATE INDEX i_n ON i (n, w, id);
-- Index-only scans pass over what VACUUM has found visible; the rows below are changed after it.
VACUUM ANALYZE o, i;
DELETE FROM i WHERE id % 89 = 0;
UPDATE i SET d = -1, a = a WHERE id % 107 = 0;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_sort = off;
SET enable_incremental_sort = off;
SET enable_material = off;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET howdah.columnar_scan = off;
SET howdah.vectorized = off;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
-- The nodes of a plan by name, as either table may be the inner one; what a merge join returns, in the order of its keys and
-- whatever its order within one key.
CREATE FUNCTION merged(query text) RETURNS TABLE (nodes text, rows bigint, digest text, keys text) LANGUAGE plpgsql AS $$
DECLARE line text; one record; hashes numeric := 0; in_order text := ''; last int; names text[] := '{}';
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line ~ '->|^[A-Z]' THEN names := names || regexp_replace(line, '^[ >-]*| using .*', '', 'g'); END IF;
    END LOOP;
    SELECT string_agg(name, ', ' ORDER BY name COLLATE "C" DESC) INTO nodes FROM unnest(names) name;
    rows := 0;
    FOR one IN EXECUTE query LOOP
        rows := rows + 1;
        hashes := hashes + hashtextextended(one::text, 0);
        IF one.a IS DISTINCT FROM last THEN in_order := in_order || ' ' || coalesce(one.a::text, '-'); last := one.a; END IF;
    END LOOP;
    digest := md5(hashes::text);
    keys := md5(in_order);
    RETURN NEXT;
END $$;

EXPLAIN (COSTS OFF) SELECT o.a, o.b, i.* FROM o LEFT JOIN i ON i.a = o.a ORDER BY o.a;
EXPLAIN (COSTS OFF) SELECT o.a, o.b, i.* FROM o JOIN i ON i.a = o.a WHERE o.a > 25 ORDER BY o.a DESC;
EXPLAIN (COSTS OFF) SELECT o.a, o.b, i.id FROM o LEFT JOIN i ON i.a = o.a ORDER BY o.a;
EXPLAIN (COSTS OFF) SELECT o.a, o.id, i.id AS inner FROM o JOIN i ON i.a = o.a WHERE o.a > 25 ORDER BY o.a DESC;
-- Forward and backward (PostgreSQL takes outer joins forward only): all columns, one column, no more than the index has.
SELECT * FROM merged('SELECT o.a, o.b, i.* FROM o LEFT JOIN i ON i.a = o.a ORDER BY o.a');
SELECT * FROM merged('SELECT o.a, o.b, i.* FROM o JOIN i ON i.a = o.a WHERE o.a > 25 ORDER BY o.a DESC');
SELECT * FROM merged('SELECT o.a, o.b, i.c FROM o LEFT JOIN i ON i.a = o.a ORDER BY o.a');
SELECT * FROM merged('SELECT o.a, o.b, i.d FROM o JOIN i ON i.a = o.a WHERE o.a > 25 ORDER BY o.a DESC');
SELECT * FROM merged('SELECT o.a, o.b, i.id FROM o LEFT JOIN i ON i.a = o.a ORDER BY o.a');
SELECT * FROM merged('SELECT o.a, o.id, i.id AS inner FROM o JOIN i ON i.a = o.a WHERE o.a > 25 ORDER BY o.a DESC');
-- Conditions on the join that read more of the inner row, or of both: some rows of a key are passed over.
SELECT * FROM merged('SELECT o.a, o.b, i.e, i.f FROM o LEFT JOIN i ON i.a = o.a AND i.c LIKE ''%7%'' ORDER BY o.a');
SELECT * FROM merged('SELECT o.a, o.b, i.e, i.f FROM o JOIN i ON i.a = o.a AND i.c > o.b WHERE o.a > 25 ORDER BY o.a DESC');
SELECT * FROM merged('SELECT o.a, o.b, i.w FROM o LEFT JOIN i ON i.a = o.a AND i.d > o.id ORDER BY o.a');
-- Numbers and texts as keys.
SELECT * FROM merged('SELECT o.a, o.b, i.c, i.d FROM o LEFT JOIN i ON i.n = o.n ORDER BY o.n');
SELECT * FROM merged('SELECT o.a, o.b, i.c, i.d FROM o JOIN i ON i.n = o.n AND i.w = o.w WHERE o.n > 6 ORDER BY o.n DESC, o.w DESC');
SELECT * FROM merged('SELECT o.a, o.id, i.w, i.id AS inner FROM o LEFT JOIN i ON i.n = o.n AND i.w = o.w ORDER BY o.n, o.w');
-- Inner, full, and of rows that have none; the same table twice.
SELECT * FROM merged('SELECT o.a, o.b, i.c, i.d FROM o JOIN i ON i.a = o.a ORDER BY o.a');
SELECT * FROM merged('SELECT o.a, o.b, i.c, i.d FROM o FULL JOIN i ON i.a = o.a ORDER BY o.a');
SELECT * FROM merged('SELECT o.a, o.b FROM o WHERE NOT EXISTS (SELECT FROM i WHERE i.a = o.a AND i.c > o.b) ORDER BY o.a');
SELECT * FROM merged('SELECT x.a, x.c, y.c AS other, y.e FROM i x JOIN i y ON y.a = x.a WHERE x.a < 6 AND y.d > 600 ORDER BY x.a');
-- A join within a join: the restored row is itself a part of an outer row.
SELECT * FROM merged('SELECT o.a, o.b, p.b AS other, i.c FROM o JOIN o p ON p.a = o.a LEFT JOIN i ON i.a = p.a AND i.id > 9000 ORDER BY o.a');
-- Inner rows of a key that lie side by side: of a group without marks the scan knows all rows, of one with marks those near it.
CREATE TABLE s AS SELECT row_number() OVER (ORDER BY a, id)::int AS id, a, w, c, d, e FROM i;
CREATE TABLE t AS SELECT * FROM s;
\if :cold
    CALL howdah.compact('s');
    CALL howdah.compact('t');
    DO $$ BEGIN ASSERT (SELECT min(cold_rows) > 9000 FROM howdah.tables WHERE relation IN ('s'::regclass, 't'::regclass)); END $$;
\endif
CREATE INDEX s_a ON s (a, id);
CREATE INDEX t_a ON t (a, id);
VACUUM ANALYZE s, t;
DELETE FROM t WHERE id % 41 = 0;
UPDATE t SET c = 'upd' WHERE id % 53 = 0;
EXPLAIN (COSTS OFF) SELECT o.a, o.b, s.* FROM o LEFT JOIN s ON s.a = o.a ORDER BY o.a;
SELECT * FROM merged('SELECT o.a, o.b, s.* FROM o LEFT JOIN s ON s.a = o.a ORDER BY o.a');
SELECT * FROM merged('SELECT o.a, o.b, s.c FROM o JOIN s ON s.a = o.a WHERE o.a > 25 ORDER BY o.a DESC');
SELECT * FROM merged('SELECT o.a, o.id, s.id AS inner FROM o LEFT JOIN s ON s.a = o.a ORDER BY o.a');
SELECT * FROM merged('SELECT o.a, o.b, s.d, s.e FROM o LEFT JOIN s ON s.a = o.a AND s.c > o.b ORDER BY o.a');
SELECT * FROM merged('SELECT o.a, o.b, t.* FROM o LEFT JOIN t ON t.a = o.a ORDER BY o.a');
SELECT * FROM merged('SELECT o.a, o.b, t.c FROM o JOIN t ON t.a = o.a WHERE o.a > 25 ORDER BY o.a DESC');
SELECT * FROM merged('SELECT o.a, o.id, t.id AS inner FROM o LEFT JOIN t ON t.a = o.a ORDER BY o.a');
SELECT * FROM merged('SELECT o.a, o.b, t.d, t.e FROM o LEFT JOIN t ON t.a = o.a AND t.c > o.b ORDER BY o.a');
-- Inner rows change while the scan is set back to them: the snapshot sees them as before.
CREATE FUNCTION changes(key int, number int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF number % 200 = 1 THEN
        DELETE FROM i WHERE a = key AND id BETWEEN number AND number + 500;
        UPDATE i SET c = 'during' WHERE a = key AND id BETWEEN number + 1000 AND number + 1500;
    END IF;
    RETURN number;
END $$;
BEGIN;
SELECT * FROM merged('SELECT o.a, o.b, i.c, i.d, changes(o.a, i.id) FROM o JOIN i ON i.a = o.a WHERE o.a < 20 ORDER BY o.a');
SELECT * FROM merged('SELECT o.a, o.b, i.c, i.d, changes(o.a, i.id) FROM o JOIN i ON i.a = o.a WHERE o.a > 30 ORDER BY o.a DESC');
SELECT * FROM merged('SELECT o.a, o.b, i.c, i.d FROM o JOIN i ON i.a = o.a ORDER BY o.a');
ROLLBACK;

-- Index scans that several processes share.
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_sort;
RESET enable_material;
SET enable_mergejoin = off;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET parallel_leader_participation = off;
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query; END $$;
VACUUM ANALYZE i;
DELETE FROM i WHERE id % 83 = 0;
SELECT plan('SELECT count(*), sum(hashtextextended(i::text, 0)::numeric) FROM i WHERE a BETWEEN 5 AND 40');
SELECT count(*), sum(hashtextextended(i::text, 0)::numeric) FROM i WHERE a BETWEEN 5 AND 40;
SELECT plan('SELECT count(*), sum(length(c)), max(d) FROM i WHERE a > 10 AND c LIKE ''%7%''');
SELECT count(*), sum(length(c)), max(d) FROM i WHERE a > 10 AND c LIKE '%7%';
SELECT plan('SELECT count(*), sum(id) FROM i WHERE a BETWEEN 5 AND 40');
SELECT count(*), sum(id) FROM i WHERE a BETWEEN 5 AND 40;
SELECT plan('SELECT count(*), sum(length(w)), max(n) FROM i WHERE n > 2');
SELECT count(*), sum(length(w)), max(n) FROM i WHERE n > 2;
-- In their order, forward and backward: Gather Merge.
SELECT plan('SELECT a, id, c, d FROM i WHERE a BETWEEN 5 AND 40 AND c LIKE ''%77%8%'' ORDER BY a, id');
SELECT ordered('SELECT a, id, c, d FROM i WHERE a BETWEEN 5 AND 40 AND c LIKE ''%77%8%'' ORDER BY a, id');
SELECT plan('SELECT a, id FROM i WHERE a BETWEEN 5 AND 40 AND id % 50 = 7 ORDER BY a DESC, id DESC');
SELECT ordered('SELECT a, id FROM i WHERE a BETWEEN 5 AND 40 AND id % 50 = 7 ORDER BY a DESC, id DESC');
-- A shared scan outside, a scan by each process inside.
SET enable_hashjoin = off;
SELECT plan('SELECT count(*), sum(length(i.c)), count(o.b) FROM i LEFT JOIN o ON o.id = i.id WHERE i.a > 10');
SELECT count(*), sum(length(i.c)), count(o.b) FROM i LEFT JOIN o ON o.id = i.id WHERE i.a > 10;
DROP SCHEMA merges CASCADE;
