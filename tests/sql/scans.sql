-- Every way to read hot and cold rows: plans, directions, cursors, samples, TIDs, parallel plans, prepared plans.
-- scans_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA scans;
SET search_path = scans, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
CREATE TABLE t (a int, b text, c int, d int[], e int4range, f numeric, g timestamptz);
INSERT INTO t SELECT i, 'x' || i % 1000, i % 7, ARRAY[i % 50, i % 3], int4range(i, i + 5), i/7.0, timestamptz '2026-01-01 UTC' + i * interval '1 min' FROM generate_series(1, 20000) i;
\if :cold
    CALL howdah.compact('t');
\endif
INSERT INTO t SELECT i, 'x' || i % 1000, i % 7, ARRAY[i % 50, i % 3], int4range(i, i + 5), i/7.0, NULL FROM generate_series(20001, 20100) i;
DELETE FROM t WHERE a % 97 = 0;
UPDATE t SET b = 'upd' WHERE a % 101 = 0;
CREATE INDEX t_a ON t (a);
CREATE INDEX t_c ON t (c);
CREATE INDEX t_b ON t (b);
CREATE INDEX t_d ON t USING gin (d);
CREATE INDEX t_e ON t USING gist (e);
CREATE INDEX t_h ON t USING hash (b);
CREATE INDEX t_ex ON t ((a % 11));
CREATE INDEX t_p ON t (a) WHERE c = 2;
CREATE INDEX t_de ON t (g DESC NULLS LAST, a);
ANALYZE t;

-- Bitmap and/or, exact and lossy.
SET enable_seqscan=off;
SET enable_indexscan=off;
SET enable_indexonlyscan=off;
SET howdah.columnar_scan=off;
SELECT dig('SELECT * FROM t WHERE a < 5000 AND c = 3');
SELECT dig('SELECT * FROM t WHERE a < 500 OR c = 3 OR b = ''x5''');
SELECT dig('SELECT * FROM t WHERE (a < 9000 AND d @> ARRAY[7]) OR (e @> 777 AND c > 0)');
SET work_mem='64kB';
SELECT dig('SELECT * FROM t WHERE a < 19000 AND c IN (1,2,3,4)');
SELECT dig('SELECT * FROM t WHERE a < 19000 OR c = 3 OR b = ''x5''');
SELECT dig('SELECT * FROM t WHERE d && ARRAY[1,2,3,4,5,6,7,8,9,10] AND a > 100');
SELECT dig('SELECT ctid IS NOT NULL, a FROM t WHERE a >= 10 AND c <> 9 AND d @> ARRAY[1]');
RESET work_mem;
-- Columns of a condition are read of the rows only on which it is checked again: where a bitmap has forgotten rows, or an
-- index is inexact.
CREATE TABLE many (a int, b int, c text, d int[]);
INSERT INTO many SELECT (i * 7919::bigint % 400000)::int, i % 1000, 'c' || i % 13, ARRAY[i % 50, i % 3] FROM generate_series(1, 400000) i;
\if :cold
    CALL howdah.compact('many');
\endif
INSERT INTO many SELECT 400000 + i, i, 'hot', ARRAY[i] FROM generate_series(1, 100) i;
DELETE FROM many WHERE a % 1000 = 7;
CREATE INDEX ON many (a);
CREATE INDEX ON many (b);
CREATE INDEX ON many USING gin (d);
ANALYZE many;
CREATE FUNCTION lossy(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
    RETURN plan::text ~ '"Lossy Heap Blocks": [1-9]';
END $$;
SELECT work_mem, query, lossy(query), dig(query) FROM unnest(array['64kB', '40MB']) work_mem,
    LATERAL (SELECT set_config('work_mem', work_mem, false)) s,
    unnest(array['SELECT count(*) FROM many WHERE a < 300000', 'SELECT c FROM many WHERE a BETWEEN 1000 AND 350000',
        'SELECT count(c) FROM many WHERE b < 500 OR a > 390000', 'SELECT b FROM many WHERE d @> ARRAY[7] AND a > 1000',
        'SELECT count(*) FROM many WHERE d && ARRAY[1,2]', 'SELECT b, m FROM many m WHERE d @> ARRAY[49, 2] AND b < 100']) query;
SET work_mem = '64kB';
SELECT dig('SELECT o.x, (SELECT count(*) FROM t WHERE c = o.x AND a < o.x * 1000) FROM generate_series(0,8) o(x)');
SELECT dig('SELECT o.x, l.* FROM generate_series(0,8) o(x), LATERAL (SELECT a,b FROM t WHERE a BETWEEN x*100 AND x*100+3 OR a = x*2000) l');
SET enable_indexscan=on;
SET enable_bitmapscan=off;
SELECT ordered('SELECT a, b FROM t WHERE a > 100 ORDER BY a DESC');
SELECT ordered('SELECT a, b FROM t WHERE a > 100 ORDER BY a');
SELECT ordered('SELECT g, a FROM t ORDER BY g DESC NULLS LAST, a');
SELECT ordered('SELECT g, a FROM t ORDER BY g NULLS FIRST, a DESC');
SELECT dig('SELECT * FROM t WHERE a = ANY (ARRAY[1,97,101,20000,20050,19999])');
SELECT ordered('SELECT * FROM t WHERE a = ANY (ARRAY[1,97,101,20000,20050,19999]) ORDER BY a DESC');
SELECT dig('SELECT * FROM t WHERE a % 11 = 4');
SELECT dig('SELECT * FROM t WHERE c = 2 AND a < 3000');
SET enable_indexonlyscan=on;
SELECT ordered('SELECT a FROM t WHERE a BETWEEN 90 AND 21000 ORDER BY a');
SELECT min(a), max(a) FROM t;
SELECT min(g), max(g) FROM t;
SELECT dig('SELECT x, (SELECT max(a) FROM t WHERE a < x) FROM generate_series(0, 20200, 50) x');
SELECT ordered('SELECT DISTINCT c FROM t ORDER BY c');

-- Cursors both ways on index and seq.
BEGIN;
DECLARE k SCROLL CURSOR FOR SELECT a, b FROM t ORDER BY a;
FETCH 2 FROM k;
MOVE 9990 FROM k;
FETCH 3 FROM k;
FETCH BACKWARD 5 FROM k;
FETCH LAST FROM k;
FETCH BACKWARD 3 FROM k;
MOVE ABSOLUTE 19000 IN k;
FETCH -3 FROM k;
MOVE BACKWARD ALL IN k;
FETCH 1 FROM k;
FETCH ABSOLUTE -103 FROM k;
UPDATE t SET b = 'in cursor' WHERE CURRENT OF k;
FETCH PRIOR FROM k;
DELETE FROM t WHERE a BETWEEN 100 AND 200;
MOVE ABSOLUTE 0 IN k;
MOVE 98 IN k;
FETCH 4 FROM k;
ROLLBACK;
RESET enable_seqscan;
RESET enable_bitmapscan;
SET enable_indexscan=off;
SET enable_indexonlyscan = off;
SET enable_bitmapscan=off;

-- Seq scroll: forward digest equals reversed backward digest.
CREATE FUNCTION both_ways(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE c refcursor := 'bw'; r record; f text[] := '{}'; b text[] := '{}'; 
BEGIN
 OPEN c SCROLL FOR EXECUTE q;
 LOOP FETCH NEXT FROM c INTO r; EXIT WHEN NOT FOUND; f := f || md5(r::text); END LOOP;
 LOOP FETCH PRIOR FROM c INTO r; EXIT WHEN NOT FOUND; b := md5(r::text) || b; END LOOP;
 CLOSE c;
 RETURN cardinality(f) || ' ' || (f = b) || ' ' || md5((SELECT string_agg(x, '' ORDER BY x) FROM unnest(f) x));
END $$;
SELECT both_ways('SELECT * FROM t');
SELECT both_ways('SELECT * FROM t WHERE a % 13 = 5');
SELECT both_ways('SELECT * FROM t WHERE ctid >= ''(0,1)''');
SELECT both_ways('SELECT a, b FROM t WHERE ctid < ''(4294967294,1)'' AND a % 3 = 0');
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_bitmapscan;
RESET howdah.columnar_scan;
SELECT both_ways('SELECT * FROM t');
SELECT both_ways('SELECT a FROM t ORDER BY a DESC');
SELECT both_ways('SELECT a FROM t WHERE b = ''x5''');

-- Samples: 100%, consistency repeatable, and under rescans.
SELECT dig('SELECT * FROM t TABLESAMPLE system (100)');
SELECT dig('SELECT * FROM t TABLESAMPLE bernoulli (100) REPEATABLE (7)');
SELECT count(*) FROM t TABLESAMPLE system (0);
SELECT count(*) FROM t TABLESAMPLE bernoulli (0);
SELECT bool_and(n = m) FROM (SELECT (SELECT count(*) FROM t TABLESAMPLE system (30) REPEATABLE (5)) n, (SELECT count(*) FROM t TABLESAMPLE system (30) REPEATABLE (5)) m) x;
SELECT dig('SELECT a FROM t TABLESAMPLE system (30) REPEATABLE (5)') = dig('SELECT a FROM t TABLESAMPLE system (30) REPEATABLE (5)'), dig('SELECT a FROM t TABLESAMPLE bernoulli (30) REPEATABLE (5)') = dig('SELECT a FROM t TABLESAMPLE bernoulli (30) REPEATABLE (5)');
SELECT count(*) BETWEEN 5000 AND 7000 FROM t TABLESAMPLE bernoulli (30) REPEATABLE (1);
SELECT count(*) = count(DISTINCT a) FROM t TABLESAMPLE bernoulli (60);
SELECT dig('SELECT x, (SELECT count(*) FROM t TABLESAMPLE bernoulli (100) WHERE a > x * 1000) FROM generate_series(1,5) x');
SELECT count(*) FROM t TABLESAMPLE bernoulli (101);
SELECT count(*) FROM t TABLESAMPLE system (NULL);
SELECT count(*) FROM t TABLESAMPLE system (10) REPEATABLE (NULL);

-- TID scans.
SELECT bool_and((SELECT b.a FROM t b WHERE b.ctid = t.ctid) = t.a) FROM t;
SELECT dig('SELECT x.a FROM t x JOIN t y ON x.ctid = y.ctid');
SELECT count(*) FROM t WHERE ctid < '(0,1)';
SELECT count(*) FROM t WHERE ctid >= '(0,0)';
SELECT count(*) FROM t WHERE ctid > '(4294967295,65535)';
SELECT sum(n) FROM (SELECT (SELECT count(*) FROM t WHERE ctid >= lo AND ctid < hi) n FROM (SELECT ctid lo, lead(ctid, 1, '(4294967295,65535)') OVER (ORDER BY ctid) hi FROM t WHERE a % 1000 = 0 OR ctid = (SELECT min(ctid) FROM t)) y) z;
SELECT bool_and(n = (SELECT count(*) FROM t WHERE ctid <= p)) FROM (SELECT ctid p, row_number() OVER (ORDER BY ctid) n FROM t) x WHERE n % 1000 = 1;
SELECT count(*) FROM t WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE a % 50 = 1));
SELECT count(*) FROM t WHERE ctid IN ('(0,1)', '(2147483647,1)', '(4294967295,1)', '(4294967295,65535)', '(2147483648,65535)', '(2147483648,0)') AND false;
SELECT a FROM t WHERE ctid = '(4294967295,65535)';
SELECT a FROM t WHERE ctid = '(3147483648,7)';
SELECT a FROM t WHERE ctid = '(2147483648,65535)';
SELECT a FROM t WHERE ctid='(2000000000,3)';

-- Parallel.
SET parallel_setup_cost=0;
SET parallel_tuple_cost=0;
SET min_parallel_table_scan_size=0;
SET min_parallel_index_scan_size=0;
SET max_parallel_workers_per_gather=3;
ALTER TABLE t SET (parallel_workers=3);
SELECT count(*), sum(a), sum(f), max(b) FROM t;
SET howdah.columnar_scan = off;
SELECT count(*), sum(a), sum(f), max(b) FROM t;
SELECT c, count(*), sum(a) FROM t WHERE a > 50 GROUP BY c ORDER BY c;
SET enable_seqscan=off;
SELECT count(*), sum(a) FROM t WHERE a BETWEEN 300 AND 15000;
SET enable_indexscan=off;
SET enable_indexonlyscan=off;
SELECT count(*), sum(a) FROM t WHERE a BETWEEN 300 AND 15000 OR c=1;
RESET enable_seqscan;
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET howdah.columnar_scan;
SELECT count(*) FROM t x JOIN t y USING (a) WHERE x.c = 3;
SET enable_parallel_hash=on;
SELECT x.c, count(*) FROM t x JOIN t y ON x.a = y.a + 1 GROUP BY 1 ORDER BY 1;
CREATE TABLE copy1 AS SELECT * FROM t WHERE c < 5;
SELECT dig('TABLE copy1');
SET debug_parallel_query = regress;
SELECT dig('SELECT * FROM t WHERE c = 3');
RESET debug_parallel_query;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;
RESET max_parallel_workers_per_gather;

-- System columns, whole row.
SELECT count(DISTINCT ctid), count(*), count(DISTINCT tableoid) FROM t;
SELECT count(xmin), bool_and(xmax = 0) IS NOT NULL FROM t;
SELECT t FROM t WHERE a = 5;
SELECT row_to_json(t) FROM t WHERE a = 20050;
SELECT (t).b FROM t WHERE a=7;

-- Prepared plans.
PREPARE p1(int) AS SELECT a,b,c FROM t WHERE a = $1;
PREPARE p2 AS SELECT count(*) FROM t;
PREPARE p3(int) AS UPDATE t SET c = c + 1 WHERE a = $1 RETURNING a, c;
SET plan_cache_mode=force_generic_plan;
EXECUTE p1(5);
EXECUTE p2;
EXECUTE p3(5);
\if :cold
    CALL howdah.compact('t');
    CALL howdah.compact('copy1');
\endif
EXECUTE p1(5);
EXECUTE p2;
EXECUTE p3(5);
ALTER TABLE t ADD COLUMN nn int DEFAULT 4;
EXECUTE p1(5);
EXECUTE p2;
EXECUTE p3(6);
ALTER TABLE t DROP COLUMN d;
EXECUTE p1(5);
EXECUTE p3(6);
ALTER TABLE t ALTER c TYPE bigint;
EXECUTE p1(5);
DEALLOCATE p1;
EXECUTE p2;
EXECUTE p3(6);
\if :cold
    CALL howdah.compact('t');
    CALL howdah.compact('copy1');
\endif
VACUUM FULL t;
EXECUTE p2;
DROP INDEX t_a;
EXECUTE p2;
TRUNCATE t;
EXECUTE p2;
INSERT INTO t (a,b) SELECT i, 'n' FROM generate_series(1,500) i;
EXECUTE p2;

-- What a node compares is read, also if no parent wants it: rows that tie for the last place.
CREATE TABLE tied AS SELECT i AS id, i / 3 AS place, i * 2 AS n FROM generate_series(1, 2000) i;
CREATE INDEX tied_place ON tied (place);
ANALYZE tied;
\if :cold
    CALL howdah.compact('tied');
\endif
SET enable_seqscan = off;
SET enable_sort = off;
SET enable_bitmapscan = off;
SELECT count(*), sum(x.n) FROM (SELECT place, n FROM tied WHERE place > 100 ORDER BY place FETCH FIRST 5 ROWS WITH TIES) x
    JOIN tied y ON y.id = x.n;
SELECT (SELECT sum(x.n) FROM (SELECT place, n FROM tied WHERE place > w ORDER BY place DESC FETCH FIRST 2 ROWS WITH TIES) x)
    FROM generate_series(100, 110) w;
RESET enable_seqscan;
RESET enable_sort;
RESET enable_bitmapscan;

DROP SCHEMA scans CASCADE;
