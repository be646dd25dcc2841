-- Bulk loads: rows past the threshold go straight to row groups. Every answer is compared with
-- a heap table that went through the same statements.
CREATE SCHEMA load;
SET search_path = load, public;
SET howdah.load_threshold = 100;

\getenv directory PG_ABS_SRCDIR
\set compare :directory '/sql/compare.psql'
\i :compare
-- Rows on the cold side by their TIDs: those of a load in progress are among them.
CREATE OR REPLACE FUNCTION cold(t regclass) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM ONLY %s WHERE ctid >= ''(2147483648,0)''', t) INTO n;
    RETURN n;
END $$;
-- Runs a statement for both tables of a pair; @ stands for the table's suffix.
CREATE PROCEDURE pair(statement text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE replace(statement, '@', '_heap');
    EXECUTE replace(statement, '@', '_howdah');
END $$;

-- One statement, both sides.
CREATE TABLE plain_heap (id int, word text, price numeric, at timestamptz) USING heap;
CREATE TABLE plain_howdah (LIKE plain_heap) USING howdah;
CALL pair($$INSERT INTO plain@ SELECT i, 'word ' || i % 97, i / 7.0, '2026-01-01 UTC'::timestamptz + i * interval '1 min'
    FROM generate_series(1, 5000) i$$);
SELECT cold('plain_howdah'), differences('plain_heap', 'plain_howdah');
-- A small statement stays hot.
CALL pair($$INSERT INTO plain@ SELECT i, NULL, NULL, NULL FROM generate_series(1, 100) i$$);
SELECT cold('plain_howdah'), differences('plain_heap', 'plain_howdah');
-- Single rows stay hot however many there are.
DO $$
BEGIN
    FOR i IN 1..300 LOOP
        INSERT INTO plain_heap VALUES (i, 'single', i, NULL);
        INSERT INTO plain_howdah VALUES (i, 'single', i, NULL);
    END LOOP;
END $$;
SELECT cold('plain_howdah'), differences('plain_heap', 'plain_howdah');
SELECT count(*), sum(id), min(price), max(at) FROM plain_howdah WHERE word < 'word 5';
SELECT count(*), sum(id), min(price), max(at) FROM plain_heap WHERE word < 'word 5';
-- Switched off, everything is hot.
SET howdah.bulk_load = off;
CALL pair($$INSERT INTO plain@ SELECT i FROM generate_series(1, 1000) i$$);
RESET howdah.bulk_load;
SELECT cold('plain_howdah'), differences('plain_heap', 'plain_howdah');

-- Savepoints.
CREATE TABLE sp_heap (id int, word text) USING heap;
CREATE TABLE sp_howdah (id int, word text) USING howdah;
BEGIN;
INSERT INTO sp_heap SELECT i, 'a' FROM generate_series(1, 500) i;
INSERT INTO sp_howdah SELECT i, 'a' FROM generate_series(1, 500) i;
SAVEPOINT one;
INSERT INTO sp_heap SELECT i, 'b' FROM generate_series(1, 500) i;
INSERT INTO sp_howdah SELECT i, 'b' FROM generate_series(1, 500) i;
SELECT word, count(*) FROM sp_howdah GROUP BY word ORDER BY word;
SAVEPOINT two;
INSERT INTO sp_heap SELECT i, 'c' FROM generate_series(1, 500) i;
INSERT INTO sp_howdah SELECT i, 'c' FROM generate_series(1, 500) i;
ROLLBACK TO two;
SELECT differences('sp_heap', 'sp_howdah');
RELEASE one;
SELECT differences('sp_heap', 'sp_howdah');
SAVEPOINT three;
INSERT INTO sp_heap SELECT i, 'd' FROM generate_series(1, 500) i;
INSERT INTO sp_howdah SELECT i, 'd' FROM generate_series(1, 500) i;
ROLLBACK TO three;
INSERT INTO sp_heap SELECT i, 'e' FROM generate_series(1, 500) i;
INSERT INTO sp_howdah SELECT i, 'e' FROM generate_series(1, 500) i;
COMMIT;
SELECT word, count(*) FROM sp_howdah GROUP BY word ORDER BY word;
SELECT differences('sp_heap', 'sp_howdah'), cold('sp_howdah');

-- An error half-way, alone, under a savepoint, and caught by a block.
INSERT INTO sp_howdah SELECT i, 'bad' || 1 / (400 - i) FROM generate_series(1, 500) i;
SELECT differences('sp_heap', 'sp_howdah');
BEGIN;
INSERT INTO sp_howdah SELECT i, 'gone' FROM generate_series(1, 500) i;
SAVEPOINT s;
INSERT INTO sp_howdah SELECT i, 'bad' || 1 / (400 - i) FROM generate_series(1, 500) i;
ROLLBACK TO s;
SELECT word, count(*) FROM sp_howdah GROUP BY word ORDER BY word;
ROLLBACK;
SELECT differences('sp_heap', 'sp_howdah');
DO $$
BEGIN
    INSERT INTO sp_heap SELECT i, 'outer' FROM generate_series(1, 200) i;
    INSERT INTO sp_howdah SELECT i, 'outer' FROM generate_series(1, 200) i;
    BEGIN
        INSERT INTO sp_howdah SELECT i, 'bad' || 1 / (400 - i) FROM generate_series(1, 500) i;
    EXCEPTION WHEN division_by_zero THEN
        RAISE NOTICE 'caught, % rows outside', (SELECT count(*) FROM sp_howdah WHERE word = 'outer');
    END;
    INSERT INTO sp_heap SELECT i, 'after' FROM generate_series(1, 200) i;
    INSERT INTO sp_howdah SELECT i, 'after' FROM generate_series(1, 200) i;
END $$;
SELECT differences('sp_heap', 'sp_howdah'), cold('sp_howdah');

-- A function with a block of its own reads and writes in the middle of the outer load.
CREATE FUNCTION inner_block(i int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    IF i % 250 <> 0 THEN RETURN 'row'; END IF;
    BEGIN
        SELECT count(*) INTO n FROM sp_howdah WHERE word = 'row';
        PERFORM 1 / (i - 500);
    EXCEPTION WHEN division_by_zero THEN
        RETURN 'caught after ' || n;
    END;
    RETURN 'saw ' || n;
END $$;
INSERT INTO sp_howdah SELECT i, inner_block(i) FROM generate_series(1, 1000) i;
SELECT word, count(*) FROM sp_howdah WHERE word ~ '^(row|saw|caught)' GROUP BY word ORDER BY word;
DELETE FROM sp_heap;
TRUNCATE sp_howdah;

-- Cursors: what is loaded after they were opened is not theirs.
BEGIN;
INSERT INTO sp_howdah SELECT i, 'first' FROM generate_series(1, 150) i;
DECLARE early SCROLL CURSOR FOR SELECT id, word FROM sp_howdah ORDER BY ctid;
DECLARE plain_early NO SCROLL CURSOR FOR SELECT id, word FROM sp_howdah;
FETCH 2 FROM plain_early;
INSERT INTO sp_howdah SELECT i, 'second' FROM generate_series(1001, 1500) i;
DECLARE late CURSOR FOR SELECT count(*), sum(id) FROM sp_howdah;
MOVE ALL FROM plain_early;
FETCH LAST FROM early;
FETCH FIRST FROM early;
FETCH late;
COMMIT;
-- Backwards over both sides without a sort.
BEGIN;
SET LOCAL enable_sort = off;
DECLARE back SCROLL CURSOR FOR SELECT id, word FROM sp_howdah;
MOVE FORWARD 648 FROM back;
FETCH FORWARD 4 FROM back;
FETCH BACKWARD 4 FROM back;
FETCH ABSOLUTE 101 FROM back;
FETCH BACKWARD 2 FROM back;
FETCH ABSOLUTE -1 FROM back;
COMMIT;
TRUNCATE sp_howdah;
-- A cursor WITH HOLD and a loop that loads what it reads.
BEGIN;
INSERT INTO sp_howdah SELECT i, 'x' FROM generate_series(1, 300) i;
DECLARE held CURSOR WITH HOLD FOR SELECT id FROM sp_howdah WHERE id > 290 ORDER BY id;
COMMIT;
FETCH 3 FROM held;
CLOSE held;
DO $$
DECLARE r record; n int := 0;
BEGIN
    FOR r IN SELECT id FROM sp_howdah WHERE id <= 3 LOOP
        n := n + 1;
        INSERT INTO sp_howdah SELECT i, 'loop' FROM generate_series(1, 200) i;
    END LOOP;
    RAISE NOTICE '% rounds, % rows', n, (SELECT count(*) FROM sp_howdah);
END $$;
-- A statement that reads the table it loads.
INSERT INTO sp_howdah SELECT id, 'copy' FROM sp_howdah;
SELECT word, count(*) FROM sp_howdah GROUP BY word ORDER BY word;
WITH loaded AS (INSERT INTO sp_howdah SELECT i, 'with' FROM generate_series(1, 200) i RETURNING *)
SELECT (SELECT count(*) FROM loaded) AS returned, (SELECT count(*) FROM sp_howdah WHERE word = 'with') AS seen;
SELECT count(*) FROM sp_howdah WHERE word = 'with';

-- Triggers that read the table while it loads.
CREATE TABLE trig_heap (id int, word text) USING heap;
CREATE TABLE trig_howdah (id int, word text) USING howdah;
CREATE TABLE log (tab text, what text, rows bigint, total bigint);
CREATE FUNCTION on_row() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    IF NEW.id % 200 = 0 THEN
        EXECUTE format('SELECT count(*) FROM %I', TG_TABLE_NAME) INTO n;
        INSERT INTO log VALUES (TG_TABLE_NAME, TG_WHEN || ' row ' || NEW.id, n, NULL);
    END IF;
    IF TG_WHEN = 'BEFORE' THEN
        IF NEW.id % 100 = 7 THEN RETURN NULL; END IF;
        NEW.word := upper(NEW.word);
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION on_statement() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM %I', TG_TABLE_NAME) INTO n;
    IF TG_WHEN = 'BEFORE' THEN
        INSERT INTO log VALUES (TG_TABLE_NAME, 'before statement', n, NULL);
    ELSE
        INSERT INTO log VALUES (TG_TABLE_NAME, 'after statement', n, NULL);
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION on_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log SELECT TG_TABLE_NAME, 'transition', count(*), sum(id) FROM fresh;
    RETURN NULL;
END $$;
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['trig_heap', 'trig_howdah'] LOOP
        EXECUTE format('CREATE TRIGGER a BEFORE INSERT ON %I FOR EACH ROW EXECUTE FUNCTION on_row()', t);
        EXECUTE format('CREATE TRIGGER b AFTER INSERT ON %I FOR EACH ROW EXECUTE FUNCTION on_row()', t);
        EXECUTE format('CREATE TRIGGER c BEFORE INSERT ON %I FOR EACH STATEMENT EXECUTE FUNCTION on_statement()', t);
        EXECUTE format('CREATE TRIGGER d AFTER INSERT ON %I FOR EACH STATEMENT EXECUTE FUNCTION on_statement()', t);
        EXECUTE format('CREATE TRIGGER e AFTER INSERT ON %I REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION on_transition()', t);
    END LOOP;
END $$;
INSERT INTO trig_heap SELECT i, 'w' || i FROM generate_series(1, 600) i;
INSERT INTO trig_howdah SELECT i, 'w' || i FROM generate_series(1, 600) i;
SELECT what, rows, total, count(DISTINCT tab) AS tables FROM log GROUP BY what, rows, total ORDER BY what, rows;
SELECT differences('trig_heap', 'trig_howdah'), cold('trig_howdah');
\copy trig_heap (id) FROM PROGRAM 'seq 1000 1500'
\copy trig_howdah (id) FROM PROGRAM 'seq 1000 1500'
SELECT differences('trig_heap', 'trig_howdah'), cold('trig_howdah');
SELECT count(*) FROM (SELECT what, rows, total FROM log WHERE tab = 'trig_heap' EXCEPT ALL SELECT what, rows, total FROM log WHERE tab = 'trig_howdah') d;
-- A constraint trigger deferred to the end of the transaction sees all rows.
CREATE FUNCTION at_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id = 5001 THEN
        RAISE NOTICE 'deferred: % rows, this one %', (SELECT count(*) FROM trig_howdah WHERE id > 5000), (SELECT word FROM trig_howdah WHERE id = 5001);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER f AFTER INSERT ON trig_howdah DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_end();
BEGIN;
INSERT INTO trig_howdah SELECT i, 'q' FROM generate_series(4901, 5050) i;
INSERT INTO trig_howdah SELECT i, 'q' FROM generate_series(5051, 5250) i;
COMMIT;

-- Rows that are deleted while they are still being loaded stay deleted, also when the same transaction
-- loads more.
CREATE TABLE gone_heap (id int) USING heap;
CREATE TABLE gone_howdah (id int) USING howdah;
CREATE FUNCTION deleting(t regclass, i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF i % 1000 = 600 THEN EXECUTE format('DELETE FROM %s WHERE id = $1 - 2', t) USING i; END IF;
    RETURN i;
END $$;
BEGIN;
CALL pair($$INSERT INTO gone@ SELECT deleting('gone@', i) FROM generate_series(1000, 1999) i$$);
CALL pair($$INSERT INTO gone@ SELECT deleting('gone@', i) FROM generate_series(2000, 2999) i$$);
SELECT differences('gone_heap', 'gone_howdah');
CALL pair($$INSERT INTO gone@ SELECT deleting('gone@', i) FROM generate_series(3000, 3999) i$$);
COMMIT;
SELECT count(*), count(*) FILTER (WHERE id % 1000 = 598) AS back_again, differences('gone_heap', 'gone_howdah') FROM gone_howdah;

-- Unique violations: inside a load, between two loads, hot against cold.
CREATE TABLE u (id int PRIMARY KEY, word text UNIQUE) USING howdah;
INSERT INTO u SELECT i % 400, i FROM generate_series(1, 500) i;
SELECT count(*) FROM u;
INSERT INTO u SELECT i, i FROM generate_series(1, 500) i;
INSERT INTO u SELECT i, 'n' || i FROM generate_series(450, 950) i;
INSERT INTO u VALUES (444, 'hot');
INSERT INTO u VALUES (5000, '444');
INSERT INTO u VALUES (5000, 'hot');
INSERT INTO u SELECT i, 'm' || i FROM generate_series(4500, 5500) i;
SELECT count(*), sum(id), cold('u') FROM u;
BEGIN;
INSERT INTO u SELECT i, i FROM generate_series(1001, 1500) i;
SAVEPOINT s;
INSERT INTO u SELECT i, 'n' || i FROM generate_series(1400, 2000) i;
ROLLBACK TO s;
INSERT INTO u SELECT i, i FROM generate_series(1501, 2000) i;
COMMIT;
SELECT count(*), sum(id), cold('u') FROM u;
-- Aborted loads leave nothing that a later load would trip over.
BEGIN;
INSERT INTO u SELECT i, i FROM generate_series(3001, 3500) i;
ROLLBACK;
INSERT INTO u SELECT i, i FROM generate_series(3001, 3500) i;
SELECT count(*), sum(id), cold('u') FROM u;
-- A duplicate of a row that is still in memory.
INSERT INTO u SELECT CASE WHEN i = 350 THEN 7250 ELSE i + 7000 END, 'p' || i FROM generate_series(1, 500) i;
SELECT count(*), sum(id), cold('u') FROM u;
-- ON CONFLICT goes hot and finds cold rows.
INSERT INTO u SELECT i, i FROM generate_series(3400, 3600) i ON CONFLICT DO NOTHING;
SELECT count(*), sum(id), cold('u') FROM u;
INSERT INTO u VALUES (3300, 'again') ON CONFLICT (id) DO UPDATE SET word = 'changed';
INSERT INTO u VALUES (3001, 'again') ON CONFLICT (id) DO UPDATE SET word = 'changed hot';
-- By index, index-only, bitmap and TID.
SET enable_seqscan = off;
SELECT * FROM u WHERE id IN (1, 444, 1234, 3599, 5000, 9999) ORDER BY id;
SELECT id FROM u WHERE id BETWEEN 98 AND 103 ORDER BY id DESC;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT count(*), sum(id) FROM u WHERE id < 200 OR id > 3550;
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_seqscan;
SELECT count(*) FROM u a WHERE EXISTS (SELECT FROM u b WHERE b.ctid = a.ctid AND b.id = a.id);
-- Cold rows can be changed.
UPDATE u SET word = 'x' WHERE id = 300;
DELETE FROM u WHERE id = 300;
SELECT * FROM u WHERE id = 300 FOR UPDATE;
SELECT * FROM u WHERE id = 300;
-- Hot rows are as free as ever.
UPDATE u SET word = 'changed' WHERE id = 5000;
DELETE FROM u WHERE id = 50;
SELECT count(*), sum(id) FROM u;
-- An exclusion constraint over both sides.
CREATE TABLE x (during int4range, EXCLUDE USING gist (during WITH &&)) USING howdah;
INSERT INTO x SELECT int4range(i, i + 1) FROM generate_series(1, 400) i;
INSERT INTO x SELECT int4range(i, i + 1) FROM generate_series(300, 600) i;
INSERT INTO x VALUES ('[350,360)');
INSERT INTO x VALUES ('[50,60)');
SELECT count(*), cold('x') FROM x;

-- Check, not null, foreign keys, defaults, generated and identity columns.
CREATE TABLE parent (id int PRIMARY KEY) USING howdah;
INSERT INTO parent SELECT generate_series(1, 50);
CREATE TABLE rules (
    id int GENERATED ALWAYS AS IDENTITY,
    parent int REFERENCES parent,
    amount int NOT NULL CHECK (amount > 0),
    twice int GENERATED ALWAYS AS (amount * 2) STORED,
    thrice int GENERATED ALWAYS AS (amount * 3) VIRTUAL,
    made text DEFAULT 'default'
) USING howdah;
INSERT INTO rules (parent, amount) SELECT i % 50 + 1, i FROM generate_series(1, 500) i;
INSERT INTO rules (parent, amount) SELECT i % 50 + 1, i - 300 FROM generate_series(1, 500) i;
INSERT INTO rules (parent, amount) SELECT i % 51 + 1, i FROM generate_series(1, 500) i;
INSERT INTO rules (parent, amount) SELECT 1, NULLIF(i, 450) FROM generate_series(1, 500) i;
SELECT count(*), max(id), sum(twice), sum(thrice), min(made), cold('rules') FROM rules;

-- COPY in and out.
CREATE TABLE c_heap (id int, word text) USING heap;
CREATE TABLE c_howdah (id int, word text) USING howdah;
\copy c_heap (id) FROM PROGRAM 'seq 1 3000'
\copy c_howdah (id) FROM PROGRAM 'seq 1 3000'
SELECT differences('c_heap', 'c_howdah'), cold('c_howdah');
\copy c_howdah (id) FROM PROGRAM 'seq 1 2000; echo x'
SELECT differences('c_heap', 'c_howdah');
\copy c_howdah (id) FROM PROGRAM 'seq 1 200' WITH (FREEZE)
BEGIN;
TRUNCATE c_howdah;
\copy c_howdah (id) FROM PROGRAM 'seq 1 3000' WITH (FREEZE)
COMMIT;
SELECT differences('c_heap', 'c_howdah'), cold('c_howdah');
BEGIN;
\copy c_heap (id) FROM PROGRAM 'seq 1 300; echo x; echo 301' WITH (ON_ERROR ignore)
\copy c_howdah (id) FROM PROGRAM 'seq 1 300; echo x; echo 301' WITH (ON_ERROR ignore)
COMMIT;
SELECT differences('c_heap', 'c_howdah'), cold('c_howdah');

-- CREATE TABLE AS, SELECT INTO, materialized views.
CREATE TABLE ctas USING howdah AS SELECT i AS id, md5(i::text) AS word FROM generate_series(1, 2000) i;
CREATE TABLE ctas_heap USING heap AS SELECT i AS id, md5(i::text) AS word FROM generate_series(1, 2000) i;
SELECT differences('ctas_heap', 'ctas'), cold('ctas');
CREATE TABLE ctas_nothing USING howdah AS SELECT 1 AS one WITH NO DATA;
SELECT count(*) FROM ctas_nothing;
CREATE MATERIALIZED VIEW mv USING howdah AS SELECT id % 10 AS digit, id, word FROM ctas_heap WHERE id <= 1500;
SELECT count(*), sum(id), cold('mv') FROM mv;
INSERT INTO ctas_heap SELECT i, 'new' FROM generate_series(-500, -1) i;
REFRESH MATERIALIZED VIEW mv;
SELECT count(*), sum(id), cold('mv') FROM mv;
REFRESH MATERIALIZED VIEW mv WITH NO DATA;
SELECT count(*) FROM mv;
REFRESH MATERIALIZED VIEW mv;
SELECT count(*), sum(id), cold('mv') FROM mv;

-- Partitions of both kinds, and inheritance.
CREATE TABLE part (id int, kind text) PARTITION BY LIST (kind);
CREATE TABLE part_a PARTITION OF part FOR VALUES IN ('a') USING heap;
CREATE TABLE part_b PARTITION OF part FOR VALUES IN ('b') USING howdah;
CREATE TABLE part_c PARTITION OF part FOR VALUES IN ('c') PARTITION BY RANGE (id);
CREATE TABLE part_c1 PARTITION OF part_c FOR VALUES FROM (0) TO (600) USING howdah;
CREATE TABLE part_c2 PARTITION OF part_c FOR VALUES FROM (600) TO (10000) USING howdah;
INSERT INTO part SELECT i, substr('abc', i % 3 + 1, 1) FROM generate_series(1, 1800) i;
SELECT tableoid::regclass, count(*), sum(id) FROM part GROUP BY 1 ORDER BY 1;
SELECT cold('part_b'), cold('part_c1'), cold('part_c2');
\copy part FROM PROGRAM 'for i in $(seq 1 900); do echo "$i\tb"; echo "$i\tc"; done'
SELECT tableoid::regclass, count(*), sum(id) FROM part GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM part WHERE kind = 'c' AND id BETWEEN 590 AND 610;
ALTER TABLE part DETACH PARTITION part_b;
SELECT count(*) FROM part;
ALTER TABLE part ATTACH PARTITION part_b FOR VALUES IN ('b');
SELECT count(*) FROM part;
CREATE TABLE ancestor (id int) USING howdah;
CREATE TABLE descendant (more text) INHERITS (ancestor) USING howdah;
INSERT INTO ancestor SELECT generate_series(1, 300);
INSERT INTO descendant SELECT i, 'more' FROM generate_series(1, 400) i;
SELECT tableoid::regclass, count(*), sum(id) FROM ancestor GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM ONLY ancestor;

-- TEMP and UNLOGGED.
CREATE TEMP TABLE temporary USING howdah AS SELECT i AS id FROM generate_series(1, 1000) i;
SELECT count(*), sum(id), cold('temporary') FROM temporary;
BEGIN;
CREATE TEMP TABLE until_commit (id int) USING howdah ON COMMIT DELETE ROWS;
INSERT INTO until_commit SELECT generate_series(1, 1000);
SELECT count(*), cold('until_commit') FROM until_commit;
COMMIT;
SELECT count(*) FROM until_commit;
INSERT INTO until_commit SELECT generate_series(1, 1000);
SELECT count(*) FROM until_commit;
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY) USING howdah;
INSERT INTO unlogged SELECT generate_series(1, 1000);
SELECT count(*), sum(id), cold('unlogged') FROM unlogged;

-- TRUNCATE: plain, in the creating transaction, rolled back, with a load on both sides of it.
CREATE TABLE tr (id int PRIMARY KEY) USING howdah;
INSERT INTO tr SELECT generate_series(1, 1000);
TRUNCATE tr;
SELECT count(*), cold('tr') FROM tr;
INSERT INTO tr SELECT generate_series(1, 1000);
BEGIN;
TRUNCATE tr;
INSERT INTO tr SELECT generate_series(1, 300);
SELECT count(*), cold('tr') FROM tr;
ROLLBACK;
SELECT count(*), sum(id), cold('tr') FROM tr;
BEGIN;
INSERT INTO tr SELECT generate_series(1001, 1300);
SAVEPOINT s;
TRUNCATE tr;
INSERT INTO tr SELECT generate_series(1, 700);
ROLLBACK TO s;
SELECT count(*), sum(id) FROM tr;
COMMIT;
SELECT count(*), sum(id), cold('tr') FROM tr;
BEGIN;
CREATE TABLE born (id int PRIMARY KEY) USING howdah;
INSERT INTO born SELECT generate_series(1, 500);
TRUNCATE born;
INSERT INTO born SELECT generate_series(1, 400);
COMMIT;
SELECT count(*), sum(id), cold('born') FROM born;
-- Created, loaded and dropped, or rolled back, in one transaction.
BEGIN;
CREATE TABLE short (id int) USING howdah;
INSERT INTO short SELECT generate_series(1, 500);
DROP TABLE short;
COMMIT;
BEGIN;
CREATE TABLE short (id int) USING howdah;
INSERT INTO short SELECT generate_series(1, 500);
ROLLBACK;
SELECT to_regclass('short');

-- Many row groups, and a group that closes early by its size.
CREATE TABLE big (id int, body text) USING howdah;
INSERT INTO big SELECT i, 'b' FROM generate_series(1, 300000) i;
SELECT count(*), sum(id), cold('big') FROM big;
SET howdah.row_group_bytes = '1MB';
INSERT INTO big SELECT i, repeat(md5(i::text), 100) FROM generate_series(300001, 302000) i;
RESET howdah.row_group_bytes;
SELECT count(*), sum(id), sum(length(body)) FROM big WHERE id > 299000;
-- Values too large for the cold side keep their row hot.
CREATE TABLE large (id int, body text) USING howdah;
INSERT INTO large SELECT i, CASE WHEN i = 150 THEN repeat('x', 9 << 20) ELSE 'small' END FROM generate_series(1, 300) i;
SELECT count(*), cold('large'), max(length(body)) FROM large;

-- Everything cold: what the test suites of others run with.
SET howdah.debug_force_cold = on;
CREATE TABLE forced (id int PRIMARY KEY, word text) USING howdah;
INSERT INTO forced VALUES (1, 'one'), (2, NULL);
INSERT INTO forced VALUES (3, '') RETURNING *;
INSERT INTO forced VALUES (3, 'twice');
SELECT * FROM forced ORDER BY id;
SELECT cold('forced');
RESET howdah.debug_force_cold;

-- A row that does not fit a page of heap is refused, as it could never be changed; one that is narrow enough is not.
SELECT format('CREATE TABLE texts (%s) USING howdah', string_agg(format('c%s text', i), ', ')) FROM generate_series(1, 460) i \gexec
SELECT format('CREATE TABLE numbers (%s) USING howdah', string_agg(format('c%s bigint', i), ', ')) FROM generate_series(1, 1100) i \gexec
SELECT format('INSERT INTO texts SELECT %s FROM generate_series(1, 1000) g', string_agg('repeat(md5(g::text), 20)', ', ')) FROM generate_series(1, 460) i \gexec
SELECT format('INSERT INTO texts SELECT %s FROM generate_series(1, 1000) g', string_agg(CASE WHEN i % 2 = 0 THEN 'repeat(md5(g::text), 2)' ELSE quote_literal('x') END, ', ')) FROM generate_series(1, 460) i \gexec
SELECT format('INSERT INTO numbers SELECT %s FROM generate_series(1, 1000) g', string_agg('g', ', ')) FROM generate_series(1, 1100) i \gexec
SELECT format('INSERT INTO numbers SELECT %s FROM generate_series(1, 1000) g', string_agg(CASE WHEN i % 10 = 0 THEN 'NULL' ELSE 'g' END, ', ')) FROM generate_series(1, 1100) i \gexec
SELECT cold('texts'), cold('numbers');
UPDATE texts SET c1 = 'y' WHERE c2 = repeat(md5('7'), 2);
UPDATE numbers SET c1 = 0 WHERE c1 = 7;
SELECT count(*), min(c1), max(c1) FROM texts;
SELECT count(*), sum(c1), sum(c1099) FROM numbers;

-- Prepared transactions need max_prepared_transactions; a procedure that commits does not.
CREATE PROCEDURE in_pieces() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..4 LOOP
        INSERT INTO tr SELECT g FROM generate_series(10000 * i, 10000 * i + 299) g;
        IF i = 3 THEN ROLLBACK; ELSE COMMIT; END IF;
    END LOOP;
END $$;
CALL in_pieces();
SELECT id / 10000 AS piece, count(*) FROM tr WHERE id >= 10000 GROUP BY 1 ORDER BY 1;

SET client_min_messages = warning;
DROP SCHEMA load CASCADE;
