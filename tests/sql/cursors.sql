-- Cursors that are moved in both directions, declared with SCROLL or without a word.
-- cursors_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA cursors;
SET search_path = cursors, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
SET howdah.load_threshold = 100;

-- Groups with deleted rows, without rows, with a column that came later; hot rows before them.
CREATE TABLE t (id int PRIMARY KEY, k int, s text, n numeric);
INSERT INTO t SELECT i, i % 1000, CASE WHEN i % 5 > 0 THEN 'text ' || i % 77 END, i / 8.0 FROM generate_series(1, 20000) i;
INSERT INTO t SELECT i, i % 1000, NULL, i / 8.0 FROM generate_series(20001, 40000) i;
INSERT INTO t SELECT i, i % 1000, CASE WHEN i % 5 > 0 THEN 'text ' || i % 77 END, i / 8.0 FROM generate_series(40001, 70000) i;
ALTER TABLE t ADD COLUMN late int DEFAULT 7;
DELETE FROM t WHERE id % 11 = 3 OR id BETWEEN 20001 AND 40000;
UPDATE t SET late = id WHERE id % 100 = 50;
ANALYZE t;

-- Moves a cursor at random, and compares each row with that of the same number in a forward scan.
CREATE FUNCTION wander(query text, moves int, scroll bool) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c refcursor := 'wanderer';
    walk refcursor;
    rows text[];
    r record;
    at int := 0;
    step int;
    wrong int := 0;
BEGIN
    rows := '{}';
    EXECUTE format('DECLARE forwards NO SCROLL CURSOR FOR %s', query);
    walk := 'forwards';
    LOOP FETCH walk INTO r; EXIT WHEN NOT FOUND; rows := rows || r::text; END LOOP;
    CLOSE walk;
    EXECUTE format('DECLARE wanderer %s CURSOR FOR %s', CASE WHEN scroll THEN 'SCROLL' END, query);
    walk := c;
    FOR i IN 1 .. moves LOOP
        -- Mostly single steps; sometimes far, or beyond an end.
        step := CASE floor(random() * 12)
            WHEN 0 THEN floor(random() * 30000) WHEN 1 THEN -floor(random() * 30000)
            WHEN 2 THEN floor(random() * 400) WHEN 3 THEN -floor(random() * 400)
            WHEN 4 THEN cardinality(rows) + 1 - at WHEN 5 THEN -at
            WHEN 6 THEN -1 WHEN 7 THEN -1 WHEN 8 THEN -1 ELSE 1 END;
        IF step = 0 THEN CONTINUE; END IF;
        FETCH RELATIVE step FROM walk INTO r;
        at := greatest(0, least(cardinality(rows) + 1, at + step));
        IF r::text IS DISTINCT FROM rows[at] AND (FOUND OR at BETWEEN 1 AND cardinality(rows)) THEN wrong := wrong + 1; END IF;
    END LOOP;
    CLOSE walk;
    RETURN cardinality(rows) || ' rows, ' || wrong || ' wrong';
END $$;
SELECT setseed(0.3);
SELECT wander('SELECT * FROM t', 300, false);
SELECT wander('SELECT * FROM t', 300, true);
SELECT wander('SELECT id FROM t WHERE k = 5', 300, false);
SELECT wander('SELECT late, id FROM t WHERE k BETWEEN 100 AND 300', 300, false);
SELECT wander('SELECT id, s FROM t WHERE s LIKE ''%3%'' AND n % 3 < 1', 300, false);
SELECT wander('SELECT id + 1, upper(s) FROM t WHERE late = 7', 300, false);
SELECT wander('SELECT id FROM t WHERE k < 0', 50, false);
SELECT wander('SELECT id, k FROM t WHERE id > 69000', 300, false);
SELECT wander('SELECT k, count(*) FROM t GROUP BY k ORDER BY k', 300, true);
SELECT wander('SELECT id, n FROM t ORDER BY n DESC LIMIT 500', 300, false);
SELECT wander('SELECT id, n FROM t ORDER BY n DESC LIMIT 500 OFFSET 20', 300, false);
SELECT wander('SELECT * FROM t OFFSET 10', 300, false);
SELECT wander('SELECT * FROM t LIMIT 9000', 300, false);
SELECT wander('SELECT DISTINCT s FROM t ORDER BY s', 300, true);

-- Numerics that groups cannot compare: which rows are looked at by PostgreSQL depends on what was read before.
CREATE TABLE n1 (id int, g int, n numeric);
INSERT INTO n1 SELECT i, g, CASE WHEN g = 0 THEN i % 1000 ELSE translate('1' || md5(i::text) || md5(i || 'x') || md5(i || 'y'), 'abcdef', '123456')::numeric END
FROM (SELECT i, CASE WHEN i <= 8192 THEN 1 WHEN i <= 24576 THEN (i % 16 >= 10)::int ELSE (i % 16 >= 15)::int END g FROM generate_series(1, 60000) i) q;
CREATE TABLE n2 (id int, g int, n numeric);
INSERT INTO n2 SELECT i, (i > 8192 AND i % 1000 <> 0)::int, CASE WHEN i <= 8192 THEN i % 1000 WHEN i % 1000 = 0 THEN 5 ELSE 'NaN'::numeric END FROM generate_series(1, 60000) i;
ANALYZE n1, n2;
SELECT wander('SELECT id FROM n1 WHERE g < 1 AND n > 998', 300, false);
SELECT wander('SELECT id FROM n1 WHERE g < 1 AND n > 900', 300, false);
SELECT wander('SELECT id FROM n2 WHERE g < 1 AND n > 900', 300, false);
SELECT wander('SELECT id FROM n2 WHERE g < 1 AND n IN (901, 902)', 300, true);
BEGIN;
DECLARE k CURSOR FOR SELECT id FROM n2 WHERE g < 1 AND n > 900;
MOVE ALL IN k;
FETCH PRIOR FROM k;
DECLARE l CURSOR FOR SELECT id FROM n1 WHERE g < 1 AND n > 998;
MOVE ALL IN l;
MOVE BACKWARD 100000 IN l;
FETCH RELATIVE 26 FROM l;
ROLLBACK;

-- Partitions, hot and cold.
CREATE TABLE p (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10000);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10000) TO (20000);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20000) TO (30000);
INSERT INTO p SELECT i, 'v' || i FROM generate_series(0, 9999) i;
INSERT INTO p SELECT i, 'v' || i FROM generate_series(20000, 29999) i;
INSERT INTO p SELECT i, 'w' || i FROM generate_series(5000, 5050) i;
ANALYZE p;
SELECT wander('SELECT * FROM p', 300, false);
SELECT wander('SELECT id FROM p WHERE id % 100 = 1', 300, false);

-- What a transaction has loaded itself, in memory and written; what it does later is not the cursor's.
BEGIN;
INSERT INTO t (id, k) SELECT i, i % 10 FROM generate_series(100001, 130000) i;
DELETE FROM t WHERE id BETWEEN 110000 AND 119000;
SELECT wander('SELECT id, late FROM t WHERE id > 60000', 300, false);
DECLARE c CURSOR FOR SELECT id FROM t WHERE id > 100000;
FETCH ABSOLUTE 5000 FROM c;
SAVEPOINT s;
DECLARE d CURSOR FOR SELECT id, k FROM t WHERE id > 100000;
FETCH ABSOLUTE 10 FROM d;
INSERT INTO t (id, k) SELECT i, i % 10 FROM generate_series(200001, 230000) i;
DELETE FROM t WHERE id BETWEEN 100001 AND 104000;
UPDATE t SET k = -1 WHERE id BETWEEN 104001 AND 106000;
FETCH LAST FROM c;
FETCH FIRST FROM c;
FETCH ABSOLUTE 14000 FROM c;
FETCH RELATIVE 3500 FROM d;
RELEASE s;
INSERT INTO t (id, k) SELECT i, i % 10 FROM generate_series(300001, 500000) i;
FETCH RELATIVE -13000 FROM c;
FETCH LAST FROM d;
FETCH RELATIVE -16000 FROM d;
SELECT count(*) FROM t WHERE id > 100000;
FETCH LAST FROM c;
FETCH NEXT FROM c;
FETCH PRIOR FROM c;
ROLLBACK;

-- The current row is known after each step.
BEGIN;
DECLARE c CURSOR FOR SELECT s FROM t WHERE id BETWEEN 500 AND 600 AND s IS NOT NULL;
MOVE 40 IN c;
FETCH PRIOR FROM c;
UPDATE t SET s = 'found' WHERE CURRENT OF c RETURNING id % 50 < 50 AS found;
MOVE FORWARD ALL IN c;
FETCH PRIOR FROM c \gset
DELETE FROM t WHERE CURRENT OF c RETURNING s IS NOT DISTINCT FROM (SELECT :'s') AS same;
MOVE BACKWARD ALL IN c;
UPDATE t SET s = 'none' WHERE CURRENT OF c;
ROLLBACK;

BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t;
FETCH LAST FROM c \gset
DELETE FROM t WHERE CURRENT OF c RETURNING id = :id AS deleted;
FETCH RELATIVE -3 FROM c \gset
UPDATE t SET s = 'c' WHERE CURRENT OF c RETURNING id = :id AS updated;
DECLARE d CURSOR FOR SELECT id FROM p;
MOVE 10100 IN d;
FETCH RELATIVE -100 FROM d \gset
UPDATE p SET v = 'd' WHERE CURRENT OF d RETURNING id = :id AS updated;
ROLLBACK;

-- Without a word, a cursor can be moved backwards where heap's plan can.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t ORDER BY n, id LIMIT 5;
FETCH 2 FROM c;
FETCH PRIOR FROM c;
DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY n, id LIMIT 5;
FETCH 3 FROM h;
DECLARE a CURSOR FOR SELECT k % 2, count(*) FROM t GROUP BY 1 ORDER BY 1;
FETCH 2 FROM a;
FETCH PRIOR FROM a;
DECLARE n NO SCROLL CURSOR FOR SELECT id FROM t;
MOVE 1 IN n;
SAVEPOINT s;
FETCH PRIOR FROM n;
ROLLBACK TO s;
COMMIT;
FETCH PRIOR FROM h;
DROP SCHEMA cursors CASCADE;
RESET ALL;
