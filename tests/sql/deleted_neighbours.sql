-- Commands that delete rows beside each other write one record for many of them, at their end. Whatever runs in
-- between or afterwards sees what it would see on heap. deleted_neighbours_on_heap.sql is this file by another name
-- and runs it over heap.
CREATE SCHEMA neighbours;
SET search_path = neighbours, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
CREATE TABLE t (id int PRIMARY KEY, k int, v text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT x, x % 10, 'v' || x FROM generate_series(1, 20000) x;
CREATE INDEX t_k ON t (k);
\if :cold
    CALL howdah.compact('t');
\endif
ANALYZE t;
-- Numbers of rows around those at which a record is written; by index and by columns.
DO $$ DECLARE n int; first int := 1; BEGIN
    FOREACH n IN ARRAY ARRAY[1, 2, 3, 63, 64, 65, 66, 127, 128, 129, 130, 255, 256, 257, 258, 300] LOOP
        DELETE FROM t WHERE id BETWEEN first AND first + n - 1;
        first := first + n + 1;
    END LOOP;
END $$;
SELECT dig('TABLE t');
SET enable_indexscan = off;
SET enable_bitmapscan = off;
DELETE FROM t WHERE id BETWEEN 2600 AND 2660;
DELETE FROM t WHERE id BETWEEN 2655 AND 2700 AND id % 3 > 0;
RESET enable_indexscan;
RESET enable_bitmapscan;
SELECT dig('TABLE t'), dig('SELECT * FROM t WHERE id BETWEEN 2500 AND 2800');
-- Of no order, again and again, and of rows that are gone.
DELETE FROM t WHERE id = ANY ('{2900,2801,2899,2802,2850,2801,2900,2600,1}');
DELETE FROM t WHERE id = ANY ('{2900,2803,2804,2899,2805,2850}');
SELECT dig('SELECT * FROM t WHERE id BETWEEN 2700 AND 3000');
-- Rolled back, as a whole and in part; deleted again.
BEGIN;
DELETE FROM t WHERE id BETWEEN 3001 AND 3050;
SAVEPOINT a;
DELETE FROM t WHERE id BETWEEN 3040 AND 3100;
SELECT count(*) FROM t WHERE id BETWEEN 3001 AND 3200;
SAVEPOINT b;
DELETE FROM t WHERE id BETWEEN 3090 AND 3150;
RELEASE b;
SELECT count(*) FROM t WHERE id BETWEEN 3001 AND 3200;
ROLLBACK TO a;
SELECT count(*) FROM t WHERE id BETWEEN 3001 AND 3200;
DELETE FROM t WHERE id BETWEEN 3040 AND 3060;
INSERT INTO t SELECT x, 1, 'again' FROM generate_series(3001, 3010) x;
UPDATE t SET v = 'changed' WHERE id BETWEEN 3005 AND 3070;
DELETE FROM t WHERE id BETWEEN 3008 AND 3063;
COMMIT;
SELECT dig('SELECT * FROM t WHERE id BETWEEN 3000 AND 3200');
BEGIN;
DELETE FROM t WHERE id BETWEEN 3201 AND 3300;
ROLLBACK;
DELETE FROM t WHERE id BETWEEN 3201 AND 3230;
SELECT dig('SELECT * FROM t WHERE id BETWEEN 3200 AND 3300');

-- A function that is called for each row sees what was deleted before its own command, and deletes itself.
CREATE TABLE seen (what text, n bigint) USING heap;
CREATE FUNCTION looks(a int, b int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO seen SELECT 'rows', count(*) FROM t WHERE id BETWEEN a AND b;
    RETURN true;
END $$;
CREATE FUNCTION looks_by_index(a int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO seen SELECT 'row ' || a, count(*) FROM t WHERE id = a;
    RETURN true;
END $$;
CREATE FUNCTION deletes(a int, b int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM t WHERE id BETWEEN a AND b;
    RETURN true;
END $$;
CREATE FUNCTION gives_up(a int, b int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
    BEGIN
        DELETE FROM t WHERE id BETWEEN a AND b;
        INSERT INTO seen SELECT 'given up', count(*) FROM t WHERE id BETWEEN a AND b;
        RAISE division_by_zero;
    EXCEPTION WHEN division_by_zero THEN NULL; END;
    RETURN true;
END $$;
DELETE FROM t WHERE id BETWEEN 4001 AND 4020 AND looks(4001, 4100);
DELETE FROM t WHERE id BETWEEN 4021 AND 4040 AND looks_by_index(id - 1) AND looks_by_index(id);
DELETE FROM t WHERE id BETWEEN 4041 AND 4060 AND (id <> 4050 OR deletes(4061, 4070)) AND looks(4001, 4100);
DELETE FROM t WHERE id BETWEEN 4071 AND 4090 AND (id % 6 <> 0 OR gives_up(4080, 4095)) AND looks(4001, 4100);
SELECT dig('SELECT * FROM t WHERE id BETWEEN 3950 AND 4200'), dig('TABLE seen');
TRUNCATE seen;
-- Rows that the function deletes are those that the statement comes to next.
DELETE FROM t WHERE id BETWEEN 4101 AND 4140 AND (id <> 4110 OR deletes(4111, 4120)) RETURNING id;
DELETE FROM t WHERE id BETWEEN 4141 AND 4160 AND (id <> 4150 OR deletes(4145, 4148));
UPDATE t SET v = 'u' WHERE id BETWEEN 4161 AND 4180 AND (id <> 4165 OR deletes(4170, 4175));
SELECT dig('SELECT * FROM t WHERE id BETWEEN 4100 AND 4200');
-- Two parts of one statement for the same rows.
WITH d AS (DELETE FROM t WHERE id BETWEEN 4201 AND 4220 RETURNING id), e AS (DELETE FROM t WHERE id BETWEEN 4211 AND 4230 RETURNING id)
SELECT (SELECT count(*) FROM d), (SELECT count(*) FROM e), (SELECT count(*) FROM t WHERE id BETWEEN 4201 AND 4230);
DELETE FROM t USING generate_series(4241, 4260) x, generate_series(1, 3) y WHERE t.id = x;
MERGE INTO t USING generate_series(4261, 4290) x ON t.id = x WHEN MATCHED AND x % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged';
SELECT dig('SELECT * FROM t WHERE id BETWEEN 4200 AND 4300');
-- A cursor from before, one that is opened in between, and one that deletes.
CREATE FUNCTION opens() RETURNS bool LANGUAGE plpgsql AS $$ DECLARE between refcursor := 'between'; BEGIN
    OPEN between SCROLL FOR SELECT id FROM t WHERE id BETWEEN 4301 AND 4340 ORDER BY id;
    RETURN true;
END $$;
BEGIN;
DECLARE before SCROLL CURSOR FOR SELECT id FROM t WHERE id BETWEEN 4301 AND 4340 ORDER BY id;
FETCH 2 FROM before;
DELETE FROM t WHERE id BETWEEN 4301 AND 4330 AND (id <> 4320 OR opens());
FETCH 2 FROM before;
MOVE LAST FROM before;
FETCH PRIOR FROM before;
FETCH 2 FROM between;
MOVE LAST FROM between;
FETCH PRIOR FROM between;
COMMIT;
DO $$ DECLARE c CURSOR FOR SELECT id FROM t WHERE id BETWEEN 4341 AND 4380 ORDER BY id; n int := 0; BEGIN
    FOR one IN c LOOP
        n := n + 1;
        IF n % 3 > 0 THEN DELETE FROM t WHERE CURRENT OF c; END IF;
    END LOOP;
END $$;
SELECT dig('SELECT * FROM t WHERE id BETWEEN 4300 AND 4400');

-- Triggers: before each row, after each row, after the statement with the rows.
CREATE FUNCTION before_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO seen SELECT 'before ' || OLD.id, count(*) FROM t WHERE id BETWEEN 5001 AND 5100;
    IF OLD.id % 7 = 0 THEN RETURN NULL; END IF;
    IF OLD.id = 5050 THEN DELETE FROM t WHERE id BETWEEN 5090 AND 5095; END IF;
    RETURN OLD;
END $$;
CREATE FUNCTION after_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO seen SELECT 'after ' || OLD.id, count(*) FROM t WHERE id BETWEEN 5001 AND 5100;
    IF OLD.id % 5 = 0 THEN INSERT INTO t VALUES (OLD.id, -1, 'back'); END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION after_all() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO seen SELECT 'all', count(*) FROM gone;
    INSERT INTO seen SELECT 'left', count(*) FROM t WHERE id BETWEEN 5001 AND 5100;
    RETURN NULL;
END $$;
CREATE TRIGGER a BEFORE DELETE ON t FOR EACH ROW EXECUTE FUNCTION before_row();
CREATE TRIGGER b AFTER DELETE ON t FOR EACH ROW EXECUTE FUNCTION after_row();
CREATE TRIGGER c AFTER DELETE ON t REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION after_all();
DELETE FROM t WHERE id BETWEEN 5001 AND 5080;
SELECT dig('SELECT * FROM t WHERE id BETWEEN 5000 AND 5200'), ordered('TABLE seen');
-- The rows that the trigger deletes are those that the statement comes to next: an error, and nothing is changed.
DELETE FROM t WHERE id BETWEEN 5082 AND 5100 OR id = 5050;
CREATE OR REPLACE FUNCTION before_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM t WHERE id = OLD.id + 1 AND k = 1;
    RETURN OLD;
END $$;
DELETE FROM t WHERE id BETWEEN 5101 AND 5120 AND k <> 1;
DELETE FROM t WHERE id BETWEEN 5121 AND 5140;
SELECT dig('SELECT * FROM t WHERE id BETWEEN 5000 AND 5200');
DROP TRIGGER a ON t;
DROP TRIGGER b ON t;
DROP TRIGGER c ON t;

-- Foreign keys: of another table, and of the table itself.
CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES t ON DELETE CASCADE);
INSERT INTO children SELECT x, 6000 + x / 2 FROM generate_series(1, 2000) x;
CREATE TABLE tied (parent int REFERENCES t) USING heap;
INSERT INTO tied VALUES (6500);
\if :cold
    CALL howdah.compact('children');
\endif
DELETE FROM t WHERE id BETWEEN 6001 AND 6100;
SELECT dig('TABLE children');
DELETE FROM t WHERE id BETWEEN 6450 AND 6550;
DELETE FROM t WHERE id BETWEEN 6450 AND 6550 AND id <> 6500;
SELECT dig('TABLE children'), dig('SELECT * FROM t WHERE id BETWEEN 6000 AND 7000');
CREATE TABLE chain (id int PRIMARY KEY, previous int REFERENCES chain ON DELETE CASCADE);
INSERT INTO chain SELECT x, nullif(x - 1, 0) FROM generate_series(1, 600) x;
CREATE INDEX ON chain (previous);
\if :cold
    CALL howdah.compact('chain');
\endif
DELETE FROM chain WHERE id BETWEEN 550 AND 560;
SELECT dig('TABLE chain');

-- The keys are free, for the same transaction and for others; constraints that are checked at the end.
BEGIN;
DELETE FROM t WHERE id BETWEEN 7001 AND 7050;
INSERT INTO t SELECT x, 3, 'new' FROM generate_series(7001, 7050) x;
INSERT INTO t VALUES (7001, 4, 'twice') ON CONFLICT (id) DO UPDATE SET v = 'met';
COMMIT;
WITH d AS (DELETE FROM t WHERE id BETWEEN 7051 AND 7060 RETURNING *) INSERT INTO t SELECT id + 100000, k, v FROM d;
SELECT dig('SELECT * FROM t WHERE id BETWEEN 7000 AND 7100 OR id > 100000');

-- Maintenance, also of what the same transaction has deleted.
BEGIN;
DELETE FROM t WHERE id BETWEEN 8001 AND 8040;
CREATE INDEX t_v ON t (v);
CLUSTER t USING t_pkey;
DELETE FROM t WHERE id BETWEEN 8030 AND 8080;
COMMIT;
SELECT dig('TABLE t');
SET enable_seqscan = off;
SELECT count(*) FROM t WHERE v >= 'v8' AND v < 'v81';
RESET enable_seqscan;
DELETE FROM t WHERE id BETWEEN 9001 AND 9300 AND id % 2 = 0;
DELETE FROM t WHERE id BETWEEN 9101 AND 9150;
VACUUM (INDEX_CLEANUP on) t;
DELETE FROM t WHERE id BETWEEN 9201 AND 9250;
\if :cold
    CALL howdah.compact('t');
\endif
SELECT dig('TABLE t');
DELETE FROM t WHERE id BETWEEN 9301 AND 9350;
VACUUM FULL t;
SELECT dig('TABLE t'), dig('SELECT * FROM t WHERE k = 4');
DELETE FROM t WHERE id BETWEEN 9401 AND 9450;
REINDEX TABLE t;
ALTER TABLE t ALTER COLUMN k TYPE bigint;
DELETE FROM t WHERE id BETWEEN 9501 AND 9550;
TRUNCATE tied, children, seen;
DELETE FROM t WHERE id > 9600 AND id < 9620;
SELECT dig('TABLE t');
RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA neighbours CASCADE;
