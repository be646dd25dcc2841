-- Look-ups by index in a table with cold rows, and how they are planned: those that come in the order of the table are cheap, and so are few ones in any order.
CREATE SCHEMA lookup_joins;
SET search_path = lookup_joins, public;
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;
SET howdah.vectorized = off;
SET howdah.load_threshold = 0;
CREATE TABLE hp (id int PRIMARY KEY, day int NOT NULL) USING heap;
CREATE TABLE hl (pid int, nr int, a int NOT NULL, b int NOT NULL, PRIMARY KEY (pid, nr)) USING heap;
INSERT INTO hp SELECT i, hashint4(i) & 1023 FROM generate_series(1, 40000) i;
INSERT INTO hl SELECT i, nr, (hashint4(i) + nr) & 15, (hashint4(i) + nr * nr) & 15 FROM generate_series(1, 40000) i, generate_series(1, 4) nr WHERE i % 10 <> 3;
CREATE VIEW hshuffled AS TABLE hl;
CREATE TABLE p (LIKE hp INCLUDING INDEXES) USING howdah;
CREATE TABLE l (LIKE hl INCLUDING INDEXES) USING howdah;
CREATE TABLE shuffled (LIKE hl INCLUDING INDEXES) USING howdah;
INSERT INTO p TABLE hp ORDER BY id;
INSERT INTO l TABLE hl ORDER BY pid, nr;
INSERT INTO shuffled TABLE hl ORDER BY hashint4(pid), nr;
VACUUM ANALYZE hp, hl, p, l, shuffled;

EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE day < 50 AND EXISTS (SELECT FROM l WHERE pid = id AND a < b);
EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE day < 50 AND EXISTS (SELECT FROM shuffled WHERE pid = id AND a < b);
EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE EXISTS (SELECT FROM l WHERE pid = id AND a < b);
-- Few in any order, by a btree for one row and for some, for rows of a join as well.
EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE id < 200 AND EXISTS (SELECT FROM shuffled WHERE pid = id AND a < b);
EXPLAIN (COSTS OFF) SELECT sum(s.a) FROM p JOIN shuffled s ON s.pid = 1 + p.day AND s.nr = 2 WHERE id < 200;
EXPLAIN (COSTS OFF) SELECT sum(s.a) FROM p JOIN l ON l.pid = p.id JOIN shuffled s ON s.pid = 1 + p.day AND s.nr = l.nr WHERE p.id < 100;
-- For rows that were made distinct first.
EXPLAIN (COSTS OFF) SELECT sum(a) FROM shuffled WHERE pid IN (SELECT 1 + day FROM p WHERE id < 100);
-- A scan by column is what these would be otherwise.
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT sum(s.a) FROM p JOIN shuffled s ON s.pid = 1 + p.day AND s.nr = 2 WHERE id < 200;
RESET enable_nestloop;
-- A plan for any parameters scans by column. It does not replace those for few rows.
CREATE INDEX ON p (day); CREATE INDEX ON hp (day);
SET howdah.vectorized = on;
PREPARE days(int) AS SELECT sum(id) FROM p WHERE day < $1;
PREPARE hot_days(int) AS SELECT sum(id) FROM hp WHERE day < $1;
DO $$ BEGIN FOR i IN 1..8 LOOP EXECUTE format('EXECUTE days(%s)', i); END LOOP; END $$;
EXECUTE days(7); EXECUTE hot_days(7);
EXPLAIN (COSTS OFF) EXECUTE days(7);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE days(7);
RESET plan_cache_mode;
SET howdah.vectorized = off;

-- As on heap, in each kind of join.
CREATE FUNCTION alike(query text) RETURNS TABLE (same boolean, answer text) LANGUAGE plpgsql AS $$
DECLARE cold text; hot text;
BEGIN
    EXECUTE replace(query, '@', '') INTO cold;
    EXECUTE replace(query, '@', 'h') INTO hot;
    RETURN QUERY SELECT cold = hot, cold;
END $$;
-- In partitions: a price for one of them where the rest are pruned, one for each where none are; partitions that are heap's, and some of a level below.
CREATE TABLE parts (pid int, nr int, a int NOT NULL, b int NOT NULL, PRIMARY KEY (pid, nr)) PARTITION BY HASH (pid);
CREATE TABLE parts0 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 0) USING howdah;
CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 1) PARTITION BY LIST (nr);
CREATE TABLE parts1odd PARTITION OF parts1 FOR VALUES IN (1, 3) USING howdah;
CREATE TABLE parts1even PARTITION OF parts1 FOR VALUES IN (2, 4) USING heap;
CREATE TABLE parts2 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 2) USING howdah;
CREATE VIEW hparts AS TABLE hl;
INSERT INTO parts TABLE hl ORDER BY hashint4(pid), nr;
CREATE TABLE years (pid int, nr int, a int NOT NULL, b int NOT NULL, year int DEFAULT 1) USING howdah;
CREATE TABLE years2 () INHERITS (years) USING howdah;
CREATE INDEX ON years (pid, nr);
CREATE INDEX ON years2 (pid, nr);
CREATE VIEW hyears AS TABLE hl;
INSERT INTO years SELECT * FROM hl WHERE nr < 3 ORDER BY hashint4(pid);
INSERT INTO years2 SELECT * FROM hl WHERE nr > 2 ORDER BY hashint4(pid);
VACUUM ANALYZE parts, years, years2;
EXPLAIN (COSTS OFF) SELECT sum(s.a) FROM p JOIN parts s ON s.pid = 1 + p.day AND s.nr = 2 WHERE id < 200;
EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE id < 200 AND EXISTS (SELECT FROM parts WHERE pid = id AND a < b);
EXPLAIN (COSTS OFF) SELECT sum(s.a) FROM p JOIN years s ON s.pid = 1 + p.day WHERE id < 200;
SELECT * FROM alike('SELECT (count(*), sum(s.a), sum(s.b), sum(p.id)) FROM @p p JOIN @parts s ON s.pid = 1 + p.day WHERE id < 200');
SELECT * FROM alike('SELECT (count(*), sum(s.a), sum(s.b), sum(p.id)) FROM @p p LEFT JOIN @parts s ON s.pid = 1 + p.day AND s.nr = 1 + p.id % 5 WHERE id < 200');
SELECT * FROM alike('SELECT (count(*), sum(p.id)) FROM @p p WHERE id < 200 AND NOT EXISTS (SELECT FROM @parts WHERE pid = 1 + p.day AND a < b)');
SELECT * FROM alike('SELECT (count(*), sum(s.a), sum(s.b), sum(p.id)) FROM @p p JOIN @years s ON s.pid = 1 + p.day WHERE id < 200');
BEGIN;
UPDATE parts SET a = b WHERE nr = 2 AND pid < 2000; UPDATE hl SET a = b WHERE nr = 2 AND pid < 2000;
SELECT * FROM alike('SELECT (count(*), sum(s.a), sum(s.b), sum(p.id)) FROM @p p JOIN @parts s ON s.pid = 1 + p.day WHERE id < 200');
ROLLBACK;

SET enable_hashjoin = off;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(a) FROM p LEFT JOIN l ON pid = id AND a < b WHERE day < 50;
SELECT * FROM alike('SELECT (count(*), sum(id)) FROM @p WHERE day < 50 AND EXISTS (SELECT FROM @l WHERE pid = id AND a < b)');
SELECT * FROM alike('SELECT (count(*), sum(id)) FROM @p WHERE day < 50 AND NOT EXISTS (SELECT FROM @l WHERE pid = id AND a < b)');
SELECT * FROM alike('SELECT (count(*), sum(id), sum(a), count(b)) FROM @p LEFT JOIN @l ON pid = id AND a < b WHERE day < 50');
SELECT * FROM alike('SELECT (count(*), sum(id), sum(a), sum(b)) FROM @p JOIN @l ON pid = id WHERE day < 50');
SELECT * FROM alike('SELECT (count(*), sum(id), sum(a)) FROM @p JOIN @l ON pid = id AND nr = 1 + day % 4 WHERE day < 50');
SELECT * FROM alike('SELECT (count(*), sum(p.id), sum(l.a), sum(m.b)) FROM @p p JOIN @l l ON l.pid = p.id JOIN @l m ON m.pid = p.id AND m.nr = l.nr WHERE day < 50');
SELECT * FROM alike('SELECT (count(*), sum(s.a), sum(s.b), sum(p.id)) FROM @p p JOIN @shuffled s ON s.pid = 1 + p.day WHERE id < 200');
SELECT * FROM alike('SELECT (count(*), sum(p.id)) FROM @p p WHERE id < 200 AND NOT EXISTS (SELECT FROM @shuffled WHERE pid = 1 + p.day AND a < b)');
SELECT * FROM alike('SELECT (count(*), sum(a), sum(b), sum(pid)) FROM @shuffled WHERE pid IN (SELECT 1 + day FROM @p WHERE id < 100)');
SELECT * FROM alike('SELECT (count(*), sum(a), sum(b), sum(pid)) FROM @shuffled s WHERE (pid, nr) IN (SELECT 1 + day, 1 + id % 5 FROM @p WHERE id < 500)');
SELECT * FROM alike('SELECT (count(*), sum(x.id), sum(x.n)) FROM (SELECT id, (SELECT sum(a) FROM @l WHERE pid = id) n FROM @p WHERE day < 50) x');

-- Rows that were changed, in the transaction that changed them and after it; rows that are locked.
BEGIN;
UPDATE l SET a = b WHERE nr = 2; UPDATE hl SET a = b WHERE nr = 2; UPDATE parts SET a = b WHERE nr = 2;
DELETE FROM p WHERE id % 7 = 0; DELETE FROM hp WHERE id % 7 = 0;
SELECT * FROM alike('SELECT (count(*), sum(id)) FROM @p WHERE day < 50 AND EXISTS (SELECT FROM @l WHERE pid = id AND a < b)');
COMMIT;
SELECT * FROM alike('SELECT (count(*), sum(id)) FROM @p WHERE day < 50 AND EXISTS (SELECT FROM @l WHERE pid = id AND a < b)');
SELECT * FROM alike('SELECT (count(*), sum(id)) FROM (SELECT id FROM @p JOIN @l ON pid = id WHERE day < 20 FOR UPDATE) x');

-- Shared by workers.
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE day < 50 AND EXISTS (SELECT FROM l WHERE pid = id AND a < b);
SELECT * FROM alike('SELECT (count(*), sum(id)) FROM @p WHERE day < 50 AND EXISTS (SELECT FROM @l WHERE pid = id AND a < b)');
SELECT * FROM alike('SELECT (count(*), sum(id), sum(a), count(b)) FROM @p LEFT JOIN @l ON pid = id AND a < b WHERE day < 50');
SELECT * FROM alike('SELECT (count(*), sum(s.a), sum(s.b), sum(p.id)) FROM @p p JOIN @parts s ON s.pid = 1 + p.day WHERE id < 2000');
SELECT * FROM alike('SELECT (count(*), sum(p.id)) FROM @p p WHERE id < 2000 AND EXISTS (SELECT FROM @parts WHERE pid = p.id AND a < b)');

-- Switched off as nested loops are.
SET max_parallel_workers_per_gather = 0;
RESET enable_hashjoin;
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM p WHERE day < 50 AND EXISTS (SELECT FROM l WHERE pid = id AND a < b);
RESET enable_nestloop;
RESET enable_mergejoin;
-- Rows that were changed are looked for among hot ones, too.
SELECT * FROM alike('SELECT (count(*), sum(id)) FROM @p WHERE day < 50 AND EXISTS (SELECT FROM @l WHERE pid = id AND a < b)');

DROP SCHEMA lookup_joins CASCADE;
