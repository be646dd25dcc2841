-- Statements that rewrite a table carry its cold rows over.
CREATE SCHEMA rewriting;
SET search_path = rewriting;
SET howdah.load_threshold = 1000;
SET client_min_messages = warning;

CREATE TABLE t (a int PRIMARY KEY, b text, d int[], big text) USING howdah;
CREATE TABLE h (LIKE t INCLUDING ALL) USING heap;
CREATE INDEX t_b ON t (b);
CREATE INDEX t_gin ON t USING gin (d);
INSERT INTO h SELECT (i * 7919) % 200003, 'x' || i % 1000, ARRAY[i % 50, i % 3],
    CASE WHEN i % 500 = 0 THEN repeat(md5(i::text), 3000) END FROM generate_series(1, 30000) i;
INSERT INTO t SELECT * FROM h;

CREATE FUNCTION compare() RETURNS TABLE (rows bigint, missing bigint, extra bigint, cold boolean) LANGUAGE sql AS $$
  SELECT (SELECT count(*) FROM t),
         (SELECT count(*) FROM (SELECT h::text FROM h EXCEPT ALL SELECT t::text FROM t) x),
         (SELECT count(*) FROM (SELECT t::text FROM t EXCEPT ALL SELECT h::text FROM h) x),
         (SELECT bool_or((ctid::text::point)[0] >= 2147483648) FROM t) $$;
SELECT * FROM compare();

-- VACUUM FULL, with a failed load before it.
BEGIN;
INSERT INTO t SELECT i + 1000000, 'x' FROM generate_series(1, 20000) i;
ROLLBACK;
VACUUM FULL t;
SELECT * FROM compare();
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
DELETE FROM t WHERE a % 7 = 3 AND b LIKE 'x1%';
DELETE FROM h WHERE a NOT IN (SELECT a FROM t);
VACUUM FULL t;
SELECT * FROM compare();

-- CLUSTER by a btree puts all rows into new row groups, in order; along another index, hot rows
-- are sorted and groups stay.
CREATE FUNCTION placed() RETURNS TABLE (cold bigint, hot bigint, out_of_order bigint, groups bigint, first_row bigint) LANGUAGE sql AS $$
  SELECT count(*) FILTER (WHERE is_cold), count(*) FILTER (WHERE NOT is_cold), count(*) FILTER (WHERE a < before),
         (SELECT count(*) FROM howdah.row_groups WHERE relation = 't'::regclass),
         (SELECT min(g.first_row) FROM howdah.row_groups g WHERE relation = 't'::regclass)
  FROM (SELECT a, lag(a) OVER (ORDER BY ctid) AS before, ctid >= '(2147483648,0)' AS is_cold FROM t) s $$;
SELECT out_of_order > 1000 AS out_of_order FROM placed();
SET howdah.row_group_bytes = '1MB';
CLUSTER t USING t_pkey;
RESET howdah.row_group_bytes;
SELECT * FROM compare();
SELECT cold > 29000 AS cold, hot, out_of_order, groups > 1 AS groups, first_row FROM placed();
INSERT INTO t SELECT -i, 'y' FROM generate_series(1, 100) i;
INSERT INTO h SELECT -i, 'y' FROM generate_series(1, 100) i;
CREATE INDEX t_gist ON t USING gist (int4range(a, a + 1));
CLUSTER t USING t_gist;
SELECT * FROM compare();
SELECT hot, groups > 1 AS groups, first_row FROM placed();
DROP INDEX t_gist;
-- Rows that cannot be cold, or that this transaction has locked, come first.
BEGIN;
INSERT INTO t VALUES (200010, 'long', NULL, repeat('long', 3000000)), (200011, 'short', NULL, NULL);
SELECT count(*) FROM (SELECT FROM t WHERE b = 'y' AND a > -4 FOR UPDATE) x;
CLUSTER t USING t_pkey;
SELECT a, left(b, 4) AS b, length(big) FROM t WHERE ctid < '(2147483648,0)' ORDER BY ctid;
SELECT hot, out_of_order FROM placed();
SELECT count(*), sum(a) FROM t WHERE b IN ('y', 'long', 'short');
ROLLBACK;
SELECT * FROM compare();
SELECT hot, out_of_order FROM placed();
CLUSTER t USING t_pkey;
SELECT hot, out_of_order FROM placed();
DELETE FROM t WHERE b = 'y';
DELETE FROM h WHERE b = 'y';

-- Columns that came and went.
ALTER TABLE t ADD COLUMN z int DEFAULT 5, ADD COLUMN w text;
ALTER TABLE h ADD COLUMN z int DEFAULT 5, ADD COLUMN w text;
SELECT * FROM compare();
INSERT INTO h SELECT i + 1000000, 'x', NULL, NULL, i, 'w' FROM generate_series(1, 3000) i;
INSERT INTO t SELECT * FROM h WHERE a >= 1000000;
VACUUM FULL t;
SELECT * FROM compare();
SELECT pg_total_relation_size('t') AS before_drop \gset
ALTER TABLE t DROP COLUMN big, DROP COLUMN d;
ALTER TABLE h DROP COLUMN big, DROP COLUMN d;
VACUUM FULL t;
SELECT * FROM compare();
SELECT pg_total_relation_size('t') < :before_drop AS smaller;

-- Inside a transaction, with rows that it loaded and rolled back.
BEGIN;
INSERT INTO t SELECT i + 2000000, 'x' FROM generate_series(1, 3000) i;
CLUSTER t USING t_b;
SAVEPOINT s;
INSERT INTO t SELECT i + 3000000, 'x' FROM generate_series(1, 3000) i;
DELETE FROM t WHERE ctid < '(5,1)';
ROLLBACK TO s;
CLUSTER t USING t_pkey;
SELECT count(*) FROM t WHERE a > 2000000;
ROLLBACK;
SELECT * FROM compare();

-- Every index knows every row.
SET enable_seqscan = off;
SET howdah.columnar_scan = off;
SELECT count(*) = (SELECT count(*) FROM h) AS same FROM t WHERE a >= 0;
SELECT count(*) = (SELECT count(*) FROM h WHERE b = 'x77') AS same FROM t WHERE b = 'x77';
RESET enable_seqscan;
RESET howdah.columnar_scan;

-- ALTER TABLE.
ALTER TABLE t ALTER COLUMN z TYPE bigint;
ALTER TABLE h ALTER COLUMN z TYPE bigint;
SELECT * FROM compare();
ALTER TABLE t SET UNLOGGED;
SELECT * FROM compare();
ALTER TABLE t SET LOGGED;
SELECT * FROM compare();
ALTER TABLE t SET ACCESS METHOD heap;
SELECT * FROM compare();
ALTER TABLE t SET ACCESS METHOD howdah;
SELECT * FROM compare();
ALTER TABLE t ALTER COLUMN b TYPE varchar;
SELECT * FROM compare();

-- The TOAST relation itself.
SELECT format('VACUUM FULL %s', reltoastrelid::regclass) AS statement FROM pg_class WHERE oid = 't'::regclass \gset
:statement;
SELECT * FROM compare();
SELECT format('REINDEX TABLE CONCURRENTLY %s', reltoastrelid::regclass) AS statement FROM pg_class WHERE oid = 't'::regclass \gset
:statement;
SELECT * FROM compare();

-- A heap table that never needed a TOAST relation gets its cold store.
CREATE TABLE narrow (a int, b int) USING heap;
INSERT INTO narrow SELECT i, i FROM generate_series(1, 5000) i;
ALTER TABLE narrow SET ACCESS METHOD howdah;
SELECT reltoastrelid <> 0 AS has_cold_store FROM pg_class WHERE oid = 'narrow'::regclass;
INSERT INTO narrow SELECT i, i FROM generate_series(5001, 10000) i;
SELECT count(*), sum(a), bool_or((ctid::text::point)[0] >= 2147483648) AS cold FROM narrow;
ALTER TABLE narrow SET ACCESS METHOD heap;
SELECT count(*), sum(a) FROM narrow;

-- VACUUM FULL makes cold what may be, if it is more than a load leaves hot or there are cold rows already.
CREATE FUNCTION sides(t regclass, OUT cold bigint, OUT hot bigint, OUT ids bigint) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('SELECT count(*) FILTER (WHERE ctid >= ''(2147483648,0)''), count(*) FILTER (WHERE ctid < ''(2147483648,0)''), sum(id) FROM %s', t)
  INTO cold, hot, ids;
END $$;
SET howdah.bulk_load = off;
CREATE TABLE full_of (id int PRIMARY KEY, n int, word text, big text) USING howdah;
CREATE INDEX ON full_of (n);
CREATE INDEX ON full_of USING brin (id);
INSERT INTO full_of SELECT i, (i * 7919) % 20011, 'w' || i FROM generate_series(1, 900) i;
RESET howdah.bulk_load;
VACUUM FULL full_of;
SELECT * FROM sides('full_of');
SET howdah.bulk_load = off;
INSERT INTO full_of SELECT i, (i * 7919) % 20011, 'w' || i FROM generate_series(901, 20000) i;
VACUUM FULL full_of;
SELECT * FROM sides('full_of');
RESET howdah.bulk_load;
-- Values of every size: inline, out of line, too large to be cold; dropped columns; columns with a default.
UPDATE full_of SET big = repeat(md5(id::text), 1000) WHERE id % 1000 = 0;
UPDATE full_of SET big = (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 1000) i) WHERE id % 2000 = 1;
UPDATE full_of SET big = repeat('long', 3000000) WHERE id = 77;
ALTER TABLE full_of DROP COLUMN word, ADD COLUMN later int DEFAULT 5;
DELETE FROM full_of WHERE id % 10 = 3;
CREATE TABLE full_before AS SELECT id, n, md5(big) AS big, later FROM full_of;
VACUUM FULL full_of;
SELECT * FROM sides('full_of');
SELECT pg_relation_size('full_of') < 32768 AS shrunk;
SELECT count(*) FROM (SELECT id, n, md5(big), later FROM full_of EXCEPT ALL TABLE full_before) x;
SELECT count(*) FROM (TABLE full_before EXCEPT ALL SELECT id, n, md5(big), later FROM full_of) x;
SELECT count(DISTINCT first_row) = count(*) AS distinct_places, sum(row_count) FROM howdah.row_groups WHERE relation = 'full_of'::regclass;
SET enable_seqscan = off;
SET howdah.columnar_scan = off;
SELECT count(*), sum(id) FROM full_of WHERE id > 0;
SELECT count(*), sum(id) FROM full_of WHERE n BETWEEN 100 AND 200;
SELECT id, later, length(big) FROM full_of WHERE id IN (77, 1000, 2001) ORDER BY id;
RESET enable_seqscan;
RESET howdah.columnar_scan;
-- Twice is once; hot rows join cold ones; the sort key holds inside a group.
VACUUM FULL full_of;
SELECT * FROM sides('full_of');
INSERT INTO full_of (id, n) SELECT 30000 + i, (i * 7919) % 211 FROM generate_series(1, 200) i;
SELECT howdah.set_options('full_of', sort_key => '{n}');
VACUUM FULL full_of;
SELECT * FROM sides('full_of');
SELECT bool_and(n >= before) AS sorted FROM (SELECT n, lag(n, 1, 0) OVER (ORDER BY ctid) AS before FROM full_of WHERE id > 30000) x;

-- Materialized views.
CREATE MATERIALIZED VIEW v USING howdah AS SELECT * FROM t;
CREATE UNIQUE INDEX ON v (a);
SELECT count(*), bool_or((ctid::text::point)[0] >= 2147483648) AS cold FROM v;
REFRESH MATERIALIZED VIEW v;
SELECT count(*) FROM (SELECT v::text FROM v EXCEPT ALL SELECT h::text FROM h) x;
INSERT INTO t (a, b) VALUES (-1, 'new');
REFRESH MATERIALIZED VIEW CONCURRENTLY v;
SELECT count(*) FROM v WHERE a = -1;

-- xmin as the number of a version: a stale one matches no row, whatever froze or rewrote the table meanwhile.
CREATE TABLE versions (id int PRIMARY KEY, n int) USING howdah;
CREATE FUNCTION row_version() RETURNS xid LANGUAGE sql AS 'SELECT xmin FROM versions WHERE id = 3';
SET howdah.load_threshold = 100;
INSERT INTO versions SELECT i, 0 FROM generate_series(1, 1000) i;
VACUUM FREEZE versions;
SELECT row_version() AS version \gset
UPDATE versions SET n = n + 1 WHERE id = 3;
VACUUM FULL versions;
UPDATE versions SET n = -1 WHERE id = 3 AND xmin = :'version';
SELECT row_version() AS version \gset
UPDATE versions SET n = n + 1 WHERE id = 3;
CLUSTER versions USING versions_pkey;
UPDATE versions SET n = -1 WHERE id = 3 AND xmin = :'version';
SELECT row_version() AS version \gset
UPDATE versions SET n = n + 1 WHERE id = 3;
CALL howdah.compact('versions');
VACUUM FREEZE versions;
UPDATE versions SET n = -1 WHERE id = 3 AND xmin = :'version';
SELECT row_version() AS version \gset
VACUUM FREEZE versions;
UPDATE versions SET n = n + 10 WHERE id = 3 AND xmin = :'version';
TABLE versions ORDER BY n DESC LIMIT 1;

DROP SCHEMA rewriting CASCADE;
