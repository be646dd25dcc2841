-- Loads that fail, nest, read and change themselves: functions, triggers, rules, cursors, savepoints, TRUNCATE, TEMP, views.
-- nested_loads_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA loads;
SET search_path = loads, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin

-- Loads.
CREATE TABLE t (id int PRIMARY KEY, w text UNIQUE, k int CHECK (k < 100000));
CREATE TABLE log (what text, n bigint);

-- Function reading the table inside the load.
CREATE FUNCTION peek(i int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN IF i % 700 = 0 THEN RETURN i || '-' || (SELECT count(*) FROM t) || '-' || (SELECT coalesce(max(id),0) FROM t); END IF; RETURN 'w' || i; END $$;
INSERT INTO t SELECT i, peek(i), i FROM generate_series(1,3000) i;
SELECT dig('TABLE t');
WITH x AS (INSERT INTO t SELECT i, peek(i), i FROM generate_series(3001,5000) i RETURNING *) SELECT count(*), sum(id), (SELECT count(*) FROM t) FROM x;
SELECT dig('TABLE t');

-- Failing rows.
INSERT INTO t SELECT i, 'v'||i, i FROM generate_series(6000,9000) i WHERE 1/(8500-i) IS NOT NULL;
INSERT INTO t SELECT i, 'v'||i, i*20 FROM generate_series(6000,9000) i;
INSERT INTO t SELECT CASE WHEN i=8000 THEN 6001 ELSE i END, 'v'||i, 1 FROM generate_series(6000,9000) i;
INSERT INTO t SELECT i, 'v'||i%2500, 1 FROM generate_series(6000,9000) i;
INSERT INTO t SELECT i, 'w'||i, 1 FROM generate_series(9000,4500,-1) i;
SELECT dig('TABLE t');
BEGIN;
SAVEPOINT a;
INSERT INTO t SELECT i, 'v'||i, i FROM generate_series(6000,9000) i WHERE 1/(8500-i) IS NOT NULL;
ROLLBACK TO a;
INSERT INTO t SELECT i, 'v'||i, i FROM generate_series(6000,9000) i;
SAVEPOINT b;
INSERT INTO t SELECT CASE WHEN i=10500 THEN 6001 ELSE i END, 'vv'||i, 1 FROM generate_series(10000,11000) i;
ROLLBACK TO b;
DELETE FROM t WHERE id BETWEEN 8000 AND 8100;
INSERT INTO t SELECT i, 'again'||i, 1 FROM generate_series(8000,8100) i;
SELECT dig('TABLE t');
RELEASE a;
COMMIT;
SELECT dig('TABLE t');
DO $$ BEGIN FOR i IN 1..30 LOOP BEGIN INSERT INTO t SELECT g, 'loop' || g, 1 FROM generate_series(20000 + i*150, 20000 + i*150 + 200) g; EXCEPTION WHEN unique_violation THEN INSERT INTO log VALUES (sqlerrm, i); END; END LOOP; END $$;
SELECT dig('TABLE t'), dig('TABLE log');
TRUNCATE log;

-- Deep nesting.
CREATE FUNCTION nest(d int, n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF d = 0 THEN RETURN 0; END IF; INSERT INTO t SELECT i, 'n' || i, d FROM generate_series(n*1000, n*1000+300) i; BEGIN PERFORM nest(d-1, n+1); IF d % 2 = 0 THEN RAISE division_by_zero; END IF; EXCEPTION WHEN division_by_zero THEN INSERT INTO t SELECT i, 'e' || i, d FROM generate_series(n*1000+500, n*1000+700) i; END; RETURN (SELECT count(*) FROM t WHERE id >= 100000); END $$;
SELECT nest(7, 100);
SELECT dig('TABLE t');

-- Triggers.
CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.id % 333 = 0 THEN INSERT INTO log VALUES (TG_WHEN || TG_NAME, (SELECT count(*) FROM t)); IF new.id % 999 = 0 AND TG_WHEN='BEFORE' THEN UPDATE t SET k = -1 WHERE id = new.id - 1; DELETE FROM t WHERE id = new.id - 2; END IF; END IF; IF TG_WHEN='BEFORE' AND new.id % 50 = 0 THEN RETURN NULL; END IF; RETURN new; END $$;
CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION trg();
CREATE TRIGGER b AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION trg();
INSERT INTO t SELECT i, 'tr'||i, i%99 FROM generate_series(200000,203000) i;
SELECT dig('TABLE t'), dig('TABLE log');
TRUNCATE log;
CREATE FUNCTION nl() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log SELECT 'new ' || TG_OP, count(*) FROM newt; INSERT INTO log SELECT 'join', count(*) FROM newt JOIN t USING (id); IF (SELECT count(*) FROM newt) > 0 THEN INSERT INTO t SELECT id + 1000000, w || 'c', k FROM newt WHERE id < 2000000; END IF; RETURN NULL; END $$;
CREATE TRIGGER c AFTER INSERT ON t REFERENCING NEW TABLE AS newt FOR EACH STATEMENT EXECUTE FUNCTION nl();
INSERT INTO t SELECT i, 'tq'||i, i%99 FROM generate_series(300000,301000) i;
SELECT dig('TABLE t'), dig('TABLE log');
TRUNCATE log;
ALTER TABLE t DISABLE TRIGGER USER;
CREATE CONSTRAINT TRIGGER dd AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION trg();
BEGIN;
INSERT INTO t SELECT i, 'de'||i, i%99 FROM generate_series(400000,403000) i;
TRUNCATE log;
COMMIT;
SELECT dig('TABLE t'), dig('TABLE log');
ALTER TABLE t DISABLE TRIGGER USER;
TRUNCATE log;
CREATE RULE r AS ON INSERT TO t DO ALSO INSERT INTO log VALUES (new.w, new.id);
INSERT INTO t SELECT i, 'ru'||i, i%99 FROM generate_series(500000,501000) i;
SELECT dig('TABLE log');
DROP RULE r ON t;

-- Cursor open while loading, read by refetch.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id < 6000;
DECLARE c2 SCROLL CURSOR FOR SELECT id FROM t ORDER BY id;
FETCH 1 FROM c2;
INSERT INTO t SELECT i, 'cu'||i, 1 FROM generate_series(600000,602000) i;
MOVE ALL FROM c;
MOVE ALL FROM c2;
FETCH PRIOR FROM c2;
SELECT count(*) FROM t WHERE id >= 600000;
DELETE FROM t WHERE id BETWEEN 600500 AND 600600;
SELECT count(*) FROM t WHERE id >= 600000;
UPDATE t SET k = 5 WHERE id BETWEEN 601000 AND 601100;
MOVE BACKWARD ALL IN c2;
MOVE ALL IN c2;
SELECT dig('TABLE t');
SAVEPOINT z;
INSERT INTO t SELECT i, 'cv'||i, 1 FROM generate_series(610000,612000) i;
DECLARE c3 CURSOR FOR SELECT count(*) FROM t WHERE id >= 610000;
FETCH c3;
ROLLBACK TO z;
SELECT count(*) FROM t WHERE id >= 610000;
COMMIT;
SELECT dig('TABLE t');

-- ON CONFLICT, MERGE, self insert, view insert.
INSERT INTO t SELECT i, 'oc'||i, 1 FROM generate_series(601500,603000) i ON CONFLICT DO NOTHING;
INSERT INTO t SELECT i, 'oc'||i, 1 FROM generate_series(602500,603500) i ON CONFLICT (id) DO UPDATE SET k = t.k + 7;
SELECT dig('TABLE t');
MERGE INTO t USING (SELECT i FROM generate_series(603300,605000) i) s ON t.id = s.i WHEN MATCHED THEN UPDATE SET k = 99 WHEN NOT MATCHED THEN INSERT VALUES (s.i, 'mg'||s.i, 0);
SELECT dig('TABLE t');
INSERT INTO t SELECT id + 10000000, w || 'self', k FROM t;
SELECT dig('TABLE t');
CREATE VIEW v AS SELECT id, w FROM t WHERE id < 30000000 WITH CHECK OPTION;
INSERT INTO v SELECT i, 'vi'||i FROM generate_series(20000000,20001000) i;
INSERT INTO v SELECT i, 'vi'||i FROM generate_series(29999500,30000500) i;
SELECT dig('TABLE t');

-- Truncate in creating transaction, rolled back.
BEGIN;
CREATE TABLE cr (id int PRIMARY KEY, w text);
INSERT INTO cr SELECT i, 'w' FROM generate_series(1,1000) i;
SAVEPOINT a;
TRUNCATE cr;
INSERT INTO cr SELECT i, 'x' FROM generate_series(1,700) i;
SELECT dig('TABLE cr');
ROLLBACK TO a;
SELECT dig('TABLE cr');
INSERT INTO cr SELECT i, 'y' FROM generate_series(1001,1500) i;
TRUNCATE cr;
SELECT dig('TABLE cr');
INSERT INTO cr SELECT i, 'z' FROM generate_series(1,400) i;
SAVEPOINT b;
TRUNCATE cr;
TRUNCATE cr;
INSERT INTO cr SELECT i, 'q' FROM generate_series(1,600) i;
RELEASE b;
SELECT dig('TABLE cr');
SAVEPOINT c;
TRUNCATE cr;
ROLLBACK TO c;
SELECT dig('TABLE cr');
COMMIT;
SELECT dig('TABLE cr');
INSERT INTO cr SELECT i, 'n' FROM generate_series(601,1200) i;
SELECT dig('TABLE cr');
SET enable_seqscan=off;
SELECT count(*) FROM cr WHERE id > 0;
RESET enable_seqscan;
BEGIN;
TRUNCATE cr;
ROLLBACK;
SELECT dig('TABLE cr');
TRUNCATE cr RESTART IDENTITY CASCADE;
BEGIN;
CREATE TABLE cr2 (id int PRIMARY KEY);
SAVEPOINT a;
INSERT INTO cr2 SELECT generate_series(1,1000);
ROLLBACK TO a;
INSERT INTO cr2 SELECT generate_series(1,1000);
TRUNCATE cr2;
INSERT INTO cr2 SELECT generate_series(1,1000);
DELETE FROM cr2 WHERE id % 2 = 0;
UPDATE cr2 SET id = -id WHERE id % 3 = 0;
SELECT dig('TABLE cr2');
COMMIT;
SELECT dig('TABLE cr2');
\if :cold
    CALL howdah.compact('t');
    CALL howdah.compact('cr');
    CALL howdah.compact('cr2');
\endif
SELECT dig('TABLE cr2'), dig('TABLE cr'), dig('TABLE t');

-- Temp.
CREATE TEMP TABLE tm (id int PRIMARY KEY, w text) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO tm SELECT i, 'a' FROM generate_series(1,1000) i;
UPDATE tm SET w = 'b' WHERE id < 10;
SELECT dig('TABLE tm');
COMMIT;
SELECT dig('TABLE tm');
BEGIN;
INSERT INTO tm SELECT i, 'a' FROM generate_series(1,1000) i;
SAVEPOINT a;
INSERT INTO tm SELECT i, 'a' FROM generate_series(1001,2000) i;
ROLLBACK TO a;
SELECT dig('TABLE tm');
SET enable_seqscan=off;
SELECT * FROM tm WHERE id = 999;
COMMIT;
INSERT INTO tm SELECT i, 'a' FROM generate_series(1,1000) i;
SELECT * FROM tm WHERE id = 999;
BEGIN;
INSERT INTO tm VALUES (999);
SELECT dig('TABLE tm');
ROLLBACK;
CREATE TEMP TABLE td ON COMMIT DROP AS SELECT i FROM generate_series(1,1000) i;
RESET enable_seqscan;
CREATE TEMP TABLE tp AS SELECT i FROM generate_series(1,2000) i;
CREATE INDEX ON tp (i);
VACUUM FULL tp;
CLUSTER tp USING tp_i_idx;
ALTER TABLE tp ADD COLUMN z int DEFAULT random(1,1);
ANALYZE tp;
DELETE FROM tp WHERE i % 2 = 0;
VACUUM tp;
SELECT dig('TABLE tp');
ALTER TABLE tp ALTER i TYPE text;
SELECT dig('TABLE tp');
DISCARD TEMP;
SELECT count(*) FROM tp;
CREATE UNLOGGED TABLE ul (id int PRIMARY KEY);
INSERT INTO ul SELECT generate_series(1,1000);
SELECT dig('TABLE ul');
DELETE FROM ul WHERE id < 10;
ALTER TABLE ul SET LOGGED;
SELECT dig('TABLE ul');
ALTER TABLE ul SET UNLOGGED;
SELECT dig('TABLE ul');

-- Matviews.
CREATE MATERIALIZED VIEW mv AS SELECT id % 3000 AS id, count(*) n FROM t GROUP BY 1;
CREATE UNIQUE INDEX mvi ON mv (id);
CREATE INDEX mvn ON mv (n);
SELECT dig('TABLE mv');
DELETE FROM t WHERE id % 7 = 0;
UPDATE t SET id = id + 100000000 WHERE id % 11 = 0;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT dig('TABLE mv');
REFRESH MATERIALIZED VIEW mv;
SELECT dig('TABLE mv');
BEGIN;
DELETE FROM t;
REFRESH MATERIALIZED VIEW mv;
SELECT dig('TABLE mv');
ROLLBACK;
SELECT dig('TABLE mv');
REFRESH MATERIALIZED VIEW mv WITH NO DATA;
SELECT count(*) FROM mv;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
REFRESH MATERIALIZED VIEW mv;
SELECT dig('TABLE mv');
\if :cold
    CALL howdah.compact('t');
    CALL howdah.compact('cr');
    CALL howdah.compact('cr2');
    CALL howdah.compact('ul');
    CALL howdah.compact('mv');
\endif
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT dig('TABLE mv');
INSERT INTO t VALUES (-7, 'minus', 1);
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT dig('TABLE mv');
ALTER MATERIALIZED VIEW mv RENAME n TO nn;
ALTER MATERIALIZED VIEW mv SET ACCESS METHOD heap;
SELECT dig('TABLE mv');
VACUUM FULL mv;
CLUSTER mv USING mvn;
ANALYZE mv;
SELECT dig('TABLE mv');
CREATE MATERIALIZED VIEW mv2 AS SELECT * FROM mv WITH NO DATA;
REFRESH MATERIALIZED VIEW mv2;
SELECT dig('TABLE mv2');
INSERT INTO mv2 VALUES (1);

-- Prepared transactions.
BEGIN;
INSERT INTO cr SELECT i, 'p' FROM generate_series(5000,6000) i;
CREATE TABLE crp AS SELECT i FROM generate_series(1,1000) i;
PREPARE TRANSACTION 'x1';
SELECT count(*) FROM cr;
COMMIT PREPARED 'x1';
SELECT dig('TABLE cr'), dig('TABLE crp');
BEGIN;
INSERT INTO cr SELECT i, 'p' FROM generate_series(7000,8000) i;
TRUNCATE crp;
PREPARE TRANSACTION 'x2';
ROLLBACK PREPARED 'x2';
SELECT dig('TABLE cr'), dig('TABLE crp');
INSERT INTO cr SELECT i, 'p' FROM generate_series(7000,8000) i;
SELECT dig('TABLE cr');

DROP SCHEMA loads CASCADE;
