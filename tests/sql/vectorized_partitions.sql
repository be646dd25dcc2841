-- Partitions and inheritance children by the vectorized engine: the same rows and errors as over heap.
-- vectorized_partitions_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA vectorized_partitions;
SET search_path = vectorized_partitions, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
\set vectorized :directory '/sql/vectorized.psql'
\i :vectorized
-- Several levels: list, range, hash; a partition that is empty, one with other attribute numbers, one with dropped columns.
CREATE TABLE p (id int, k int, grp int, w text COLLATE "C", n numeric(10,2), ts timestamp) PARTITION BY LIST (k);
CREATE TABLE p0 PARTITION OF p FOR VALUES IN (0);
CREATE TABLE p1 (ts timestamp, junk int, n numeric(10,2), w text COLLATE "C", k int, gone text, id int, grp int);
ALTER TABLE p1 DROP COLUMN gone, DROP COLUMN junk;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2, NULL) PARTITION BY RANGE (id);
CREATE TABLE p2a PARTITION OF p2 FOR VALUES FROM (MINVALUE) TO (5000);
CREATE TABLE p2b (grp int, w text COLLATE "C", k int, n numeric(10,2), ts timestamp, id int);
ALTER TABLE p2 ATTACH PARTITION p2b FOR VALUES FROM (5000) TO (MAXVALUE);
CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3) PARTITION BY HASH (id);
CREATE TABLE p3a PARTITION OF p3 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE p3b PARTITION OF p3 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE p4 PARTITION OF p FOR VALUES IN (4);
CREATE TABLE p5 PARTITION OF p FOR VALUES IN (5) USING heap;
INSERT INTO p SELECT i, CASE WHEN i % 50 = 0 THEN NULL ELSE (ARRAY[0, 1, 2, 3, 5])[i % 5 + 1] END, i % 11, 'w' || i % 7,
    i % 300 / 4.0, timestamp '2020-01-01' + i * interval '1 minute' FROM generate_series(1, 20000) i;
SET howdah.load_threshold = 1000000;
INSERT INTO p SELECT i, i % 4, NULL, NULL, 'NaN', 'infinity' FROM generate_series(20001, 20100) i;
UPDATE p SET grp = grp + 1 WHERE id % 97 = 0;
UPDATE p SET k = 3 WHERE id % 101 = 0 AND k = 0;
DELETE FROM p WHERE id % 89 = 0;
ALTER TABLE p ADD COLUMN later int DEFAULT 42;
ANALYZE p;
-- Children by inheritance: the parent has rows of its own, a child has more columns.
CREATE TABLE i (id int, grp int, w text COLLATE "C");
CREATE TABLE i1 (more int) INHERITS (i);
CREATE TABLE i2 (x int, w text COLLATE "C", id int, grp int);
ALTER TABLE i2 INHERIT i;
CREATE TABLE i11 () INHERITS (i1);
SET howdah.load_threshold = 100;
INSERT INTO i SELECT g, g % 5, 'i' FROM generate_series(1, 3000) g;
INSERT INTO i1 SELECT g, g % 5, 'i1', -1 FROM generate_series(3001, 6000) g;
INSERT INTO i2 (id, grp, w) SELECT g, g % 6, 'i2' FROM generate_series(6001, 9000) g;
INSERT INTO i11 SELECT g, g % 7, NULL, 1 FROM generate_series(9001, 9050) g;
ANALYZE i;
CREATE TABLE query (id int GENERATED ALWAYS AS IDENTITY, text text);
INSERT INTO query (text) VALUES
    ('SELECT count(*), sum(id), min(n), max(ts), avg(grp) FROM p'),
    ('SELECT grp, count(*), sum(id), max(w) FROM p GROUP BY grp'),
    ('SELECT w, k, count(*), sum(n) FROM p WHERE id < 20000 GROUP BY w, k'),
    ('SELECT k, min(id), max(id) FROM p GROUP BY k HAVING count(*) > 10'),
    ('SELECT count(*) FROM p WHERE k = 1'),
    ('SELECT count(*), max(w) FROM p WHERE k IN (2, 3) AND id BETWEEN 4000 AND 6000'),
    ('SELECT count(*) FROM p WHERE k IS NULL'),
    ('SELECT count(*) FROM p WHERE k = 4 OR w = ''w3'''),
    ('SELECT DISTINCT w, grp FROM p'),
    ('SELECT DISTINCT k FROM p WHERE id > 3000'),
    ('SELECT later, count(*) FROM p GROUP BY later'),
    ('SELECT count(*) FROM p WHERE later = 42 AND n > 3.5'),
    ('SELECT count(*) FILTER (WHERE w LIKE ''w1%''), sum(id) FILTER (WHERE k = 3) FROM p'),
    ('SELECT grp, count(*), sum(id) FROM i GROUP BY grp'),
    ('SELECT w, count(*), max(id) FROM i WHERE id % 2 = 0 GROUP BY w'),
    ('SELECT DISTINCT w FROM i'),
    ('SELECT count(*), sum(id) FROM ONLY i'),
    ('SELECT count(*), sum(more) FROM i1'),
    ('SELECT grp, count(*) FROM p2 GROUP BY grp'),
    ('SELECT w, count(*) FROM p3 GROUP BY w'),
    ('SELECT id, w, n FROM p ORDER BY id LIMIT 10'),
    ('SELECT id, k FROM p WHERE w = ''w2'' ORDER BY id DESC LIMIT 30 OFFSET 3'),
    ('SELECT ts, id, later FROM p ORDER BY ts DESC NULLS LAST, id LIMIT 150'),
    ('SELECT w, id FROM i ORDER BY w NULLS FIRST, id DESC LIMIT 60');
SELECT id, text FROM query WHERE :cold AND NOT taken(text) ORDER BY id;
SELECT id, dig(text) FROM query ORDER BY id;
SELECT id, ordered(text) FROM query WHERE text LIKE '%ORDER BY%' ORDER BY id;
SET howdah.threads = 0;
SELECT md5(string_agg(dig(text), ' ' ORDER BY id)) FROM query;
RESET howdah.threads;
SET enable_partitionwise_aggregate = on;
SELECT id, text FROM query WHERE :cold AND NOT taken(text) ORDER BY id;
SELECT md5(string_agg(dig(text), ' ' ORDER BY id)) FROM query;
-- PostgreSQL's own plan, of partitions one by one, takes over.
SET work_mem = '64kB';
SELECT dig('SELECT id, count(*) FROM p GROUP BY id'), dig('SELECT k, id, count(*) FROM p GROUP BY k, id');
RESET work_mem;
RESET enable_partitionwise_aggregate;
-- Left to PostgreSQL: where rows come from.
SELECT dig('SELECT tableoid::regclass, count(*) FROM p GROUP BY 1'), dig('SELECT count(*) FROM p WHERE tableoid = ''vectorized_partitions.p1''::regclass');
SELECT taken('SELECT tableoid, count(*) FROM p GROUP BY 1');
SELECT dig('SELECT grp, count(*) FROM (SELECT grp FROM p0 UNION ALL SELECT grp FROM i1) u GROUP BY grp');
-- Parameters of the run choose among partitions: of subqueries that are computed once, and of outer rows, run by run.
SELECT text FROM (VALUES
    ('SELECT count(*) FROM p WHERE k = (SELECT 1)'),
    ('SELECT g, (SELECT count(*) FROM p WHERE k = g) FROM generate_series(0, 4) g')) q (text) WHERE :cold AND NOT taken(text);
SELECT count(*), sum(id), max(w) FROM p WHERE k = (SELECT 1);
SELECT count(*), sum(id), max(w) FROM p WHERE k = (SELECT 2) AND id < (SELECT 6000);
SELECT grp, count(*) FROM p WHERE k = (SELECT 3) AND id = (SELECT 1003) GROUP BY grp;
SELECT count(*), sum(id) FROM p WHERE k = (SELECT 77);
SELECT count(*), sum(id) FROM p WHERE k = (SELECT NULL::int);
SELECT count(*), sum(id) FROM p WHERE k > (SELECT 1) AND k IN (0, 2, 5);
SELECT id, w FROM p WHERE k = (SELECT 3) ORDER BY id LIMIT 3;
SELECT g, (SELECT count(*) FROM p WHERE k = g), (SELECT count(*) FROM p WHERE grp = g), (SELECT max(id) FROM p WHERE k >= g AND id < g * 3000)
    FROM generate_series(-1, 6) g;
SELECT g, (SELECT max(id) FROM (SELECT id, w FROM p WHERE k = g AND id % 7 = o ORDER BY id LIMIT 4) f) FROM generate_series(1, 3) g, generate_series(0, 2) o;
-- The same by PostgreSQL's own plan where it takes over.
SET work_mem = '64kB';
SELECT g, (SELECT count(*) FROM (SELECT id, w, count(*) FROM p WHERE k = g GROUP BY id, w) f) FROM generate_series(0, 5) g;
RESET work_mem;
PREPARE s(int, int) AS SELECT count(*), sum(id) FROM p WHERE k = (SELECT $1) AND grp > $2;
SET plan_cache_mode = force_generic_plan;
EXECUTE s(1, 3);
EXECUTE s(5, 1);
RESET plan_cache_mode;
-- Errors.
SELECT sum(1 / (id - 700)) FROM p;
SELECT grp, sum(1 / (id - 700)) FROM i GROUP BY grp;
-- Generic plans: partitions that a parameter excludes are not read.
SET plan_cache_mode = force_generic_plan;
PREPARE q(int) AS SELECT count(*), sum(id), max(w) FROM p WHERE k = $1;
EXECUTE q(1);
EXECUTE q(2);
EXECUTE q(5);
EXECUTE q(77);
PREPARE r(int) AS SELECT id, w FROM p WHERE k = $1 ORDER BY id LIMIT 2;
EXECUTE r(3);
EXECUTE r(0);
PREPARE a AS SELECT count(*), sum(id) FROM p;
EXECUTE a;
-- Partitions come and go under a cached plan.
CREATE TABLE p6 PARTITION OF p FOR VALUES IN (6);
INSERT INTO p SELECT g, 6, 1, 'new' FROM generate_series(1, 500) g;
EXECUTE a;
EXECUTE q(6);
ALTER TABLE p DETACH PARTITION p1;
EXECUTE a;
EXECUTE q(1);
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1);
EXECUTE a;
ALTER TABLE p DROP COLUMN n;
EXECUTE a;
DROP TABLE p6;
EXECUTE a;
RESET plan_cache_mode;
-- Rows of the running transaction, of loads that are not written yet, and of other snapshots.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*), sum(id) FROM p;
SET LOCAL howdah.load_threshold = 0;
INSERT INTO p SELECT id, k, grp, w, ts, later FROM p WHERE id BETWEEN 1000 AND 3000;
SELECT count(*), sum(id) FROM p;
DELETE FROM p WHERE id BETWEEN 1500 AND 1600;
SELECT k, count(*) FROM p WHERE id BETWEEN 1000 AND 3000 GROUP BY k ORDER BY k;
ROLLBACK;
SELECT count(*), sum(id) FROM p;
-- Only the parent's permissions and policies count.
CREATE ROLE vectorized_partitions_reader;
GRANT USAGE ON SCHEMA vectorized_partitions TO vectorized_partitions_reader;
GRANT SELECT ON p TO vectorized_partitions_reader;
ALTER TABLE p ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON p USING (id < 10);
SET ROLE vectorized_partitions_reader;
SELECT count(*), max(id) FROM p;
SELECT count(*) FROM p WHERE 1 / (id - 5000) < 1;
SELECT count(*) FROM p0;
RESET ROLE;
DROP OWNED BY vectorized_partitions_reader;
DROP ROLE vectorized_partitions_reader;
SET client_min_messages = warning;
DROP SCHEMA vectorized_partitions CASCADE;
