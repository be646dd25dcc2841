-- Tables of two hundred columns, whose footers are longer than a piece and are read by the section: rows by index, scans, filters,
-- the engine, and what changes tables and rows. wide_tables_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA wide;
SET search_path = wide, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
\set vectorized :directory '/sql/vectorized.psql'
\i :vectorized
SET howdah.debug_force_vectorized = off;
-- Column k of row i: by k % 10 another type, and another encoding.
CREATE FUNCTION kind(k int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT ('{int,bigint,text,text,numeric,timestamptz,bool,float8,int,varchar(20)}'::text[])[1 + k % 10]
$$;
CREATE FUNCTION made(k int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT format((ARRAY['i / 100 + %1$s', 'hashint8extended(i, %1$s)', 'CASE WHEN i %% 5 > 0 THEN ''word '' || i * %1$s %% 30 END',
        'md5((i + %1$s)::text)', 'i * %1$s / 100.0', 'timestamptz ''2026-01-01 UTC'' + i * %1$s * interval ''1 min''',
        'CASE WHEN i %% 7 > 0 THEN (i + %1$s) %% 3 = 0 END', 'CASE i %% 90 WHEN 0 THEN ''NaN'' ELSE i / (%1$s + 1.0) END',
        'CASE WHEN i > 5000 THEN i %% 50 END', '''name '' || i / 3'])[1 + k % 10], k)
$$;
SELECT format('CREATE TABLE t (id int PRIMARY KEY, %s)', string_agg(format('c%s %s', k, kind(k)), ', ' ORDER BY k)) AS create_table,
       format('INSERT INTO t SELECT i, %s FROM generate_series(1, 10000) i', string_agg(made(k), ', ' ORDER BY k)) AS fill
FROM generate_series(1, 199) k \gset
:create_table;
:fill;
VACUUM ANALYZE t;
-- Whether all rows are in groups whose footers are longer than a piece. Over heap there are none.
CREATE FUNCTION is_wide() RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce(bool_and(footer_bytes > 8064), NOT EXISTS (SELECT FROM pg_class c JOIN pg_am a ON a.oid = relam
        WHERE c.oid = 't'::regclass AND amname = 'howdah')) FROM howdah.row_groups WHERE relation = 't'::regclass
$$;
SELECT is_wide();
-- The first and last columns, some between them, and all; each way of reading that the settings force.
CREATE TABLE queries (n int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO queries (query) VALUES
    ('SELECT id, c1, c199 FROM t WHERE id IN (1, 4999, 5001, 10000)'),
    ('SELECT * FROM t WHERE id IN (2, 8192, 8193, 9999)'),
    ('SELECT c102, c58, c33, c8 FROM t WHERE id BETWEEN 4900 AND 5100'),
    ('SELECT c2, c192, c50 FROM t WHERE id BETWEEN 5400 AND 5600'),
    ('SELECT c7, c70 FROM t'),
    ('SELECT c199, c3 FROM t WHERE c100 = 150'),
    ('SELECT id, c68, c77 FROM t WHERE c90 < 100 AND c198 IS NULL'),
    ('SELECT id, c9 FROM t WHERE c168 = 10 AND c12 IS NULL'),
    ('SELECT id FROM t WHERE c125 > ''2028-01-01 UTC'' AND c114 > 10000'),
    ('SELECT id, c144 FROM t WHERE c23 LIKE ''ab%'' OR c179 = ''name 77'''),
    ('SELECT count(*), count(c108), min(c101), max(c195), sum(c154) FROM t'),
    ('SELECT c22, count(*), count(c172), max(c3 COLLATE "C"), sum(c121::numeric) FROM t WHERE c110 >= 120 GROUP BY c22'),
    ('SELECT c16, c186, count(*), avg(c4), min(c119 COLLATE "C") FROM t GROUP BY c16, c186'),
    ('SELECT id, c115, c23 FROM t ORDER BY c115 DESC, id LIMIT 5'),
    ('SELECT a.id, b.c42 FROM t a JOIN t b ON b.id = a.id + 1 WHERE a.c150 = 222');
CREATE FUNCTION all_ways() RETURNS TABLE (n int, by_index text, by_row text, by_column text, by_engine text) LANGUAGE plpgsql AS $$
DECLARE one record; way text; given text[];
BEGIN
    FOR one IN SELECT * FROM queries q ORDER BY q.n LOOP
        given := '{}';
        FOREACH way IN ARRAY '{on off off off,off on off off,off on on off,off on on on}'::text[] LOOP
            PERFORM set_config('enable_indexscan', split_part(way, ' ', 1), true), set_config('enable_seqscan', split_part(way, ' ', 2), true),
                set_config('howdah.columnar_scan', split_part(way, ' ', 3), true), set_config('howdah.debug_force_vectorized', split_part(way, ' ', 4), true),
                set_config('howdah.vectorized', split_part(way, ' ', 4), true), set_config('enable_bitmapscan', 'off', true);
            given := given || dig(one.query);
        END LOOP;
        n := one.n;
        by_index := given[1];
        -- Shown where they differ.
        by_row := nullif(given[2], given[1]);
        by_column := nullif(given[3], given[1]);
        by_engine := nullif(given[4], given[1]);
        RETURN NEXT;
    END LOOP;
END $$;
SELECT * FROM all_ways();
BEGIN;
SET LOCAL howdah.debug_force_vectorized = on;
SELECT n, taken(query) OR NOT :cold AS taken FROM queries WHERE query LIKE '%sum(%' OR query LIKE '%ORDER BY%';
ROLLBACK;
-- Zones whose statistics say that no row passes are not read.
CREATE FUNCTION skips(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text; found boolean := false;
BEGIN
    SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL howdah.vectorized = off;
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
        found := found OR line ~ 'Zones: total=2 skipped=1';
    END LOOP;
    RETURN found;
END $$;
SELECT skips('SELECT c199, c3 FROM t WHERE c100 = 150') OR NOT :cold AS by_number,
    skips('SELECT id FROM t WHERE c125 > ''2028-01-01 UTC''') OR NOT :cold AS by_time;
-- Columns that go, and come; changes of rows; maintenance.
ALTER TABLE t DROP COLUMN c50, DROP COLUMN c199, ADD COLUMN c50 int DEFAULT 5, ADD COLUMN c199 text DEFAULT 'last';
UPDATE t SET c3 = 'changed', c198 = 77, c100 = c100 + 1 WHERE id % 500 = 3;
DELETE FROM t WHERE c168 = 7 OR id % 333 = 0;
UPDATE t SET c2 = c192 WHERE c90 = 145;
SELECT * FROM all_ways();
\if :cold
    CALL howdah.compact('t');
\endif
SELECT is_wide();
SELECT * FROM all_ways();
CLUSTER t USING t_pkey;
SELECT is_wide();
SELECT * FROM all_ways();
DROP SCHEMA wide CASCADE;
