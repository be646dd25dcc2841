-- In which order compaction writes rows: that of the primary key, where the table's rows have it.
CREATE SCHEMA key_order;
SET search_path = key_order, public;
SET howdah.bulk_load = off;

-- Rows of a table that do not follow the one before, by a column.
CREATE FUNCTION descents(t regclass, by name) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    EXECUTE format('SELECT count(*) FILTER (WHERE v < before) FROM
        (SELECT %I AS v, lag(%1$I) OVER (ORDER BY ctid) AS before FROM %s) x', by, t) INTO n;
    RETURN n;
END $$;
-- New versions in no order, each by a command of its own.
CREATE PROCEDURE scatter(t regclass, every int) LANGUAGE plpgsql AS $$
DECLARE k bigint;
BEGIN
    FOR k IN EXECUTE format('SELECT id FROM %s WHERE id %% %s = 0 ORDER BY hashint8(id)', t, every) LOOP
        EXECUTE format('UPDATE %s SET n = n + 1 WHERE id = $1', t) USING k;
    END LOOP;
END $$;
CREATE VIEW groups AS
    SELECT relation, row_groups FROM howdah.tables WHERE relation::text !~ '\.';

-- Hot rows of which some are new versions at the table's end.
CREATE TABLE part (id bigint PRIMARY KEY, n int, word text) USING howdah;
INSERT INTO part SELECT i, 0, 'w' || i % 7 FROM generate_series(1, 20000) i;
CALL scatter('part', 5);
SELECT descents('part', 'id') > 1000 AS scattered;
VACUUM part;
CALL howdah.compact('part');
SELECT descents('part', 'id'), count(*), sum(n), count(DISTINCT id) FROM part;

-- Rows at hand that are new versions only: what the table has already decides. The group that has
-- lost few of its rows stays.
CREATE TABLE whole (id bigint PRIMARY KEY, n int, word text) USING howdah;
INSERT INTO whole SELECT i, 0, 'w' || i % 7 FROM generate_series(1, 80000) i;
CALL howdah.compact('whole');
CALL scatter('whole', 20);
VACUUM whole;
CALL howdah.compact('whole');
SELECT descents('whole', 'id') < row_groups AS in_order, row_groups FROM groups WHERE relation = 'whole'::regclass;
SELECT count(*), sum(n), count(DISTINCT id) FROM whole;
SET enable_seqscan = off;
SELECT sum(n), count(*) FROM whole WHERE id BETWEEN 12345 AND 12444;
RESET enable_seqscan;
-- As often as it is done.
CALL scatter('whole', 7);
VACUUM whole;
CALL howdah.compact('whole');
SELECT descents('whole', 'id') < row_groups AS in_order FROM groups WHERE relation = 'whole'::regclass;
SELECT count(*), sum(n), count(DISTINCT id) FROM whole;

-- Behind a dropped column, of text, deferrable, of two columns of which one repeats.
CREATE TABLE odd (gone int, word text, id bigint, n int,
    PRIMARY KEY (word, id) DEFERRABLE INITIALLY DEFERRED) USING howdah;
ALTER TABLE odd DROP COLUMN gone;
INSERT INTO odd SELECT 'w' || lpad((i / 3)::text, 8, '0'), i, 0 FROM generate_series(1, 40000) i;
CALL howdah.compact('odd');
CALL scatter('odd', 10);
VACUUM odd;
CALL howdah.compact('odd');
SELECT descents('odd', 'word') < row_groups AS in_order FROM groups WHERE relation = 'odd'::regclass;
SELECT count(*), sum(n), count(DISTINCT id) FROM odd;

-- Keys in no order: rows stay as they came, and so do those that take turns, or have one first key.
CREATE TABLE hashed (id bigint PRIMARY KEY, came int, n int) USING howdah;
INSERT INTO hashed SELECT hashint8(i), i, 0 FROM generate_series(1, 40000) i ON CONFLICT DO NOTHING;
CALL howdah.compact('hashed');
SELECT descents('hashed', 'came'), descents('hashed', 'id') > 10000 AS by_chance;
INSERT INTO hashed SELECT hashint8(i), i, 0 FROM generate_series(40001, 80000) i ON CONFLICT DO NOTHING;
CALL howdah.compact('hashed');
SELECT descents('hashed', 'came');
CREATE TABLE turns (device int, at int, n int, PRIMARY KEY (device, at)) USING howdah;
INSERT INTO turns SELECT i % 1000, i / 1000, i FROM generate_series(0, 39999) i;
CALL howdah.compact('turns');
SELECT descents('turns', 'n');
CREATE TABLE tenants (tenant int, id bigint, came int, PRIMARY KEY (tenant, id)) USING howdah;
INSERT INTO tenants SELECT 1, hashint8(i), i FROM generate_series(1, 40000) i ON CONFLICT DO NOTHING;
CALL howdah.compact('tenants');
INSERT INTO tenants SELECT 1, hashint8(i), i FROM generate_series(40001, 60000) i ON CONFLICT DO NOTHING;
CALL howdah.compact('tenants');
SELECT descents('tenants', 'came');

-- What the owner says comes first; without a key rows stay as they are.
CREATE TABLE sorted (id bigint PRIMARY KEY, n int, word text) USING howdah;
SELECT howdah.set_options('sorted', sort_key => '{n}');
INSERT INTO sorted SELECT i, -i, 'w' FROM generate_series(1, 20000) i;
CALL howdah.compact('sorted');
SELECT descents('sorted', 'n'), descents('sorted', 'id');
CREATE TABLE keyless (id bigint UNIQUE, n int) USING howdah;
INSERT INTO keyless SELECT i, 0 FROM generate_series(1, 20000) i;
CALL scatter('keyless', 5);
VACUUM keyless;
CALL howdah.compact('keyless');
SELECT descents('keyless', 'id') > 1000 AS as_it_was;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA key_order CASCADE;
