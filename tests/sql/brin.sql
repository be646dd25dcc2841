-- BRIN indexes cover the hot side: a query never misses a cold row.
CREATE SCHEMA brin_;
SET search_path = brin_;
SET howdah.load_threshold = 1000;
CREATE FUNCTION sides(regclass) RETURNS TABLE (hot bigint, cold bigint) LANGUAGE plpgsql AS $$
BEGIN RETURN QUERY EXECUTE format('SELECT count(*) FILTER (WHERE (ctid::text::point)[0] < 2147483648),
  count(*) FILTER (WHERE (ctid::text::point)[0] >= 2147483648) FROM %s', $1); END $$;

-- A table with a BRIN index and without cold rows loads hot; the index is used.
CREATE TABLE t (a int, b text) USING howdah;
CREATE INDEX t_brin ON t USING brin (a);
INSERT INTO t SELECT i, i FROM generate_series(1, 30000) i;
SELECT * FROM sides('t');
SET enable_seqscan = off;
SET howdah.columnar_scan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE a = 777;
SELECT * FROM t WHERE a = 777;

-- Without the index loads go cold; the index, made again, is accepted but not used.
DROP INDEX t_brin;
INSERT INTO t SELECT i, i FROM generate_series(30001, 60000) i;
SELECT * FROM sides('t');
CREATE INDEX t_brin ON t USING brin (a);
CREATE INDEX CONCURRENTLY t_brin2 ON t USING brin (b);
SELECT * FROM t WHERE a = 44444;
SELECT * FROM t WHERE a = 777;
INSERT INTO t SELECT i, i FROM generate_series(60001, 90000) i;
SELECT * FROM sides('t');
SELECT * FROM t WHERE a = 77777;
SELECT count(*) FROM t WHERE a BETWEEN 29990 AND 60010;
SELECT brin_summarize_new_values('t_brin');
REINDEX INDEX t_brin;
REINDEX INDEX CONCURRENTLY t_brin2;
VACUUM t;
SELECT * FROM t WHERE a = 44444;
CREATE INDEX t_btree ON t (a);
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE a = 44444 ORDER BY a;

-- TRUNCATE takes the cold rows away: the index counts again.
TRUNCATE t;
DROP INDEX t_btree;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE a = 777;
INSERT INTO t SELECT i, i FROM generate_series(1, 5000) i;
SELECT * FROM sides('t');
SELECT * FROM t WHERE a = 777;

-- A table with an exclusion constraint loads hot.
CREATE TABLE x (a int, r int4range, EXCLUDE USING gist (r WITH &&)) USING howdah;
INSERT INTO x SELECT i, int4range(i * 2, i * 2 + 1) FROM generate_series(1, 5000) i;
SELECT * FROM sides('x');
\set VERBOSITY terse
INSERT INTO x VALUES (0, int4range(4000, 4001));
-- One that got it later has it checked over its cold rows.
CREATE TABLE y (a int, r int4range) USING howdah;
INSERT INTO y SELECT i, int4range(i * 2, i * 2 + 1) FROM generate_series(1, 5000) i;
SELECT * FROM sides('y');
ALTER TABLE y ADD EXCLUDE USING gist (r WITH &&);
INSERT INTO y VALUES (0, int4range(8000, 8001));
INSERT INTO y SELECT i, int4range(i * 2, i * 2 + 1) FROM generate_series(5001, 8000) i;
SELECT * FROM sides('y');
CREATE TABLE z (a int, r int4range) USING howdah;
INSERT INTO z SELECT i, int4range(i % 4000, i % 4000 + 1) FROM generate_series(1, 5000) i;
ALTER TABLE z ADD EXCLUDE USING gist (r WITH &&);

SET client_min_messages = warning;
DROP SCHEMA brin_ CASCADE;
