-- Statements around the vectorized engine: rescans, parameters of every type, cursors, triggers, functions that write, rules of
-- evaluation. The same rows and errors as over heap; vectorized_statements_on_heap.sql is this file by another name.
CREATE SCHEMA vectorized_statements;
SET search_path = vectorized_statements, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
\set vectorized :directory '/sql/vectorized.psql'
\i :vectorized
CREATE TABLE t (id int, k int, s int2, l int8, f4 float4, f8 float8, n numeric, d date, ts timestamp, tz timestamptz, tm time,
    b bool, u uuid, w text COLLATE "C", v varchar(9), c char(5), e bytea, iv interval, en name, o oid, q "char", a int[]);
INSERT INTO t SELECT i, i % 100, i % 7, i * 3000000000, (i % 9) * 0.25, (i % 90) / 8.0, (i % 77) / 10.0, date '2020-01-01' + i % 50,
    timestamp '2020-01-01' + i % 60 * interval '1 hour', timestamptz '2020-01-01' + i % 60 * interval '1 hour',
    time '00:00' + i % 24 * interval '1 hour', i % 3 = 0, md5((i % 10)::text)::uuid, 'w' || i % 30, 'v' || i % 5, 'c' || i % 4,
    decode(md5((i % 3)::text), 'hex'), i % 5 * interval '1 day', 'n' || i % 6, i % 8, chr(65 + i % 5)::"char", ARRAY[i % 2, i % 3]
FROM generate_series(1, 6000) i;
INSERT INTO t (id) SELECT 6000 + i FROM generate_series(1, 200) i;
SET howdah.load_threshold = 1000000;
INSERT INTO t SELECT (t).* FROM (SELECT t FROM t WHERE id % 300 = 1) t;
UPDATE t SET k = k + 1 WHERE id % 97 = 0;
DELETE FROM t WHERE id % 89 = 0;
ANALYZE t;
-- PostgreSQL's own plan takes over in the first run, and is run again with other parameters: correlated, lateral, in a function.
SET work_mem = '64kB';
SELECT g, (SELECT count(*) || ' ' || sum(x) FROM (SELECT DISTINCT id + g AS x, w FROM t WHERE id > g * 1000) s) FROM generate_series(0, 5) g;
SELECT g, s.* FROM generate_series(0, 3) g, LATERAL (SELECT count(*), max(n) FROM (SELECT id, k, w, count(*) AS n FROM t WHERE id <> g AND id > g * 2000 GROUP BY 1, 2, 3) s) s;
SELECT g, s.* FROM generate_series(1, 3) g, LATERAL (SELECT id FROM t WHERE id % 3 = g % 3 ORDER BY w, k, id LIMIT 3000 OFFSET 1500) s WHERE s.id % 500 = 1 ORDER BY 1, 2;
CREATE FUNCTION by_variable() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE one record;
BEGIN
    FOR i IN 0 .. 3 LOOP
        SELECT count(*) AS n, sum(s.id) AS sum INTO one FROM (SELECT id, w FROM t WHERE id > i * 1500 GROUP BY 1, 2) s;
        RETURN NEXT i || ': ' || one.n || ' ' || one.sum;
    END LOOP;
END $$;
SELECT by_variable();
RESET work_mem;
-- A part that is not evaluated raises no error, though the value is the same for all rows.
SET plan_cache_mode = force_generic_plan;
PREPARE either(text) AS SELECT count(*), sum(id) FROM t WHERE $1 = '' OR k = $1::int;
SELECT taken('EXECUTE either(''3'')') = :cold AS as_expected;
EXECUTE either('3');
EXECUTE either('');
EXECUTE either('x');
PREPARE quotient(int) AS SELECT count(*) FROM t WHERE b IS NOT NULL AND ($1 = 0 OR id > 10000 / $1);
EXECUTE quotient(0);
EXECUTE quotient(5);
PREPARE nothing(int) AS SELECT count(*) FROM t WHERE id > 0 AND NOT ($1 <> 0 AND k < 500 / $1);
EXECUTE nothing(0);
EXECUTE nothing(10);
PREPARE filtered(int) AS SELECT sum(id + 100 / $1) FILTER (WHERE $1 <> 0), count(*) FROM t;
EXECUTE filtered(0);
EXECUTE filtered(7);
PREPARE listed(text) AS SELECT count(*) FROM t WHERE $1 IS NULL OR $1 = '' OR k = ANY (string_to_array($1, ',')::int[]);
EXECUTE listed('');
EXECUTE listed(NULL);
EXECUTE listed('1,2,3');
EXECUTE listed('a');
PREPARE chosen(int) AS SELECT count(*) FROM t WHERE CASE WHEN $1 <> 0 THEN k > 100 / $1 ELSE k > 0 END;
EXECUTE chosen(0);
EXECUTE chosen(3);
SELECT count(*) FROM t WHERE id = 5 OR k > (SELECT 1 / count(*) FROM t WHERE id < 0);
SELECT count(*) FROM t WHERE id > 0 OR k > (SELECT 1 / count(*) FROM t WHERE id < 0);
-- Parameters of each type, NULL among them, in generic and custom plans.
CREATE TABLE parameter (id int GENERATED ALWAYS AS IDENTITY, name text, type text, value text) USING heap;
INSERT INTO parameter (name, type, value) VALUES ('k', 'int', '7'), ('s', 'int2', '3'), ('s', 'int8', '3'), ('l', 'int8', '21000000000'), ('k', 'int8', '9999999999'),
    ('f4', 'float4', '0.75'), ('f4', 'float8', 'NaN'), ('f8', 'float8', '1.5'), ('f8', 'float8', '-Infinity'), ('n', 'numeric', '1.50'), ('n', 'numeric', 'NaN'), ('n', 'numeric', '1e50'),
    ('d', 'date', '2020-01-15'), ('d', 'date', 'infinity'), ('d', 'timestamp', '2020-01-15 10:00'), ('ts', 'date', '2020-01-02'), ('ts', 'timestamp', '2020-01-02 03:00'), ('tz', 'timestamptz', '2020-01-02 03:00+01'),
    ('tz', 'date', '2020-01-02'), ('tm', 'time', '05:00'), ('b', 'bool', 'true'), ('u', 'uuid', 'c4ca4238-a0b9-2382-0dcc-509a6f75849b'), ('w', 'text', 'w7'), ('w', 'varchar', 'w7'), ('w', 'text', ''), ('v', 'varchar', 'v2'),
    ('c', 'char(5)', 'c1'), ('c', 'text', 'c1'), ('e', 'bytea', '\xc4'), ('iv', 'interval', '24 hours'), ('en', 'name', 'n3'), ('o', 'oid', '3'), ('q', '"char"', 'B'), ('a', 'int[]', '{1,1}');
CREATE FUNCTION asked(name text, type text, value text, op text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text; one text;
BEGIN
    DEALLOCATE ALL;
    EXECUTE format('PREPARE p(%s) AS SELECT count(*), count(*) FILTER (WHERE %I %s $1), min(id) FROM t WHERE %2$I %3$s $1 OR %2$I IS NULL AND id > 6100', type, name, op);
    FOR i IN 1 .. 2 LOOP
        EXECUTE format('EXECUTE p(%L)', value) INTO one;
        found := concat_ws(' ', found, one);
        EXECUTE format('EXECUTE p(NULL)') INTO one;
        found := concat_ws(' ', found, one);
    END LOOP;
    RETURN found;
EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE;
END $$;
SET plan_cache_mode = force_generic_plan;
SELECT p.id, op, asked(name, type, value, op) FROM parameter p, unnest('{=,<>,<,>=}'::text[]) op ORDER BY 1, 2;
SET plan_cache_mode = force_custom_plan;
SELECT md5(string_agg(asked(name, type, value, op), ' ' ORDER BY p.id, op)) FROM parameter p, unnest('{=,<>,<,>=}'::text[]) op;
RESET plan_cache_mode;
-- Plans that do not fit any more.
PREPARE stays AS SELECT (k % 3)::int AS m, count(*), max(w) FROM t GROUP BY 1 ORDER BY 1;
EXECUTE stays;
ALTER TABLE t ALTER COLUMN k TYPE int8;
EXECUTE stays;
ALTER TABLE t ADD COLUMN later int DEFAULT 5, DROP COLUMN a;
EXECUTE stays;
ALTER TABLE t RENAME COLUMN w TO ww;
EXECUTE stays;
ALTER TABLE t RENAME COLUMN ww TO w;
BEGIN;
TRUNCATE t;
EXECUTE stays;
ROLLBACK;
EXECUTE stays;
CREATE INDEX ON t (id);
EXECUTE stays;
SET howdah.vectorized = off;
EXECUTE stays;
RESET howdah.vectorized;
ALTER TABLE t SET ACCESS METHOD heap;
EXECUTE stays;
SELECT :cold AS cold \gset
\if :cold
    SET howdah.load_threshold = 100;
    ALTER TABLE t SET ACCESS METHOD howdah;
    RESET howdah.load_threshold;
\endif
EXECUTE stays;
-- Cursors: what happens after they are opened is not theirs.
BEGIN;
DECLARE a CURSOR WITH HOLD FOR SELECT s, count(*), sum(id) FROM t GROUP BY s ORDER BY s;
DECLARE b SCROLL CURSOR FOR SELECT id, k FROM t ORDER BY k DESC NULLS LAST, id LIMIT 50;
DECLARE c CURSOR FOR SELECT s, count(*) FROM t GROUP BY s ORDER BY s;
DELETE FROM t WHERE s = 3;
FETCH 2 FROM a;
FETCH ABSOLUTE 40 FROM b;
FETCH PRIOR FROM b;
SAVEPOINT one;
UPDATE t SET s = 9 WHERE s = 4;
FETCH 3 FROM c;
DECLARE d CURSOR FOR SELECT s, count(*) FROM t GROUP BY s ORDER BY s;
FETCH 1 FROM d;
ROLLBACK TO one;
FETCH ALL FROM c;
FETCH FIRST FROM b;
ROLLBACK;
BEGIN;
DECLARE a CURSOR WITH HOLD FOR SELECT s, count(*), sum(id) FROM t GROUP BY s ORDER BY s;
FETCH 2 FROM a;
UPDATE t SET s = 8 WHERE s = 5;
COMMIT;
FETCH ALL FROM a;
CLOSE a;
-- Changes from a query of the same table, and what they return.
WITH gone AS (DELETE FROM t WHERE k = (SELECT max(k) FROM t) RETURNING id) SELECT count(*), (SELECT count(*) FROM t) FROM gone;
UPDATE t SET k = 1000 WHERE id IN (SELECT id FROM t ORDER BY id DESC LIMIT 3);
SELECT id, k FROM t ORDER BY k DESC NULLS LAST, id LIMIT 4;
INSERT INTO t (id, k, w) SELECT max(id) + 1, count(*), max(w) FROM t GROUP BY s;
CREATE UNIQUE INDEX one ON t (id) WHERE id > 6300;
INSERT INTO t (id, k) SELECT 6300 + s, count(*) FROM t WHERE s > 0 GROUP BY s;
INSERT INTO t (id, k) SELECT 6300 + s, count(*) FROM t WHERE s > 0 GROUP BY s ON CONFLICT (id) WHERE id > 6300 DO UPDATE SET k = t.k + excluded.k;
SELECT id, k FROM t WHERE id > 6300 ORDER BY id LIMIT 10;
MERGE INTO t USING (SELECT 6300 + s AS id, max(k) AS k FROM t GROUP BY s) m ON t.id = m.id
    WHEN MATCHED AND m.k > 90 THEN UPDATE SET k = -m.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, k) VALUES (m.id, 0);
SELECT count(*), sum(id), sum(k) FROM t;
-- Triggers and functions read by the engine what the statement has done, and not what it does.
CREATE TABLE noted (at int GENERATED ALWAYS AS IDENTITY, what text) USING heap;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO noted (what) SELECT concat_ws(' ', tg_when, tg_op, tg_level, count(*), sum(id), max(k)) FROM t;
    RETURN NULL;
END $$;
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TRIGGER b BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE FUNCTION note_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO noted (what) SELECT concat_ws(' ', 'row', new.id, count(*), max(k)) FROM t; RETURN new; END $$;
CREATE TRIGGER c BEFORE INSERT ON t FOR EACH ROW WHEN (new.id % 400 = 0) EXECUTE FUNCTION note_row();
CREATE TRIGGER d AFTER INSERT ON t FOR EACH ROW WHEN (new.id % 400 = 1) EXECUTE FUNCTION note_row();
CREATE FUNCTION of_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO noted (what) SELECT concat_ws(' ', 'transition', count(*), sum(id)) FROM added; RETURN NULL; END $$;
CREATE TRIGGER e AFTER INSERT ON t REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION of_transition();
SET howdah.load_threshold = 100;
INSERT INTO t (id, k) SELECT 7000 + i, i FROM generate_series(1, 1300) i;
UPDATE t SET k = k + 1 WHERE id > 8000;
DELETE FROM t WHERE id > 8200;
RESET howdah.load_threshold;
SELECT what FROM noted ORDER BY at;
DROP TRIGGER a ON t; DROP TRIGGER b ON t; DROP TRIGGER c ON t; DROP TRIGGER d ON t; DROP TRIGGER e ON t;
CREATE FUNCTION adds(int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$ BEGIN INSERT INTO t (id, k) VALUES (-$1, (SELECT count(*) FROM t)); RETURN $1; END $$;
SELECT count(*), sum(adds(id)) FROM t WHERE id BETWEEN 1 AND 5;
SELECT id, k - (SELECT min(k) FROM t WHERE id < 0) FROM t WHERE id < 0 ORDER BY 1, 2;
CREATE FUNCTION counted() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t';
CREATE FUNCTION counted_now() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT count(*) FROM t';
WITH n AS (INSERT INTO t (id) SELECT 20000 + i FROM generate_series(1, 500) i RETURNING id, counted() AS s, counted_now() AS v)
    SELECT count(DISTINCT s), count(DISTINCT v) > 1, count(*) FROM n;
-- A function that calls the engine while the engine waits for it, and fails within.
CREATE FUNCTION deeper(int, int) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF $2 = 0 THEN RETURN (SELECT max(id) FROM t WHERE s = $1); END IF;
    RETURN (SELECT sum(deeper(s, $2 - 1)) FROM (SELECT s FROM t WHERE s IS NOT NULL AND s <> $1 GROUP BY s ORDER BY s LIMIT 2) x);
END $$;
SELECT sum(deeper(s, 2)) FROM (SELECT DISTINCT s FROM t WHERE id < 20) x;
SELECT count(*) FROM t WHERE id BETWEEN 10 AND 14 AND deeper(s, 2) > 0;
CREATE FUNCTION tries(int) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN RETURN (SELECT sum(1 / (id - $1)) FROM t WHERE id BETWEEN 1 AND 50); EXCEPTION WHEN division_by_zero THEN RETURN 'zero ' || (SELECT max(s) FROM t WHERE id < $1); END $$;
SELECT tries(id), count(*) FROM t WHERE id BETWEEN 45 AND 55 GROUP BY 1 ORDER BY 1;
-- Rights: of columns, by a view's owner, by a function's; rows that a policy hides are seen by no function of the user's.
CREATE ROLE vectorized_statements_reader;
GRANT USAGE ON SCHEMA vectorized_statements TO vectorized_statements_reader;
GRANT SELECT (id, k, s) ON t TO vectorized_statements_reader;
CREATE VIEW barrier WITH (security_barrier) AS SELECT id, k, w, s FROM t WHERE s = 3;
CREATE VIEW owned AS SELECT w, count(*) AS n FROM t GROUP BY w;
CREATE FUNCTION defined() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = vectorized_statements AS 'SELECT max(w) FROM t';
GRANT SELECT ON barrier, owned TO vectorized_statements_reader;
CREATE FUNCTION leaks(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 0.0001 AS $$ BEGIN RAISE WARNING 'saw %', $1; RETURN true; END $$;
SET ROLE vectorized_statements_reader;
SELECT s, max(k) FROM t GROUP BY s ORDER BY s LIMIT 2;
SELECT max(w) FROM t;
SELECT s, count(w) FROM t GROUP BY s;
SELECT count(*) FROM t WHERE w = 'w1';
SELECT id FROM t ORDER BY w LIMIT 1;
SELECT count(*), sum(k) FROM barrier WHERE 1 / (s - 4) < 0;
SELECT s, count(*) FROM barrier WHERE leaks(id) AND id < 30 GROUP BY s;
SELECT max(n), count(*) FROM owned;
SELECT defined();
RESET ROLE;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY three ON t USING (upper(w) LIKE 'W1%' AND s = 3);
SET ROLE vectorized_statements_reader;
SELECT s, count(*) FROM t GROUP BY s;
SELECT s, count(*) FROM t WHERE 10 / (s - 4) < 100 GROUP BY s;
SELECT count(*) FROM t WHERE leaks(id) AND id BETWEEN 101 AND 300;
SELECT id FROM t WHERE 10 / (s - 5) < 100 ORDER BY id DESC LIMIT 2;
RESET ROLE;
ALTER TABLE t DISABLE ROW LEVEL SECURITY;
DROP OWNED BY vectorized_statements_reader;
DROP ROLE vectorized_statements_reader;
-- Partitions with other columns, children that inherit, views over them.
CREATE TABLE p (id int, k int, w text COLLATE "C", n numeric(8,2)) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (1000);
CREATE TABLE p2 (gone int, n numeric(8,2), w text COLLATE "C", also text, k int, id int);
ALTER TABLE p2 DROP COLUMN gone, DROP COLUMN also;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (1000) TO (2000);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (2000) TO (MAXVALUE) USING heap;
SET howdah.load_threshold = 100;
INSERT INTO p SELECT i, i % 10, 'w' || i % 7, i / 10.0 FROM generate_series(1, 3000) i;
ALTER TABLE p ADD COLUMN later int DEFAULT 4;
INSERT INTO p SELECT i, i % 10, 'w' || i % 7, i / 10.0, i FROM generate_series(500, 2500) i;
RESET howdah.load_threshold;
ANALYZE p;
SELECT later % 5, k % 3, count(*), sum(n), max(w) FROM p GROUP BY 1, 2 ORDER BY 1, 2;
SELECT tableoid::regclass, count(*), sum(id) FROM p GROUP BY 1 ORDER BY 1;
SELECT p.w, count(p), count(p.*) FROM p GROUP BY w ORDER BY w;
SELECT id, w, later, p FROM p ORDER BY n DESC, later DESC LIMIT 3;
SET plan_cache_mode = force_generic_plan;
PREPARE pruned(int, int) AS SELECT count(*), min(id), max(id), sum(later) FROM p WHERE id >= $1 AND id < $2;
EXECUTE pruned(900, 1100);
EXECUTE pruned(1, 5);
EXECUTE pruned(NULL, 5);
EXECUTE pruned(5000, 5001);
RESET plan_cache_mode;
SELECT g, (SELECT count(*) FROM p WHERE id = g * 900) FROM generate_series(0, 3) g;
CREATE TABLE parent (id int, k int);
CREATE TABLE child (extra text, more int) INHERITS (parent);
CREATE TABLE grandchild (id int, third int) INHERITS (child);
SET howdah.load_threshold = 10;
INSERT INTO parent SELECT i, i % 5 FROM generate_series(1, 300) i;
INSERT INTO child SELECT i, i % 4, 'x', i FROM generate_series(1, 300) i;
INSERT INTO grandchild SELECT i, i % 3, 'y', i, -i FROM generate_series(1, 300) i;
RESET howdah.load_threshold;
ALTER TABLE parent ADD COLUMN added int DEFAULT 3;
ANALYZE parent, child, grandchild;
SELECT k, count(*), sum(id), sum(added) FROM parent GROUP BY k ORDER BY k;
SELECT k, count(*), sum(id), sum(added) FROM ONLY parent GROUP BY k ORDER BY k;
SELECT k, count(*), max(more), sum(added) FROM child GROUP BY k ORDER BY k;
SELECT id, k, added FROM parent ORDER BY id DESC, k LIMIT 4;
-- Temporary and unlogged tables, materialized views.
CREATE TEMP TABLE passing AS SELECT i AS id, i % 3 AS k FROM generate_series(1, 2000) i;
CREATE UNLOGGED TABLE unlogged AS SELECT i AS id, i % 3 AS k FROM generate_series(1, 2000) i;
SELECT a.k, a.n, b.n FROM (SELECT k, count(*) AS n FROM passing GROUP BY k) a JOIN (SELECT k, sum(id) AS n FROM unlogged GROUP BY k) b USING (k) ORDER BY 1;
CREATE MATERIALIZED VIEW kept AS SELECT k, count(*) AS n, sum(id) AS sum FROM unlogged GROUP BY k;
CREATE UNIQUE INDEX ON kept (k);
UPDATE unlogged SET k = 7 WHERE id < 10;
REFRESH MATERIALIZED VIEW CONCURRENTLY kept;
SELECT * FROM kept ORDER BY k;
SELECT sum(n), max(sum) FROM kept;
-- Two-phase: no other transaction sees the rows of a prepared one.
BEGIN;
SET LOCAL howdah.load_threshold = 10;
INSERT INTO unlogged SELECT i, 1 FROM generate_series(1, 100) i;
DELETE FROM unlogged WHERE k = 2;
PREPARE TRANSACTION 'vectorized_statements';
SELECT k, count(*) FROM unlogged GROUP BY k ORDER BY k;
ROLLBACK PREPARED 'vectorized_statements';
SELECT k, count(*) FROM unlogged GROUP BY k ORDER BY k;
-- Marks of subtransactions that were rolled back.
BEGIN;
SAVEPOINT a; DELETE FROM unlogged WHERE id % 2 = 0; SELECT count(*), sum(id) FROM unlogged;
SAVEPOINT b; UPDATE unlogged SET k = 50 WHERE id % 3 = 0; SELECT k, count(*) FROM unlogged GROUP BY k ORDER BY k;
ROLLBACK TO b; SELECT k, count(*) FROM unlogged GROUP BY k ORDER BY k;
ROLLBACK TO a; SELECT k, count(*), min(id) FROM unlogged GROUP BY k ORDER BY k;
DELETE FROM unlogged WHERE id > 1990; RELEASE a; SELECT max(id) FROM unlogged;
COMMIT;
SELECT count(*), max(id) FROM unlogged;
-- Limits at the ends.
SELECT id FROM p ORDER BY id, later LIMIT 9223372036854775807 OFFSET 4999;
SELECT id FROM p ORDER BY id LIMIT 9223372036854775807 OFFSET 9223372036854775807;
SELECT k FROM p GROUP BY k ORDER BY k DESC LIMIT 9223372036854775807 OFFSET 9;
SELECT k FROM p ORDER BY k FETCH FIRST 0 ROWS WITH TIES;
-- Expressions that are nested deeper than the engine walks.
CREATE FUNCTION answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
    EXECUTE query INTO found;
    RETURN found;
END $$;
SELECT n, answer(format('SELECT sum(%s k %s) FROM t', repeat('- (', n), repeat(')', n))) FROM unnest(ARRAY[200, 2000]) n;
SELECT n, answer(format('SELECT count(*) FROM t WHERE %s k > 50 %s', repeat('(s = 1 OR (s = 2 AND ', n), repeat('))', n))) FROM unnest(ARRAY[100, 750]) n;
SELECT n, answer(format('SELECT count(*) FROM t GROUP BY %s k %s ORDER BY 1 DESC LIMIT 1', repeat('- (', n), repeat(')', n))) FROM unnest(ARRAY[200, 2000]) n;
DEALLOCATE ALL;
SET client_min_messages = warning;
DROP SCHEMA vectorized_statements CASCADE;
