-- Every statement that changes or locks rows, over cold rows. cold_rows_on_heap.sql is this file by
-- another name and runs it over heap; what the two print must be the same, to the letter.
SELECT current_setting('application_name') LIKE '%on_heap' AS on_heap \gset
\if :on_heap
    SET default_table_access_method = heap;
    \set cold false
\else
    SET default_table_access_method = howdah;
    \set cold true
\endif
SET howdah.debug_force_cold = on;
SET client_min_messages = warning;
SET default_statistics_target = 10;
CREATE SCHEMA cold_rows;
SET search_path = cold_rows;
-- Whether every row is cold; heap has none to ask about.
CREATE FUNCTION all_cold(t regclass) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE yes boolean;
BEGIN
    EXECUTE format('SELECT bool_and(a.amname = ''heap'' OR (t.ctid::text::point)[0] >= 2147483648)
        FROM %s t JOIN pg_class c ON c.oid = t.tableoid JOIN pg_am a ON a.oid = c.relam', t) INTO yes;
    RETURN yes;
END $$;

-- UPDATE and DELETE: rows one by one, many, none; by every kind of plan; what they return.
CREATE TABLE t (id int PRIMARY KEY, k int, word text, list int[]);
CREATE INDEX ON t (k);
INSERT INTO t SELECT i, i % 10, 'w' || i, ARRAY[i, i + 1] FROM generate_series(1, 1000) i;
SELECT all_cold('t');
UPDATE t SET word = 'one' WHERE id = 1 RETURNING *;
UPDATE t SET word = 'again' WHERE id = 1 RETURNING old.word AS was, new.word AS is, id;
DELETE FROM t WHERE id = 2 RETURNING *;
DELETE FROM t WHERE id = 2 RETURNING *;
DELETE FROM t WHERE id = 3 RETURNING old.*, new.*;
UPDATE t SET k = k + 100 WHERE id BETWEEN 10 AND 20;
UPDATE t SET id = id + 5000 WHERE id BETWEEN 30 AND 34;
UPDATE t SET id = 7 WHERE id = 8;
UPDATE t SET id = 1 WHERE id = 40;
UPDATE t SET id = 2 WHERE id = 40;
SELECT count(*), sum(id), sum(k), count(DISTINCT word) FROM t;
SET enable_seqscan = off;
UPDATE t SET word = word || '!' WHERE k = 5;
DELETE FROM t WHERE k = 6;
SET enable_indexscan = off;
UPDATE t SET word = word || '?' WHERE k = 4;
DELETE FROM t WHERE k = 7;
RESET enable_indexscan;
SELECT count(*), sum(id) FROM t WHERE k = 4;
SELECT count(*), sum(id) FROM t WHERE id > 0;
RESET enable_seqscan;
UPDATE t SET list = list || k FROM (VALUES (1, 2), (100, 3)) v (id, n) WHERE t.id = v.id RETURNING t.id, t.list, v.n;
DELETE FROM t USING t other WHERE t.id = other.id + 1 AND other.id % 100 = 50;
SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM t;

-- Twice the same row in one statement; joins that meet a row more than once.
UPDATE t SET k = v.k FROM (VALUES (101, -1), (101, -1)) v (id, k) WHERE t.id = v.id RETURNING t.id, t.k;
DELETE FROM t USING (VALUES (101), (101)) v (id) WHERE t.id = v.id RETURNING t.id;
UPDATE t SET k = k + 1 WHERE id IN (SELECT id FROM t WHERE id BETWEEN 110 AND 112) RETURNING id, k;
-- Halloween: each row is changed once.
UPDATE t SET id = id + 1000000 WHERE id > 5000;
UPDATE t SET k = k + 1000 WHERE k > -10;
SELECT count(*), min(k), max(k), max(id) FROM t;

-- By TID, and by a cursor.
INSERT INTO t SELECT i, i % 10, 'w' || i, NULL FROM generate_series(2001, 3000) i;
UPDATE t SET word = 'by tid' WHERE ctid = (SELECT ctid FROM t WHERE id = 2001) RETURNING id, word;
DELETE FROM t WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE id BETWEEN 2002 AND 2005)) AND id <> 2003 RETURNING id;
DELETE FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 2006);
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t WHERE id BETWEEN 2010 AND 2020 FOR UPDATE;
FETCH 2 FROM c;
UPDATE t SET word = 'current' WHERE CURRENT OF c RETURNING id;
FETCH 1 FROM c;
DELETE FROM t WHERE CURRENT OF c RETURNING id;
DELETE FROM t WHERE CURRENT OF c RETURNING id;
FETCH 1 FROM c;
UPDATE t SET word = 'current', id = -id WHERE CURRENT OF c RETURNING id;
UPDATE t SET word = 'twice' WHERE CURRENT OF c RETURNING id;
COMMIT;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t WHERE k = 3 AND id BETWEEN 2030 AND 2060;
MOVE 1 IN c;
UPDATE t SET word = 'not locked before' WHERE CURRENT OF c RETURNING id;
DELETE FROM t WHERE CURRENT OF c RETURNING id;
FETCH 1 FROM c;
COMMIT;
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT id, word FROM t WHERE id BETWEEN 2100 AND 2103 ORDER BY id;
FETCH 1 FROM held;
UPDATE t SET word = 'later' WHERE id BETWEEN 2100 AND 2103;
COMMIT;
DELETE FROM t WHERE id = 2102;
FETCH ALL FROM held;
CLOSE held;
BEGIN;
DECLARE before CURSOR FOR SELECT count(*), count(*) FILTER (WHERE word = 'gone soon') FROM t WHERE id BETWEEN 2200 AND 2300;
UPDATE t SET word = 'gone soon' WHERE id BETWEEN 2200 AND 2250;
DELETE FROM t WHERE id BETWEEN 2251 AND 2260;
FETCH ALL FROM before;
SELECT count(*), count(*) FILTER (WHERE word = 'gone soon') FROM t WHERE id BETWEEN 2200 AND 2300;
ROLLBACK;
SELECT count(*), count(*) FILTER (WHERE word = 'gone soon') FROM t WHERE id BETWEEN 2200 AND 2300;
SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM t;

-- Savepoints, and rows changed more than once in a transaction.
BEGIN;
UPDATE t SET word = 'outer' WHERE id = 2301;
SAVEPOINT a;
UPDATE t SET word = 'inner' WHERE id IN (2301, 2302);
DELETE FROM t WHERE id IN (2303, 2304);
SAVEPOINT b;
DELETE FROM t WHERE id IN (2301, 2302);
SELECT id, word FROM t WHERE id BETWEEN 2301 AND 2305 ORDER BY id;
ROLLBACK TO b;
SELECT id, word FROM t WHERE id BETWEEN 2301 AND 2305 ORDER BY id;
ROLLBACK TO a;
SELECT id, word FROM t WHERE id BETWEEN 2301 AND 2305 ORDER BY id;
DELETE FROM t WHERE id IN (2303, 2304) RETURNING id;
INSERT INTO t VALUES (2303, 0, 'new', NULL);
RELEASE a;
COMMIT;
SELECT id, word FROM t WHERE id BETWEEN 2301 AND 2305 ORDER BY id;
BEGIN;
SAVEPOINT a;
DELETE FROM t WHERE id BETWEEN 2310 AND 2900;
SELECT count(*) FROM t WHERE id BETWEEN 2310 AND 2900;
ROLLBACK TO a;
SELECT count(*) FROM t WHERE id BETWEEN 2310 AND 2900;
UPDATE t SET word = 'all' WHERE id BETWEEN 2310 AND 2900;
UPDATE t SET word = word || ' twice' WHERE id BETWEEN 2310 AND 2900;
COMMIT;
SELECT word, count(*) FROM t WHERE id BETWEEN 2310 AND 2900 GROUP BY 1;
-- Many of a group, which makes bitmaps of marks.
CREATE TABLE many (id int PRIMARY KEY, k int);
INSERT INTO many SELECT i, i % 100 FROM generate_series(1, 40000) i;
BEGIN;
DELETE FROM many WHERE k < 50;
SELECT count(*), sum(id) FROM many;
SAVEPOINT a;
DELETE FROM many WHERE k < 75;
SELECT count(*), sum(id) FROM many;
ROLLBACK TO a;
DELETE FROM many WHERE k = 99 RETURNING id - 39999;
INSERT INTO many SELECT i, -1 FROM generate_series(1, 1000) i WHERE i % 100 < 50;
SELECT count(*), sum(id) FROM many;
COMMIT;
DELETE FROM many WHERE id = 1;
DELETE FROM many WHERE id = 1;
INSERT INTO many VALUES (50, 0);
INSERT INTO many VALUES (40000, 0);
SELECT count(*), sum(id) FROM many;
\if :cold
    CALL howdah.compact('many');
\endif
SELECT count(*), sum(id) FROM many;
VACUUM many;
UPDATE many SET k = -k;
DELETE FROM many;
SELECT count(*), sum(id) FROM many;
INSERT INTO many SELECT i, i % 100 FROM generate_series(1, 40000) i;

-- MERGE: every action, and what it returns.
CREATE TABLE m (id int PRIMARY KEY, n int, note text);
INSERT INTO m SELECT i, i, 'old' FROM generate_series(1, 20) i;
SELECT all_cold('m');
WITH merged AS (
    MERGE INTO m USING (SELECT i AS id, i * 10 AS n FROM generate_series(15, 25) i) s ON m.id = s.id
    WHEN MATCHED AND m.id = 15 THEN DO NOTHING
    WHEN MATCHED AND m.id < 18 THEN DELETE
    WHEN MATCHED THEN UPDATE SET n = s.n, note = 'merged'
    WHEN NOT MATCHED BY TARGET AND s.id = 22 THEN DO NOTHING
    WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (s.id, s.n, 'new')
    WHEN NOT MATCHED BY SOURCE AND m.id <= 2 THEN DELETE
    WHEN NOT MATCHED BY SOURCE AND m.id <= 4 THEN UPDATE SET note = 'lonely'
    RETURNING merge_action() AS action, old.id AS old_id, old.note AS old_note, new.id AS new_id, new.n, new.note)
SELECT * FROM merged ORDER BY action, old_id, new_id;
SELECT * FROM m ORDER BY id;
MERGE INTO m USING (VALUES (5), (5)) s (id) ON m.id = s.id WHEN MATCHED THEN UPDATE SET n = 0;
MERGE INTO m USING (VALUES (5), (5)) s (id) ON m.id = s.id WHEN MATCHED THEN DELETE;
MERGE INTO m USING (VALUES (500), (500)) s (id) ON m.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0);
SELECT count(*), sum(n) FROM m;

-- Row locks of every strength, one after the other by the same transaction.
BEGIN;
SELECT id, n FROM m WHERE id = 6 FOR KEY SHARE;
SELECT id, n FROM m WHERE id = 6 FOR SHARE;
SELECT id, n FROM m WHERE id = 6 FOR NO KEY UPDATE;
SELECT id, n FROM m WHERE id = 6 FOR UPDATE NOWAIT;
SELECT id, n FROM m WHERE id < 9 ORDER BY id FOR UPDATE SKIP LOCKED;
UPDATE m SET n = 66 WHERE id = 6;
SELECT id, n FROM m WHERE id = 6 FOR UPDATE;
SELECT count(*) FROM (SELECT id FROM m FOR KEY SHARE) x;
SELECT m.id, other.n FROM m JOIN m other ON other.id = m.id + 1 WHERE m.id = 7 FOR UPDATE OF other;
COMMIT;
SELECT id, count(*) FROM m GROUP BY id FOR UPDATE;

-- INSERT … ON CONFLICT against cold rows.
INSERT INTO m VALUES (7, 0, 'no') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO m VALUES (7, 0, 'no'), (107, 1, 'yes') ON CONFLICT (id) DO NOTHING RETURNING *;
INSERT INTO m VALUES (7, 70, 'up') ON CONFLICT (id) DO UPDATE SET n = m.n + excluded.n, note = excluded.note RETURNING old.n AS was, new.*;
INSERT INTO m VALUES (8, 80, 'up') ON CONFLICT (id) DO UPDATE SET n = excluded.n WHERE m.n > 1000 RETURNING *;
INSERT INTO m VALUES (9, 1), (9, 2) ON CONFLICT (id) DO UPDATE SET n = excluded.n;
INSERT INTO m VALUES (9, 1), (9, 2) ON CONFLICT (id) DO NOTHING;
INSERT INTO m VALUES (9, 1), (109, 2) ON CONFLICT ON CONSTRAINT m_pkey DO UPDATE SET id = m.id + 1000 RETURNING old.id AS was, new.id;
INSERT INTO m VALUES (10, 1) ON CONFLICT (id) DO UPDATE SET id = 11;
INSERT INTO m SELECT id, n, 'from itself' FROM m ON CONFLICT (id) DO UPDATE SET n = excluded.n + 1;
-- Whether a row was inserted or updated, as xmax tells.
CREATE TABLE upserted (id int PRIMARY KEY, n int);
INSERT INTO upserted SELECT i, 0 FROM generate_series(1, 3000) i;
INSERT INTO upserted VALUES (3, 1), (3001, 1) ON CONFLICT (id) DO UPDATE SET n = upserted.n + 1 RETURNING id, xmax = 0 AS inserted;
WITH u AS (INSERT INTO upserted SELECT i, 5 FROM generate_series(1001, 4000) i ON CONFLICT (id) DO UPDATE SET n = excluded.n RETURNING xmax = 0 AS inserted)
SELECT inserted, count(*) FROM u GROUP BY inserted ORDER BY inserted;
BEGIN;
SELECT id FROM upserted WHERE id = 5 FOR UPDATE;
UPDATE upserted SET n = 9 WHERE id = 5 RETURNING xmax = 0 AS was_unlocked;
UPDATE upserted SET n = 9 WHERE id = 6 RETURNING xmax = 0 AS was_unlocked;
SAVEPOINT s;
SELECT id FROM upserted WHERE id = 7 FOR UPDATE;
ROLLBACK TO s;
UPDATE upserted SET n = 9 WHERE id = 7 RETURNING xmax = 0 AS was_unlocked;
COMMIT;
DELETE FROM upserted WHERE id IN (3, 5, 6, 1500);
SELECT count(*), sum(id), sum(n) FROM upserted;
SELECT count(*), sum(n), count(*) FILTER (WHERE note = 'from itself') FROM m;
BEGIN;
DELETE FROM m WHERE id = 11;
INSERT INTO m VALUES (11, 0, 'back') ON CONFLICT (id) DO UPDATE SET note = 'not gone' RETURNING note;
COMMIT;

-- Writable CTEs.
\if :cold
    CALL howdah.compact('m');
\endif
SELECT all_cold('m');
WITH gone AS (DELETE FROM m WHERE id > 100 RETURNING *), back AS (INSERT INTO m SELECT id + 1000000, n, note FROM gone RETURNING id)
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM back), (SELECT count(*) FROM m WHERE id > 100) AS still_there;
WITH one AS (UPDATE m SET n = 1 WHERE id = 12 RETURNING id), two AS (UPDATE m SET n = 2 WHERE id = 12 RETURNING id)
    SELECT (SELECT count(*) FROM one) + (SELECT count(*) FROM two) AS changed_once;
WITH one AS (DELETE FROM m WHERE id = 13 RETURNING id), two AS (UPDATE m SET n = 2 WHERE id = 13 RETURNING id)
    SELECT (SELECT count(*) FROM one) + (SELECT count(*) FROM two) AS changed_once;
WITH up AS (UPDATE m SET n = -n WHERE id = 14 RETURNING id, n) SELECT m.id, m.n AS before, up.n AS after FROM m JOIN up USING (id);
SELECT count(*), sum(n), max(id) > 1000000 FROM m;
-- A function that changes the row which its caller is changing.
CREATE FUNCTION meddle(row_id int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN UPDATE m SET n = n + 1000 WHERE id = row_id; RETURN 1; END $$;
UPDATE m SET n = n + meddle(id) WHERE id = 15 RETURNING id, n;
SELECT id, n FROM m WHERE id = 15;
SELECT id, n, meddle(id), n FROM m WHERE id = 18;
SELECT id, n FROM m WHERE id = 18;

-- Partitions: rows that move, and move back.
CREATE TABLE p (id int, part int, word text, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 (word text, id int NOT NULL, part int NOT NULL);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3) USING heap;
INSERT INTO p SELECT i, 1 + i % 3, 'w' || i FROM generate_series(1, 300) i;
SELECT all_cold('p1'), all_cold('p2');
UPDATE p SET part = 2 WHERE id = 3 RETURNING old.tableoid::regclass AS was, new.tableoid::regclass AS is, new.*;
UPDATE p SET part = 3 WHERE id = 4 RETURNING tableoid::regclass, *;
UPDATE p SET part = 1 WHERE id = 5 RETURNING tableoid::regclass, *;
WITH moved AS (UPDATE p SET part = 1 + part % 3 WHERE id BETWEEN 100 AND 200 RETURNING id, part) SELECT part, count(*), sum(id) FROM moved GROUP BY 1 ORDER BY 1;
UPDATE p SET part = 4 WHERE id = 6;
SELECT tableoid::regclass, count(*), sum(id), sum(part) FROM p GROUP BY 1 ORDER BY 1;
BEGIN;
UPDATE p SET part = 1 + part % 3;
SELECT tableoid::regclass, count(*), sum(id), sum(part) FROM p GROUP BY 1 ORDER BY 1;
ROLLBACK;
MERGE INTO p USING (VALUES (7), (8), (9)) s (id) ON p.id = s.id WHEN MATCHED THEN UPDATE SET part = 1 + p.part % 3;
INSERT INTO p VALUES (10, 2, 'up') ON CONFLICT (id, part) DO UPDATE SET word = excluded.word || p.word RETURNING *;
INSERT INTO p VALUES (10, 2, 'up') ON CONFLICT (id, part) DO UPDATE SET part = 1;
\if :cold
    CALL howdah.compact('p1');
    CALL howdah.compact('p2');
\endif
UPDATE p SET part = 1 WHERE part = 2 AND id < 50;
SELECT tableoid::regclass, count(*), sum(id), md5(string_agg(word, ',' ORDER BY id)) FROM p GROUP BY 1 ORDER BY 1;
-- Inheritance.
CREATE TABLE parent (id int, word text);
CREATE TABLE child (extra int) INHERITS (parent);
INSERT INTO parent SELECT i, 'p' FROM generate_series(1, 20) i;
INSERT INTO child SELECT i, 'c', i FROM generate_series(11, 30) i;
UPDATE parent SET word = word || id WHERE id BETWEEN 10 AND 12;
DELETE FROM ONLY parent WHERE id BETWEEN 11 AND 20;
SELECT tableoid::regclass, id, word FROM parent WHERE id BETWEEN 9 AND 13 ORDER BY 2, 1;

-- Triggers: before, after, per row, per statement, with transition tables, INSTEAD OF.
CREATE TABLE journal (entry int GENERATED ALWAYS AS IDENTITY, what text) USING heap;
CREATE TABLE tr (id int PRIMARY KEY, n int, note text);
INSERT INTO tr SELECT i, i, 'old' FROM generate_series(1, 10) i;
CREATE FUNCTION per_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO journal (what) VALUES (format('%s %s %s: %s -> %s', TG_NAME, TG_WHEN, TG_OP,
        CASE WHEN TG_OP <> 'INSERT' THEN old.* END, CASE WHEN TG_OP <> 'DELETE' THEN new.* END));
    IF TG_OP = 'DELETE' THEN RETURN old; END IF;
    IF TG_WHEN = 'BEFORE' THEN new.note := new.note || '+'; END IF;
    RETURN new;
END $$;
CREATE FUNCTION per_statement() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE was text; is_now text;
BEGIN
    IF TG_WHEN = 'AFTER' AND TG_OP <> 'INSERT' THEN SELECT string_agg(o::text, ' ' ORDER BY id) FROM olds o INTO was; END IF;
    IF TG_WHEN = 'AFTER' AND TG_OP <> 'DELETE' THEN SELECT string_agg(n::text, ' ' ORDER BY id) FROM news n INTO is_now; END IF;
    INSERT INTO journal (what) VALUES (format('%s %s: [%s] -> [%s]', TG_WHEN, TG_OP, was, is_now));
    RETURN NULL;
END $$;
CREATE TRIGGER rows_before BEFORE INSERT OR UPDATE OR DELETE ON tr FOR EACH ROW EXECUTE FUNCTION per_row();
CREATE TRIGGER rows_after AFTER INSERT OR UPDATE OR DELETE ON tr FOR EACH ROW EXECUTE FUNCTION per_row();
CREATE TRIGGER before_all BEFORE INSERT OR UPDATE OR DELETE ON tr FOR EACH STATEMENT EXECUTE FUNCTION per_statement();
CREATE TRIGGER after_insert AFTER INSERT ON tr REFERENCING NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION per_statement();
CREATE TRIGGER after_update AFTER UPDATE ON tr REFERENCING OLD TABLE AS olds NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION per_statement();
CREATE TRIGGER after_delete AFTER DELETE ON tr REFERENCING OLD TABLE AS olds FOR EACH STATEMENT EXECUTE FUNCTION per_statement();
SELECT all_cold('tr');
UPDATE tr SET n = n + 100 WHERE id = 1;
DELETE FROM tr WHERE id = 2;
INSERT INTO tr VALUES (3, 300, 'conflict') ON CONFLICT (id) DO UPDATE SET n = excluded.n;
MERGE INTO tr USING (VALUES (4), (5), (50)) s (id) ON tr.id = s.id
    WHEN MATCHED AND s.id = 4 THEN UPDATE SET n = -4 WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0, 'merged');
WITH a AS (UPDATE tr SET n = 0 WHERE id = 6), b AS (DELETE FROM tr WHERE id = 7) UPDATE tr SET n = 0 WHERE id = 8;
SELECT what FROM journal ORDER BY entry;
TRUNCATE journal;
CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON tr DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION per_row();
BEGIN;
UPDATE tr SET n = 9 WHERE id = 9;
DELETE FROM tr WHERE id = 9;
UPDATE tr SET n = 10 WHERE id = 10;
SELECT count(*) FROM journal WHERE what LIKE 'late%';
COMMIT;
SELECT what FROM journal WHERE what LIKE 'late%' ORDER BY entry;
-- Before triggers that change the row themselves, refuse it, or delete it.
CREATE TABLE odd (id int PRIMARY KEY, n int);
INSERT INTO odd SELECT i, i FROM generate_series(1, 10) i;
CREATE FUNCTION meddling() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF old.id = 1 THEN RETURN NULL; END IF;
    IF old.id = 2 THEN UPDATE odd SET n = 222 WHERE id = 2 AND n <> 222; END IF;
    IF old.id = 3 THEN DELETE FROM odd WHERE id = 3; END IF;
    IF TG_OP = 'DELETE' THEN RETURN old; END IF;
    RETURN new;
END $$;
CREATE TRIGGER meddling BEFORE UPDATE OF n ON odd FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION meddling();
CREATE TRIGGER meddling_too BEFORE DELETE ON odd FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION meddling();
UPDATE odd SET n = -1 WHERE id = 1 RETURNING *;
UPDATE odd SET n = -2 WHERE id = 2 RETURNING *;
UPDATE odd SET n = -3 WHERE id = 3 RETURNING *;
DELETE FROM odd WHERE id = 2 RETURNING *;
DELETE FROM odd WHERE id = 3 RETURNING *;
SELECT * FROM odd WHERE id < 5 ORDER BY id;

-- Views: automatically updatable, with rules, with INSTEAD OF triggers, with check options.
CREATE TABLE base (id int PRIMARY KEY, n int, owner text DEFAULT 'me');
INSERT INTO base SELECT i, i FROM generate_series(1, 20) i;
CREATE VIEW simple AS SELECT id, n FROM base WHERE n < 15 WITH CHECK OPTION;
UPDATE simple SET n = 10 WHERE id = 1 RETURNING *;
UPDATE simple SET n = 20 WHERE id = 2;
UPDATE simple SET n = 1 WHERE id = 16 RETURNING *;
DELETE FROM simple WHERE id = 3 RETURNING *;
MERGE INTO simple v USING (VALUES (4, 0)) s (id, n) ON v.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n RETURNING merge_action(), v.*;
CREATE VIEW ruled AS SELECT id, n FROM base;
CREATE RULE no_delete AS ON DELETE TO ruled DO INSTEAD UPDATE base SET owner = 'deleted' WHERE id = old.id;
CREATE RULE also AS ON UPDATE TO ruled DO INSTEAD (UPDATE base SET n = new.n WHERE id = old.id; UPDATE base SET owner = 'ruled' WHERE id = old.id RETURNING id, n);
DELETE FROM ruled WHERE id = 5;
UPDATE ruled SET n = 66 WHERE id = 6 RETURNING *;
CREATE VIEW joined AS SELECT a.id, a.n, b.n AS m FROM base a JOIN base b ON b.id = a.id + 1;
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN UPDATE base SET n = new.n WHERE id = old.id; UPDATE base SET n = new.m WHERE id = old.id + 1; RETURN new; END $$;
CREATE TRIGGER instead INSTEAD OF UPDATE ON joined FOR EACH ROW EXECUTE FUNCTION instead();
UPDATE joined SET n = -1, m = -2 WHERE id = 7 RETURNING *;
SELECT * FROM base WHERE id < 9 OR n < 2 ORDER BY id;

-- Foreign keys in both directions, with every action.
CREATE TABLE referred (id int PRIMARY KEY, note text);
INSERT INTO referred SELECT i, 'r' FROM generate_series(1, 60) i;
CREATE TABLE on_nothing (id int, r int REFERENCES referred);
CREATE TABLE on_restrict (id int, r int REFERENCES referred ON DELETE RESTRICT ON UPDATE RESTRICT);
CREATE TABLE on_cascade (id int PRIMARY KEY, r int REFERENCES referred ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE on_null (id int, r int REFERENCES referred ON DELETE SET NULL ON UPDATE SET NULL);
CREATE TABLE on_default (id int, r int DEFAULT 60 REFERENCES referred ON DELETE SET DEFAULT ON UPDATE SET DEFAULT);
CREATE TABLE further (id int, c int REFERENCES on_cascade ON DELETE CASCADE);
INSERT INTO on_nothing SELECT i, i FROM generate_series(1, 10) i;
INSERT INTO on_restrict SELECT i, i FROM generate_series(11, 20) i;
INSERT INTO on_cascade SELECT i, i FROM generate_series(21, 30) i;
INSERT INTO on_null SELECT i, i FROM generate_series(31, 40) i;
INSERT INTO on_default SELECT i, i FROM generate_series(41, 50) i;
INSERT INTO further SELECT i, i FROM generate_series(21, 30) i;
SELECT all_cold('referred'), all_cold('on_cascade'), all_cold('further');
INSERT INTO on_nothing VALUES (61, 61);
DELETE FROM referred WHERE id = 1;
UPDATE referred SET id = 101 WHERE id = 2;
UPDATE referred SET note = 'kept' WHERE id = 2;
DELETE FROM referred WHERE id = 11;
UPDATE referred SET id = 112 WHERE id = 12;
DELETE FROM referred WHERE id IN (21, 22);
UPDATE referred SET id = id + 100 WHERE id IN (23, 24);
DELETE FROM referred WHERE id = 31;
UPDATE referred SET id = 132 WHERE id = 32;
DELETE FROM referred WHERE id = 41;
UPDATE referred SET id = 142 WHERE id = 42;
DELETE FROM referred WHERE id = 60;
DELETE FROM on_nothing WHERE r = 1;
DELETE FROM referred WHERE id = 1 RETURNING id;
UPDATE on_nothing SET r = 999 WHERE id = 3;
UPDATE on_nothing SET r = 59 WHERE id = 3;
SELECT 'cascade', id, r FROM on_cascade WHERE id < 26 UNION ALL SELECT 'null', id, r FROM on_null WHERE id < 34
    UNION ALL SELECT 'default', id, r FROM on_default WHERE id < 44 UNION ALL SELECT 'further', id, c FROM further WHERE id < 26 ORDER BY 1, 2;
-- A row that refers to others of its own table.
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree ON DELETE CASCADE DEFERRABLE);
INSERT INTO tree SELECT i, NULLIF(i / 2, 0) FROM generate_series(1, 63) i;
DELETE FROM tree WHERE id = 3;
SELECT count(*), sum(id) FROM tree;
-- Deferred.
ALTER TABLE on_nothing ALTER CONSTRAINT on_nothing_r_fkey DEFERRABLE INITIALLY DEFERRED;
BEGIN;
DELETE FROM referred WHERE id = 4;
INSERT INTO referred VALUES (4, 'again');
COMMIT;
BEGIN;
INSERT INTO on_nothing VALUES (200, 200);
UPDATE on_nothing SET id = 201 WHERE id = 200;
INSERT INTO referred VALUES (200, 'late');
UPDATE referred SET note = 'later' WHERE id = 200;
COMMIT;
BEGIN;
INSERT INTO on_nothing SELECT i, i FROM generate_series(300, 320) i;
UPDATE on_nothing SET r = 5 WHERE r >= 300;
COMMIT;
BEGIN;
UPDATE on_nothing SET r = 400 WHERE id = 6;
DELETE FROM referred WHERE id = 7;
COMMIT;
BEGIN;
UPDATE on_nothing SET r = 400 WHERE id = 6;
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
SELECT count(*), sum(r) FROM on_nothing;
SELECT count(*), sum(id) FROM referred;

-- Unique, deferrable unique, exclusion and period constraints.
CREATE TABLE u (id int UNIQUE DEFERRABLE, n int UNIQUE NULLS NOT DISTINCT, during int4range, EXCLUDE USING gist (during WITH &&));
INSERT INTO u SELECT i, i, int4range(i * 10, i * 10 + 5) FROM generate_series(1, 100) i;
\if :cold
    CALL howdah.compact('u');
\endif
SELECT all_cold('u');
UPDATE u SET id = id + 1;
UPDATE u SET id = 50 WHERE id = 60;
UPDATE u SET n = 50 WHERE n = 60;
UPDATE u SET n = NULL WHERE n = 61;
UPDATE u SET n = NULL WHERE n = 62;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE u SET id = 50 WHERE id = 60;
UPDATE u SET id = 60 WHERE id = 50 AND n = 49;
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO u VALUES (51, 1000, NULL);
COMMIT;
UPDATE u SET during = '[20,23)' WHERE n = 2;
UPDATE u SET during = '[21,32)' WHERE n = 2;
UPDATE u SET during = '[26,29)' WHERE n = 2;
INSERT INTO u VALUES (1001, 1001, '[52,53)');
INSERT INTO u VALUES (1001, 1001, '[52,53)') ON CONFLICT DO NOTHING;
INSERT INTO u VALUES (1001, 1001, '[21,22)');
SELECT count(*), sum(id), sum(n) FROM u;
CREATE TABLE periods (id int4range, valid daterange, PRIMARY KEY (id, valid WITHOUT OVERLAPS));
INSERT INTO periods SELECT int4range(i, i + 1), daterange(date '2020-01-01' + i, date '2020-02-01' + i) FROM generate_series(1, 50) i;
CREATE TABLE within_period (id int4range, valid daterange, FOREIGN KEY (id, PERIOD valid) REFERENCES periods (id, PERIOD valid));
\if :cold
    CALL howdah.compact('periods');
\endif
SELECT all_cold('periods');
INSERT INTO within_period VALUES ('[5,6)', '[2020-01-10,2020-01-12)');
INSERT INTO within_period VALUES ('[5,6)', '[2019-01-10,2020-01-12)');
INSERT INTO periods VALUES ('[6,7)', '[2020-01-20,2020-01-21)');
UPDATE periods SET id = '[7,8)' WHERE id = '[6,7)';
UPDATE periods SET valid = '[2020-01-07,2020-01-11)' WHERE id = '[5,6)';
UPDATE periods SET valid = '[2020-01-07,2020-01-14)' WHERE id = '[5,6)';
DELETE FROM periods WHERE id = '[5,6)';
SELECT * FROM periods WHERE id < '[8,9)' ORDER BY id;

-- Generated and identity columns, defaults, domains, checks, not null.
CREATE DOMAIN small AS int CHECK (VALUE < 1000);
CREATE TABLE g (id int GENERATED BY DEFAULT AS IDENTITY, a int NOT NULL, s small, double int GENERATED ALWAYS AS (a * 2) STORED,
    virtual int GENERATED ALWAYS AS (a * 3) VIRTUAL, CHECK (a < 500));
CREATE INDEX ON g (double);
INSERT INTO g (a, s) SELECT i, i FROM generate_series(1, 100) i;
SELECT all_cold('g');
UPDATE g SET a = a + 100 WHERE id = 1 RETURNING *;
UPDATE g SET a = 500 WHERE id = 2;
UPDATE g SET a = NULL WHERE id = 2;
UPDATE g SET s = 1000 WHERE id = 2;
UPDATE g SET double = 5 WHERE id = 2;
UPDATE g SET id = DEFAULT, s = DEFAULT WHERE id = 3 RETURNING *;
UPDATE g SET a = 0 WHERE double = 20 RETURNING *;
DELETE FROM g WHERE virtual = 33 RETURNING *;
ALTER TABLE g ADD COLUMN later text DEFAULT 'later', DROP COLUMN s;
UPDATE g SET a = 1 WHERE id BETWEEN 20 AND 22 RETURNING id, double, virtual, later;
SELECT count(*), sum(a), sum(double), sum(virtual), count(later) FROM g;

-- Row security and privileges.
CREATE ROLE cold_rows_reader;
CREATE TABLE secret (id int PRIMARY KEY, owner text, open text, hidden text DEFAULT 'h');
INSERT INTO secret SELECT i, CASE WHEN i % 2 = 0 THEN 'cold_rows_reader' ELSE 'other' END, 'o' || i FROM generate_series(1, 20) i;
GRANT USAGE ON SCHEMA cold_rows TO cold_rows_reader;
GRANT SELECT (id, owner, open), UPDATE (open, owner), DELETE ON secret TO cold_rows_reader;
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secret USING (owner = current_user);
SET ROLE cold_rows_reader;
UPDATE secret SET open = 'x' RETURNING id;
UPDATE secret SET open = 'x' WHERE id = 1 RETURNING id;
UPDATE secret SET hidden = 'x' WHERE id = 2;
UPDATE secret SET owner = 'other' WHERE id = 2;
UPDATE secret SET open = 'y' WHERE id = 2 RETURNING hidden;
SELECT id FROM secret WHERE id < 5 ORDER BY id FOR UPDATE;
DELETE FROM secret WHERE id < 5 RETURNING id;
RESET ROLE;
SELECT id, owner, open FROM secret WHERE id < 7 ORDER BY id;
DROP OWNED BY cold_rows_reader;
DROP ROLE cold_rows_reader;

-- Materialized views refreshed row by row.
CREATE TABLE source (id int PRIMARY KEY, n int);
INSERT INTO source SELECT i, i FROM generate_series(1, 500) i;
CREATE MATERIALIZED VIEW mv AS SELECT id, n FROM source;
CREATE UNIQUE INDEX ON mv (id);
SELECT all_cold('mv');
UPDATE source SET n = -n WHERE id % 50 = 0;
DELETE FROM source WHERE id % 70 = 0;
INSERT INTO source VALUES (1000, 0);
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT count(*), sum(n) FROM mv;
SELECT count(*) FROM mv FULL JOIN source USING (id, n) WHERE mv.id IS NULL OR source.id IS NULL;
-- DDL over marked rows.
DELETE FROM source WHERE id % 3 = 0;
UPDATE source SET n = n + 1 WHERE id % 3 = 1;
CREATE INDEX ON source (n);
ALTER TABLE source ADD COLUMN extra int DEFAULT 5;
UPDATE source SET extra = 6 WHERE id % 9 = 1;
SET enable_seqscan = off;
SELECT count(*), sum(n), sum(extra) FROM source WHERE n > -1000;
RESET enable_seqscan;
DROP MATERIALIZED VIEW mv;
ALTER TABLE source ALTER n TYPE bigint;
DELETE FROM source WHERE n = 3;
ALTER TABLE source ADD CHECK (n < 501), ADD UNIQUE (n, id);
ALTER TABLE source ADD CHECK (n < 500);
VACUUM FULL source;
UPDATE source SET extra = 7 WHERE id = 100;
CLUSTER source USING source_pkey;
DELETE FROM source WHERE id BETWEEN 100 AND 150;
REINDEX TABLE source;
ANALYZE source;
SELECT count(*), sum(id), sum(n), sum(extra) FROM source;
COPY (SELECT * FROM source WHERE id < 12 ORDER BY id) TO STDOUT;
TRUNCATE source;
INSERT INTO source SELECT i, i FROM generate_series(1, 10) i;
BEGIN;
DELETE FROM source WHERE id = 1;
TRUNCATE source;
INSERT INTO source SELECT i, i FROM generate_series(1, 10) i;
UPDATE source SET n = 2 WHERE id = 2;
ROLLBACK;
SELECT count(*), sum(n) FROM source;
-- Emptied in place, by the transaction that made it: numbers begin anew, and nothing is remembered.
BEGIN;
CREATE TABLE refilled (id int PRIMARY KEY, n int);
INSERT INTO refilled SELECT i, i FROM generate_series(1, 600) i;
SELECT count(*), sum(n) FROM refilled;
UPDATE refilled SET n = 0 WHERE id = 500 RETURNING n;
SELECT n FROM refilled WHERE id = 500;
DELETE FROM refilled WHERE id < 500;
SELECT count(*), sum(n) FROM refilled;
TRUNCATE refilled;
SELECT count(*), sum(n) FROM refilled;
SELECT n FROM refilled WHERE id = 500;
INSERT INTO refilled SELECT i, i + 1 FROM generate_series(1, 600) i;
SELECT count(*), sum(n) FROM refilled;
SELECT n FROM refilled WHERE id = 500 FOR UPDATE;
UPDATE refilled SET n = 1 WHERE id = 500 RETURNING n;
UPDATE refilled SET n = n + 1 WHERE id = 500 RETURNING n;
COMMIT;
SELECT count(*), sum(n), max(n) FILTER (WHERE id = 500) FROM refilled;
-- All rows changed, read to the end by many statements, some with older snapshots.
UPDATE refilled SET n = -n;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*), sum(n) FROM refilled;
DECLARE c CURSOR FOR SELECT count(*), sum(n) FROM refilled;
UPDATE refilled SET n = n - 1;
SELECT count(*), sum(n) FROM refilled;
FETCH c;
SAVEPOINT a;
DELETE FROM refilled;
SELECT count(*), sum(n) FROM refilled;
ROLLBACK TO a;
SELECT count(*), sum(n) FROM refilled;
COMMIT;
SELECT count(*), sum(n) FROM refilled;
INSERT INTO refilled SELECT i, i FROM generate_series(601, 900) i;
SELECT count(*), sum(n) FROM refilled;
DELETE FROM refilled WHERE id > 600;
SELECT count(*), sum(n) FROM refilled;
SELECT count(*), sum(n) FROM refilled;

-- Rows that the same transaction has loaded.
BEGIN;
CREATE TABLE young (id int PRIMARY KEY, n int);
INSERT INTO young SELECT i, i FROM generate_series(1, 2000) i;
UPDATE young SET n = 0 WHERE id <= 10;
DELETE FROM young WHERE id BETWEEN 11 AND 1500;
SAVEPOINT a;
INSERT INTO young SELECT i, i FROM generate_series(11, 20) i;
DELETE FROM young WHERE id > 15;
SELECT count(*), sum(n) FROM young;
ROLLBACK TO a;
SELECT count(*), sum(n) FROM young;
SELECT id FROM young WHERE id = 1501 FOR UPDATE;
MERGE INTO young USING (VALUES (1501), (1)) s (id) ON young.id = s.id WHEN MATCHED AND n = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET n = -1;
COMMIT;
SELECT count(*), sum(n) FROM young;

-- Two-phase commit.
BEGIN;
UPDATE young SET n = 7 WHERE id = 1600;
SELECT id FROM young WHERE id = 1602 FOR UPDATE;
DELETE FROM young WHERE id BETWEEN 1700 AND 1800;
PREPARE TRANSACTION 'cold_rows';
SELECT n FROM young WHERE id = 1600;
SELECT id FROM young WHERE id IN (1600, 1601, 1602, 1750) FOR UPDATE SKIP LOCKED;
SELECT id FROM young WHERE id = 1600 FOR KEY SHARE NOWAIT;
SELECT id FROM young WHERE id = 1602 FOR KEY SHARE NOWAIT;
COMMIT PREPARED 'cold_rows';
SELECT count(*), sum(n) FROM young;
BEGIN;
DELETE FROM young;
PREPARE TRANSACTION 'cold_rows';
SELECT count(*), sum(n) FROM young;
ROLLBACK PREPARED 'cold_rows';
DELETE FROM young WHERE id = 1603 RETURNING id;

-- REPEATABLE READ and SERIALIZABLE, alone.
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE young SET n = 8 WHERE id = 1600 RETURNING n;
DELETE FROM young WHERE id = 1600 RETURNING n;
SELECT count(*) FROM young;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
UPDATE young SET n = 8 WHERE id = 1601 RETURNING n;
SELECT count(*), sum(n) FROM young;
COMMIT;
DROP SCHEMA cold_rows CASCADE;
