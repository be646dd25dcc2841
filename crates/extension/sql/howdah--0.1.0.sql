-- howdah 0.1.0: what CREATE EXTENSION runs. Written by hand.
\echo Use "CREATE EXTENSION howdah" to load this file. \quit

-- Views run with their reader's rights, so nothing here may be found by a search path: operators
-- and functions are qualified, and IN and NULLIF, which look for an operator "=", are not used
-- (tests/sql/surface.sql and crates/cli/tests/extension_script.rs check that). Functions are C
-- and look up no names: they need no search path of their own.

-- A schema that was there before may hold what another role has put there.
CREATE FUNCTION howdah.check_schema() RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'check_schema_wrapper';
SELECT howdah.check_schema();
DROP FUNCTION howdah.check_schema();

CREATE FUNCTION howdah.howdah_tableam_handler(internal) RETURNS table_am_handler
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'howdah_tableam_handler';
COMMENT ON FUNCTION howdah.howdah_tableam_handler IS 'handler of the table access method howdah';

CREATE ACCESS METHOD howdah TYPE TABLE HANDLER howdah.howdah_tableam_handler;
COMMENT ON ACCESS METHOD howdah IS 'heap with a columnar cold side';

-- Options of tables (crates/extension/src/options, src/sql/options.rs) -----------------------

-- Options are security labels of provider howdah, and like reloptions in pg_class may be seen by
-- every role. Functions change them, which ask for ownership, and so does SECURITY LABEL.
CREATE FUNCTION howdah.table_options(
    relation regclass,
    OUT sort_key text[],
    OUT compression_effort text,
    OUT compact_after interval,
    OUT compact_min_rows bigint,
    OUT compaction boolean,
    OUT grouped_columns text[]
) RETURNS SETOF record LANGUAGE c STRICT ROWS 1 AS 'MODULE_PATHNAME', 'table_options_wrapper';
COMMENT ON FUNCTION howdah.table_options IS 'options of a howdah table; see howdah.options';

CREATE VIEW howdah.options AS
SELECT l.objoid::pg_catalog.regclass AS relation, o.*
FROM (
    SELECT DISTINCT s.objoid
    FROM pg_catalog.pg_seclabel s
    WHERE s.provider OPERATOR(pg_catalog.=) 'howdah'
        AND s.classoid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
) l
    CROSS JOIN LATERAL howdah.table_options(l.objoid::pg_catalog.regclass) o;
COMMENT ON VIEW howdah.options IS 'options of howdah tables; change them with howdah.set_options()';
GRANT SELECT ON howdah.options TO PUBLIC;

CREATE FUNCTION howdah.set_options(
    relation regclass,
    sort_key text[] DEFAULT NULL,
    compression_effort text DEFAULT NULL,
    compact_after interval DEFAULT NULL,
    compact_min_rows bigint DEFAULT NULL,
    compaction boolean DEFAULT NULL,
    grouped_columns text[] DEFAULT NULL
) RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'set_options_wrapper';
COMMENT ON FUNCTION howdah.set_options IS 'sets the given options of a howdah table';

CREATE FUNCTION howdah.reset_options(relation regclass, option text DEFAULT NULL)
    RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'reset_options_wrapper';
COMMENT ON FUNCTION howdah.reset_options IS 'resets one option of a howdah table, or all of them';

-- Adopting and releasing tables (src/sql/adopt.rs) -------------------------------------------

CREATE FUNCTION howdah.adopt(relation regclass) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'adopt_wrapper';
COMMENT ON FUNCTION howdah.adopt IS 'makes a heap table a howdah table without rewriting it';

CREATE FUNCTION howdah.release(relation regclass) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'release_wrapper';
COMMENT ON FUNCTION howdah.release IS 'makes a howdah table a heap table; rewrites it if it has cold rows';

-- Views (src/sql/describe.rs) -----------------------------------------------------------------

CREATE FUNCTION howdah.table_sizes(
    relation regclass,
    OUT hot_rows_estimate bigint,
    OUT cold_rows bigint,
    OUT row_groups bigint,
    OUT hot_bytes bigint,
    OUT cold_bytes bigint,
    OUT cold_raw_bytes bigint
) RETURNS SETOF record LANGUAGE c STRICT ROWS 1 COST 1000 AS 'MODULE_PATHNAME', 'table_sizes_wrapper';
COMMENT ON FUNCTION howdah.table_sizes IS 'sizes of both sides of a howdah table; see howdah.tables';

CREATE FUNCTION howdah.table_row_groups(
    relation regclass,
    OUT row_group bigint,
    OUT first_row bigint,
    OUT row_count integer,
    OUT column_count integer,
    OUT footer_bytes bigint,
    OUT body_bytes bigint,
    OUT raw_bytes bigint
) RETURNS SETOF record LANGUAGE c STRICT COST 1000 AS 'MODULE_PATHNAME', 'table_row_groups_wrapper';
COMMENT ON FUNCTION howdah.table_row_groups IS 'row groups of a howdah table; see howdah.row_groups';

CREATE FUNCTION howdah.table_column_chunks(
    relation regclass,
    OUT row_group bigint,
    OUT attnum smallint,
    OUT encoding text,
    OUT bytes bigint,
    OUT raw_bytes bigint,
    OUT null_count bigint,
    OUT distinct_estimate bigint,
    OUT min text,
    OUT max text
) RETURNS SETOF record LANGUAGE c STRICT COST 1000 AS 'MODULE_PATHNAME', 'table_column_chunks_wrapper';
COMMENT ON FUNCTION howdah.table_column_chunks IS 'column chunks of a howdah table; see howdah.column_chunks';

CREATE VIEW howdah.tables AS
SELECT n.nspname AS schema_name,
       c.relname AS table_name,
       c.oid::pg_catalog.regclass AS relation,
       s.hot_rows_estimate,
       s.cold_rows,
       s.row_groups,
       s.hot_bytes,
       s.cold_bytes,
       pg_catalog.pg_total_relation_size(c.oid) AS total_bytes,
       CASE WHEN s.cold_bytes OPERATOR(pg_catalog.>) 0 THEN
           pg_catalog.round(s.cold_raw_bytes::pg_catalog.numeric OPERATOR(pg_catalog./) s.cold_bytes, 2)
       END AS compression_ratio,
       o.sort_key,
       o.compression_effort,
       o.compact_after,
       o.compact_min_rows,
       o.compaction,
       o.grouped_columns
FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
        AND a.amname OPERATOR(pg_catalog.=) 'howdah'
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
    CROSS JOIN LATERAL howdah.table_sizes(c.oid::pg_catalog.regclass) s
    LEFT JOIN LATERAL howdah.table_options(c.oid::pg_catalog.regclass) o ON true
WHERE c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'm']::pg_catalog."char"[]);
COMMENT ON VIEW howdah.tables IS 'howdah tables: sizes of both sides, compression, options';

CREATE VIEW howdah.row_groups AS
SELECT c.oid::pg_catalog.regclass AS relation, g.*
FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
        AND a.amname OPERATOR(pg_catalog.=) 'howdah'
    CROSS JOIN LATERAL howdah.table_row_groups(c.oid::pg_catalog.regclass) g
WHERE c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'm']::pg_catalog."char"[]);
COMMENT ON VIEW howdah.row_groups IS 'row groups of howdah tables';

CREATE VIEW howdah.column_chunks AS
SELECT c.oid::pg_catalog.regclass AS relation,
       k.row_group,
       k.attnum,
       t.attname AS column_name,
       pg_catalog.format_type(t.atttypid, t.atttypmod) AS type,
       k.encoding,
       k.bytes,
       k.raw_bytes,
       k.null_count,
       k.distinct_estimate,
       k.min,
       k.max
FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
        AND a.amname OPERATOR(pg_catalog.=) 'howdah'
    CROSS JOIN LATERAL howdah.table_column_chunks(c.oid::pg_catalog.regclass) k
    JOIN pg_catalog.pg_attribute t ON t.attrelid OPERATOR(pg_catalog.=) c.oid
        AND t.attnum OPERATOR(pg_catalog.=) k.attnum
WHERE c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'm']::pg_catalog."char"[]);
COMMENT ON VIEW howdah.column_chunks IS 'column chunks of howdah tables: encoding, sizes, statistics';

-- Locks of cold rows, as PostgreSQL's lock manager shows them (crates/bridge/src/cold_lock) ------

-- Cold blocks have their high bit set, and pg_locks shows them as negative numbers.
CREATE VIEW howdah.locks AS
SELECT l.pid, l.relation::pg_catalog.regclass AS relation,
    CASE
        WHEN l.locktype OPERATOR(pg_catalog.=) 'tuple' AND l.tuple OPERATOR(pg_catalog.<) 0
            THEN 'queue for row'
        WHEN l.locktype OPERATOR(pg_catalog.=) 'tuple' AND l.tuple OPERATOR(pg_catalog.=) 0
            AND l.mode OPERATOR(pg_catalog.=) 'ShareLock'
            THEN 'all keys of group'
        WHEN l.locktype OPERATOR(pg_catalog.=) 'tuple' AND l.tuple OPERATOR(pg_catalog.=) 0
            THEN 'some keys of group'
        WHEN l.locktype OPERATOR(pg_catalog.=) 'tuple' THEN 'row'
        WHEN l.page OPERATOR(pg_catalog.=) '-2'::pg_catalog.int4 THEN 'rows by index'
        WHEN l.mode OPERATOR(pg_catalog.=) 'SIReadLock' THEN 'block of rows'
        WHEN l.mode OPERATOR(pg_catalog.=) ANY ('{RowShareLock,RowExclusiveLock}'::pg_catalog.text[])
            THEN 'some rows of group'
        ELSE 'all rows of group'
    END AS target,
    CASE WHEN l.locktype OPERATOR(pg_catalog.=) 'tuple' AND l.tuple OPERATOR(pg_catalog.<>) 0
        THEN pg_catalog.format('(%s,%s)',
            l.page::pg_catalog.int8 OPERATOR(pg_catalog.&) 4294967295,
            l.tuple OPERATOR(pg_catalog.&) 32767::pg_catalog.int2)::pg_catalog.tid
    END AS row,
    CASE
        WHEN (l.locktype OPERATOR(pg_catalog.=) 'page' OR l.tuple OPERATOR(pg_catalog.=) 0)
            AND l.page OPERATOR(pg_catalog.<>) '-2'::pg_catalog.int4
            AND l.mode OPERATOR(pg_catalog.<>) 'SIReadLock'
        THEN (l.page::pg_catalog.int8 OPERATOR(pg_catalog.&) 4294967295)
            OPERATOR(pg_catalog.-) 2147483648
    END AS row_group,
    CASE
        WHEN l.mode OPERATOR(pg_catalog.=) 'SIReadLock' THEN 'serializable read'
        WHEN l.locktype OPERATOR(pg_catalog.=) 'tuple' AND l.tuple OPERATOR(pg_catalog.=) 0
            AND l.mode OPERATOR(pg_catalog.=) 'ShareLock' THEN 'FOR KEY SHARE'
        WHEN l.locktype OPERATOR(pg_catalog.=) 'tuple' AND l.tuple OPERATOR(pg_catalog.=) 0
            THEN 'FOR UPDATE'
        WHEN l.mode OPERATOR(pg_catalog.=) 'AccessShareLock' THEN 'FOR KEY SHARE'
        WHEN l.mode OPERATOR(pg_catalog.=) 'RowShareLock'
            AND l.locktype OPERATOR(pg_catalog.=) 'tuple' THEN 'FOR SHARE'
        WHEN l.mode OPERATOR(pg_catalog.=) ANY ('{RowShareLock,ShareLock}'::pg_catalog.text[])
            THEN 'FOR KEY SHARE or FOR SHARE'
        WHEN l.mode OPERATOR(pg_catalog.=) 'ExclusiveLock'
            AND l.locktype OPERATOR(pg_catalog.=) 'tuple' THEN 'FOR NO KEY UPDATE'
        WHEN l.mode OPERATOR(pg_catalog.=) 'AccessExclusiveLock' THEN 'FOR UPDATE'
        ELSE 'FOR NO KEY UPDATE or FOR UPDATE'
    END AS lock,
    l.granted, l.waitstart
FROM pg_catalog.pg_locks l
    JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) l.relation
    JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
WHERE a.amname OPERATOR(pg_catalog.=) 'howdah'
    AND l.page OPERATOR(pg_catalog.<) 0
    AND l.database OPERATOR(pg_catalog.=) (
        SELECT d.oid FROM pg_catalog.pg_database d
        WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
    );
COMMENT ON VIEW howdah.locks IS 'locks of cold rows and of row groups in this database';
GRANT SELECT ON howdah.locks TO PUBLIC;

-- What one TID, or one lock, is for (src/sql/describe_lock.rs).
CREATE FUNCTION howdah.describe_lock(
    relation regclass,
    tid tid,
    OUT target text,
    OUT "row" tid,
    OUT row_number bigint,
    OUT row_group bigint,
    OUT state text,
    OUT new_row tid
) RETURNS SETOF record LANGUAGE c STRICT ROWS 1 COST 1000 AS 'MODULE_PATHNAME', 'describe_tid_wrapper';
COMMENT ON FUNCTION howdah.describe_lock(regclass, tid) IS 'what a TID of a howdah table stands for';

CREATE FUNCTION howdah.describe_lock(
    relation regclass,
    page integer,
    tuple smallint,
    OUT target text,
    OUT "row" tid,
    OUT row_number bigint,
    OUT row_group bigint,
    OUT state text,
    OUT new_row tid
) RETURNS SETOF record LANGUAGE c ROWS 1 COST 1000 AS 'MODULE_PATHNAME', 'describe_page_lock_wrapper';
COMMENT ON FUNCTION howdah.describe_lock(regclass, integer, smallint)
    IS 'what a lock on a howdah table, with page and tuple of pg_locks, is for';

CREATE FUNCTION howdah.table_scans(
    relation regclass,
    OUT columnar_scans bigint,
    OUT row_groups_read bigint,
    OUT row_groups_skipped bigint,
    OUT zones_read bigint,
    OUT zones_skipped bigint,
    OUT row_groups_read_by_row bigint
) RETURNS SETOF record LANGUAGE c STRICT ROWS 1 AS 'MODULE_PATHNAME', 'table_scans_wrapper';
COMMENT ON FUNCTION howdah.table_scans IS 'how cold rows of a howdah table were read; see howdah.stat_scans';

CREATE VIEW howdah.stat_scans AS
SELECT c.oid::pg_catalog.regclass AS relation, s.*
FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
        AND a.amname OPERATOR(pg_catalog.=) 'howdah'
    CROSS JOIN LATERAL howdah.table_scans(c.oid::pg_catalog.regclass) s
WHERE c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'm']::pg_catalog."char"[]);
COMMENT ON VIEW howdah.stat_scans IS 'how cold rows of howdah tables were read, cumulative like pg_stat_all_tables';

CREATE FUNCTION howdah.vectorized_functions(
    OUT name text,
    OUT kind text,
    OUT stored_arguments text[],
    OUT can_fail boolean,
    OUT exact text
) RETURNS SETOF record LANGUAGE c STRICT IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'vectorized_functions_wrapper';
COMMENT ON FUNCTION howdah.vectorized_functions IS 'functions that Vectorized plans compute themselves; see howdah.functions';

CREATE VIEW howdah.functions AS
SELECT f.name,
       f.kind,
       f.stored_arguments,
       f.can_fail,
       f.exact,
       ARRAY(
           SELECT p.oid::pg_catalog.regprocedure
           FROM pg_catalog.pg_proc p
           WHERE p.pronamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace
               AND CASE WHEN f.kind OPERATOR(pg_catalog.=) 'function'
                   THEN p.prokind OPERATOR(pg_catalog.=) 'f' AND p.prosrc OPERATOR(pg_catalog.=) f.name
                   ELSE p.prokind OPERATOR(pg_catalog.=) 'a' AND f.name OPERATOR(pg_catalog.=) pg_catalog.concat(
                       p.proname, '(', (
                           SELECT pg_catalog.string_agg(t.typname, ',')
                           FROM pg_catalog.pg_type t
                           WHERE t.oid OPERATOR(pg_catalog.=) ANY (p.proargtypes)
                       ), ')')
                   END
           ORDER BY 1
       ) AS functions
FROM howdah.vectorized_functions() f;
COMMENT ON VIEW howdah.functions IS 'functions and aggregates that Vectorized plans compute themselves';

GRANT SELECT ON howdah.tables, howdah.row_groups, howdah.column_chunks, howdah.stat_scans,
    howdah.functions TO PUBLIC;
GRANT USAGE ON SCHEMA howdah TO PUBLIC;

-- Compaction (crates/extension/src/compact) ---------------------------------------------------

CREATE PROCEDURE howdah.compact(relation regclass)
    LANGUAGE c AS 'MODULE_PATHNAME', 'howdah_compact';
COMMENT ON PROCEDURE howdah.compact IS 'moves the hot rows of a howdah table to the cold side';

CREATE FUNCTION howdah.compactions(
    OUT pid integer,
    OUT database oid,
    OUT relation oid,
    OUT phase text,
    OUT hot_blocks bigint,
    OUT hot_blocks_done bigint,
    OUT rows_moved bigint,
    OUT groups_moved bigint,
    OUT groups_merged bigint
) RETURNS SETOF record LANGUAGE c STRICT VOLATILE AS 'MODULE_PATHNAME', 'compactions_wrapper';
COMMENT ON FUNCTION howdah.compactions IS 'running compactions; see howdah.stat_progress_compact';

CREATE VIEW howdah.stat_progress_compact AS
SELECT c.pid,
       d.datname,
       c.relation AS relid,
       c.phase,
       c.hot_blocks,
       c.hot_blocks_done,
       c.rows_moved,
       c.groups_moved,
       c.groups_merged
FROM howdah.compactions() c
    LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.database;
COMMENT ON VIEW howdah.stat_progress_compact IS 'progress of running compactions';
GRANT SELECT ON howdah.stat_progress_compact TO PUBLIC;
