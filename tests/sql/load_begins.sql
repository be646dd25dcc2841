-- Where a bulk load begins: with the first row if the plan expects it or COPY brings many rows at once, else past the
-- threshold; and what becomes of loads that stay small. Every answer is compared with a heap table.
CREATE SCHEMA begins;
SET search_path = begins, public;
SET howdah.load_threshold = 300;
SET howdah.vectorized = off;
CREATE FUNCTION differences(a regclass, b regclass) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM ((SELECT x::text FROM %1$s x EXCEPT ALL SELECT x::text FROM %2$s x) UNION ALL
        (SELECT x::text FROM %2$s x EXCEPT ALL SELECT x::text FROM %1$s x)) d', a, b) INTO n;
    RETURN n;
END $$;
CREATE FUNCTION sides(t regclass, OUT hot bigint, OUT cold bigint, OUT groups bigint, OUT counted bigint) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT count(*) FILTER (WHERE ctid < ''(2147483648,0)''), count(*) FILTER (WHERE ctid >= ''(2147483648,0)'') FROM ONLY %s', t) INTO hot, cold;
    SELECT count(*) INTO groups FROM howdah.row_groups WHERE relation = t;
    counted := pg_stat_get_xact_tuples_inserted(t);
END $$;
-- Keeps rows by a condition that the planner takes for true of most.
CREATE FUNCTION few(i int, most int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN i <= most; END $$;

-- Expected and come: all rows lie in their order.
CREATE TABLE t (id int, w text) USING howdah;
CREATE TABLE h (id int, w text) USING heap;
INSERT INTO h SELECT i, 'w' || i FROM generate_series(1, 2000) i;
-- What was counted before is reported first.
SELECT pg_stat_force_next_flush();
BEGIN;
INSERT INTO t SELECT i, 'w' || i FROM generate_series(1, 2000) i;
SELECT * FROM sides('t');
COMMIT;
ANALYZE t;
SELECT correlation FROM pg_stats WHERE tablename = 't' AND attname = 'id';
SELECT differences('t', 'h');

-- Expected, but few have come: they are hot, and nothing is left of the group.
TRUNCATE t, h;
SELECT pg_stat_force_next_flush();
BEGIN;
INSERT INTO t SELECT i, nullif('w' || i, 'w7') FROM generate_series(1, 30000) i WHERE few(i, 200);
SELECT * FROM sides('t');
COMMIT;
INSERT INTO h SELECT i, nullif('w' || i, 'w7') FROM generate_series(1, 200) i;
SELECT differences('t', 'h');
-- None at all; then a load, and one more small one.
INSERT INTO t SELECT i, 'w' || i FROM generate_series(1, 30000) i WHERE few(i, 0);
INSERT INTO t SELECT i, 'w' || i FROM generate_series(1, 1000) i;
INSERT INTO h SELECT i, 'w' || i FROM generate_series(1, 1000) i;
INSERT INTO t SELECT i, 'x' || i FROM generate_series(1, 30000) i WHERE few(i, 300);
INSERT INTO h SELECT i, 'x' || i FROM generate_series(1, 300) i;
INSERT INTO t SELECT i, 'y' || i FROM generate_series(1, 30000) i WHERE few(i, 301);
INSERT INTO h SELECT i, 'y' || i FROM generate_series(1, 301) i;
SELECT hot, cold, groups FROM sides('t');
SELECT differences('t', 'h');
-- The last load of a transaction, under savepoints, rolled back or kept; the group's range is not used twice.
BEGIN;
INSERT INTO t SELECT i, 'a' || i FROM generate_series(1, 30000) i WHERE few(i, 20);
INSERT INTO t SELECT i, 'b' || i FROM generate_series(1, 700) i;
SAVEPOINT one;
INSERT INTO t SELECT i, 'c' || i FROM generate_series(1, 30000) i WHERE few(i, 30);
ROLLBACK TO one;
INSERT INTO t SELECT i, 'd' || i FROM generate_series(1, 30000) i WHERE few(i, 40);
UPDATE t SET w = w || '!' WHERE id = 5;
COMMIT;
INSERT INTO h SELECT i, 'a' || i FROM generate_series(1, 20) i;
INSERT INTO h SELECT i, 'b' || i FROM generate_series(1, 700) i;
INSERT INTO h SELECT i, 'd' || i FROM generate_series(1, 40) i;
UPDATE h SET w = w || '!' WHERE id = 5;
SELECT differences('t', 'h');
BEGIN;
INSERT INTO t SELECT i, 'gone' FROM generate_series(1, 30000) i WHERE few(i, 50);
ROLLBACK;
INSERT INTO t SELECT CASE WHEN i = 60 THEN i / 0 ELSE i END, 'gone' FROM generate_series(1, 30000) i WHERE few(i, 100);
SELECT differences('t', 'h');
VACUUM t;
CALL howdah.compact('t');
SELECT differences('t', 'h');

-- TIDs that are known stay: RETURNING, an index, AFTER triggers, a reader in the middle.
TRUNCATE t, h;
CREATE TABLE places (place tid, id int);
WITH new AS (INSERT INTO t SELECT i, 'r' FROM generate_series(1, 30000) i WHERE few(i, 50) RETURNING ctid, id) INSERT INTO places SELECT * FROM new;
SELECT count(*) FROM t JOIN places ON t.ctid = place AND t.id = places.id;
DO $$
DECLARE r record; here int;
BEGIN
    FOR r IN EXECUTE 'INSERT INTO t SELECT i, ''s'' FROM generate_series(100, 30000) i WHERE few(i, 149) RETURNING ctid, id' LOOP
        SELECT id INTO here FROM t WHERE ctid = r.ctid;
        IF here IS DISTINCT FROM r.id THEN RAISE EXCEPTION 'row % is not at its place', r.id; END IF;
    END LOOP;
END $$;
SELECT count(*) FROM t;
CREATE TABLE keyed (id int PRIMARY KEY, w text) USING howdah;
INSERT INTO keyed SELECT i, 'k' FROM generate_series(1, 30000) i WHERE few(i, 50);
SELECT hot, cold, groups FROM sides('keyed');
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM keyed WHERE id BETWEEN 10 AND 19;
RESET enable_seqscan;
INSERT INTO keyed SELECT i, 'k' FROM generate_series(40, 30000) i WHERE few(i, 60);
INSERT INTO keyed VALUES (50, 'twice');
INSERT INTO keyed SELECT i, 'k' FROM generate_series(51, 3000) i;
SELECT count(*), sum(id) FROM keyed;
CREATE TABLE child (id int REFERENCES keyed) USING howdah;
INSERT INTO child SELECT i FROM generate_series(1, 30000) i WHERE few(i, 20);
INSERT INTO child SELECT i FROM generate_series(1, 30000) i WHERE few(i, 20) OR i = 29999;
SELECT count(*), sum(id) FROM child;
CREATE TABLE watched (id int) USING howdah;
CREATE TABLE seen (n bigint, places tid[]);
CREATE FUNCTION look(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$ BEGIN IF i = 25 THEN INSERT INTO seen SELECT count(*), array_agg(ctid ORDER BY id) FROM watched; END IF; RETURN i; END $$;
INSERT INTO watched SELECT look(i) FROM generate_series(1, 30000) i WHERE few(i, 50);
SELECT n, (SELECT count(*) FROM watched WHERE ctid = ANY (places)) AS still_there FROM seen;
CREATE FUNCTION change(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$ BEGIN IF i = 30 THEN UPDATE watched SET id = -id WHERE id = 7; DELETE FROM watched WHERE id = 8; END IF; RETURN i; END $$;
TRUNCATE watched;
INSERT INTO watched SELECT change(i) FROM generate_series(1, 30000) i WHERE few(i, 50);
SELECT count(*), sum(id) FROM watched;

-- COPY of a table without indexes: the first rows are held.
CREATE TABLE c (id int, w text) USING howdah;
CREATE TABLE ch (id int, w text) USING heap;
\copy c (id) FROM PROGRAM 'seq 1 1500'
SELECT hot, cold, groups FROM sides('c');
ANALYZE c;
SELECT correlation FROM pg_stats WHERE tablename = 'c' AND attname = 'id';
TRUNCATE c;
SELECT pg_stat_force_next_flush();
BEGIN;
\copy c (id) FROM PROGRAM 'seq 1 290'
SELECT * FROM sides('c');
COMMIT;
SELECT pg_stat_force_next_flush();
BEGIN;
\copy c (id) FROM PROGRAM 'seq 1 301'
SELECT * FROM sides('c');
SAVEPOINT s;
\copy c (id) FROM PROGRAM 'seq 1 280'
ROLLBACK TO s;
\copy c (id) FROM PROGRAM 'seq 1000 1270'
COMMIT;
\copy c (id) FROM PROGRAM 'seq 1 280; echo x'
\copy ch (id) FROM PROGRAM 'seq 1 290; seq 1 301; seq 1000 1270'
SELECT differences('c', 'ch');
SELECT pg_stat_force_next_flush();
BEGIN;
TRUNCATE c, ch;
\copy c (id) FROM PROGRAM 'seq 1 270' WITH (FREEZE)
\copy ch (id) FROM PROGRAM 'seq 1 270' WITH (FREEZE)
SELECT * FROM sides('c');
COMMIT;
SELECT differences('c', 'ch');
-- A row that must stay hot among them.
\copy c FROM PROGRAM 'for i in $(seq 1 400); do if [ $i = 300 ]; then printf "300\t"; head -c 9000000 /dev/zero | tr "\\0" a; echo; else echo "$i\tw"; fi; done'
SELECT hot, cold, groups, (SELECT max(length(w)) FROM c) FROM sides('c');
-- Where something can tell, rows are not held.
CREATE TABLE checked (id int CHECK (id > 0)) USING howdah;
\copy checked FROM PROGRAM 'seq 1 1000'
SELECT hot, cold FROM sides('checked');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE domained (id positive) USING howdah;
\copy domained FROM PROGRAM 'seq 1 1000'
SELECT hot, cold FROM sides('domained');
CREATE TABLE indexed (id int PRIMARY KEY) USING howdah;
\copy indexed FROM PROGRAM 'seq 1 1000'
SELECT hot, cold, (SELECT count(*) FROM indexed WHERE id = 17) FROM sides('indexed');
BEGIN ISOLATION LEVEL SERIALIZABLE;
\copy c (id) FROM PROGRAM 'seq 1 1000'
COMMIT;
CREATE TABLE parted (id int, k int) PARTITION BY HASH (k);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING howdah;
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING howdah;
\copy parted FROM PROGRAM 'for i in $(seq 1 1900); do echo "$i\t$i"; done'
SELECT count(*), sum(id) FROM parted;
-- Triggers of another partition see the rows.
CREATE FUNCTION look_aside() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO seen SELECT count(*), '{}' FROM aside_2; UPDATE aside_2 SET id = -1 WHERE id = new.id + 1; RETURN NULL; END $$;
CREATE TABLE aside (id int, k int) PARTITION BY LIST (k);
CREATE TABLE aside_1 PARTITION OF aside FOR VALUES IN (1) USING howdah;
CREATE TABLE aside_2 PARTITION OF aside FOR VALUES IN (2) USING howdah;
CREATE TRIGGER look AFTER INSERT ON aside_1 FOR EACH ROW EXECUTE FUNCTION look_aside();
TRUNCATE seen;
\copy aside FROM PROGRAM 'seq 1 1000 | sed "s/$/\t2/"; echo "5\t1"'
SELECT count(*), count(*) FILTER (WHERE id = -1), (SELECT n FROM seen) FROM aside_2;
-- COPY fills more partitions than it has buffers for.
CREATE TABLE crowd (id int, k int, w text) PARTITION BY LIST (k);
DO $$ BEGIN FOR k IN 0..49 LOOP EXECUTE format('CREATE TABLE crowd_%s PARTITION OF crowd FOR VALUES IN (%s) USING howdah', k, k); END LOOP; END $$;
\copy crowd FROM PROGRAM 'for i in $(seq 1 40000); do echo "$i\t$((i % 50))\trow $i"; done'
SELECT hot, cold, groups FROM sides('crowd_17');
SELECT count(*), sum(id), count(DISTINCT w) FROM crowd;
DROP TABLE crowd;

-- Tables that the statement makes.
CREATE TABLE made USING howdah AS SELECT i AS id FROM generate_series(1, 1000) i;
SELECT hot, cold, groups FROM sides('made');
CREATE TABLE made_small USING howdah AS SELECT i AS id FROM generate_series(1, 30000) i WHERE few(i, 30);
SELECT hot, cold, groups FROM sides('made_small');
CREATE MATERIALIZED VIEW view_small USING howdah AS SELECT i AS id FROM generate_series(1, 30000) i WHERE few(i, 30);
SELECT hot, cold, groups FROM sides('view_small');
REFRESH MATERIALIZED VIEW view_small;
SELECT hot, cold, groups, (SELECT sum(id) FROM view_small) FROM sides('view_small');

-- Rows that the load takes from the plan, and each exception.
CREATE FUNCTION taken(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || statement LOOP
        IF line LIKE '%Rows Loaded Directly%' THEN RETURN NEXT trim(line); END IF;
    END LOOP;
END $$;
CREATE TABLE source (id int, w text) USING heap;
INSERT INTO source SELECT i, 'w' || i FROM generate_series(1, 2000) i;
ANALYZE source;
TRUNCATE t;
SELECT taken('INSERT INTO t SELECT * FROM source');
SELECT taken('INSERT INTO t SELECT id, w FROM source ORDER BY id DESC');
SELECT taken('INSERT INTO t SELECT * FROM source WHERE id < 400');
SELECT taken('INSERT INTO t SELECT * FROM source WHERE id < 200');
SELECT taken('INSERT INTO t VALUES (1, NULL)');
SELECT taken('INSERT INTO t SELECT * FROM source RETURNING id');
SELECT taken('INSERT INTO h SELECT * FROM source');
SET howdah.bulk_load = off;
SELECT taken('INSERT INTO t SELECT * FROM source');
RESET howdah.bulk_load;
TRUNCATE keyed, child;
SELECT taken('INSERT INTO keyed SELECT * FROM source');
SELECT taken('INSERT INTO keyed SELECT * FROM source ON CONFLICT DO NOTHING');
SELECT taken('INSERT INTO child SELECT id FROM source');
SELECT taken('INSERT INTO checked SELECT id FROM source');
SELECT taken('INSERT INTO parted SELECT id, id FROM source');
SELECT taken('INSERT INTO parted_0 SELECT id, id FROM source WHERE id = 1');
CREATE TABLE computed (id int, w text, twice int GENERATED ALWAYS AS (id * 2) STORED) USING howdah;
SELECT taken('INSERT INTO computed SELECT * FROM source');
CREATE TABLE before_row (id int, w text) USING howdah;
CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER pass BEFORE INSERT ON before_row FOR EACH ROW EXECUTE FUNCTION pass();
SELECT taken('INSERT INTO before_row SELECT * FROM source');
CREATE TABLE secured (id int, w text) USING howdah;
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
ALTER TABLE secured FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON secured USING (true) WITH CHECK (id > 0);
CREATE ROLE begins_writer;
GRANT ALL ON SCHEMA begins TO begins_writer;
GRANT ALL ON ALL TABLES IN SCHEMA begins TO begins_writer;
SET ROLE begins_writer;
SELECT taken('INSERT INTO secured SELECT * FROM source');
RESET ROLE;
SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM keyed), (SELECT count(*) FROM secured), (SELECT count(*) FROM before_row), (SELECT count(*) FROM computed);
SET client_min_messages = warning;
DROP SCHEMA begins CASCADE;
DROP ROLE begins_writer;
