-- Groups and orders by operators of an operator class that is not the type's default: a sort by such an operator makes
-- groups by its equality, too.
CREATE SCHEMA vectorized_operators;
SET search_path = vectorized_operators, public;
SET default_table_access_method = howdah;
\getenv directory PG_ABS_SRCDIR
\set vectorized :directory '/sql/vectorized.psql'
\i :vectorized
CREATE FUNCTION abs_compare(int, int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT btint4cmp(abs($1), abs($2))';
CREATE FUNCTION abs_equal(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS 'SELECT abs($1) = abs($2)';
CREATE FUNCTION abs_less(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS 'SELECT abs($1) < abs($2)';
CREATE FUNCTION abs_greater(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS 'SELECT abs($1) > abs($2)';
CREATE FUNCTION abs_not_greater(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS 'SELECT abs($1) <= abs($2)';
CREATE FUNCTION abs_not_less(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS 'SELECT abs($1) >= abs($2)';
CREATE OPERATOR |=| (LEFTARG = int, RIGHTARG = int, FUNCTION = abs_equal, COMMUTATOR = |=|, MERGES);
CREATE OPERATOR |<| (LEFTARG = int, RIGHTARG = int, FUNCTION = abs_less);
CREATE OPERATOR |>| (LEFTARG = int, RIGHTARG = int, FUNCTION = abs_greater);
CREATE OPERATOR |<=| (LEFTARG = int, RIGHTARG = int, FUNCTION = abs_not_greater);
CREATE OPERATOR |>=| (LEFTARG = int, RIGHTARG = int, FUNCTION = abs_not_less);
CREATE OPERATOR CLASS abs_ops FOR TYPE int USING btree AS
    OPERATOR 1 |<|, OPERATOR 2 |<=|, OPERATOR 3 |=|, OPERATOR 4 |>=|, OPERATOR 5 |>|, FUNCTION 1 abs_compare(int, int);
CREATE TABLE t (i int, w text COLLATE "C");
INSERT INTO t SELECT g % 21 - 10, 'w' || g % 3 FROM generate_series(1, 4200) g;
ANALYZE t;
CREATE FUNCTION reason(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; found text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
        found := coalesce(substring(line FROM '^ *Not Vectorized: (.*)'), found);
    END LOOP;
    RETURN coalesce(found, 'vectorized');
END $$;
-- Eleven groups, of which ten have twice as many rows.
SELECT count(*), min(abs), max(abs) FROM (SELECT DISTINCT abs(i) FROM (SELECT DISTINCT i FROM t ORDER BY i USING |<|) s) a (abs);
SELECT count(*) FROM (SELECT DISTINCT i FROM t ORDER BY i USING |<|) s;
SELECT count(*), min(n), max(n) FROM (SELECT i, count(*) AS n FROM t GROUP BY i ORDER BY i USING |>|) s;
SELECT abs(i), n FROM (SELECT i, count(*) AS n FROM t GROUP BY i ORDER BY i USING |>| LIMIT 3) s;
SELECT abs(i) FROM (SELECT i FROM t ORDER BY i USING |>| LIMIT 3) s;
-- The default operators, however they are written; a pattern's order has the default equality.
SELECT count(*) FROM (SELECT DISTINCT i FROM t ORDER BY i USING <) s;
SELECT count(*) FROM (SELECT DISTINCT w FROM t ORDER BY w USING ~>~) s;
SELECT query, reason(query), taken(query) FROM (VALUES
    ('SELECT DISTINCT i FROM t ORDER BY i USING |<|'),
    ('SELECT i, count(*) FROM t GROUP BY i ORDER BY i USING |>|'),
    ('SELECT i FROM t ORDER BY i USING |>| LIMIT 3'),
    ('SELECT DISTINCT i FROM t ORDER BY i USING <'),
    ('SELECT DISTINCT w FROM t ORDER BY w USING ~>~')) q (query);
SET client_min_messages = warning;
DROP SCHEMA vectorized_operators CASCADE;
