-- Index builds over hot and cold rows, of every kind, serial, parallel and concurrent.
-- Each answer is compared with that of a heap twin.
CREATE SCHEMA indexes;
SET search_path = indexes;
SET howdah.load_threshold = 1000;
-- Index scans are what is tested.
SET howdah.columnar_scan = off;

CREATE TABLE t (a int, b text, c int, d int[], e int4range, p point) USING howdah;
CREATE TABLE h (LIKE t) USING heap;
INSERT INTO h SELECT i, 'x' || i % 1000, i % 7, ARRAY[i % 50, i % 3], int4range(i, i + 5), point(i % 100, i / 100)
  FROM generate_series(1, 30000) i;
-- Hot rows first, then cold ones.
SET howdah.bulk_load = off;
INSERT INTO t SELECT * FROM h LIMIT 1000;
RESET howdah.bulk_load;
INSERT INTO t SELECT * FROM h OFFSET 1000;
SELECT count(*) FILTER (WHERE (ctid::text::point)[0] < 2147483648) AS hot,
       count(*) FILTER (WHERE (ctid::text::point)[0] >= 2147483648) AS cold FROM t;

-- For a condition: does heap answer the same, and did the index answer?
CREATE FUNCTION check_condition(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; index text := 'no index'; here record; there record;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) SELECT count(*), sum(a) FROM t WHERE ' || condition LOOP
    index := coalesce(substring(line FROM 'Index(?: Only)? Scan (?:using|on) (\w+)'), index);
  END LOOP;
  EXECUTE 'SELECT count(*), sum(a) FROM t WHERE ' || condition INTO here;
  EXECUTE 'SELECT count(*), sum(a) FROM h WHERE ' || condition INTO there;
  RETURN format('%s rows by %s: %s', here.count, index, CASE WHEN here = there THEN 'same' ELSE format('heap has %s', there) END);
END $$;

CREATE UNIQUE INDEX t_btree ON t (a);
CREATE INDEX t_partial ON t (b) WHERE c = 3;
CREATE INDEX t_expression ON t ((a * 2 + c));
CREATE INDEX t_hash ON t USING hash (b);
CREATE INDEX t_gin ON t USING gin (d);
CREATE INDEX t_gist ON t USING gist (e);
CREATE INDEX t_spgist ON t USING spgist (p);
CREATE INDEX t_covering ON t (c, a) INCLUDE (b);
SET enable_seqscan = off;
SELECT check_condition('a BETWEEN 200 AND 29000');
SELECT check_condition('b = ''x5'' AND c = 3');
SELECT check_condition('a * 2 + c BETWEEN 500 AND 59000');
SELECT check_condition('b = ''x77''');
SELECT check_condition('d @> ARRAY[7]');
SELECT check_condition('e @> 777 OR e @> 7777');
SELECT check_condition('p <@ box ''(0,0),(5,200)''');
SELECT check_condition('c = 5 AND a > 100');
SELECT relname, reltuples FROM pg_class WHERE relnamespace = 'indexes'::regnamespace AND relkind = 'i'
   AND relname <> 't_gin' ORDER BY 1;

-- Built concurrently, and anew.
CREATE UNIQUE INDEX CONCURRENTLY t_concurrent ON t (a);
DROP INDEX t_btree;
SELECT check_condition('a BETWEEN 200 AND 29000');
REINDEX TABLE t;
SELECT check_condition('a BETWEEN 200 AND 29000');
SELECT check_condition('d @> ARRAY[7]');
REINDEX TABLE CONCURRENTLY t;
SELECT check_condition('a BETWEEN 200 AND 29000');
SELECT check_condition('p <@ box ''(0,0),(5,200)''');

-- In parallel.
SET min_parallel_table_scan_size = 0;
SET max_parallel_maintenance_workers = 2;
ALTER TABLE t SET (parallel_workers = 2);
CREATE INDEX t_parallel ON t (a);
DROP INDEX t_concurrent;
SELECT check_condition('a BETWEEN 200 AND 29000');
REINDEX INDEX t_gin;
SELECT check_condition('d @> ARRAY[7]');
RESET min_parallel_table_scan_size;

-- A load keeps the indexes.
INSERT INTO h SELECT i, 'x' || i % 1000, i % 7, ARRAY[i % 50, i % 3], int4range(i, i + 5), point(i % 100, i / 100)
  FROM generate_series(30001, 40000) i;
INSERT INTO t SELECT * FROM h WHERE a > 30000;
SELECT check_condition('a > 29990');
SELECT check_condition('d @> ARRAY[7]');
SELECT check_condition('b = ''x77''');

-- Uniqueness is checked over both sides: cold against cold, cold against hot.
\set VERBOSITY terse
CREATE UNIQUE INDEX t_fails ON t (c);
CREATE UNIQUE INDEX CONCURRENTLY t_fails ON t (c);
SELECT indisvalid FROM pg_index WHERE indexrelid = 't_fails'::regclass;
DROP INDEX t_fails;
INSERT INTO t (a) VALUES (29999);
CREATE UNIQUE INDEX t_fails ON t (a);
DELETE FROM t WHERE ctid = (SELECT ctid FROM t WHERE a = 29999 AND b IS NULL);
CREATE UNIQUE INDEX t_unique ON t (a);
INSERT INTO t (a) VALUES (29999);
INSERT INTO t (a) SELECT i FROM generate_series(45000, 39990, -1) i;
INSERT INTO t (a) VALUES (29999) ON CONFLICT DO NOTHING;
SELECT check_condition('a > 0');

-- Built in the transaction that loaded, and after a part of it was rolled back.
BEGIN;
CREATE TABLE fresh (a int) USING howdah;
INSERT INTO fresh SELECT generate_series(1, 5000);
SAVEPOINT s;
INSERT INTO fresh SELECT generate_series(5001, 9000);
ROLLBACK TO s;
CREATE UNIQUE INDEX fresh_a ON fresh (a);
SELECT count(*) FROM fresh WHERE a > 0;
INSERT INTO fresh SELECT generate_series(5001, 9000);
COMMIT;
SELECT count(*) FROM fresh WHERE a > 0;

-- An index on a column that came later has its default for cold rows.
ALTER TABLE fresh ADD COLUMN n int DEFAULT 7;
CREATE INDEX fresh_n ON fresh (n);
SELECT count(*) FROM fresh WHERE n = 7;

-- REINDEX and the first load in one transaction that is rolled back: the high-water mark is not lost.
CREATE TABLE rebuilt (a int PRIMARY KEY) USING howdah;
BEGIN;
REINDEX TABLE rebuilt;
INSERT INTO rebuilt SELECT generate_series(1, 9000);
ROLLBACK;
BEGIN;
SAVEPOINT s;
REINDEX TABLE rebuilt;
INSERT INTO rebuilt SELECT generate_series(1, 9000);
RELEASE s;
INSERT INTO rebuilt SELECT generate_series(10001, 19000);
ROLLBACK;
BEGIN;
TRUNCATE rebuilt;
SAVEPOINT s;
REINDEX TABLE rebuilt;
INSERT INTO rebuilt SELECT generate_series(20001, 29000);
ROLLBACK TO s;
INSERT INTO rebuilt SELECT generate_series(30001, 39000);
REINDEX TABLE rebuilt;
SELECT count(*) FROM rebuilt WHERE a > 0;
COMMIT;
INSERT INTO rebuilt SELECT generate_series(1, 9000);
REINDEX TABLE rebuilt;
SELECT count(*), count(DISTINCT a) FROM rebuilt WHERE a > 0;

-- Index-only scans look up whether rows are visible, and nothing else: several row groups by turns,
-- some of which hide rows.
CREATE TABLE o (k int, n int) USING howdah;
CREATE TABLE oh (LIKE o) USING heap;
INSERT INTO oh SELECT i * 7919 % 10000, i FROM generate_series(1, 10000) i;
INSERT INTO o SELECT * FROM oh WHERE n <= 2000;
INSERT INTO o SELECT * FROM oh WHERE n BETWEEN 2001 AND 5000;
INSERT INTO o SELECT * FROM oh WHERE n BETWEEN 5001 AND 9990;
INSERT INTO o SELECT * FROM oh WHERE n > 9990;
CREATE INDEX o_k ON o (k);
CREATE INDEX oh_k ON oh (k);
ANALYZE o;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(k) FROM o WHERE k BETWEEN 100 AND 9000;
CREATE FUNCTION same_keys() RETURNS text LANGUAGE plpgsql AS $$
DECLARE here record; there record;
BEGIN
  SELECT count(*), sum(k) INTO here FROM o WHERE k BETWEEN 100 AND 9000;
  SELECT count(*), sum(k) INTO there FROM oh WHERE k BETWEEN 100 AND 9000;
  RETURN format('%s: %s', here.count, CASE WHEN here = there THEN 'same' ELSE format('heap has %s', there) END);
END $$;
SELECT same_keys();
BEGIN;
DECLARE before CURSOR FOR SELECT count(*) OVER (ORDER BY k), k FROM o WHERE k BETWEEN 100 AND 9000;
DECLARE half CURSOR FOR SELECT k FROM o WHERE k BETWEEN 100 AND 9000 ORDER BY k;
FETCH 2 FROM half;
DELETE FROM o WHERE n % 10 = 3 AND n < 4000;
DELETE FROM oh WHERE n % 10 = 3 AND n < 4000;
SELECT same_keys();
-- Both still see all rows.
MOVE 8898 FROM half;
FETCH 5 FROM half;
MOVE 8900 FROM before;
FETCH 5 FROM before;
SAVEPOINT before_more;
DELETE FROM o WHERE n > 4500;
DELETE FROM oh WHERE n > 4500;
SELECT same_keys();
ROLLBACK TO before_more;
SELECT same_keys();
COMMIT;
SELECT same_keys();
UPDATE o SET k = k + 1 WHERE n % 100 = 0;
UPDATE oh SET k = k + 1 WHERE n % 100 = 0;
SELECT same_keys();
-- Scanned again and again, with other keys.
SELECT (SELECT sum(c) FROM generate_series(1, 9000, 450) g,
               LATERAL (SELECT count(*) AS c FROM o WHERE k BETWEEN g AND g + 600) x)
     = (SELECT sum(c) FROM generate_series(1, 9000, 450) g,
               LATERAL (SELECT count(*) AS c FROM oh WHERE k BETWEEN g AND g + 600) x) AS same;
RESET enable_bitmapscan;

-- Rows that were loaded in five orders at once: their keys lead from one to the next and back.
CREATE TABLE five (k int, b text, n numeric(8, 2), c int, e jsonb) USING howdah;
CREATE TABLE five_h (LIKE five) USING heap;
INSERT INTO five_h SELECT i, md5(i::text) || i, i * 1.25, nullif(i % 9, 4), jsonb_build_object('i', i)
  FROM generate_series(1, 6000) i ORDER BY i % 5, i;
INSERT INTO five SELECT * FROM five_h;
CREATE INDEX five_k ON five (k);
CREATE INDEX five_h_k ON five_h (k);
ANALYZE five;
SET enable_sort = off;
CREATE FUNCTION in_order(from_key int, row_count int, direction text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE texts text[] := '{}'; name text; found text;
BEGIN
  FOREACH name IN ARRAY ARRAY['five', 'five_h'] LOOP
    EXECUTE format('SELECT string_agg(t::text, '','') FROM (SELECT * FROM %s WHERE k %s $1 ORDER BY k %s LIMIT $2) t',
                   name, CASE direction WHEN 'ASC' THEN '>=' ELSE '<=' END, direction)
      INTO found USING from_key, row_count;
    texts := texts || found;
  END LOOP;
  RETURN texts[1] = texts[2];
END $$;
EXPLAIN (COSTS OFF) SELECT * FROM five WHERE k >= 10 ORDER BY k LIMIT 50;
SELECT direction, row_count, bool_and(in_order(from_key, row_count, direction))
  FROM unnest(ARRAY['ASC', 'DESC']) direction, unnest(ARRAY[7, 50, 800]) row_count, generate_series(1, 6000, 900) from_key
 GROUP BY 1, 2 ORDER BY 1, 2;
RESET enable_sort;

SET client_min_messages = warning;
DROP SCHEMA indexes CASCADE;
