-- Of a cold row that is locked, or that conflicts with a new one, only the columns are read that
-- something looks at.
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS locked_columns CASCADE;
CREATE SCHEMA locked_columns;
SET search_path = locked_columns, public;
SET max_parallel_workers_per_gather = 0;
RESET client_min_messages;

CREATE TABLE t (id int PRIMARY KEY, k int, a text, b text, c text, d text, e text, f text, g text, h text, i text,
    s text NOT NULL, n numeric, j jsonb, r int4range, EXCLUDE USING gist (r WITH &&)) USING howdah;
CREATE TABLE h (LIKE t INCLUDING ALL) USING heap;
CREATE UNIQUE INDEX t_s ON t (lower(s)) INCLUDE (k) WHERE n > 0;
CREATE UNIQUE INDEX h_s ON h (lower(s)) INCLUDE (k) WHERE n > 0;
SET howdah.debug_force_cold = on;
INSERT INTO t SELECT x, x % 7, md5('a' || x), md5('b' || x), md5('c' || x), md5('d' || x), md5('e' || x), md5('f' || x),
    md5('g' || x), md5('h' || x), md5('i' || x), 'S' || x, x / 8.0, jsonb_build_object('x', x), int4range(x * 10, x * 10 + 5)
    FROM generate_series(1, 3000) x;
RESET howdah.debug_force_cold;
INSERT INTO h SELECT * FROM t;
VACUUM ANALYZE t, h;

-- Pages of a row of nine texts, each of which lies elsewhere.
CREATE TABLE wide (id int PRIMARY KEY, a text, b text, c text, d text, e text, f text, g text, h text, i text NOT NULL) USING howdah;
SET howdah.load_threshold = 0;
INSERT INTO wide SELECT x, md5('a' || x), md5('b' || x), md5('c' || x), md5('d' || x), md5('e' || x), md5('f' || x),
    md5('g' || x), md5('h' || x), md5('i' || x) FROM generate_series(1, 20000) x;
RESET howdah.load_threshold;
VACUUM ANALYZE wide;
CREATE FUNCTION pages(command text, id int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    -- What a session knows of the group is not counted.
    EXECUTE format(command, 1);
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || format(command, id) INTO plan;
    RETURN (plan #>> '{0,Plan,Shared Hit Blocks}')::int + (plan #>> '{0,Plan,Shared Read Blocks}')::int;
END $$;
BEGIN;
SELECT pages('SELECT FROM wide WHERE id = %s', 1500) < 6 AS none, pages('SELECT wide FROM wide WHERE id = %s', 2500) > 9 AS whole;
SELECT pages('SELECT FROM wide WHERE id = %s FOR UPDATE', 3500) < 7 AS one,
    pages('SELECT FROM wide WHERE id = %s FOR KEY SHARE', 4500) < 7 AS one,
    pages('SELECT * FROM wide WHERE id = %s FOR UPDATE', 5500) > 9 AS whole,
    pages('INSERT INTO wide (id, i) VALUES (%s, '''') ON CONFLICT DO NOTHING', 6500) < 7 AS one,
    pages('INSERT INTO wide (id, i) VALUES (%s, '''') ON CONFLICT (id) DO UPDATE SET a = wide.i', 7500) >= 15 AS whole;
ROLLBACK;

-- Answers.
CREATE TABLE commands (n int GENERATED ALWAYS AS IDENTITY, command text);
INSERT INTO commands (command) VALUES
    ('INSERT INTO @ (id, s) VALUES (5, ''x'') ON CONFLICT DO NOTHING'),
    ('INSERT INTO @ (id, k, s, n) VALUES (9005, 1, ''s7'', 1) ON CONFLICT DO NOTHING'),
    ('INSERT INTO @ (id, k, s, n) VALUES (9006, 1, ''s7'', 1) ON CONFLICT (lower(s)) WHERE n > 0 DO UPDATE SET k = @.k + 100, b = @.c RETURNING @.*'),
    ('INSERT INTO @ (id, s, r) VALUES (9007, ''range'', ''[77,78)''), (9008, ''range'', ''[57,59)''), (9009, ''range'', ''[34,36)'') ON CONFLICT DO NOTHING RETURNING id'),
    ('INSERT INTO @ (id, s, r) VALUES (9010, ''range'', ''[77,83)'')'),
    ('INSERT INTO @ (id, s) SELECT x, ''many'' FROM generate_series(2900, 3100, 10) x ON CONFLICT (id) DO UPDATE SET s = @.a || @.i, j = @.j || ''{"y": 1}'', n = @.n + 1 WHERE @.k > 2 RETURNING id, k, a, s, n, j, r'),
    ('INSERT INTO @ (id, s) VALUES (11, ''again''), (11, ''again'') ON CONFLICT (id) DO NOTHING'),
    ('INSERT INTO @ (id, s) VALUES (12, ''again''), (12, ''again'') ON CONFLICT (id) DO UPDATE SET a = excluded.s'),
    ('INSERT INTO @ (id, s, n) SELECT 8000 + x, ''S'' || x, 1 FROM generate_series(2990, 3010) x ON CONFLICT DO NOTHING RETURNING id'),
    ('INSERT INTO @ (id, s) VALUES (13, ''x'')'),
    ('UPDATE @ SET id = 15 WHERE id = 14'),
    ('WITH l AS MATERIALIZED (SELECT id, a FROM @ WHERE k = 3 AND n < 50 FOR UPDATE) UPDATE @ SET a = l.a || ''!'' FROM l WHERE l.id = @.id RETURNING @.id, @.a, @.i'),
    ('SELECT id, e FROM @ WHERE k = 4 AND id < 100 ORDER BY h LIMIT 5 FOR NO KEY UPDATE SKIP LOCKED'),
    ('MERGE INTO @ USING (VALUES (20), (9020)) v(id) ON v.id = @.id WHEN MATCHED THEN UPDATE SET a = @.b WHEN NOT MATCHED THEN INSERT (id, s) VALUES (v.id, ''merged'') RETURNING @.*');
CREATE FUNCTION answer(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    line record;
    lines text := '';
BEGIN
    IF command !~ 'RETURNING|SELECT id, e' THEN
        EXECUTE command;
        RETURN 'done';
    END IF;
    FOR line IN EXECUTE command LOOP
        lines := lines || line::text;
    END LOOP;
    RETURN lines;
EXCEPTION WHEN OTHERS THEN
    RETURN regexp_replace(SQLERRM || sqlstate, '\m[th](_|")', '@\1', 'g');
END $$;
SELECT n, length(t) AS length, t = h AS is_equal, left(t, 60) AS beginning
    FROM (SELECT n, answer(replace(command, '@', 't')) AS t, answer(replace(command, '@', 'h')) AS h FROM commands ORDER BY n) a;
SELECT count(*) FROM ((TABLE t EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE t)) d;

-- Statements of a trigger run while their statement looks for conflicts.
CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT a FROM %I WHERE id = $1 + 1 FOR UPDATE', tg_table_name) INTO NEW.b USING NEW.id;
    EXECUTE format('INSERT INTO %I (id, s) VALUES ($1 + 2, ''inner'') ON CONFLICT (id) DO UPDATE SET c = %I.d || ''i''',
        tg_table_name, tg_table_name) USING NEW.id;
    RETURN NEW;
END $$;
CREATE TRIGGER looks BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.s = 'outer') EXECUTE FUNCTION looks();
CREATE TRIGGER looks BEFORE INSERT ON h FOR EACH ROW WHEN (NEW.s = 'outer') EXECUTE FUNCTION looks();
INSERT INTO t (id, s) SELECT x, 'outer' FROM generate_series(100, 1100, 100) x
    ON CONFLICT (id) DO UPDATE SET a = t.b || excluded.b, h = t.c;
INSERT INTO h (id, s) SELECT x, 'outer' FROM generate_series(100, 1100, 100) x
    ON CONFLICT (id) DO UPDATE SET a = h.b || excluded.b, h = h.c;
SELECT count(*) FROM ((TABLE t EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE t)) d;
SELECT count(*), count(DISTINCT a), count(*) FILTER (WHERE c LIKE '%i') FROM t;

-- A lock is given back once a mark replaces it: that of a BEFORE trigger, of ON CONFLICT, of FOR UPDATE.
CREATE TABLE marked (id int PRIMARY KEY, a int, b int) USING howdah;
SET howdah.debug_force_cold = on;
INSERT INTO marked SELECT x, 0, 0 FROM generate_series(1, 5000) x;
RESET howdah.debug_force_cold;
ANALYZE marked;
CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF tg_op = ''DELETE'' THEN RETURN OLD; END IF; RETURN NEW; END';
CREATE TRIGGER same BEFORE UPDATE OR DELETE ON marked FOR EACH ROW EXECUTE FUNCTION same();
CREATE VIEW row_locks AS SELECT count(*) FROM pg_locks WHERE locktype = 'tuple' AND pid = pg_backend_pid() AND relation = 'marked'::regclass;
BEGIN;
UPDATE marked SET a = 1 WHERE id <= 200;
UPDATE marked SET id = id + 10000 WHERE id BETWEEN 201 AND 230;
DELETE FROM marked WHERE id BETWEEN 301 AND 330;
INSERT INTO marked SELECT x, 1, 1 FROM generate_series(401, 430) x ON CONFLICT (id) DO UPDATE SET a = 2;
MERGE INTO marked USING generate_series(501, 530) x ON x = id WHEN MATCHED THEN UPDATE SET b = 3;
SELECT count < 5 AS few FROM row_locks;
-- Not before the subtransaction that has changed the row ends.
SELECT id FROM marked WHERE id = 600 FOR UPDATE;
SAVEPOINT a;
UPDATE marked SET a = 4 WHERE id = 600;
SELECT id FROM marked WHERE id = 601 FOR UPDATE;
UPDATE marked SET a = 4 WHERE id = 601;
SELECT count BETWEEN 1 AND 5 AS kept FROM row_locks;
ROLLBACK TO a;
SELECT count BETWEEN 1 AND 5 AS kept FROM row_locks;
SELECT id FROM marked WHERE id = 600 FOR UPDATE;
UPDATE marked SET a = 5 WHERE id = 600;
COMMIT;
SELECT a, b, count(*) FROM marked GROUP BY 1, 2 ORDER BY 1, 2;

SET client_min_messages = warning;
DROP SCHEMA locked_columns CASCADE;
