-- What EXPLAIN says of Vectorized plans, and why a query has none.
CREATE SCHEMA vectorized_explain;
SET search_path = vectorized_explain, public;
SET default_table_access_method = howdah;
SET howdah.load_threshold = 0;
SET howdah.threads = 0;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE t (id int, grp int, w text COLLATE "C", x text COLLATE "en-x-icu", j jsonb, n numeric, ts timestamp, c char(3));
INSERT INTO t SELECT i, i % 10, 'w' || i % 3, 'x', '{}', i, '2020-01-01' FROM generate_series(1, 30000) i;
CREATE TABLE h (id int) USING heap;
INSERT INTO h SELECT generate_series(1, 100);
CREATE TABLE p (id int, k int) PARTITION BY LIST (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
INSERT INTO p SELECT i, i % 2 + 1 FROM generate_series(1, 40000) i;
CREATE FUNCTION mine(int) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN $1; END';
ANALYZE t, h, p;
-- Whether the query has such a plan, and what is said of the rest.
CREATE FUNCTION why(query text) RETURNS TABLE (vectorized boolean, reason text) LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    vectorized := false;
    FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
        vectorized := vectorized OR line LIKE '%(Vectorized)%';
        reason := coalesce(substring(line FROM '^ *Not Vectorized: (.*)'), reason);
    END LOOP;
    RETURN NEXT;
END $$;
CREATE TABLE query (id int GENERATED ALWAYS AS IDENTITY, text text) USING heap;
INSERT INTO query (text) VALUES
    ('SELECT grp, count(*) FROM t GROUP BY grp'),
    ('SELECT k, count(*) FROM p GROUP BY k'),
    ('SELECT * FROM t'),
    ('SELECT id FROM t ORDER BY id LIMIT 3 FOR UPDATE'),
    ('SELECT id FROM t ORDER BY id'),
    ('SELECT id FROM t ORDER BY id FETCH FIRST 3 ROWS WITH TIES'),
    ('SELECT id FROM t ORDER BY id LIMIT (SELECT 3)'),
    ('SELECT id FROM t ORDER BY x LIMIT 3'),
    ('SELECT count(*) FROM t JOIN h USING (id)'),
    ('SELECT grp, count(*) FROM t GROUP BY ROLLUP (grp)'),
    ('SELECT grp, count(*) OVER () FROM t'),
    ('SELECT grp, count(*), sum(count(*)) OVER () FROM t GROUP BY grp ORDER BY grp'),
    ('SELECT DISTINCT ON (grp) grp, id FROM t ORDER BY grp, id'),
    ('SELECT DISTINCT generate_series(1, grp) FROM t'),
    ('SELECT count(*) FROM t TABLESAMPLE SYSTEM (10)'),
    ('SELECT md5(w), count(*) FROM t GROUP BY 1'),
    ('SELECT grp, count(*) FROM t WHERE mine(id) > 3 GROUP BY 1'),
    ('SELECT grp, count(*) FROM t WHERE random() > 3 GROUP BY 1'),
    ('SELECT grp, count(DISTINCT id) FROM t GROUP BY 1'),
    ('SELECT grp, string_agg(w, '','') FROM t GROUP BY 1'),
    ('SELECT grp, stddev(n) FROM t GROUP BY 1'),
    ('SELECT grp, percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM t GROUP BY 1'),
    ('SELECT grp, jsonb_object_agg(w, id) FROM t GROUP BY 1'),
    ('SELECT grp, max(c) FROM t GROUP BY 1'),
    ('SELECT grp, GROUPING(grp) FROM t GROUP BY 1'),
    ('SELECT count(*) FROM t WHERE id = NULL'),
    ('SELECT (SELECT count(*) FROM t WHERE t.grp = h.id) FROM h'),
    ('SELECT (SELECT max(id) FROM t WHERE t.grp = 3) FROM h'),
    ('SELECT grp, count(*) FROM t WHERE id > (SELECT min(h.id) FROM h WHERE h.id > t.grp) GROUP BY 1'),
    ('SELECT grp, count(*) FROM t WHERE t::text <> '''' GROUP BY 1'),
    ('SELECT count(j->''a'') FROM t GROUP BY grp'),
    ('SELECT j, count(*) FROM t GROUP BY 1'),
    ('SELECT min(x) FROM t GROUP BY grp'),
    ('SELECT count(*) FROM t WHERE x < ''y'' GROUP BY grp'),
    ('SELECT count(*) FROM t WHERE ctid <> ''(0,1)'' GROUP BY grp'),
    ('SELECT tableoid, count(*) FROM p GROUP BY 1'),
    ('SELECT count(*) FROM t WHERE CASE WHEN id > 3 THEN true END GROUP BY grp'),
    ('SELECT (SELECT count(*) FROM p WHERE k = h.id) FROM h'),
    ('SELECT count(*) FROM h'),
    ('SELECT count(*) FROM t WHERE id = 3 AND grp = 3'),
    ('SELECT grp, count(*) FROM t GROUP BY grp UNION ALL SELECT id, count(random()) FROM t GROUP BY id'),
    ('SELECT s.grp FROM (SELECT grp, count(*) FROM t AS inside GROUP BY grp) s JOIN t AS outside USING (grp)');
SELECT id, text, vectorized, reason FROM query, why(text) ORDER BY id;
SET howdah.vectorized = off;
SELECT * FROM why('SELECT grp, count(*) FROM t GROUP BY grp');
RESET howdah.vectorized;
SET work_mem = '64kB';
SELECT * FROM why('SELECT id, grp, w, count(*) FROM t GROUP BY id, grp, w');
RESET work_mem;
-- A planning within a planning that ends with an error leaves no reason to the outer one.
CREATE FUNCTION fails_within() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    EXECUTE 'SELECT (SELECT count(*) FROM t GROUP BY ROLLUP (grp) LIMIT 1) WHERE 1 / 0 = 1';
    RETURN 1;
EXCEPTION WHEN division_by_zero THEN RETURN 3;
END $$;
SELECT * FROM why('SELECT grp, string_agg(w, '','') FROM t WHERE id > fails_within() GROUP BY 1');
SELECT * FROM why('SELECT grp, count(*) FROM t WHERE id > fails_within() GROUP BY grp');
-- Without VERBOSE nothing is said; a prepared statement keeps its reasons.
EXPLAIN (COSTS OFF) SELECT grp, stddev(n) FROM t GROUP BY 1;
PREPARE q AS SELECT grp, stddev(n) FROM t GROUP BY 1;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE q;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE q;
EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) SELECT stddev(n) FROM t;
EXPLAIN (VERBOSE, COSTS OFF, FORMAT YAML) SELECT stddev(n) FROM t;
-- What PostgreSQL evaluates for the engine.
EXPLAIN (COSTS OFF) SELECT upper(w), count(*), sum(mine(id)) FROM t WHERE grp = 3 AND (id > 100 OR md5(w) < 'b') GROUP BY 1;
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE x < 'y' ORDER BY mine(grp), id LIMIT 3;
-- Operators, with and without times.
CREATE FUNCTION masked(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE query LOOP
        line := regexp_replace(line, 'memory=\d+', 'memory=N');
        line := regexp_replace(line, '"Memory": \d+', '"Memory": N');
        RETURN NEXT regexp_replace(line, 'time=[0-9.]+', 'time=T');
    END LOOP;
END $$;
SELECT masked('EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF) SELECT grp, count(*) FROM t WHERE id > 20000 GROUP BY grp');
SELECT masked('EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF) SELECT count(*), max(id) FROM p');
SET howdah.debug_force_vectorized = on;
SELECT masked('EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF) SELECT upper(w), count(*) FROM t WHERE mine(id) % 3 = 1 AND id > 20000 GROUP BY 1');
RESET howdah.debug_force_vectorized;
-- Partitions that parameters of the run leave out.
SELECT masked('EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF) SELECT count(*), max(id) FROM p WHERE k = (SELECT 2)');
-- Figures are those of all runs, one for each outer row.
SET howdah.debug_force_vectorized = on;
SELECT masked('EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF) SELECT f, (SELECT sum(id % 7) FROM t AS s WHERE id > f) FROM (VALUES (20000), (29999), (99999)) v (f)');
-- What takes too much memory is computed by PostgreSQL.
SET work_mem = '64kB';
SELECT masked('EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF) SELECT id % 30001, count(*) FROM t GROUP BY 1 OFFSET 100000');
RESET work_mem;
RESET howdah.debug_force_vectorized;
-- The best zone is looked at first, so that statistics spare the others.
SELECT masked('EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF) SELECT id, w FROM t ORDER BY id DESC LIMIT 3');
SELECT line FROM masked('EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF, BUFFERS OFF) SELECT grp, count(*) FROM t WHERE id > 20000 GROUP BY grp') line WHERE line ~ 'time=';
SELECT masked('EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF, FORMAT JSON) SELECT grp, sum(id) FROM t WHERE id > 20000 GROUP BY grp');
SET client_min_messages = warning;
DROP SCHEMA vectorized_explain CASCADE;
