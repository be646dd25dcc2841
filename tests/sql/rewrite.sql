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
DELETE FROM t WHERE (ctid::text::point)[0] < 2147483648 AND b LIKE 'x1%';
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

-- Materialized views.
CREATE MATERIALIZED VIEW v USING howdah AS SELECT * FROM t;
CREATE UNIQUE INDEX ON v (a);
SELECT count(*), bool_or((ctid::text::point)[0] >= 2147483648) AS cold FROM v;
REFRESH MATERIALIZED VIEW v;
SELECT count(*) FROM (SELECT v::text FROM v EXCEPT ALL SELECT h::text FROM h) x;
INSERT INTO t (a, b) VALUES (-1, 'new');
REFRESH MATERIALIZED VIEW CONCURRENTLY v;
SELECT count(*) FROM v WHERE a = -1;

DROP SCHEMA rewriting CASCADE;
