-- Statements that change some hundred rows of a row group in which many rows were changed one by one: marks are read
-- by parts of the group, and marks in memory are minded. marks_by_parts_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA parts;
SET search_path = parts, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
CREATE TABLE t (id int PRIMARY KEY, k int, v text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT x, x % 10, 'v' || x FROM generate_series(1, 20000) x;
\if :cold
    CALL howdah.compact('t');
\endif
ANALYZE t;
-- Marks of single rows: every third one is gone, every seventh was updated.
DO $$ BEGIN
    FOR x IN 1..6000 LOOP DELETE FROM t WHERE id = x * 3; END LOOP;
    FOR x IN 1..2500 LOOP UPDATE t SET v = 'once' WHERE id = x * 7; END LOOP;
END $$;
SELECT dig('TABLE t');

-- Ranges, each by one statement: by index, by columns, of expected and of unexpected size, by parts that the one before has read or not.
CREATE FUNCTION changes(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN EXECUTE statement; GET DIAGNOSTICS n = ROW_COUNT; RETURN n; END $$;
SET enable_seqscan = off;
SET howdah.columnar_scan = off;
SELECT changes('DELETE FROM t WHERE id BETWEEN 1000 AND 1300');
SELECT changes('UPDATE t SET v = ''range'' WHERE id BETWEEN 1200 AND 2600');
SELECT changes('DELETE FROM t WHERE id BETWEEN 1000 AND 4000 AND v LIKE ''%5''');
RESET enable_seqscan;
RESET howdah.columnar_scan;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SELECT changes('DELETE FROM t WHERE id BETWEEN 5000 AND 5400');
SELECT changes('UPDATE t SET k = k + 10 WHERE id BETWEEN 5100 AND 7000');
SELECT changes('DELETE FROM t WHERE k = 3 AND id % 11 = 0');
SELECT dig('SELECT * FROM t WHERE id BETWEEN 5000 AND 5200'), dig('SELECT * FROM t WHERE id BETWEEN 16000 AND 16100'), dig('TABLE t');
RESET enable_indexscan;
RESET enable_bitmapscan;

-- In one transaction: statements that meet what earlier ones have hidden, in savepoints that are kept or rolled back.
BEGIN;
SELECT changes('DELETE FROM t WHERE id BETWEEN 8000 AND 8500');
SELECT changes('DELETE FROM t WHERE id BETWEEN 8400 AND 9000');
SAVEPOINT a;
SELECT changes('UPDATE t SET v = ''again'' WHERE id BETWEEN 8900 AND 9500');
SELECT changes('UPDATE t SET v = v || ''!'' WHERE id BETWEEN 8000 AND 9700');
ROLLBACK TO a;
SELECT changes('UPDATE t SET v = v || ''?'' WHERE id BETWEEN 8000 AND 9700');
SELECT dig('SELECT * FROM t WHERE id BETWEEN 7900 AND 9800');
COMMIT;
SELECT dig('SELECT * FROM t WHERE id BETWEEN 7900 AND 9800');

-- Triggers and functions that hide rows while a statement collects its own.
CREATE FUNCTION drops_another() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF old.id % 50 = 1 THEN DELETE FROM t WHERE id = old.id + 1; END IF;
    IF old.id % 50 = 2 THEN RAISE EXCEPTION 'it is gone'; END IF;
    RETURN CASE WHEN tg_op = 'DELETE' THEN old ELSE new END;
END $$;
CREATE TRIGGER drops BEFORE DELETE OR UPDATE ON t FOR EACH ROW WHEN (old.id % 50 = 1) EXECUTE FUNCTION drops_another();
SELECT changes('DELETE FROM t WHERE id BETWEEN 10000 AND 10040');
SELECT changes('DELETE FROM t WHERE id BETWEEN 10103 AND 10700');
SELECT changes('UPDATE t SET v = ''t'' WHERE id BETWEEN 10800 AND 11500 AND id % 50 <> 2');
DROP TRIGGER drops ON t;
CREATE FUNCTION drops(x int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    IF x % 100 = 0 THEN DELETE FROM t WHERE id BETWEEN x + 40 AND x + 75; END IF;
    RETURN true;
END $$;
SELECT changes('DELETE FROM t WHERE id BETWEEN 12000 AND 12039 AND drops(id)');
SELECT dig('TABLE t');

-- What was changed, or locked, before by the same transaction.
BEGIN;
SELECT count(*) FROM (SELECT FROM t WHERE id BETWEEN 13000 AND 15500 FOR UPDATE) x;
SELECT changes('UPDATE t SET v = ''held'' WHERE id BETWEEN 13000 AND 13020');
SELECT changes('DELETE FROM t WHERE id BETWEEN 13000 AND 13900');
SELECT count(*) FROM (SELECT FROM t WHERE id BETWEEN 13000 AND 15500 FOR UPDATE) x;
SELECT changes('MERGE INTO t USING generate_series(13800, 14400) x ON t.id = x WHEN MATCHED AND x % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = ''m'' WHEN NOT MATCHED AND x % 3 = 0 THEN INSERT VALUES (x, 0, ''n'')');
COMMIT;
SELECT dig('TABLE t');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT changes('DELETE FROM t WHERE id BETWEEN 15000 AND 15600'), dig('SELECT * FROM t WHERE id > 14900');
COMMIT;

-- A group that is hidden as a whole, after a while as a part.
CREATE TABLE q (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off);
INSERT INTO q SELECT x, 'q' || x FROM generate_series(1, 10000) x;
\if :cold
    CALL howdah.compact('q');
\endif
SELECT changes(format('DELETE FROM q WHERE id BETWEEN %s AND %s', x * 400 + 1, x * 400 + 400)) FROM generate_series(0, 24) x;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM q WHERE id BETWEEN 100 AND 200;
SELECT * FROM q LIMIT 1;
SELECT count(*), max(v) FROM q;
RESET enable_indexscan;
RESET enable_bitmapscan;
VACUUM q;
SELECT count(*) FROM q;
\if :cold
    CALL howdah.compact('t');
\endif
SELECT dig('TABLE t');
DROP SCHEMA parts CASCADE;
