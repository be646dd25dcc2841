-- Queries that functions and triggers run while the statement that calls them loads or deletes rows.
CREATE SCHEMA nested_queries;
SET search_path = nested_queries, public;
SET howdah.load_threshold = 100;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET client_min_messages = warning;
-- Workers do not have the rows of a load: each query sees those of heap, in a subtransaction or not.
CREATE TABLE other AS SELECT k FROM generate_series(1, 3000) k;
ANALYZE other;
CREATE TABLE seen (am text, plan text, sub boolean, i int, result text) USING heap;
CREATE FUNCTION look(am text, plan text, i int, sub boolean, query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
    IF i % 1500 = 0 THEN
        IF sub THEN
            BEGIN EXECUTE query INTO result; EXCEPTION WHEN division_by_zero THEN NULL; END;
        ELSE
            EXECUTE query INTO result;
        END IF;
        INSERT INTO seen VALUES (am, plan, sub, i, result);
    END IF;
    RETURN i;
END $$;
CREATE PROCEDURE load_and_look() LANGUAGE plpgsql AS $$
DECLARE am text; plan text; sub boolean; settings text; query text;
BEGIN
    FOREACH am IN ARRAY '{heap,howdah}'::text[] LOOP
        EXECUTE format('CREATE TABLE %I (a int, k int, v text) USING %I', 'p_' || am, am);
        EXECUTE format('CREATE INDEX ON %I (k)', 'p_' || am);
        FOREACH plan IN ARRAY '{seqscan,indexscan,bitmapscan,nestloop}'::text[] LOOP
            FOREACH settings IN ARRAY '{seqscan,indexscan,indexonlyscan,bitmapscan,nestloop,hashjoin,mergejoin,material,memoize}'::text[] LOOP
                PERFORM set_config('enable_' || settings, CASE WHEN settings = plan OR plan = 'nestloop' AND settings = 'indexscan' THEN 'on' ELSE 'off' END, true);
            END LOOP;
            query := format(CASE plan WHEN 'nestloop'
                THEN 'SELECT count(*) || '' '' || count(v) || '' '' || coalesce(sum(p.k), 0) FROM other o JOIN %I p ON p.k = o.k'
                ELSE 'SELECT count(*) || '' '' || count(v) || '' '' || coalesce(sum(k), 0) FROM %I p WHERE k > 0' END, 'p_' || am);
            FOREACH sub IN ARRAY '{f,t}'::boolean[] LOOP
                EXECUTE format('INSERT INTO %I SELECT look(%L, %L, i, %L, %L), i, ''x'' || i FROM generate_series(1, 3000) i', 'p_' || am, am, plan, sub, query);
                EXECUTE format('TRUNCATE %I', 'p_' || am);
            END LOOP;
        END LOOP;
    END LOOP;
END $$;
SET parallel_leader_participation = off;
CALL load_and_look();
RESET parallel_leader_participation;
SELECT plan, sub, i, min(result) AS result, count(DISTINCT result) AS results, count(*) FROM seen GROUP BY plan, sub, i ORDER BY plan, sub, i;
-- A statement that is kept has workers again afterwards.
CREATE TABLE t (a int) USING howdah;
INSERT INTO t SELECT generate_series(1, 20000);
ANALYZE t;
PREPARE kept AS SELECT count(*) FROM other WHERE k > 0;
SET plan_cache_mode = force_generic_plan;
CREATE FUNCTION launched(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, BUFFERS OFF, SUMMARY OFF) ' || query LOOP
        IF line ~ 'Workers Launched' THEN RETURN trim(line); END IF;
    END LOOP;
END $$;
SELECT launched('EXECUTE kept');
CREATE FUNCTION run_kept(i int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF i = 15000 THEN RAISE WARNING 'while rows are hidden: %', launched('EXECUTE kept'); END IF;
    RETURN true;
END $$;
DELETE FROM t WHERE a % 2 = 0 AND run_kept(a);
SELECT launched('EXECUTE kept');
-- A query for each row neither writes the rows of a load one by one nor the marks of rows.
CREATE TABLE words (k int PRIMARY KEY, w text) USING heap;
INSERT INTO words SELECT k, 'w' || k FROM generate_series(1, 100) k;
CREATE FUNCTION word(i int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT w FROM words WHERE k = i % 100 + 1); END $$;
CREATE TABLE loaded (k int, w text) USING howdah;
INSERT INTO loaded SELECT i, word(i) FROM generate_series(1, 20000) i;
SELECT row_groups, cold_rows FROM howdah.tables WHERE relation = 'loaded'::regclass;
CREATE FUNCTION look_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.w := (SELECT w FROM words WHERE k = NEW.k % 100 + 1); RETURN NEW; END $$;
CREATE TABLE by_trigger (k int, w text) USING howdah;
CREATE TRIGGER look_up BEFORE INSERT ON by_trigger FOR EACH ROW EXECUTE FUNCTION look_up();
INSERT INTO by_trigger SELECT i FROM generate_series(1, 20000) i;
SELECT row_groups, cold_rows FROM howdah.tables WHERE relation = 'by_trigger'::regclass;
SELECT count(*), count(w), md5(string_agg(w, ',' ORDER BY k)) = (SELECT md5(string_agg(w, ',' ORDER BY k)) FROM loaded) AS same FROM by_trigger;
CREATE FUNCTION wal_of(statement text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE before pg_lsn := pg_current_wal_insert_lsn();
BEGIN EXECUTE statement; RETURN pg_current_wal_insert_lsn() - before; END $$;
CREATE TABLE log (k int) USING heap;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.k % 1000 = 0 THEN INSERT INTO log VALUES (OLD.k); ELSE PERFORM FROM words WHERE k = 1; END IF; RETURN OLD; END $$;
CREATE TRIGGER note BEFORE DELETE ON by_trigger FOR EACH ROW EXECUTE FUNCTION note();
SELECT wal_of($$DELETE FROM loaded WHERE word(k) IS NOT NULL AND k % 2 = 0$$) < 300000 AS deleted,
    wal_of($$DELETE FROM by_trigger WHERE k % 2 = 0$$) < 300000 AS deleted_by_trigger;
SELECT count(*), sum(k) FROM loaded;
SELECT count(*), sum(k), (SELECT count(*) FROM log) AS noted FROM by_trigger;
-- What a nested statement changes of the same rows.
CREATE FUNCTION also(i int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN DELETE FROM loaded WHERE k = i + 2; RETURN true; END $$;
DELETE FROM loaded WHERE k % 4 = 1 AND k < 2000 AND also(k);
SELECT count(*), sum(k), count(*) FILTER (WHERE k < 2000) AS left_over FROM loaded;
-- An index that is built after a row was deleted has it for what the transaction itself still sees.
BEGIN;
CREATE TABLE own (k int) USING howdah;
INSERT INTO own SELECT generate_series(1, 50);
CREATE FUNCTION counted(i int) RETURNS bigint STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM own WHERE own.k = i); END $$;
DECLARE c CURSOR FOR SELECT k, counted(k) FROM words WHERE k <= 3 ORDER BY k;
FETCH 1 FROM c;
DELETE FROM own;
CREATE INDEX ON own (k);
SET LOCAL enable_seqscan = off;
FETCH 2 FROM c;
ROLLBACK;
RESET client_min_messages;
SET client_min_messages = warning;
DROP SCHEMA nested_queries CASCADE;
