-- howdah.adopt and howdah.release: the access method changes, the rows stay.
CREATE SCHEMA adopt;
SET search_path = adopt, public;
CREATE FUNCTION method(t regclass) RETURNS text LANGUAGE sql AS
    $$SELECT amname FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam WHERE c.oid = t$$;
\getenv directory PG_ABS_SRCDIR
\set compare :directory '/sql/compare.psql'
\i :compare

-- Instant: neither the file nor a row moves.
CREATE TABLE t (id int PRIMARY KEY, word text, body text) USING heap;
INSERT INTO t SELECT i, 'word ' || i, CASE WHEN i % 100 = 0 THEN repeat(md5(i::text), 500) END FROM generate_series(1, 2000) i;
CREATE INDEX t_word ON t (word);
DELETE FROM t WHERE id % 10 = 3;
UPDATE t SET word = 'changed' WHERE id % 10 = 4;
CREATE TABLE twin USING heap AS TABLE t;
SELECT pg_relation_filenode('t') AS before, (SELECT reltoastrelid FROM pg_class WHERE oid = 't'::regclass) AS toast_before \gset
SELECT howdah.adopt('t');
SELECT method('t'), pg_relation_filenode('t') = :before AS same_file, (SELECT reltoastrelid FROM pg_class WHERE oid = 't'::regclass) = :toast_before AS same_toast;
SELECT differences('t', 'twin');
-- The dependency is there: the access method cannot go while the table uses it.
SELECT count(*) FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = 't'::regclass AND refclassid = 'pg_am'::regclass;
SELECT howdah.adopt('t');
-- Hot rows live on as on heap, new bulk loads go cold.
UPDATE t SET word = 'hot' WHERE id = 1;
UPDATE twin SET word = 'hot' WHERE id = 1;
DELETE FROM t WHERE id = 2;
DELETE FROM twin WHERE id = 2;
SET howdah.load_threshold = 100;
INSERT INTO t SELECT i, 'new', repeat('n', 3000) FROM generate_series(5001, 6000) i;
INSERT INTO twin SELECT i, 'new', repeat('n', 3000) FROM generate_series(5001, 6000) i;
SELECT differences('t', 'twin'), cold('t');
SELECT id, word FROM t WHERE word = 'hot' OR id IN (100, 5500) ORDER BY id;
-- Back, with cold rows: rewritten.
SELECT howdah.release('t');
SELECT method('t'), pg_relation_filenode('t') = :before AS same_file, differences('t', 'twin');
SELECT count(*) FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = 't'::regclass AND refclassid = 'pg_am'::regclass;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM t WHERE word = 'new';
RESET enable_seqscan;
SELECT howdah.release('t');
-- And there again, and back without a cold row: instant both ways.
SELECT pg_relation_filenode('t') AS before \gset
SELECT howdah.adopt('t');
SELECT howdah.release('t');
SELECT method('t'), pg_relation_filenode('t') = :before AS same_file, differences('t', 'twin');
-- Rolled back.
BEGIN;
SELECT howdah.adopt('t');
INSERT INTO t SELECT i FROM generate_series(10001, 11000) i;
SELECT method('t'), cold('t'), count(*) FROM t;
ROLLBACK;
SELECT method('t'), differences('t', 'twin');
BEGIN;
SELECT howdah.adopt('t');
SAVEPOINT s;
SELECT howdah.release('t');
ROLLBACK TO s;
SELECT method('t');
SELECT howdah.release('t');
COMMIT;
SELECT method('t'), differences('t', 'twin');
-- A prepared statement and a cached plan notice.
PREPARE counted AS SELECT count(*) FROM t;
EXECUTE counted;
SELECT howdah.adopt('t');
INSERT INTO t SELECT i FROM generate_series(10001, 10500) i;
EXECUTE counted;
SELECT howdah.release('t');
EXECUTE counted;

-- A table without a TOAST relation gets one.
CREATE TABLE narrow (id int, at date) USING heap;
INSERT INTO narrow SELECT i FROM generate_series(1, 10) i;
SELECT reltoastrelid = 0 AS none FROM pg_class WHERE oid = 'narrow'::regclass;
SELECT howdah.adopt('narrow');
SELECT reltoastrelid = 0 AS none FROM pg_class WHERE oid = 'narrow'::regclass;
INSERT INTO narrow SELECT i FROM generate_series(11, 1000) i;
SELECT count(*), sum(id), cold('narrow') FROM narrow;
-- Truncated, it has never had a cold row.
TRUNCATE narrow;
SELECT pg_relation_filenode('narrow') AS before \gset
SELECT howdah.release('narrow');
SELECT method('narrow'), pg_relation_filenode('narrow') = :before AS same_file;

-- Materialized views, partitioned tables, temporary and unlogged tables.
CREATE MATERIALIZED VIEW mv USING heap AS SELECT id, word FROM twin;
SELECT howdah.adopt('mv');
REFRESH MATERIALIZED VIEW mv;
SELECT method('mv'), cold('mv') > 0 AS cold, count(*) FROM mv;
SELECT howdah.release('mv');
SELECT method('mv'), count(*) FROM mv;
CREATE TABLE parent (id int) PARTITION BY RANGE (id);
CREATE TABLE first PARTITION OF parent FOR VALUES FROM (0) TO (10);
SELECT howdah.adopt('parent');
CREATE TABLE second PARTITION OF parent FOR VALUES FROM (10) TO (20);
SELECT method('parent'), method('first'), method('second');
SELECT howdah.release('parent');
CREATE TABLE third PARTITION OF parent FOR VALUES FROM (20) TO (30);
SELECT method('parent'), method('first'), method('second'), method('third');
CREATE TEMP TABLE temporary (id int) USING heap;
SELECT howdah.adopt('temporary');
INSERT INTO temporary SELECT generate_series(1, 1000);
SELECT count(*), cold('temporary') FROM temporary;
SELECT howdah.release('temporary');
SELECT count(*), method('temporary') FROM temporary;

-- What is refused.
CREATE VIEW view AS SELECT 1;
CREATE SEQUENCE sequence;
SELECT howdah.adopt('view');
SELECT howdah.adopt('sequence');
SELECT howdah.adopt('t_word');
SELECT howdah.adopt('pg_class');
SELECT howdah.adopt('no_such_table');
SELECT howdah.adopt(4294967295);
SELECT howdah.adopt(NULL);
SELECT howdah.release('view');
BEGIN;
DECLARE open CURSOR FOR SELECT * FROM t;
FETCH 1 FROM open;
SELECT howdah.adopt('t');
ROLLBACK;
CREATE ROLE howdah_stranger;
GRANT ALL ON SCHEMA adopt TO howdah_stranger;
GRANT ALL ON t TO howdah_stranger;
SET ROLE howdah_stranger;
SELECT howdah.adopt('t');
SELECT howdah.release('t');
RESET ROLE;
SELECT method('t');

-- Options may be set from the first moment.
SELECT howdah.adopt('t');
SELECT howdah.set_options('t', sort_key => '{word}');
SELECT relation, sort_key FROM howdah.options;

-- A load into a table that its transaction has adopted stays hot: a rollback, of which the indexes know nothing,
-- leaves them no entries of cold rows.
SET howdah.load_threshold = 100;
CREATE TABLE back (id int PRIMARY KEY, k int) USING heap;
INSERT INTO back SELECT i, i FROM generate_series(1, 1000) i;
BEGIN;
SELECT howdah.adopt('back');
INSERT INTO back SELECT i, i FROM generate_series(10001, 13000) i;
SELECT cold('back');
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT howdah.adopt('back');
INSERT INTO back SELECT i, i FROM generate_series(10001, 13000) i;
ROLLBACK TO s;
INSERT INTO back VALUES (10009, 0);
COMMIT;
-- The same of a table that had a TOAST relation before.
CREATE TABLE had_toast (id int PRIMARY KEY, word text) USING heap;
INSERT INTO had_toast SELECT i, 'old' FROM generate_series(1, 100) i;
BEGIN;
SELECT howdah.adopt('had_toast');
INSERT INTO had_toast SELECT i, 'new' FROM generate_series(10001, 13000) i;
SELECT cold('had_toast');
ROLLBACK;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT * FROM had_toast WHERE id = 10001;
INSERT INTO had_toast VALUES (10001, 'newer');
SELECT * FROM had_toast WHERE id = 10001;
RESET enable_seqscan;
RESET enable_bitmapscan;
BEGIN;
SELECT howdah.adopt('had_toast');
INSERT INTO had_toast SELECT i, 'new' FROM generate_series(20001, 23000) i;
COMMIT;
INSERT INTO had_toast SELECT i, 'newest' FROM generate_series(30001, 33000) i;
SELECT cold('had_toast');
SELECT count(*), count(DISTINCT id) FROM had_toast;
DO $$ BEGIN
    PERFORM howdah.adopt('back');
    INSERT INTO back SELECT i, i FROM generate_series(10101, 13000) i;
    INSERT INTO back VALUES (1, 1);
EXCEPTION WHEN unique_violation THEN RAISE NOTICE 'caught'; END $$;
SELECT method('back');
SELECT howdah.adopt('back');
INSERT INTO back SELECT i, i FROM generate_series(20001, 23000) i;
SELECT cold('back');
SET enable_seqscan = off;
SET howdah.columnar_scan = off;
SELECT * FROM back WHERE id IN (10007, 10009);
SELECT count(*) FROM back WHERE id BETWEEN 10001 AND 13000;
INSERT INTO back VALUES (10008, 1);
RESET enable_seqscan;
RESET howdah.columnar_scan;
-- An index that the same transaction has made goes with the store.
BEGIN;
CREATE TABLE fresh (id int, k int) USING heap;
SELECT howdah.adopt('fresh');
CREATE INDEX ON fresh (id);
INSERT INTO fresh SELECT i, i FROM generate_series(1, 3000) i;
SELECT cold('fresh');
ROLLBACK;
-- The same of a TOAST relation that is clustered, and so is new until the transaction ends.
CREATE TABLE toasted (id int PRIMARY KEY, w text) USING howdah;
INSERT INTO toasted SELECT i, 'w' || i FROM generate_series(1, 3000) i;
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'toasted'::regclass \gset
SELECT relname AS toast_index FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = :'toast'::regclass \gset
BEGIN;
CLUSTER :toast USING :toast_index;
INSERT INTO toasted SELECT i, 'A' || i FROM generate_series(10001, 13000) i;
SELECT cold('toasted');
ROLLBACK;
INSERT INTO toasted SELECT i, 'B' || i FROM generate_series(20001, 23000) i;
SELECT cold('toasted');
SET enable_seqscan = off;
SET howdah.columnar_scan = off;
SELECT * FROM toasted WHERE id = 10005;
SELECT count(*) FROM toasted WHERE id BETWEEN 10001 AND 13000;
INSERT INTO toasted VALUES (10006, 'new');
RESET enable_seqscan;
RESET howdah.columnar_scan;

-- A table that needed no TOAST relation as heap gets one while its rows are written anew, in time for them.
CREATE TABLE slim (id int, k int) USING heap;
INSERT INTO slim SELECT i, i % 10 FROM generate_series(1, 20000) i;
CREATE INDEX slim_k ON slim (k);
CREATE MATERIALIZED VIEW seen USING heap AS SELECT id FROM slim;
BEGIN;
SAVEPOINT a;
ALTER TABLE slim SET ACCESS METHOD howdah;
SELECT count(*), sum(id) FROM slim;
ROLLBACK TO a;
ALTER TABLE slim SET ACCESS METHOD howdah;
SAVEPOINT b;
DELETE FROM slim WHERE id > 19000;
ROLLBACK TO b;
COMMIT;
ALTER MATERIALIZED VIEW seen SET ACCESS METHOD howdah;
SELECT table_name, cold_rows > 10000 AS is_cold FROM howdah.tables WHERE table_name IN ('slim', 'seen') ORDER BY 1;
SELECT count(*), sum(id) FROM slim WHERE k = 3;
SELECT c.relname, t.relname = 'pg_toast_' || c.oid AS has_its_name FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid
    WHERE c.relname IN ('slim', 'seen') ORDER BY 1;
ALTER TABLE slim SET ACCESS METHOD heap;
SELECT reltoastrelid FROM pg_class WHERE relname = 'slim';
SELECT count(*), sum(id) FROM slim;
CALL howdah.compact(0);

SET client_min_messages = warning;
DROP SCHEMA adopt CASCADE;
DROP ROLE howdah_stranger;
