-- howdah 0.1.0: what CREATE EXTENSION runs. Written by hand.
\echo Use "CREATE EXTENSION howdah" to load this file. \quit

CREATE FUNCTION howdah_tableam_handler(internal) RETURNS table_am_handler
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'howdah_tableam_handler';

CREATE ACCESS METHOD howdah TYPE TABLE HANDLER howdah_tableam_handler;
COMMENT ON ACCESS METHOD howdah IS 'heap with a columnar cold side';

-- Compaction (crates/extension/src/compact) ---------------------------------------------------

CREATE PROCEDURE howdah.compact(relation regclass)
    LANGUAGE c AS 'MODULE_PATHNAME', 'howdah_compact';
COMMENT ON PROCEDURE howdah.compact IS 'moves the hot rows of a howdah table to the cold side';
