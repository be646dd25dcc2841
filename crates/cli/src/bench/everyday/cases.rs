//! Everyday statements on such tables, and how long howdah may take for them compared with heap.

use super::case::{Argument, Case, before, case, in_new_sessions, of};
use super::tables::ROWS_OF_A_K;

const ONE: Argument = Argument::Key { apart: 1 };
const HUNDRED: Argument = Argument::Key { apart: 100 };
/// By index.
const BY_INDEX: f64 = 1.4;
const INDEX_ONLY: f64 = 1.5;
const SCAN: f64 = 1.0;

pub(super) const CASES: [Case; 70] = [
    case(
        "one row by key",
        "SELECT id, k, c, pad FROM {noise} WHERE id = $1",
        ONE,
        500,
        BY_INDEX,
    ),
    in_new_sessions(case(
        "one row by key, new session",
        "SELECT id, k, c, pad FROM {noise} WHERE id = $1",
        ONE,
        300,
        BY_INDEX,
    )),
    case(
        "one column of a row by key",
        "SELECT c FROM {noise} WHERE id = $1",
        ONE,
        500,
        BY_INDEX,
    ),
    case(
        "rows by secondary index",
        "SELECT id, k, c FROM {noise} WHERE k = $1",
        ONE,
        500,
        BY_INDEX,
    ),
    case(
        "100 rows by key range",
        "SELECT id, k, c FROM {noise} WHERE id BETWEEN $1 AND $1 + 99",
        HUNDRED,
        200,
        BY_INDEX,
    ),
    case(
        "sum over 100 keys",
        "SELECT sum(k) FROM {noise} WHERE id BETWEEN $1 AND $1 + 99",
        HUNDRED,
        200,
        BY_INDEX,
    ),
    case(
        "100 rows, ordered by text",
        "SELECT c FROM {noise} WHERE id BETWEEN $1 AND $1 + 99 ORDER BY c",
        HUNDRED,
        200,
        BY_INDEX,
    ),
    case(
        "100 rows, distinct text",
        "SELECT DISTINCT c FROM {noise} WHERE id BETWEEN $1 AND $1 + 99 ORDER BY c",
        HUNDRED,
        200,
        BY_INDEX,
    ),
    case(
        "1,000 keys in a list",
        "SELECT id, c FROM {noise} WHERE id = ANY ($1)",
        Argument::Keys(1_000),
        20,
        BY_INDEX,
    ),
    case(
        "100 rows by ranges of k",
        "SELECT id, pad FROM {noise} WHERE k BETWEEN $1 AND $1 + 99",
        HUNDRED,
        100,
        BY_INDEX,
    ),
    case(
        "count over 5 % by key",
        "SELECT count(*) FROM {noise} WHERE id BETWEEN $1 AND $1 + (SELECT max(id) / 20 FROM {noise})",
        ONE,
        5,
        INDEX_ONLY,
    ),
    case(
        "count over 1 % of k",
        "SELECT count(*) FROM {noise} WHERE k BETWEEN $1 AND $1 + (SELECT max(k) / 100 FROM {noise})",
        ONE,
        5,
        INDEX_ONLY,
    ),
    case(
        "500 rows joined by key",
        "SELECT count(*), max(n.c) FROM generate_series($1, $1 + 49900, 100) g JOIN {noise} n ON n.id = g % (SELECT max(id) FROM {noise}) + 1",
        ONE,
        20,
        BY_INDEX,
    ),
    case(
        "newest ten rows",
        "SELECT id, k FROM {noise} ORDER BY id DESC LIMIT 10",
        Argument::None,
        200,
        SCAN,
    ),
    case(
        "greatest key",
        "SELECT max(id) FROM {noise}",
        Argument::None,
        200,
        SCAN,
    ),
    case(
        "page of 20 after a key",
        "SELECT id, k, pad FROM {noise} WHERE id > $1 ORDER BY id LIMIT 20",
        HUNDRED,
        200,
        BY_INDEX,
    ),
    case(
        "LIKE '%x%' over all rows",
        "SELECT count(*) FROM {noise} WHERE c LIKE '%abcde%'",
        Argument::None,
        1,
        SCAN,
    ),
    case(
        "count and max over all rows",
        "SELECT count(*), max(k) FROM {noise}",
        Argument::None,
        1,
        SCAN,
    ),
    case(
        "copy out",
        "COPY (SELECT * FROM {noise} WHERE id < 300000) TO '/dev/null'",
        Argument::None,
        1,
        SCAN,
    ),
    case(
        "INSERT with a cold parent",
        "INSERT INTO {child} (parent) VALUES ($1)",
        ONE,
        300,
        BY_INDEX,
    ),
    case(
        "UPDATE of one row",
        "UPDATE {noise} SET pad = 'changed' WHERE id = $1",
        HUNDRED,
        300,
        BY_INDEX,
    ),
    case(
        "UPDATE of an indexed column",
        "UPDATE {noise} SET k = k + 1 WHERE id = $1",
        HUNDRED,
        300,
        BY_INDEX,
    ),
    case(
        "UPDATE of 100 rows",
        "UPDATE {noise} SET pad = 'changed ' || id WHERE id BETWEEN $1 AND $1 + 99",
        HUNDRED,
        50,
        BY_INDEX,
    ),
    case(
        "DELETE of one row",
        "DELETE FROM {noise} WHERE id = $1 AND NOT EXISTS (SELECT FROM {child} WHERE parent = $1 LIMIT 1)",
        HUNDRED,
        10,
        BY_INDEX,
    ),
    of(
        20,
        case(
            "wide: one row, all columns",
            "SELECT * FROM {wide} WHERE id = $1",
            ONE,
            300,
            2.0,
        ),
    ),
    of(
        20,
        case(
            "wide: one row, three columns",
            "SELECT n3, w5, m7 FROM {wide} WHERE id = $1",
            ONE,
            300,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "wide: 100 rows, three columns",
            "SELECT sum(n3), max(w5), sum(m7) FROM {wide} WHERE id BETWEEN $1 AND $1 + 99",
            HUNDRED,
            200,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "document by key",
            "SELECT doc FROM {document} WHERE id = $1",
            ONE,
            300,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "field of a document by key",
            "SELECT doc->'customer'->>'name' FROM {document} WHERE id = $1",
            ONE,
            300,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "scattered documents by a secondary index",
            "SELECT count(*), sum(length(doc->>'note')) FROM {document} WHERE place = $1 % 1000",
            ONE,
            200,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "scattered arrays of text by a secondary index",
            "SELECT count(*) FROM {tagged} WHERE place = $1 % 1000 AND tags @> ARRAY['tag74']",
            ONE,
            200,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "scattered arrays of numbers by a secondary index",
            "SELECT sum(numbers[3]) FROM {tagged} WHERE place = $1 % 1000",
            ONE,
            200,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "scattered text search vectors by a secondary index",
            "SELECT count(*) FROM {tagged} WHERE place = $1 % 1000 AND words @@ 'river'::tsquery",
            ONE,
            200,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "text search over all rows",
            "SELECT count(*) FROM {tagged} WHERE words @@ 'river'::tsquery",
            Argument::None,
            1,
            SCAN,
        ),
    ),
    of(
        20,
        case(
            "arrays over all rows",
            "SELECT count(*) FROM {tagged} WHERE tags @> ARRAY['tag74']",
            Argument::None,
            1,
            SCAN,
        ),
    ),
    of(
        20,
        case(
            "jsonb field over all rows",
            "SELECT count(*) FROM {document} WHERE doc->>'status' = 'paid'",
            Argument::None,
            1,
            SCAN,
        ),
    ),
    of(
        10,
        case(
            "YCSB: read",
            "SELECT * FROM {usertable} WHERE ycsb_key = 'user' || lpad(($1::bigint * 7919 % 100000007)::text, 12, '0')",
            ONE,
            300,
            BY_INDEX,
        ),
    ),
    in_new_sessions(of(
        10,
        case(
            "YCSB: read, new session",
            "SELECT * FROM {usertable} WHERE ycsb_key = 'user' || lpad(($1::bigint * 7919 % 100000007)::text, 12, '0')",
            ONE,
            300,
            BY_INDEX,
        ),
    )),
    of(
        10,
        case(
            "YCSB: update of one field",
            "UPDATE {usertable} SET field3 = 'changed' WHERE ycsb_key = 'user' || lpad(($1::bigint * 7919 % 100000007)::text, 12, '0')",
            HUNDRED,
            200,
            BY_INDEX,
        ),
    ),
    of(
        10,
        case(
            "YCSB: scan of 50",
            "SELECT * FROM {usertable} WHERE ycsb_key >= 'user' || lpad(($1::bigint * 7919 % 100000007)::text, 12, '0') ORDER BY ycsb_key LIMIT 50",
            ONE,
            100,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "YCSB grouped: read",
            "SELECT * FROM {grouped} WHERE ycsb_key = 'user' || lpad(($1::bigint * 7919 % 100000007)::text, 12, '0')",
            ONE,
            300,
            BY_INDEX,
        ),
    ),
    in_new_sessions(of(
        20,
        case(
            "YCSB grouped: read, new session",
            "SELECT * FROM {grouped} WHERE ycsb_key = 'user' || lpad(($1::bigint * 7919 % 100000007)::text, 12, '0')",
            ONE,
            300,
            BY_INDEX,
        ),
    )),
    of(
        20,
        case(
            "YCSB grouped: update of one field",
            "UPDATE {grouped} SET field3 = 'changed' WHERE ycsb_key = 'user' || lpad(($1::bigint * 7919 % 100000007)::text, 12, '0')",
            HUNDRED,
            200,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "YCSB grouped: scan of 50",
            "SELECT * FROM {grouped} WHERE ycsb_key >= 'user' || lpad(($1::bigint * 7919 % 100000007)::text, 12, '0') ORDER BY ycsb_key LIMIT 50",
            ONE,
            100,
            BY_INDEX,
        ),
    ),
    of(
        40,
        case(
            "texts grouped: read",
            "SELECT * FROM {texts} WHERE key = 'text' || lpad(($1::bigint * 7919 % 100000007)::text, 12, '0')",
            ONE,
            300,
            BY_INDEX,
        ),
    ),
    of(
        40,
        case(
            "texts grouped: scan of 50",
            "SELECT * FROM {texts} WHERE key >= 'text' || lpad(($1::bigint * 7919 % 100000007)::text, 12, '0') ORDER BY key LIMIT 50",
            ONE,
            100,
            BY_INDEX,
        ),
    ),
    case(
        "YCSB grouped: LIKE '%x%'",
        "SELECT count(*) FROM {grouped} WHERE field3 LIKE '%abcde%'",
        Argument::None,
        5,
        SCAN,
    ),
    of(
        20,
        case(
            "addresses and ranges by a secondary index",
            "SELECT id, address, net, span, hours, flags FROM {places} WHERE place = $1 % 1000",
            ONE,
            200,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "locks on 100 scattered rows",
            "SELECT count(*) FROM (SELECT FROM {places} WHERE id = ANY ($1) FOR UPDATE) locked",
            Argument::Keys(100),
            50,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "DELETE of 100 rows by key range",
            "DELETE FROM {places} WHERE id BETWEEN $1 AND $1 + 99",
            HUNDRED,
            20,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "DELETE of 100 scattered rows",
            "DELETE FROM {places} WHERE id = ANY ($1)",
            Argument::Keys(100),
            50,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "300 rows joined with eight partitions",
            "SELECT count(*), max(s.t) FROM generate_series($1, $1 + 29900, 100) g JOIN {split} s ON s.id = g % (SELECT max(id) FROM {split}) + 1",
            ONE,
            50,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "20 rows that eight partitions have as well",
            "SELECT n.id, (SELECT s.t FROM {split} s WHERE s.id = n.id) FROM {noise} n WHERE n.id BETWEEN $1 AND $1 + 19 AND EXISTS (SELECT FROM {split} s WHERE s.id = n.id)",
            HUNDRED,
            50,
            BY_INDEX,
        ),
    ),
    of(
        16,
        case(
            "15 types: one row by key",
            "SELECT * FROM {mixed} WHERE id = $1",
            ONE,
            300,
            BY_INDEX,
        ),
    ),
    of(
        16,
        case(
            "15 types: 40 rows by key range",
            "SELECT * FROM {mixed} WHERE id BETWEEN $1 AND $1 + 39",
            HUNDRED,
            200,
            BY_INDEX,
        ),
    ),
    of(
        16 * ROWS_OF_A_K,
        case(
            "15 types: 73 rows by a secondary index",
            "SELECT * FROM {mixed} WHERE k = $1",
            ONE,
            100,
            BY_INDEX,
        ),
    ),
    of(
        16,
        case(
            "15 types in 12 partitions: one row by key",
            "SELECT * FROM {mixed_split} WHERE id = $1",
            ONE,
            300,
            BY_INDEX,
        ),
    ),
    of(
        16,
        case(
            "15 types in 12 partitions: 40 rows by key range",
            "SELECT * FROM {mixed_split} WHERE id BETWEEN $1 AND $1 + 39",
            HUNDRED,
            200,
            BY_INDEX,
        ),
    ),
    of(
        16 * ROWS_OF_A_K,
        case(
            "15 types in 12 partitions: 73 rows by a secondary index",
            "SELECT * FROM {mixed_split} WHERE k = $1",
            ONE,
            100,
            BY_INDEX,
        ),
    ),
    of(
        16,
        case(
            "15 types in 12 partitions: the newest 30 below a key",
            "SELECT * FROM {mixed_split} WHERE id < $1 ORDER BY id DESC LIMIT 30",
            HUNDRED,
            200,
            BY_INDEX,
        ),
    ),
    of(
        16,
        case(
            "15 types grouped: one row by key",
            "SELECT * FROM {mixed_grouped} WHERE id = $1",
            ONE,
            300,
            BY_INDEX,
        ),
    ),
    of(
        16,
        case(
            "15 types grouped: 40 rows by key range",
            "SELECT * FROM {mixed_grouped} WHERE id BETWEEN $1 AND $1 + 39",
            HUNDRED,
            200,
            BY_INDEX,
        ),
    ),
    of(
        16 * ROWS_OF_A_K,
        case(
            "15 types grouped: 73 rows by a secondary index",
            "SELECT * FROM {mixed_grouped} WHERE k = $1",
            ONE,
            100,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "each row changed: one row by key",
            "SELECT id, k, c, pad FROM {changed} WHERE id = $1",
            ONE,
            500,
            BY_INDEX,
        ),
    ),
    of(
        20,
        case(
            "each row changed: 100 rows by key range",
            "SELECT id, k, c FROM {changed} WHERE id BETWEEN $1 AND $1 + 99",
            HUNDRED,
            200,
            BY_INDEX,
        ),
    ),
    before(
        "DO $$ BEGIN FOR n IN 0..(SELECT max(id) FROM {kept}) / 200 LOOP DELETE FROM {kept} WHERE id BETWEEN n * 200 AND n * 200 + 99; END LOOP; END $$",
        of(
            20,
            case(
                "old snapshot: one deleted row by key",
                "SELECT id, k, c, pad FROM {kept} WHERE id = $1 / 200 * 200 + $1 % 100",
                ONE,
                500,
                BY_INDEX,
            ),
        ),
    ),
    before(
        "DO $$ BEGIN FOR n IN 0..(SELECT max(id) FROM {kept}) / 200 LOOP DELETE FROM {kept} WHERE id BETWEEN n * 200 + 100 AND n * 200 + 199; END LOOP; END $$",
        of(
            20,
            case(
                "old snapshot: 100 deleted rows by key range",
                "SELECT id, k, c FROM {kept} WHERE id BETWEEN $1 / 200 * 200 + 100 AND $1 / 200 * 200 + 199",
                ONE,
                200,
                BY_INDEX,
            ),
        ),
    ),
    case(
        "200 partitions: count and max",
        "SELECT count(*), max(v) FROM {part}",
        Argument::None,
        10,
        SCAN,
    ),
    case(
        "200 partitions: rows by index",
        "SELECT * FROM {part} WHERE v BETWEEN $1 % 100003 AND $1 % 100003 + 20",
        ONE,
        50,
        BY_INDEX,
    ),
    case(
        "200 partitions: planning",
        "EXPLAIN (COSTS off, SUMMARY off) SELECT t, count(*) FROM {part} WHERE v > 5 GROUP BY t",
        Argument::None,
        10,
        SCAN,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_with_an_argument_use_it_and_the_others_do_not() {
        for case in &CASES {
            let has_argument = !matches!(case.argument, Argument::None);
            assert_eq!(case.sql.contains("$1"), has_argument, "{}", case.title);
        }
    }

    #[test]
    fn titles_tell_cases_apart() {
        let mut titles: Vec<&str> = CASES.iter().map(|case| case.title).collect();
        titles.sort_unstable();
        titles.dedup();
        assert_eq!(titles.len(), CASES.len());
    }
}
