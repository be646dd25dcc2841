-- Functions that query tables during parallel operations, where neither snapshots nor transaction ids may be taken.
-- in_workers_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA in_workers;
SET search_path = in_workers, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
SET howdah.load_threshold = 0;
CREATE TABLE t (id int PRIMARY KEY, n int, b text);
INSERT INTO t SELECT i, i % 10, repeat('x', i % 100) FROM generate_series(1, 10000) i;
-- Some row groups are hidden in part, a small one wholly.
DELETE FROM t WHERE id % 100 = 0;
CREATE TABLE small (id int PRIMARY KEY, n int);
INSERT INTO small SELECT i, i FROM generate_series(1, 100) i;
UPDATE small SET n = n + 1;
CREATE FUNCTION planned(query text) RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE answer bigint;
BEGIN
    EXECUTE query INTO answer;
    RETURN answer;
END $$;
CREATE FUNCTION volatile_planned(query text) RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS $$
DECLARE answer bigint;
BEGIN
    EXECUTE query INTO answer;
    RETURN answer;
END $$;
CREATE FUNCTION n_of(wanted int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (SELECT n FROM t WHERE id = wanted);
END $$;
CREATE FUNCTION sum_of(number int) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT sum(id) FROM in_workers.t WHERE n = number';

-- In one worker.
SET debug_parallel_query = on;
EXPLAIN (COSTS OFF) SELECT planned('SELECT sum(n) FROM t');
SELECT planned('SELECT sum(n) FROM t'), volatile_planned('SELECT sum(id) FROM t WHERE n = 3');
SELECT planned('SELECT count(*) FROM t WHERE id = 17'), planned('SELECT sum(n) FROM small');
SELECT n_of(17), n_of(100), sum_of(4);
SELECT planned('SELECT count(*) FROM t a JOIN t b USING (n) WHERE a.id < 20 AND b.id < 20');
SELECT planned('SELECT count(*) FROM t TABLESAMPLE BERNOULLI (100)');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT planned('SELECT sum(n) FROM t'), volatile_planned('SELECT sum(n) FROM small');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT planned('SELECT sum(n) FROM t'), volatile_planned('SELECT sum(n) FROM small');
ROLLBACK;
-- With an id of our own, and rows that no other transaction sees.
BEGIN;
DELETE FROM t WHERE n = 5;
INSERT INTO t SELECT i, 5, '' FROM generate_series(20001, 20010) i;
SELECT planned('SELECT count(*) FROM t WHERE n = 5'), volatile_planned('SELECT count(*) FROM t');
ROLLBACK;
-- What writes says that it cannot.
SELECT volatile_planned('UPDATE t SET n = 0 WHERE id = 1 RETURNING n');
SELECT volatile_planned('SELECT n FROM t WHERE id = 1 FOR UPDATE');
RESET debug_parallel_query;

-- In several, and in their leader.
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT sum(n_of(id)), sum(planned('SELECT sum(n) FROM small')) FROM t WHERE id % 200 = 1;
DROP SCHEMA in_workers CASCADE;
