-- What a statement has done is there for whatever comes next: triggers at its end, DDL, rollbacks.
-- statement_ends_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA statement_ends;
SET search_path = statement_ends, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
SET howdah.load_threshold = 100;
-- CTEs that the query does not read to their ends run when it ends; DDL in the same transaction finds their changes.
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, 'o' FROM generate_series(1, 30000) i;
BEGIN;
WITH d AS (DELETE FROM t WHERE id BETWEEN 500 AND 9500) SELECT 1 AS one;
CLUSTER t USING t_pkey;
COMMIT;
SELECT count(*), sum(id) FROM t;
BEGIN;
WITH d AS (DELETE FROM t WHERE id BETWEEN 10500 AND 19500 RETURNING id) SELECT count(*) FROM (SELECT id FROM d LIMIT 1) one;
CLUSTER t;
COMMIT;
SELECT count(*), sum(id) FROM t;
BEGIN;
WITH d AS (UPDATE t SET v = 'n' WHERE id BETWEEN 20000 AND 29000) SELECT 1 AS one;
CLUSTER t;
COMMIT;
SELECT v, count(*), count(DISTINCT id), sum(id) FROM t GROUP BY v ORDER BY v;
BEGIN;
WITH d AS (INSERT INTO t SELECT i, 'i' FROM generate_series(100001, 120000) i) SELECT 1 AS one;
SAVEPOINT s;
CLUSTER t;
COMMIT;
SELECT v, count(*), sum(id) FROM t GROUP BY v ORDER BY v;
DO $$ BEGIN
    WITH d AS (INSERT INTO t SELECT i, 'j' FROM generate_series(200001, 203000) i), e AS (UPDATE t SET v = 'u' WHERE id < 400) INSERT INTO t VALUES (0, 'z');
    CLUSTER t;
EXCEPTION WHEN division_by_zero THEN NULL; END $$;
SELECT v, count(*), sum(id) FROM t GROUP BY v ORDER BY v;
BEGIN;
WITH d AS (INSERT INTO t SELECT i, 'k' FROM generate_series(300001, 303000) i) SELECT 1 AS one;
ALTER TABLE t ADD COLUMN n int NOT NULL DEFAULT 5;
SELECT count(*), count(n), sum(n) FROM t;
SAVEPOINT s;
CREATE INDEX t_n ON t (n);
RELEASE s;
COMMIT;
SET enable_seqscan = off;
SELECT count(*) FROM t WHERE n = 5 AND id > 0;
RESET enable_seqscan;
-- The row that was read last is forgotten with the file that it lay in.
CREATE TABLE r (id int PRIMARY KEY, v text, k int);
BEGIN;
TRUNCATE r;
INSERT INTO r SELECT i, 'old' || i, i FROM generate_series(1, 20000) i;
SAVEPOINT s;
TRUNCATE r;
INSERT INTO r SELECT i, 'new' || i, -i FROM generate_series(1, 20000) i;
SELECT * FROM r WHERE id = 500;
ROLLBACK TO s;
UPDATE r SET k = k + 1 WHERE k = 500;
COMMIT;
SELECT * FROM r WHERE id = 500;
DO $$ BEGIN
    BEGIN
        TRUNCATE r;
        INSERT INTO r SELECT 20001 - i, 'newer' || i, i FROM generate_series(1, 20000) i;
        PERFORM * FROM r WHERE id = 700;
        RAISE division_by_zero;
    EXCEPTION WHEN division_by_zero THEN NULL; END;
    UPDATE r SET k = k + 1 WHERE k = 700;
END $$;
SELECT * FROM r WHERE id = 700;
-- A statement within another one hides many rows of the same group: each row is hidden since its own command.
CREATE TABLE nested (id int PRIMARY KEY, v int);
INSERT INTO nested SELECT i, 0 FROM generate_series(1, 20000) i;
CREATE FUNCTION in_sql() RETURNS void LANGUAGE sql AS 'DELETE FROM nested WHERE id BETWEEN 16001 AND 19000';
CREATE FUNCTION updates_in_sql() RETURNS int LANGUAGE sql AS 'UPDATE nested SET v = 7 WHERE id BETWEEN 12000 AND 15000; SELECT 2';
BEGIN;
DELETE FROM nested WHERE id BETWEEN 5001 AND 10000 AND (id <> 6000 OR in_sql() IS NOT NULL);
SELECT v, count(*), sum(id) FROM nested GROUP BY v ORDER BY v;
UPDATE nested SET v = CASE WHEN id = 1000 THEN updates_in_sql() ELSE 1 END WHERE id <= 5000;
SELECT v, count(*), sum(id) FROM nested GROUP BY v ORDER BY v;
ROLLBACK;
CREATE FUNCTION with_cursors() RETURNS int LANGUAGE plpgsql AS $$
DECLARE many refcursor := 'many'; few refcursor := 'few';
BEGIN
    OPEN many NO SCROLL FOR SELECT count(*), sum(v) FROM nested;
    OPEN few NO SCROLL FOR SELECT id, v FROM nested WHERE id BETWEEN 14000 AND 14003 ORDER BY id;
    UPDATE nested SET v = 7 WHERE id BETWEEN 12000 AND 15000;
    RETURN 1;
END $$;
BEGIN;
UPDATE nested SET v = CASE WHEN id = 1000 THEN with_cursors() ELSE 1 END WHERE id <= 5000;
FETCH many;
FETCH ALL FROM few;
SELECT v, count(*), sum(id) FROM nested GROUP BY v ORDER BY v;
UPDATE nested SET v = 9 WHERE id BETWEEN 4000 AND 13000;
SELECT v, count(*), sum(id) FROM nested GROUP BY v ORDER BY v;
COMMIT;
SELECT v, count(*), sum(id) FROM nested GROUP BY v ORDER BY v;
CREATE FUNCTION deletes(a int, b int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM nested WHERE id BETWEEN a AND b; RETURN 1; END $$;
UPDATE nested SET v = CASE WHEN id = 1000 THEN deletes(3000, 9000) WHEN id = 2000 THEN deletes(15000, 15040) ELSE 1 END
    WHERE id <= 5000 AND (id < 3000 OR id > 3040);
SELECT v, count(*), sum(id) FROM nested GROUP BY v ORDER BY v;
-- A cursor that may be scrolled, although a function that was evaluated for its plan caught an error of a plan of its own.
CREATE FUNCTION catches(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    BEGIN EXECUTE 'SELECT 1 / 0'; EXCEPTION WHEN division_by_zero THEN NULL; END;
    RETURN i;
END $$;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM nested WHERE v = catches(7) AND id > 14000;
MOVE 5 IN c;
FETCH PRIOR FROM c;
ROLLBACK;
-- Triggers at the end of a COPY see its rows, however few.
CREATE TABLE copied (id int, v text);
CREATE TABLE audit (n bigint, seen bigint) USING heap;
CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    EXECUTE format('INSERT INTO audit SELECT count(*), sum(id) FROM %s', TG_RELID::regclass);
    EXECUTE format('UPDATE %s SET v = ''seen'' WHERE v = ''x''', TG_RELID::regclass);
    RETURN NULL;
END $$;
CREATE TRIGGER looks AFTER INSERT ON copied FOR EACH STATEMENT EXECUTE FUNCTION looks();
SET howdah.load_threshold = 8192;
\copy copied FROM PROGRAM 'seq 1000 | sed "s/$/,x/"' (FORMAT csv)
CREATE TABLE whole (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (100000);
CREATE TRIGGER looks AFTER INSERT ON whole FOR EACH STATEMENT EXECUTE FUNCTION looks();
\copy whole FROM PROGRAM 'seq 1000 | sed "s/$/,x/"' (FORMAT csv)
TABLE audit;
SELECT v, count(*) FROM copied GROUP BY v;
SELECT v, count(*) FROM whole GROUP BY v;
-- A parallel scan in a subplan that several nodes share.
CREATE TABLE k (k int);
SET howdah.load_threshold = 100;
INSERT INTO k SELECT i FROM generate_series(1, 20000) i;
CREATE TABLE two (k int) PARTITION BY HASH (k);
CREATE TABLE two0 PARTITION OF two FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING heap;
CREATE TABLE two1 PARTITION OF two FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING heap;
INSERT INTO two SELECT i FROM generate_series(1, 100) i;
ANALYZE k;
ANALYZE two;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT count(*) FROM two WHERE k NOT IN (SELECT k FROM k WHERE k > 10);
SELECT count(*) FROM two WHERE NOT (k > ANY (SELECT k + 50 FROM k));
RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA statement_ends CASCADE;
