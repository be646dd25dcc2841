-- Rows by index are put together when something reads them: every way of reading, skipping, dropping and keeping them.
-- late_rows_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA late;
SET search_path = late, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
CREATE TABLE t (id int PRIMARY KEY, a int, b text, c numeric, gone int, d int[], e text NOT NULL, f jsonb, g timestamptz, h char(5), i bool, k float8);
INSERT INTO t SELECT x, x % 100, CASE WHEN x % 7 > 0 THEN 'b' || x END, x / 3.0, x, ARRAY[x, x % 5], repeat('e', x % 40), jsonb_build_object('x', x, 'y', x % 9),
    timestamptz '2026-01-01 UTC' + x * interval '1 min', x % 10, x % 2 = 0, x / 7.0 FROM generate_series(1, 20000) x;
\if :cold
    CALL howdah.compact('t');
\endif
ALTER TABLE t DROP COLUMN gone;
ALTER TABLE t ADD COLUMN later int DEFAULT 7, ADD COLUMN last text DEFAULT 'last';
INSERT INTO t (id, a, b, e, later) SELECT x, x % 100, 'hot', 'hot', NULL FROM generate_series(20001, 20100) x;
UPDATE t SET b = 'upd' WHERE id % 101 = 0;
DELETE FROM t WHERE id % 97 = 0;
CREATE INDEX t_a ON t (a, id);
CREATE INDEX t_g ON t (g);
CREATE TABLE s (id int PRIMARY KEY, t int, w text);
INSERT INTO s SELECT x, (x * 37) % 20000, 'w' || x FROM generate_series(1, 3000) x;
\if :cold
    CALL howdah.compact('s');
\endif
CREATE INDEX s_t ON s (t);
ANALYZE t, s;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET howdah.columnar_scan = off;
SET howdah.vectorized = off;
SET enable_sort = off;

-- Skipped, and dropped by conditions on the first columns, the last, one that is missing in old groups.
SELECT ordered('SELECT * FROM t ORDER BY id LIMIT 20 OFFSET 15000');
SELECT ordered('SELECT * FROM t ORDER BY id DESC LIMIT 20 OFFSET 90');
SELECT ordered('SELECT e, b, last FROM t ORDER BY id LIMIT 20 OFFSET 15000');
SELECT ordered('SELECT * FROM t WHERE a = 5 AND b LIKE ''%5'' ORDER BY id');
SELECT ordered('SELECT * FROM t WHERE k < 100 AND i ORDER BY id');
SELECT ordered('SELECT id, c FROM t WHERE last = ''last'' AND later = 7 AND f->>''y'' = ''3'' ORDER BY id');
SELECT ordered('SELECT last FROM t WHERE b IS NULL ORDER BY id');
SELECT ordered('SELECT k, a, id FROM t WHERE d[2] = 3 AND h = ''4'' ORDER BY a, id');
SELECT ordered('SELECT count(*) OVER (ORDER BY id), b FROM t WHERE length(e) = 13 ORDER BY id');
-- Whole rows, system columns, sizes.
SELECT dig('SELECT t FROM t WHERE id BETWEEN 100 AND 300');
SELECT dig('SELECT to_jsonb(t), (t).b FROM t WHERE id BETWEEN 19900 AND 20050');
SELECT dig('SELECT tableoid::regclass, ctid IS NOT NULL, xmin <> ''0'', xmax, cmin IS NOT NULL, b FROM t WHERE id BETWEEN 100 AND 300');
SELECT dig('SELECT pg_column_size(b), pg_column_size(c), pg_column_size(d), pg_column_size(e), pg_column_size(f), pg_column_size(h) FROM t WHERE id < 2000');
SELECT dig('SELECT b FROM t WHERE id < 2000 AND xmin <> ''0'' AND c > 5');
-- Kept: sorts, hashes, materialized and memoized rows, joins of each kind with rows of the same and of another table.
SET enable_sort = on;
SELECT ordered('SELECT * FROM t WHERE id < 3000 ORDER BY e, c DESC NULLS LAST, id');
SELECT dig('SELECT DISTINCT ON (a) * FROM t WHERE id < 4000 ORDER BY a, k DESC');
SELECT dig('SELECT * FROM t WHERE id < 900 UNION SELECT * FROM t WHERE id BETWEEN 500 AND 1200');
SELECT dig('SELECT e, max(b), min(c), array_agg(id ORDER BY id) FROM t WHERE id < 2500 GROUP BY e');
DO $$ BEGIN PERFORM set_config('late.joins', 'on', false); END $$;
CREATE FUNCTION joins(query text) RETURNS TABLE (plan text, digest text) LANGUAGE plpgsql AS $$
DECLARE kind text; other text;
BEGIN
    FOREACH kind IN ARRAY '{nestloop,hashjoin,mergejoin}'::text[] LOOP
        FOREACH other IN ARRAY '{nestloop,hashjoin,mergejoin}'::text[] LOOP
            PERFORM set_config('enable_' || other, CASE WHEN other = kind THEN 'on' ELSE 'off' END, true);
        END LOOP;
        plan := kind;
        digest := dig(query);
        RETURN NEXT;
    END LOOP;
END $$;
SELECT * FROM joins('SELECT t.*, s.* FROM t JOIN s ON s.t = t.id WHERE t.id < 6000');
SELECT * FROM joins('SELECT t.e, s.w FROM t JOIN s ON s.t = t.id AND s.id > t.a WHERE t.id < 6000 AND s.w LIKE ''%1%''');
SELECT * FROM joins('SELECT x.*, y.b FROM t x LEFT JOIN t y ON y.id = x.a AND y.c > 2 WHERE x.id < 500');
SELECT * FROM joins('SELECT x.b, x.c FROM t x WHERE x.id < 900 AND EXISTS (SELECT FROM s WHERE s.t = x.id AND s.w > ''w2'')');
SELECT * FROM joins('SELECT x FROM t x WHERE x.id < 900 AND NOT EXISTS (SELECT FROM s WHERE s.t = x.id AND length(s.w) = 4)');
SELECT * FROM joins('SELECT x.id, l.* FROM t x, LATERAL (SELECT y.b, y.k FROM t y WHERE y.a = x.a AND y.id > x.id AND y.k > 3 ORDER BY y.a, y.id LIMIT 2 OFFSET 1) l WHERE x.id < 200');
SELECT dig('SELECT x.id, (SELECT y.e FROM t y WHERE y.id = x.a AND y.b <> ''b3''), (SELECT s FROM s WHERE s.t = x.id LIMIT 1) FROM t x WHERE x.id < 700');
SET enable_bitmapscan = on;
SET enable_indexscan = off;
SELECT dig('SELECT * FROM t WHERE a IN (3, 4) AND b LIKE ''%1%''');
SELECT dig('SELECT e, k FROM t WHERE (a = 3 OR g < ''2026-01-02 UTC'') AND c > 20');
SELECT dig('SELECT count(*) FROM t WHERE a < 50');
SELECT ordered('SELECT * FROM t WHERE a = 77 ORDER BY c LIMIT 10 OFFSET 30');
SET enable_indexscan = on;
SET enable_bitmapscan = off;
-- Into tables, the same one among them, and to functions that read the table meanwhile.
CREATE TABLE u AS SELECT * FROM t WHERE id BETWEEN 5000 AND 9000 AND a > 50;
SELECT dig('SELECT * FROM u');
INSERT INTO u SELECT * FROM t WHERE id BETWEEN 9001 AND 9500;
INSERT INTO t SELECT id + 100000, a, b, c, d, e, f, g, h, i, k, later, last FROM t WHERE id BETWEEN 100 AND 400 AND i;
INSERT INTO s SELECT * FROM (SELECT id + 5000, t, w FROM s WHERE id < 50) x;
SELECT dig('SELECT * FROM u'), dig('SELECT * FROM t WHERE id > 100000'), dig('SELECT * FROM s WHERE id > 5000');
CREATE FUNCTION other(at int) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE found record;
BEGIN
    SELECT * INTO found FROM t WHERE id = at + 1 AND k > 0;
    RETURN found.b || found.e;
END $$;
SELECT dig('SELECT b, other(id), e, other(a), f FROM t WHERE id BETWEEN 1000 AND 1300 AND (other(id) LIKE ''%2%'' OR b IS NULL)');
-- An ERROR between the columns of a row, caught.
CREATE FUNCTION fails(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF x % 3 = 0 THEN RAISE division_by_zero; END IF; RETURN x; END $$;
CREATE FUNCTION caught() RETURNS TABLE (n int, digest text) LANGUAGE plpgsql AS $$
DECLARE one record;
BEGIN
    FOR at IN 1..12 LOOP
        n := at;
        BEGIN
            SELECT * INTO one FROM t WHERE id = at * 50 AND b IS DISTINCT FROM 'x' AND fails(a) >= 0 AND k > 0;
            digest := md5(one::text);
        EXCEPTION WHEN division_by_zero THEN
            SELECT * INTO one FROM t WHERE id = at * 50 + 1 AND e <> 'x';
            digest := 'caught ' || md5(one::text);
        END;
        RETURN NEXT;
    END LOOP;
END $$;
SELECT * FROM caught();
-- Cursors, both ways, beside changes.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT * FROM t WHERE a < 90 ORDER BY id;
MOVE 500 IN c;
FETCH 2 FROM c;
UPDATE t SET b = 'while' WHERE id BETWEEN 540 AND 600;
FETCH BACKWARD 2 FROM c;
MOVE FORWARD 40 IN c;
FETCH 2 FROM c;
CLOSE c;
DECLARE held CURSOR WITH HOLD FOR SELECT e, b, id FROM t WHERE id > 700 ORDER BY id LIMIT 5;
FETCH 1 FROM held;
COMMIT;
FETCH 2 FROM held;
CLOSE held;
-- Rows ahead of a scan are changed while it goes on, by later commands, which its snapshot does not see; some rows are read whole.
CREATE FUNCTION changes(at int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF at % 10 = 0 THEN DELETE FROM t WHERE id IN (at + 3, at + 40, at - 3, at - 40); UPDATE t SET b = 'ahead' WHERE id IN (at + 5, at - 5, at + 70); END IF;
    RETURN at;
END $$;
CREATE FUNCTION ahead(query text) RETURNS TABLE (during text, afterwards text) LANGUAGE plpgsql AS $$
BEGIN
    during := ordered(query);
    afterwards := ordered(query);
    RETURN NEXT;
END $$;
BEGIN;
SELECT * FROM ahead('SELECT id, b, e, changes(id) FROM t WHERE id BETWEEN 3000 AND 3300 ORDER BY id');
SELECT * FROM ahead('SELECT id, b, e, changes(id) FROM t WHERE id BETWEEN 3200 AND 3500 ORDER BY id DESC');
SELECT * FROM ahead('SELECT CASE id % 3 WHEN 0 THEN t::text WHEN 1 THEN e END, b, changes(id) FROM t WHERE id BETWEEN 3100 AND 3600 AND k > 0 ORDER BY id');
SELECT * FROM ahead('SELECT x.id, y.b, y.k, changes(y.id) FROM t x JOIN t y ON y.id BETWEEN x.id AND x.id + 9 WHERE x.id BETWEEN 3350 AND 3450 ORDER BY x.id, y.id');
-- Rows here and there, by index and by bitmap, some columns before others, and again.
SELECT * FROM ahead('SELECT id, b, e, c, changes(id) FROM t WHERE a BETWEEN 30 AND 33 AND k > 100 ORDER BY id');
SET LOCAL enable_indexscan = off;
SET LOCAL enable_bitmapscan = on;
SELECT * FROM ahead('SELECT id, b, e, c, changes(id) FROM t WHERE a BETWEEN 34 AND 37 AND k > 100 ORDER BY id');
SELECT dig('SELECT * FROM t WHERE a IN (5, 50, 77) OR id BETWEEN 4000 AND 4010');
SELECT dig('SELECT c FROM t WHERE a = 5');
SELECT dig('SELECT b, c, d, h FROM t WHERE a = 5');
SELECT dig('SELECT x.id, y.* FROM s x JOIN t y ON y.a = x.id % 100 WHERE x.id < 30 AND y.e <> x.w');
SET LOCAL enable_indexscan = on;
SET LOCAL enable_bitmapscan = off;
CREATE FUNCTION loops() RETURNS text LANGUAGE plpgsql AS $$
DECLARE one record; other record; digest text := '';
BEGIN
    FOR one IN SELECT * FROM t WHERE id BETWEEN 3700 AND 3900 ORDER BY id LOOP
        UPDATE t SET e = 'loop' WHERE id = one.id + 1;
        FOR other IN SELECT e, b FROM t WHERE id BETWEEN one.id - 2 AND one.id + 2 ORDER BY id LOOP
            digest := md5(digest || one::text || other::text);
        END LOOP;
        IF one.id % 7 = 0 THEN DELETE FROM t WHERE id = one.id + 2; END IF;
    END LOOP;
    RETURN digest;
END $$;
SELECT loops();
SELECT ordered('SELECT * FROM t WHERE id BETWEEN 3000 AND 4000 ORDER BY id');
ROLLBACK;
SELECT ordered('SELECT * FROM t WHERE id BETWEEN 3000 AND 4000 ORDER BY id');
-- Prepared, over changes of the table.
PREPARE p (int) AS SELECT * FROM t WHERE id = $1 AND k > 0;
PREPARE q (int) AS SELECT e, c FROM t WHERE id BETWEEN $1 AND $1 + 20 AND b LIKE '%1%' ORDER BY id;
SET plan_cache_mode = force_generic_plan;
EXECUTE p (1234);
EXECUTE q (1234);
ALTER TABLE t ALTER COLUMN a TYPE bigint;
EXECUTE p (1235);
ALTER TABLE t DROP COLUMN d, ADD COLUMN d2 text DEFAULT 'd2';
EXECUTE p (1236);
EXECUTE q (1236);
RESET plan_cache_mode;
-- Compiled, and by workers.
SET jit = on;
SET jit_above_cost = 0;
SET jit_optimize_above_cost = 0;
SELECT dig('SELECT * FROM t WHERE id BETWEEN 100 AND 3000 AND c > 50 AND b LIKE ''%2%''');
RESET jit;
SET debug_parallel_query = on;
SELECT dig('SELECT * FROM t WHERE id BETWEEN 100 AND 3000 AND c > 50 AND b LIKE ''%2%''');
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
SELECT dig('SELECT x.*, s.w FROM t x LEFT JOIN s ON s.t = x.id WHERE x.id BETWEEN 100 AND 9000 AND c > 50 AND b LIKE ''%2%''');
RESET debug_parallel_query;
DELETE FROM t WHERE id < 1000 AND k > 50 RETURNING b, e;
UPDATE t SET e = t.e || s.w FROM s WHERE s.t = t.id AND t.id < 2000 AND s.w LIKE '%3%' AND t.k > 1;
SELECT dig('SELECT * FROM t');
-- Long values that an expression has read before it asks for more of the row, and uses again.
CREATE TABLE long (id int PRIMARY KEY, a text, b text);
INSERT INTO long SELECT x, string_agg(md5((x * 7 + y)::text), ''), 'b' || x FROM generate_series(1, 40) x, generate_series(1, 6000) y GROUP BY x;
\if :cold
    CALL howdah.compact('long');
\endif
SELECT dig('SELECT id, md5(a) AS before, xmin IS NULL AS has_none, md5(a) AS after, b FROM long WHERE id > 0 AND length(a) > 9');
SELECT count(*) FROM (SELECT id, a, xmin AS x, a AS again FROM long WHERE id > 0 ORDER BY id OFFSET 5) y WHERE a <> again OR md5(a) <> md5(again);
SELECT dig('SELECT l.id, md5(l.a) FROM (SELECT a, cmin, id FROM long WHERE id > 0 OFFSET 3) l JOIN long m USING (id) WHERE l.a = m.a');

DROP SCHEMA late CASCADE;
