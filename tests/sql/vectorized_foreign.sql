-- Expressions that PostgreSQL evaluates for the vectorized engine: the same rows and errors as over heap.
-- vectorized_foreign_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA vectorized_foreign;
SET search_path = vectorized_foreign, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
\set vectorized :directory '/sql/vectorized.psql'
\i :vectorized
CREATE DOMAIN small AS int CHECK (value < 150);
CREATE TABLE t (id int, k int, s small, f float8, n numeric(12,2), m numeric, d date, ts timestamp, b bool,
    w text COLLATE "C", x text COLLATE "en-x-icu", c char(6), j jsonb, a int[], u uuid, p point);
INSERT INTO t SELECT i, i % 100, i % 7, (i % 13) * 0.25, (i % 777) / 100.0, (i % 50)::numeric / 3, date '2020-01-01' + i % 400,
    timestamp '2020-01-01' + i * interval '1 minute', i % 3 = 0, 'Word ' || i % 30, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'B' END || i % 11,
    'c' || i % 4, jsonb_build_object('a', i % 4, 'b', 'w' || i % 3), ARRAY[i % 2, i % 5], md5((i % 10)::text)::uuid, point(i % 3, 1)
FROM generate_series(1, 20000) i;
INSERT INTO t (id) SELECT 20000 + i FROM generate_series(1, 300) i;
SET howdah.load_threshold = 1000000;
INSERT INTO t SELECT (t).* FROM (SELECT t FROM t WHERE id % 500 = 1) t;
UPDATE t SET k = k + 1 WHERE id % 97 = 0 AND id < 20000;
DELETE FROM t WHERE id % 89 = 0;
ALTER TABLE t ADD COLUMN later text DEFAULT 'Later';
ANALYZE t;
-- Partitions, one of them with its columns in another order.
CREATE TABLE parts (id int, k int, w text COLLATE "C", j jsonb) PARTITION BY LIST (k);
CREATE TABLE parts0 PARTITION OF parts FOR VALUES IN (0);
CREATE TABLE parts1 (j jsonb, gone int, w text COLLATE "C", k int, id int);
ALTER TABLE parts1 DROP COLUMN gone;
ALTER TABLE parts ATTACH PARTITION parts1 FOR VALUES IN (1);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES IN (2) USING heap;
SET howdah.load_threshold = 100;
INSERT INTO parts SELECT i, i % 3, 'W' || i % 20, jsonb_build_object('a', i % 4) FROM generate_series(1, 9000) i;
ANALYZE parts;
CREATE TABLE little AS SELECT i AS id, i % 5 AS k FROM generate_series(1, 500) i;
ANALYZE little;
-- Functions of users.
CREATE FUNCTION twice(int) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN $1 * 2; END';
CREATE FUNCTION or_zero(int) RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN coalesce($1, 0); END';
CREATE FUNCTION nothing(int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION picky(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF $1 = 13 THEN RAISE EXCEPTION 'not %', $1 USING ERRCODE = 'P4242', DETAIL = 'A detail.', HINT = 'A hint.', TABLE = 'a_table'; END IF;
    RETURN $1;
END $$;
CREATE FUNCTION caught(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN RETURN picky($1); EXCEPTION WHEN SQLSTATE 'P4242' THEN RETURN -1; END $$;
CREATE FUNCTION by_sql(int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT sum(k) + $1 FROM little WHERE id <= $1';
-- Queries inside, by the engine: groups of groups.
CREATE FUNCTION reads(int) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE found bigint;
BEGIN SELECT sum(n) INTO found FROM (SELECT k, count(twice(id)) AS n FROM little WHERE or_zero(id) <= $1 GROUP BY k) s; RETURN found; END $$;
CREATE FUNCTION reads_badly(int) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE found bigint;
BEGIN
    BEGIN SELECT sum(picky(k + $1)) INTO found FROM little; EXCEPTION WHEN OTHERS THEN found := -1; END;
    RETURN found;
END $$;
CREATE TABLE query (id int GENERATED ALWAYS AS IDENTITY, text text) USING heap;
INSERT INTO query (text) VALUES
    -- In conjuncts, beside known ones, below OR and NOT.
    ('SELECT count(*) FROM t WHERE upper(w) = ''WORD 3'''),
    ('SELECT k, count(*), sum(id) FROM t WHERE id < 9000 AND md5(w) LIKE ''a%'' GROUP BY k'),
    ('SELECT count(*) FROM t WHERE b AND (k = 3 OR substr(w, 6) = ''7'')'),
    ('SELECT count(*) FROM t WHERE NOT (b AND lower(x) > ''b1'')'),
    ('SELECT count(*) FROM t WHERE twice(k) > 100 AND twice(k) < 150 AND or_zero(id) % 2 = 0'),
    ('SELECT count(*) FROM t WHERE x < ''b'''),
    ('SELECT count(*) FROM t WHERE c = ''c1'' OR j @> ''{"a": 2}'''),
    ('SELECT count(*) FROM t WHERE a @> ARRAY[4] AND a[1] = 0'),
    ('SELECT count(*) FROM t WHERE w ~ ''[37]$'' AND w ILIKE ''word%'''),
    ('SELECT count(*) FROM t WHERE nothing(k) IS NULL AND nothing(k) = ''a'' IS UNKNOWN'),
    ('SELECT count(*) FROM t WHERE p ~= point(1, 1)'),
    ('SELECT count(*) FROM t WHERE later || k = ''Later7'''),
    ('SELECT count(*), min(id) FROM t WHERE k <> 13 AND picky(k) > 20'),
    ('SELECT count(*) FROM t WHERE k IS NULL OR k = 13 OR picky(k) > 20'),
    ('SELECT count(*) FROM t WHERE (k = 13) IS TRUE OR picky(k) > 20'),
    ('SELECT count(*) FROM t WHERE s + 1 = twice(s)'),
    ('SELECT count(*) FROM t WHERE twice(id) < 0'),
    -- What always is evaluated, and again where it may not be, with an operand that may fail: only there it is foreign.
    ('SELECT count(*) FILTER (WHERE k > 5) FROM t WHERE d > to_date(''2020-06-01'', ''YYYY-MM-DD'') AND (k = 1 OR d > to_date(''2020-06-01'', ''YYYY-MM-DD''))'),
    ('SELECT k % 7, count(*) FROM t WHERE d > to_date(''2020-06-01'', ''YYYY-MM-DD'') AND (k = 1 OR d > to_date(''2020-06-01'', ''YYYY-MM-DD'')) GROUP BY 1'),
    ('SELECT count(*) FILTER (WHERE w = ''Word 1'') FROM t WHERE d > to_date(''2020-06-01'', ''YYYY-MM-DD'') AND (k = 1 OR d > to_date(''2020-06-01'', ''YYYY-MM-DD''))'),
    ('SELECT count(*) FILTER (WHERE d > to_date(''2020-06-01'', ''YYYY-MM-DD'')), count(*) FILTER (WHERE k = 1 OR d > to_date(''2020-06-01'', ''YYYY-MM-DD'')), count(*) FILTER (WHERE w = ''Word 3'') FROM t'),
    ('SELECT count(*) FILTER (WHERE k = 1 OR d > to_date(''2020-06-01'', ''YYYY-MM-DD'')), count(*) FILTER (WHERE d > to_date(''2020-06-01'', ''YYYY-MM-DD'')), min(w) FILTER (WHERE w <> ''Word 3'') FROM t'),
    ('SELECT count(*), sum(k + 3) FROM t WHERE k > length(to_char(0, ''9'')) AND (b OR k > length(to_char(0, ''9''))) AND w >= ''Word 2'' AND n < 5.5'),
    -- Operands of foreign expressions and of known ones.
    ('SELECT count(*) FROM t WHERE round(m, 1) > 3 AND k > 4 AND w <> ''Word 1'' AND substr(w, 1, 3) = ''Wor'' AND n < 5.5'),
    ('SELECT sum(k + 3) FROM t WHERE (m * 2 > 3.5 OR c < ''c3'') AND n IN (0.07, 1.5, 2) AND x <> ''a1'' AND d > ''2020-02-02'''),
    -- As groups, distinct values, first rows.
    ('SELECT upper(w), count(*) FROM t GROUP BY 1'),
    ('SELECT j->>''b'', (j->>''a'')::int, sum(k), count(j->''a'') FROM t GROUP BY 1, 2'),
    ('SELECT date_trunc(''month'', ts), extract(dow FROM d), count(*) FROM t GROUP BY 1, 2'),
    ('SELECT CASE WHEN k > 50 THEN ''high'' WHEN k > 20 THEN w END, count(*), max(twice(k)) FROM t GROUP BY 1'),
    ('SELECT coalesce(w, ''none''), coalesce(k, -id), count(*) FROM t GROUP BY 1, 2'),
    ('SELECT DISTINCT length(w), k % 3, greatest(k, id % 10) FROM t WHERE id < 3000'),
    ('SELECT id % 10, round(m, 1), count(*) FROM t GROUP BY 1, 2'),
    ('SELECT n::int, m::text, count(*) FROM t GROUP BY 1, 2'),
    ('SELECT a[1], u::text, c::text, count(*) FROM t GROUP BY 1, 2, 3'),
    ('SELECT upper(w), count(*) FROM t WHERE upper(w) > ''WORD 2'' GROUP BY 1 HAVING max(upper(w)) <> ''WORD 29'''),
    ('SELECT reverse(w) AS r, count(*) AS n FROM t GROUP BY 1 ORDER BY n DESC, 1 LIMIT 5'),
    ('SELECT p[0], count(*) FROM t GROUP BY 1'),
    -- In arguments of aggregates and in their filters.
    ('SELECT sum(twice(k)), max(md5(w)), count(md5(later)), avg(length(w) * 2), bool_or(w ~ ''9'') FROM t'),
    ('SELECT k, count(*) FILTER (WHERE upper(w) LIKE ''%7''), sum(picky(k)) FILTER (WHERE k <> 13) FROM t GROUP BY k'),
    ('SELECT count(j->''a''), count(p), count(nothing(id)), count(a || k) FROM t'),
    ('SELECT sum((j->>''a'')::numeric), min(round(m)), max(ts + interval ''1 month'') FROM t'),
    ('SELECT sum(caught(k)), count(*) FROM t WHERE id < 5000'),
    ('SELECT b, sum(CASE WHEN k = 13 THEN 0 ELSE picky(k) END) FROM t GROUP BY b'),
    ('SELECT sum(s::text::small) FROM t'),
    -- Functions with queries of their own.
    ('SELECT k, sum(reads(k)), sum(by_sql(k)) FROM t WHERE id < 300 GROUP BY k'),
    ('SELECT sum(reads_badly(k)), count(*) FROM t WHERE id BETWEEN 19900 AND 20100'),
    ('SELECT reads(k) % 7, count(*) FROM t WHERE by_sql(id) > 100 AND id < 400 GROUP BY 1'),
    -- Partitions.
    ('SELECT lower(w), count(*), sum(twice(id)) FROM parts GROUP BY 1'),
    ('SELECT j->>''a'', count(*) FROM parts WHERE upper(w) <> ''W3'' AND k <> 0 GROUP BY 1'),
    ('SELECT DISTINCT twice(k) FROM parts WHERE w ~ ''1''');
SELECT id, text FROM query WHERE :cold AND NOT taken(text) ORDER BY id;
SELECT id, dig(text) FROM query ORDER BY id;
SET howdah.threads = 0;
SELECT md5(string_agg(dig(text), ' ' ORDER BY id)) FROM query;
SET howdah.threads = 1;
SELECT md5(string_agg(dig(text), ' ' ORDER BY id)) FROM query;
RESET howdah.threads;
SET jit_above_cost = 0;
SELECT md5(string_agg(dig(text), ' ' ORDER BY id)) FROM query;
RESET jit_above_cost;
CREATE TABLE first (id int GENERATED ALWAYS AS IDENTITY, text text) USING heap;
INSERT INTO first (text) VALUES
    ('SELECT id, upper(w), twice(k) FROM t ORDER BY id DESC LIMIT 7'),
    ('SELECT id, w FROM t ORDER BY md5(w), id LIMIT 20'),
    ('SELECT id, j FROM t WHERE upper(w) = ''WORD 5'' ORDER BY twice(k) DESC NULLS LAST, id LIMIT 9 OFFSET 3'),
    ('SELECT id FROM t WHERE twice(id) > 30000 ORDER BY k, or_zero(id) LIMIT 5'),
    ('SELECT id FROM parts WHERE twice(id) > 30 ORDER BY k, reverse(w), id LIMIT 5'),
    ('SELECT picky(k) FROM t WHERE k <> 13 ORDER BY picky(k), id LIMIT 0');
SELECT id, text FROM first WHERE :cold AND NOT taken(text) ORDER BY id;
SELECT id, ordered(text) FROM first ORDER BY id;
-- Errors are the functions' own, with all that they tell.
\set SHOW_CONTEXT errors
\set VERBOSITY verbose
SELECT sum(picky(k)) FROM t;
\set VERBOSITY default
SELECT k, count(*) FROM t WHERE id < 2000 AND picky(k) > 3 GROUP BY 1;
SELECT count(*) FROM t WHERE ('x' || w)::int = 3 AND id = 7;
SELECT sum((id + 143)::small) FROM t WHERE id < 10;
DO $$
DECLARE context text; name text;
BEGIN
    PERFORM sum(picky(k)) FROM t;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT, name = TABLE_NAME;
    RAISE EXCEPTION '% % (%)', SQLERRM, name, split_part(context, E'\n', 1);
END $$;
\set SHOW_CONTEXT never
-- Not evaluated for rows that were filtered before, nor if no row is left.
SELECT count(*) FROM t WHERE picky(13 + id * 0) > 0 AND id < 0;
SELECT sum(picky(13 + id * 0)) FROM t WHERE id < 0;
-- Caught, and everything goes on.
BEGIN;
SAVEPOINT a;
SELECT sum(picky(k)) FROM t;
ROLLBACK TO a;
SELECT sum(caught(k)) FROM t;
COMMIT;
-- Parameters and rescans.
SET plan_cache_mode = force_generic_plan;
PREPARE q(text, int) AS SELECT count(*), sum(twice(k + $2)) FROM t WHERE upper(w) = upper($1) AND substr(w, $2) <> '';
EXECUTE q('word 3', 1);
EXECUTE q('word 4', 2);
EXECUTE q(NULL, 1);
RESET plan_cache_mode;
SELECT g, (SELECT sum(twice(k) + g) FROM t WHERE substr(w, 6) = g::text) FROM generate_series(1, 4) g;
SELECT g, s.* FROM generate_series(1, 3) g, LATERAL (SELECT upper(w), count(*) FROM t WHERE twice(k) = g * 2 GROUP BY 1 ORDER BY 1 LIMIT 2) s;
-- Variables of a function.
CREATE FUNCTION by_variable(start int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text := ''; part text;
BEGIN
    FOR i IN start .. start + 2 LOOP
        SELECT found || ' ' || count(*) INTO part FROM t WHERE substr(w, i) = 'd 7' OR right(w, i) = 'd 8' OR length(part || w) = i;
        found := part;
    END LOOP;
    RETURN found;
END $$;
SELECT by_variable(3), by_variable(4);
-- What the planner found known is so no more, and the reverse.
PREPARE s AS SELECT sum(k + 3), max(upper(w)) FROM t WHERE upper(w) > 'WORD 2' AND k > 5 AND n < 7;
EXECUTE s;
SET howdah.debug_disabled_functions = 'int4pl, int4gt';
EXECUTE s;
DEALLOCATE s;
PREPARE s AS SELECT sum(k + 3), max(upper(w)) FROM t WHERE upper(w) > 'WORD 2' AND k > 5 AND n < 7;
EXECUTE s;
RESET howdah.debug_disabled_functions;
EXECUTE s;
-- A function that is replaced, or dropped, between executions.
PREPARE r AS SELECT sum(twice(k)) FROM t;
EXECUTE r;
CREATE OR REPLACE FUNCTION twice(int) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN $1 * 20; END';
EXECUTE r;
DROP FUNCTION twice(int);
EXECUTE r;
-- Rows of the running transaction and of loads that are not written yet; functions that write.
CREATE TABLE heard (id int) USING heap;
CREATE FUNCTION hears(int) RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN PERFORM note($1); RETURN $1; END';
CREATE FUNCTION note(int) RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO heard VALUES ($1); INSERT INTO t (id) VALUES (-$1); END';
BEGIN;
SET LOCAL howdah.load_threshold = 0;
INSERT INTO t (id, k, w) SELECT 50000 + i, 7, 'own ' || i % 3 FROM generate_series(1, 2000) i;
SELECT upper(w), count(*) FROM t WHERE id > 50000 GROUP BY 1 ORDER BY 1;
SELECT sum(hears(id)) FROM t WHERE id > 51990;
SELECT count(*) FROM heard;
SELECT count(*) FROM t WHERE id < 0;
ROLLBACK;
-- Text that is not valid in the database's encoding: its rows stay hot, and the query is PostgreSQL's own.
BEGIN;
CREATE CAST (bytea AS text) WITHOUT FUNCTION;
INSERT INTO t (id, k, w) SELECT 60000 + i, 8, ('\x6162ff'::bytea)::text FROM generate_series(1, 3) i;
SELECT octet_length(w), count(*), count(DISTINCT w) FROM t WHERE id > 60000 GROUP BY 1;
SELECT octet_length(max(w)) FROM t WHERE id > 60000;
SELECT count(*) FROM t WHERE w = ('\xff42'::bytea)::text;
SELECT count(*) FROM t WHERE w < ('\xff42'::bytea)::text AND id <= 2000;
SELECT count(*) FROM t WHERE w = ANY (ARRAY['a', ('\x6162ff'::bytea)::text]);
SELECT count(*), count(*) FILTER (WHERE w <> ('\xff42'::bytea)::text) AS others FROM t WHERE w NOT LIKE ('\xff25'::bytea)::text;
PREPARE same (text) AS SELECT count(*) FROM t WHERE w = $1;
EXECUTE same (('\x6162ff'::bytea)::text);
DEALLOCATE same;
DELETE FROM t WHERE w = ('\xff42'::bytea)::text;
CREATE FUNCTION broken(int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN ('\xff'::bytea)::text; END $$;
SELECT octet_length(broken(id)), count(*) FROM t WHERE id <= 2000 GROUP BY 1;
ROLLBACK;
-- Leaky functions come after row security; rights to functions are checked.
CREATE FUNCTION leaks(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 0.0001 AS $$ BEGIN RAISE WARNING 'saw %', $1; RETURN true; END $$;
CREATE FUNCTION allowed(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 100000 AS $$ BEGIN RETURN $1 BETWEEN 2 AND 3; END $$;
CREATE ROLE vectorized_foreign_reader;
GRANT USAGE ON SCHEMA vectorized_foreign TO vectorized_foreign_reader;
GRANT SELECT ON t TO vectorized_foreign_reader;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON t USING (allowed(id));
SET ROLE vectorized_foreign_reader;
SELECT count(*) FROM t WHERE leaks(id);
SELECT sum(leaks(id)::int), max(id) FROM t;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION leaks(int) FROM public;
SET ROLE vectorized_foreign_reader;
SELECT count(*) FROM t WHERE leaks(id);
RESET ROLE;
DROP OWNED BY vectorized_foreign_reader;
DROP ROLE vectorized_foreign_reader;
SET client_min_messages = warning;
DROP SCHEMA vectorized_foreign CASCADE;
