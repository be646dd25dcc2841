-- CALL howdah.compact: by which roles, where, on what; what it moves, and what stays.
CREATE SCHEMA compact;
SET search_path = compact, public;
SET howdah.bulk_load = off;
CREATE FUNCTION cold(t regclass) RETURNS bigint LANGUAGE sql AS
    $$SELECT cold_rows FROM howdah.tables WHERE relation = t$$;
CREATE TABLE t (id int PRIMARY KEY, word text) USING howdah;
INSERT INTO t SELECT i, 'w' || i FROM generate_series(1, 3000) i;

-- What is refused.
CREATE TABLE h (id int) USING heap;
CREATE VIEW v AS SELECT 1;
CREATE TABLE p (id int) PARTITION BY RANGE (id) USING howdah;
CALL howdah.compact(NULL);
CALL howdah.compact('no_such_table');
CALL howdah.compact(4294967295);
CALL howdah.compact('h');
CALL howdah.compact('v');
CALL howdah.compact('p');
CALL howdah.compact('t_pkey');
CALL howdah.compact('pg_class');
BEGIN;
CALL howdah.compact('t');
ROLLBACK;
CREATE FUNCTION in_a_function() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL howdah.compact('t'); END $$;
SELECT in_a_function();
\set SHOW_CONTEXT never
DO $$ BEGIN CALL howdah.compact('t'); EXCEPTION WHEN division_by_zero THEN NULL; END $$;
SELECT cold('t');

-- The MAINTAIN privilege, and nothing else, is asked for.
CREATE ROLE howdah_keeper;
GRANT USAGE ON SCHEMA compact TO howdah_keeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON t TO howdah_keeper;
SET ROLE howdah_keeper;
CALL howdah.compact('t');
RESET ROLE;
REVOKE ALL ON t FROM howdah_keeper;
GRANT MAINTAIN ON t TO howdah_keeper;
SET ROLE howdah_keeper;
CALL howdah.compact('t');
RESET ROLE;
SELECT cold('t'), count(*), sum(id) FROM t;

-- Code of users runs as the owner of the table, not as the role that compacts it.
CREATE FUNCTION noted(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF current_user <> 'howdah_keeper' THEN RAISE 'runs as %', current_user; END IF;
    RETURN i;
END $$;
CREATE TABLE owned (id int) USING howdah;
CREATE INDEX ON owned (compact.noted(id));
ALTER TABLE owned OWNER TO howdah_keeper;
SET ROLE howdah_keeper;
INSERT INTO owned SELECT generate_series(1, 1000);
RESET ROLE;
CALL howdah.compact('owned');
SELECT cold('owned');

-- From a procedure and from a DO block, in the middle of a loop over the table itself.
INSERT INTO t SELECT i, 'w' || i FROM generate_series(3001, 4000) i;
DO $$
DECLARE r record; n int := 0;
BEGIN
    FOR r IN SELECT id FROM t WHERE id % 100 = 0 ORDER BY id LOOP
        n := n + 1;
        IF n IN (3, 20) THEN
            INSERT INTO t SELECT i, 'w' || i FROM generate_series(10000 * n, 10000 * n + 499) i;
            CALL howdah.compact('t');
        END IF;
    END LOOP;
    RAISE NOTICE '% rounds', n;
END $$;
SELECT cold('t'), count(*), sum(id), count(*) FILTER (WHERE word = 'w' || id) AS right_rows FROM t;

-- Nothing to do; a table without rows; without columns; a cursor that is held open over it.
CALL howdah.compact('t');
CREATE TABLE empty (id int) USING howdah;
CALL howdah.compact('empty');
CREATE TABLE nothing () USING howdah;
INSERT INTO nothing SELECT FROM generate_series(1, 1000);
CALL howdah.compact('nothing');
SELECT count(*), cold('nothing') FROM nothing;
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id;
FETCH 1 FROM held;
COMMIT;
INSERT INTO t SELECT i, 'w' || i FROM generate_series(5001, 6000) i;
CALL howdah.compact('t');
FETCH 2 FROM held;
CLOSE held;
SELECT cold('t'), count(*), sum(id) FROM t;
SELECT count(*) FROM howdah.stat_progress_compact;

-- What was committed asynchronously a moment ago moves, too.
CREATE TABLE unflushed (id int) USING howdah;
SET synchronous_commit = off;
DO $$
DECLARE
    at_once int := 0;
BEGIN
    FOR i IN 1..10 LOOP
        INSERT INTO unflushed SELECT i * 1000 + generate_series(1, 1000);
        COMMIT;
        CALL howdah.compact('unflushed');
        at_once := at_once + (cold('unflushed') = i * 1000)::int;
    END LOOP;
    RAISE NOTICE '% compactions moved what was committed before', at_once;
END $$;
RESET synchronous_commit;
SELECT count(*) FROM unflushed;

-- Groups are merged as far as their rows fit the size of a group when they are decoded, however little they take encoded.
SET howdah.load_threshold = 1;
SET howdah.bulk_load = on;
SET howdah.row_group_bytes = '1MB';
CREATE TABLE long (id int, m text) USING howdah;
INSERT INTO long SELECT i, repeat('0123456789abcdef', 2100) FROM generate_series(1, 100) i;
INSERT INTO long SELECT i, repeat('0123456789abcdef', 2100) FROM generate_series(101, 103) i;
INSERT INTO long SELECT i, repeat('0123456789abcdef', 2100) FROM generate_series(104, 106) i;
SELECT count(*), sum(row_count) FROM howdah.row_groups WHERE relation = 'long'::regclass;
CALL howdah.compact('long');
SELECT count(*) AS groups, sum(row_count) AS rows, max(raw_bytes) < 1.5 * 1024 * 1024 AS are_small FROM howdah.row_groups WHERE relation = 'long'::regclass;
SELECT count(*), sum(id), sum(length(m)) FROM long;
-- Rows that lack a long column stay as they are.
CREATE TABLE later (id int) USING howdah;
INSERT INTO later SELECT generate_series(1, 1000);
ALTER TABLE later ADD COLUMN m text DEFAULT repeat('0123456789abcdef', 2100);
DELETE FROM later WHERE id > 100;
CALL howdah.compact('later');
SELECT row_count FROM howdah.row_groups WHERE relation = 'later'::regclass;
SELECT count(*), sum(id), sum(length(m)) FROM later;
RESET howdah.row_group_bytes;
CALL howdah.compact('later');
SELECT row_count FROM howdah.row_groups WHERE relation = 'later'::regclass;
SELECT count(*), sum(id), sum(length(m)) FROM later;
-- A page of values that compress well is moved in parts, and a row of many long values stays hot.
SET howdah.bulk_load = off;
SET howdah.row_group_bytes = '1MB';
CREATE TABLE longer (id int, m text) USING howdah;
INSERT INTO longer SELECT i, repeat(md5(i::text), 20000) FROM generate_series(1, 20) i;
CALL howdah.compact('longer');
SELECT count(*) AS groups, sum(row_count) AS rows, max(raw_bytes) < 2 * 1024 * 1024 AS are_small FROM howdah.row_groups WHERE relation = 'longer'::regclass;
SELECT count(*), sum(id), count(DISTINCT md5(m)) FROM longer;
RESET howdah.row_group_bytes;
CREATE TABLE longest (id int, a text, b text, c text, d text, e text) USING howdah;
INSERT INTO longest VALUES (1, repeat('a', 7000000), repeat('b', 7000000), repeat('c', 7000000), repeat('d', 7000000), repeat('e', 7000000));
INSERT INTO longest VALUES (2, repeat('a', 7000000), 'b', 'c', 'd', 'e');
CALL howdah.compact('longest');
SELECT id, ctid >= '(2147483648,0)' AS is_cold, length(a) FROM longest ORDER BY id;
-- Numerics that have no order among themselves may be in a sort key.
CREATE TABLE numbers (id int, n numeric) USING howdah;
SELECT howdah.set_options('numbers', sort_key => '{n}');
INSERT INTO numbers SELECT i, CASE i % 10 WHEN 0 THEN 'NaN' WHEN 1 THEN 1 / (i * 1e25) ELSE (i * 7919 % 1000) END FROM generate_series(1, 2000) i;
CALL howdah.compact('numbers');
SELECT cold_rows FROM howdah.tables WHERE table_name = 'numbers';
SELECT count(*), sum(id), count(DISTINCT n) FROM numbers;
SET howdah.bulk_load = on;
INSERT INTO numbers SELECT i, CASE i % 10 WHEN 0 THEN 'Infinity'::numeric ELSE (i * 7919 % 1000) END FROM generate_series(2001, 4000) i;
CALL howdah.compact('numbers');
SELECT count(*) AS groups, sum(row_count) FROM howdah.row_groups WHERE relation = 'numbers'::regclass;
VACUUM FULL numbers;
SELECT count(*), sum(id), count(DISTINCT n) FROM numbers;
RESET howdah.load_threshold;

SET client_min_messages = warning;
DROP SCHEMA compact CASCADE;
DROP ROLE howdah_keeper;
