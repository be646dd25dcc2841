-- VACUUM removes index entries of cold rows that are dead to all, once.
CREATE SCHEMA vacuuming;
SET search_path = vacuuming;
SET howdah.load_threshold = 100;
SET client_min_messages = warning;

CREATE TABLE t (a int PRIMARY KEY, b text, d int[]) USING howdah WITH (autovacuum_enabled = off);
CREATE INDEX t_partial ON t (b) WHERE a > 10000;
CREATE INDEX t_gin ON t USING gin (d);
CREATE INDEX t_hash ON t USING hash (b);
INSERT INTO t SELECT i, 'x' || i % 1000, ARRAY[i % 50, i % 3] FROM generate_series(1, 30000) i;

-- Loads that fail leave entries behind.
BEGIN;
INSERT INTO t SELECT i, 'x' || i % 1000, ARRAY[i % 50, i % 3] FROM generate_series(30001, 60000) i;
ROLLBACK;
\set VERBOSITY terse
INSERT INTO t SELECT CASE WHEN i = 65000 THEN 1 ELSE i END, 'y', NULL FROM generate_series(60001, 65000) i;
\set VERBOSITY default
INSERT INTO t SELECT i, 'x' || i % 1000, ARRAY[i % 50, i % 3] FROM generate_series(30001, 35000) i;

-- The partial index counts what is left in it; the others are told the number of rows.
VACUUM (INDEX_CLEANUP off) t;
VACUUM t;
SELECT relname, reltuples FROM pg_class WHERE relnamespace = 'vacuuming'::regnamespace AND relkind IN ('r', 'i') ORDER BY 1;
VACUUM t;

-- Answers are the same before and after, by every index.
SET enable_seqscan = off;
SET howdah.columnar_scan = off;
SELECT count(*), sum(a) FROM t WHERE a > 0;
SELECT count(*), sum(a) FROM t WHERE d @> ARRAY[7];
SELECT count(*), sum(a) FROM t WHERE b = 'x5';
SELECT count(*), sum(a) FROM t WHERE b = 'x5' AND a > 10000;
INSERT INTO t SELECT i, 'x', NULL FROM generate_series(35001, 65000) i;
SELECT count(*), sum(a) FROM t WHERE a > 0;

-- The hot side is heap's: dead rows go, live rows are counted with the cold ones.
DELETE FROM t WHERE a <= 50;
VACUUM t;
SELECT relname, reltuples FROM pg_class WHERE oid IN ('t'::regclass, 't_pkey'::regclass) ORDER BY 1;
DELETE FROM t WHERE a <= 100 OR a BETWEEN 30001 AND 30100 OR a BETWEEN 35001 AND 35100;
VACUUM t;
VACUUM (FREEZE, INDEX_CLEANUP on) t;
SELECT relname, reltuples FROM pg_class WHERE oid IN ('t'::regclass, 't_pkey'::regclass) ORDER BY 1;
SELECT pg_relation_size('t') >= 8192 AS keeps_a_page;
SELECT count(*) FROM t WHERE a > 0;

-- Nothing but failed loads: the table is empty, and so are its indexes afterwards.
CREATE TABLE failed (a int PRIMARY KEY) USING howdah WITH (autovacuum_enabled = off);
BEGIN;
INSERT INTO failed SELECT generate_series(1, 20000);
ROLLBACK;
VACUUM failed;
INSERT INTO failed SELECT generate_series(1, 20000);
SELECT count(*) FROM failed WHERE a > 0;
TRUNCATE failed;
VACUUM failed;
SELECT count(*), pg_relation_size('failed') FROM failed;

-- Tables of other lifetimes.
CREATE TEMP TABLE temporary (a int PRIMARY KEY) USING howdah;
INSERT INTO temporary SELECT generate_series(1, 5000);
VACUUM ANALYZE temporary;
SELECT reltuples FROM pg_class WHERE oid = 'temporary'::regclass;
CREATE UNLOGGED TABLE unlogged (a int PRIMARY KEY) USING howdah;
INSERT INTO unlogged SELECT generate_series(1, 5000);
VACUUM ANALYZE unlogged;
SELECT reltuples FROM pg_class WHERE oid = 'unlogged'::regclass;

DROP TABLE temporary;
DROP SCHEMA vacuuming CASCADE;
