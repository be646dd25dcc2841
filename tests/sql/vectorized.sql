-- Groups, aggregates, distinct and first rows by the vectorized engine: the same rows and errors as over heap.
-- vectorized_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA vectorized;
SET search_path = vectorized, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
\set vectorized :directory '/sql/vectorized.psql'
\i :vectorized
CREATE TABLE t (id int, k2 int2, k4 int4, k8 int8, f4 float4, f8 float8, n numeric(12,2), m numeric, d date, ts timestamp,
    tz timestamptz, tm time, b bool, u uuid, w text COLLATE "C", x text, v varchar(20), c char(6), e bytea, j jsonb, a int[]);
INSERT INTO t SELECT i, i % 7, i % 100, i::int8 * 3000000000, (i % 13) * 0.25, (i % 1000) / 8.0, (i % 777) / 100.0,
    (i % 50)::numeric / 3, date '2020-01-01' + i % 400, timestamp '2020-01-01' + i * interval '1 minute',
    timestamptz '2020-01-01' + i * interval '1 hour', time '00:00' + i % 1440 * interval '1 minute', i % 3 = 0,
    md5((i % 10)::text)::uuid, 'word ' || i % 30, 'text ' || i % 11, 'v' || i % 5, 'c' || i % 4, decode(md5((i % 3)::text), 'hex'),
    jsonb_build_object('a', i % 4), ARRAY[i % 2]
FROM generate_series(1, 20000) i;
-- NULLs, extremes, what is equal and looks different.
INSERT INTO t (id) SELECT 20000 + i FROM generate_series(1, 300) i;
INSERT INTO t (id, k2, k4, k8, f4, f8, n, m, d, ts, tz, w)
SELECT 30000 + i, v.* FROM generate_series(1, 60) i, (VALUES
    (32767, 2147483647, 9223372036854775807, 'NaN'::float4, 'NaN'::float8, 9999999999.99, 'NaN'::numeric, 'infinity'::date, 'infinity'::timestamp, '-infinity'::timestamptz, ''),
    (-32768, -2147483648, -9223372036854775808, '-Infinity', 'Infinity', -9999999999.99, 1.10, '-infinity', '-infinity', 'infinity', 'ä'),
    (0, 0, 0, '-0', '-0', 0.00, 1.1, '4713-01-01 BC', '2000-01-01', '2000-01-01', NULL)) v;
-- Rows that are hot, changed, gone.
SET howdah.load_threshold = 1000000;
INSERT INTO t SELECT (t).* FROM (SELECT t FROM t WHERE id % 500 = 1) t;
UPDATE t SET k4 = k4 + 1 WHERE id % 97 = 0 AND id < 20000;
DELETE FROM t WHERE id % 89 = 0;
ALTER TABLE t ADD COLUMN later int DEFAULT 42;
ANALYZE t;
CREATE TABLE query (id int GENERATED ALWAYS AS IDENTITY, text text);
INSERT INTO query (text) VALUES
    ('SELECT count(*), count(k4), count(j), count(a), count(c) FROM t'),
    ('SELECT sum(k2), sum(k4), sum(id), avg(k2), avg(k4), min(k8), max(k8), sum(k8), avg(k8) FROM t'),
    ('SELECT sum(f8), avg(f8), min(f8), max(f8), sum(f4), min(f4), max(f4) FROM t WHERE id <= 20000'),
    ('SELECT min(f8) + 0, max(f8), min(f4), max(f4) FROM t'),
    ('SELECT sum(n), avg(n), min(n), max(n) FROM t'),
    ('SELECT min(d), max(d), min(ts), max(ts), min(tz), max(tz), min(tm), max(tm) FROM t'),
    ('SELECT bool_and(b), bool_or(b), every(b IS NULL), min(w), max(w) FROM t'),
    ('SELECT k2, count(*), sum(k4) FROM t GROUP BY k2'),
    ('SELECT k4, b, avg(n), count(*) FILTER (WHERE k2 > 3) FROM t GROUP BY k4, b'),
    ('SELECT w, x, v, count(*), min(id), max(id) FROM t GROUP BY 1, 2, 3'),
    ('SELECT f8, count(*) FROM t GROUP BY f8'),
    ('SELECT f4, count(*) FROM t WHERE id < 25000 GROUP BY f4'),
    ('SELECT n, count(*) FROM t GROUP BY n'),
    ('SELECT d, max(ts) FROM t GROUP BY d'),
    ('SELECT u, count(*), sum(id) FROM t GROUP BY u'),
    ('SELECT e, count(*) FROM t GROUP BY e'),
    ('SELECT k8, count(*) FROM t GROUP BY k8 HAVING count(*) > 1'),
    ('SELECT k2 + 1, k2 * k4, count(*) FROM t WHERE k2 BETWEEN 0 AND 100 GROUP BY k2 + 1, k2 * k4'),
    ('SELECT DISTINCT k2, b FROM t'),
    ('SELECT DISTINCT w FROM t WHERE x <> ''text 3'''),
    ('SELECT later, count(*) FROM t GROUP BY later'),
    ('SELECT count(*) FROM t WHERE later > 41 AND id < 100'),
    ('SELECT count(*) FROM t WHERE k4 IN (1, 5, 7, NULL) OR w LIKE ''word 2%'''),
    ('SELECT count(*) FROM t WHERE k4 NOT IN (1, 5, 7)'),
    ('SELECT count(*) FROM t WHERE k4 NOT IN (1, NULL)'),
    ('SELECT count(*) FROM t WHERE NOT (b AND k2 > 2) AND (w IS NULL OR x IS NOT NULL)'),
    ('SELECT count(*) FROM t WHERE b IS NOT TRUE'),
    ('SELECT count(*) FROM t WHERE b IS UNKNOWN OR b'),
    ('SELECT count(*) FROM t WHERE f8 > ''Infinity'' OR f8 = ''-0'''),
    ('SELECT count(*) FROM t WHERE f8 = ''NaN'''),
    ('SELECT count(*) FROM t WHERE d > ''2020-06-01'' AND ts < ''2020-01-10'' AND tz >= ''2020-01-01'''),
    ('SELECT count(*) FROM t WHERE ts = ''infinity'' OR d = ''-infinity'''),
    ('SELECT count(*) FROM t WHERE k8 > k4 AND k2 = k4'),
    ('SELECT count(*) FROM t WHERE u = md5(''3'')::uuid AND e <> ''\x00'''),
    ('SELECT count(*) FROM t WHERE n = 1.1 OR n > 7.70'),
    ('SELECT count(*) FROM t WHERE false IS NULL'),
    ('SELECT count(*), sum(k2) FROM t WHERE id < 0'),
    ('SELECT k2, sum(k2) FROM t WHERE id < 0 GROUP BY k2'),
    ('SELECT sum(10000 / k2) FROM t WHERE k2 <> 0 AND id <= 20000'),
    ('SELECT sum(k4 - k2), sum(k4 % 7), sum(-k2), sum(k8 / 1000) FROM t WHERE id <= 20000'),
    ('SELECT sum(f8 * 2 + f4), max(f8 - 1) FROM t WHERE id <= 20000'),
    ('SELECT m, count(*) FROM t GROUP BY m'),
    ('SELECT sum(m), max(m) FROM t WHERE id <= 20000'),
    ('SELECT count(later), count(e), count(u), count(v), count(c), count(b), count(f4), count(m), sum(k2) FROM t'),
    ('SELECT k2, count(later), count(w), count(w) FILTER (WHERE b) FROM t GROUP BY k2'),
    ('SELECT count(later), count(j), count(a) FROM t WHERE id % 500 = 1'),
    ('SELECT count(*), sum(k4) FROM t WHERE w = ''word 7'' AND x <> ''text 3'''),
    ('SELECT count(*) FROM t WHERE w = ''no word'' OR v <> ''no word'' AND w > ''word 15'''),
    ('SELECT x, count(*) FROM t WHERE w IN (''word 1'', ''word 2'', ''word 3'', ''word 28'') GROUP BY x'),
    ('SELECT date_trunc(''month'', ts), date_trunc(''week'', ts), count(*) FROM t GROUP BY 1, 2'),
    ('SELECT min(date_trunc(''Decade'', ts)), max(date_trunc(''hour'', ts)), count(date_trunc(''quarter'', ts)) FROM t'),
    ('SELECT date_trunc(''mons'', ts), count(*) FROM t GROUP BY 1');
SELECT id, text FROM query WHERE :cold AND NOT taken(text) AND text !~ 'false IS NULL' ORDER BY id;
SELECT id, dig(text) FROM query ORDER BY id;
SET howdah.threads = 0;
SELECT md5(string_agg(dig(text), ' ' ORDER BY id)) FROM query;
RESET howdah.threads;
-- Few kilobytes for groups: PostgreSQL's own plan takes over, with the same result.
SET work_mem = '64kB';
SELECT dig('SELECT id, count(*) FROM t GROUP BY id'), dig('SELECT DISTINCT ts FROM t');
-- Also where an outer row starts it anew.
SELECT g, (SELECT count(*) FROM (SELECT id, count(*) FROM t WHERE k2 = g GROUP BY id) f) FROM generate_series(0, 7) g;
RESET work_mem;
-- First rows.
CREATE TABLE first (id int GENERATED ALWAYS AS IDENTITY, text text);
INSERT INTO first (text) VALUES
    ('SELECT id FROM t ORDER BY id LIMIT 7'),
    ('SELECT id, upper(w) FROM t ORDER BY id DESC, w LIMIT 7'),
    ('SELECT f8 FROM t ORDER BY f8 DESC LIMIT 100'),
    ('SELECT f8 FROM t ORDER BY f8 NULLS FIRST LIMIT 290'),
    ('SELECT k2, k4, w FROM t ORDER BY k2, k4 DESC, w DESC NULLS LAST LIMIT 50 OFFSET 10'),
    ('SELECT n, id FROM t WHERE b ORDER BY n DESC, id LIMIT 9'),
    ('SELECT ts, d FROM t ORDER BY ts DESC NULLS LAST, d LIMIT 70'),
    ('SELECT id, j, a, c FROM t WHERE k4 = 3 ORDER BY k8, id LIMIT 3'),
    ('SELECT x FROM t ORDER BY x COLLATE "C", id LIMIT 3'),
    ('SELECT * FROM t WHERE id <= 20000 ORDER BY id DESC, k4 LIMIT 20'),
    ('SELECT * FROM t WHERE k4 < 50 AND id BETWEEN 700 AND 19000 ORDER BY f8 DESC, id, k4 LIMIT 12'),
    ('SELECT later, w, u, e, a, id FROM t WHERE id <= 20000 ORDER BY k8 DESC, id, k4 LIMIT 40 OFFSET 30'),
    ('SELECT v, c, tm, m, id FROM t WHERE id % 500 > 1 AND id <= 20000 ORDER BY x COLLATE "C", id LIMIT 500'),
    ('SELECT id FROM t ORDER BY id LIMIT 0'),
    ('SELECT id FROM t WHERE id < 0 ORDER BY id LIMIT 5');
SELECT id, text FROM first WHERE :cold AND NOT taken(text) ORDER BY id;
SELECT id, ordered(text) FROM first ORDER BY id;
-- Errors are PostgreSQL's, and only of rows that came so far.
SELECT sum(1 / k2) FROM t;
SELECT sum(1 / k2) FROM t WHERE k2 <> 0 AND id < 1000;
SELECT sum(k4 + 1) FROM t;
SELECT sum(k2 * k2) FROM t;
SELECT count(*) FROM t WHERE k8 * 2 > 0;
SELECT sum(f8 * 1e308) FROM t WHERE id < 100;
SELECT count(*) FROM t WHERE f8 <> 0 AND 1 / f8 > 0.5 AND id <= 20000;
SELECT count(*) FROM t WHERE 1 / f8 > 0.5;
-- Parameters, rescans, subqueries.
PREPARE q(int, text) AS SELECT count(*), sum(k4) FROM t WHERE k2 = $1 AND w <> $2;
SET plan_cache_mode = force_generic_plan;
EXECUTE q(3, 'word 3');
EXECUTE q(4, 'word 4');
EXECUTE q(NULL, 'word 4');
PREPARE r(int[]) AS SELECT count(*) FROM t WHERE k4 = ANY ($1);
EXECUTE r('{1,2,3}');
EXECUTE r('{}');
EXECUTE r(NULL);
EXECUTE r('{NULL,1}');
RESET plan_cache_mode;
SELECT g, (SELECT count(*) FROM t WHERE k2 = g), (SELECT max(id) FROM t) FROM generate_series(1, 4) g;
SELECT g, s.* FROM generate_series(1, 3) g, LATERAL (SELECT k2, sum(id + g) FROM t WHERE k4 = g GROUP BY k2 ORDER BY k2 LIMIT 2) s;
WITH s AS MATERIALIZED (SELECT k2, count(*) AS n FROM t GROUP BY k2) SELECT count(*), sum(n) FROM s a JOIN s b USING (n);
SELECT count(*) FROM (SELECT DISTINCT k4 FROM t) s;
SELECT k2 FROM t GROUP BY k2 HAVING max(id) > (SELECT avg(id) FROM t) ORDER BY 1;
CREATE TABLE result AS SELECT k2, count(*) FROM t GROUP BY k2;
SELECT count(*) FROM result;
INSERT INTO result SELECT id, k4 FROM t ORDER BY id LIMIT 5;
SELECT count(*) FROM result;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k2, count(*) FROM t GROUP BY k2 ORDER BY k2;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH ALL FROM c;
COMMIT;
-- Rows of the running transaction, of loads that are not written yet, and of other snapshots.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*), sum(id) FROM t;
SET LOCAL howdah.load_threshold = 0;
INSERT INTO t SELECT (t).* FROM (SELECT t FROM t WHERE id BETWEEN 1000 AND 3000) t;
SELECT count(*), sum(id) FROM t;
DELETE FROM t WHERE id BETWEEN 1500 AND 1600;
SELECT k2, count(*) FROM t WHERE id BETWEEN 1000 AND 3000 GROUP BY k2 ORDER BY k2;
ROLLBACK;
SELECT count(*), sum(id) FROM t;
-- A zero that is negative in all rows of a group is shown so.
CREATE TABLE zeros AS SELECT '-0'::float8 AS f, '-0'::float4 AS g, i % 2 AS k FROM generate_series(1, 1000) i;
SELECT f, g, count(*), atan2(f, -1) < 0 AS is_negative FROM zeros GROUP BY f, g;
SELECT DISTINCT f FROM zeros;
SELECT k, g, count(*) FROM zeros GROUP BY k, g ORDER BY k;
-- Row security comes first.
CREATE FUNCTION leaks(int) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END $$;
CREATE ROLE vectorized_reader;
GRANT USAGE ON SCHEMA vectorized TO vectorized_reader;
GRANT SELECT ON t TO vectorized_reader;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON t USING (id < 10);
SET ROLE vectorized_reader;
SELECT count(*), max(id) FROM t;
SELECT count(*) FROM t WHERE 1 / (id - 5000) < 1;
RESET ROLE;
DROP OWNED BY vectorized_reader;
DROP ROLE vectorized_reader;
RESET client_min_messages;
SET client_min_messages = warning;
DROP SCHEMA vectorized CASCADE;
