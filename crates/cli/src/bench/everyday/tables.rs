//! The tables of the everyday cases, each once as heap and once as howdah, all of howdah's rows
//! cold.
//!
//! | table | rows | what it is |
//! |---|---|---|
//! | `noise` | all | a key, an indexed integer, 180 hexadecimal digits that no encoding shrinks |
//! | `changed` | a twentieth | the columns of `noise`; each row was updated once, here and there |
//! | `kept` | a twentieth | the columns of `noise`; rows are deleted that old snapshots still see |
//! | `child` | none at first | references `noise` |
//! | `wide` | a twentieth | 60 columns of numbers, dates and words |
//! | `wide_grouped` | a twentieth | the same; howdah's numbers and dates lie side by side |
//! | `document` | a twentieth | a key, a place, and a jsonb document of some 600 bytes |
//! | `tagged` | a twentieth | a key, a place, tags, numbers, and a text search vector |
//! | `usertable` | a tenth | YCSB's: a text key and ten fields of 100 characters |
//! | `grouped` | a twentieth | the same; howdah's fields lie side by side |
//! | `texts` | a fortieth | a text key, eight texts of 20 to 120 characters, side by side too |
//! | `places` | a twentieth | a key, a place, addresses, networks, ranges and bit strings |
//! | `mixed` | a sixteenth | 15 columns of as many types, 73 rows of each `k` here and there |
//! | `mixed_split` | a sixteenth | the same in twelve partitions by hash of their key |
//! | `mixed_grouped` | a sixteenth | the columns of `mixed`; howdah's lie side by side |
//! | `split` | a twentieth | eight partitions by hash of their key |
//! | `part` | 200 × 1,000 | partitions by range, and an index on another column |

use postgres::Client;

use super::super::{Side, writes};
use crate::progress::Progress;
use crate::units;

/// Partitions of `part`, and rows of each.
const PARTITIONS: u64 = 200;
const PARTITION_ROWS: u64 = 1_000;

/// Rows of `mixed` that have the same `k`, on average.
pub(super) const ROWS_OF_A_K: u64 = 73;

/// Words of the texts.
const WORDS: &str = "'the','quick','brown','fox','jumps','over','a','lazy','dog','while','cloud','river',\
    'stone','winter','market','silver','engine','garden','letter','window','mountain','harbour','yellow',\
    'simple','careful','distance','journey','measure','promise','thunder','and'";

/// The name of a table on one side.
pub(super) fn name(table: &str, side: Side) -> String {
    format!("bench.{table}_{}", side.name())
}

const NOISE_COLUMNS: &str =
    "id integer PRIMARY KEY, k integer NOT NULL, c char(120) NOT NULL, pad char(60) NOT NULL";
const NOISE_VALUES: &str = "i::integer, (abs(hashint8(i)::bigint) % ROWS)::integer, \
    md5(i::text) || md5('c' || i) || md5('d' || i) || substr(md5('e' || i), 1, 24), \
    md5('p' || i) || substr(md5('q' || i), 1, 28)";

/// Columns of `mixed`. Rows of one `k` lie here and there; some texts are missing.
const MIXED_COLUMNS: &str = "id integer PRIMARY KEY, k integer NOT NULL, u uuid, m macaddr, a inet, n numeric, f float8, \
    t text, w text, j jsonb, l integer[], r tstzrange, b bytea, c char(20), e interval";
const MIXED_VALUES: &str = "i::integer, (abs(hashint8(i)::bigint) % greatest(ROWS / ROWS_OF_A_K, 1))::integer, md5(i::text)::uuid, \
    ('08:00:2b:' || lpad(to_hex(i & 255), 2, '0') || ':' || lpad(to_hex((i >> 8) & 255), 2, '0') || ':01')::macaddr, \
    '10.0.0.0'::inet + i, \
    CASE WHEN i % 97 = 0 THEN 'NaN'::numeric WHEN i % 31 = 0 THEN i * 1e30 ELSE i / 7.0 END, \
    CASE WHEN i % 53 = 0 THEN 'NaN'::float8 WHEN i % 11 = 0 THEN sqrt(i::float8) ELSE i / 100.0::float8 END, \
    CASE WHEN i % 13 > 0 THEN repeat(md5((i / 3)::text), (1 + i % 4)::integer) END, \
    'word ' || (hashint8(i) & 2047), jsonb_build_object('id', i, 'name', md5((i % 500)::text)), \
    ARRAY[i % 7, i, i * 3]::integer[], \
    tstzrange('2024-01-01 00:00+00'::timestamptz + i * interval '1 minute', '2024-01-02 00:00+00'::timestamptz + i * interval '1 minute'), \
    decode(md5(i::text), 'hex'), 'c' || i % 100, i * interval '1 second'";

#[derive(Default)]
struct Table {
    name: &'static str,
    columns: String,
    /// A query over `i`, the row's number, from `generate_series(1, ROWS)`.
    values: String,
    /// The big table's rows are divided by this.
    divisor: u64,
    /// `{table}` stands for its name.
    indexes: &'static str,
    /// Options that the howdah table is given.
    options: String,
    /// Partitions by hash of `id`; none where it is 0.
    hash_partitions: u64,
    /// Whether each row is updated once, in no order, before anything is measured.
    is_changed: bool,
}

impl Table {
    /// The relations of the table on one side that hold rows.
    fn relations(&self, side: Side) -> Vec<String> {
        let name = name(self.name, side);
        match self.hash_partitions {
            0 => vec![name],
            count => (0..count)
                .map(|number| format!("{name}_{number}"))
                .collect(),
        }
    }

    /// The statements that create the table on one side.
    fn definition(&self, side: Side) -> String {
        let (name, columns, method) = (name(self.name, side), &self.columns, side.name());
        let count = self.hash_partitions;
        if count == 0 {
            return format!("CREATE TABLE {name} ({columns}) USING {method};");
        }
        let mut sql = format!("CREATE TABLE {name} ({columns}) PARTITION BY HASH (id);");
        for (number, partition) in self.relations(side).iter().enumerate() {
            sql.push_str(&format!(
                "CREATE TABLE {partition} PARTITION OF {name} \
                 FOR VALUES WITH (MODULUS {count}, REMAINDER {number}) USING {method};"
            ));
        }
        sql
    }
}

fn tables() -> Vec<Table> {
    let numbers = (0..20).map(|n| {
        (
            format!("n{n} integer"),
            format!("(i * {} % 10007)::integer", 7 + 2 * n),
        )
    });
    let words = (0..20).map(|n| {
        (
            format!("w{n} text"),
            format!("'word ' || (i + {n}) % {}", 50 + 10 * n),
        )
    });
    let dates = (0..10).map(|n| {
        (
            format!("d{n} date"),
            format!("'2020-01-01'::date + (i % {})::integer", 400 + n),
        )
    });
    let amounts = (0..9).map(|n| {
        (
            format!("m{n} numeric(12,2)"),
            format!("((i * {} % 1000003) / 100.0)::numeric(12,2)", 31 + n),
        )
    });
    let wide: Vec<(String, String)> = numbers.chain(words).chain(dates).chain(amounts).collect();
    let list = |of: fn(&(String, String)) -> &String| {
        wide.iter()
            .map(|column| of(column).as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let fields = |text: &dyn Fn(usize) -> String| (0..10).map(text).collect::<Vec<_>>().join(", ");
    let of_users = |name, divisor, options: &str| Table {
        name,
        columns: format!(
            "ycsb_key text PRIMARY KEY, {}",
            fields(&|n| format!("field{n} text"))
        ),
        values: format!(
            "'user' || lpad((i * 7919 % 100000007)::text, 12, '0'), {}",
            fields(&|n| format!(
                "md5('{n}' || i) || md5('x{n}' || i) || md5('y{n}' || i) || '{n}abc'"
            ))
        ),
        divisor,
        options: options.to_owned(),
        ..Table::default()
    };
    let noise = |name, divisor| Table {
        name,
        columns: NOISE_COLUMNS.to_owned(),
        values: NOISE_VALUES.to_owned(),
        divisor,
        ..Table::default()
    };
    let mixed = |name, hash_partitions, options: &str| Table {
        name,
        columns: MIXED_COLUMNS.to_owned(),
        values: MIXED_VALUES.replace("ROWS_OF_A_K", &ROWS_OF_A_K.to_string()),
        divisor: 16,
        indexes: "CREATE INDEX ON {table} (k)",
        options: options.to_owned(),
        hash_partitions,
        ..Table::default()
    };
    let name_of =
        |column: &(String, String)| column.0.split(' ').next().unwrap_or_default().to_owned();
    let wide_names = wide.iter().map(name_of).collect::<Vec<_>>().join(",");
    let of_wide = |name, options| Table {
        name,
        columns: format!("id integer PRIMARY KEY, {}", list(|column| &column.0)),
        values: format!("i::integer, {}", list(|column| &column.1)),
        divisor: 20,
        options,
        ..Table::default()
    };
    // Five words, some of them numbers, and digits: lengths and words differ from row to row.
    let text = |n: usize| {
        let word = |place: usize| {
            let step = 7 + 10 * n + 2 * place;
            format!("(ARRAY[{WORDS}])[1 + i * {step} % 31]")
        };
        let words: Vec<String> = (0..5).map(word).collect();
        let text = format!(
            "concat_ws(' ', {}, i * {} % 9973, substr(md5('{n}' || i) || md5('x{n}' || i), 1, (i * {} % 65)::integer))",
            words.join(", "),
            13 + n,
            11 + n
        );
        match n {
            3 => format!("CASE WHEN i % 7 > 0 THEN {text} END"),
            _ => text,
        }
    };
    let texts = (0..8).map(text).collect::<Vec<_>>().join(", ");
    vec![
        Table {
            name: "texts",
            columns: "key text PRIMARY KEY, t0 text, t1 text, t2 text, t3 text, t4 text, t5 text, t6 text, t7 text"
                .to_owned(),
            values: format!("'text' || lpad((i * 7919 % 100000007)::text, 12, '0'), {texts}"),
            divisor: 40,
            options: "grouped_columns => '{t0,t1,t2,t3,t4,t5,t6,t7}'".to_owned(),
            ..Table::default()
        },
        Table {
            indexes: "CREATE INDEX ON {table} (k)",
            ..noise("noise", 1)
        },
        Table {
            is_changed: true,
            ..noise("changed", 20)
        },
        noise("kept", 20),
        of_wide("wide", String::new()),
        of_wide("wide_grouped", format!("grouped_columns => '{{id,{wide_names}}}'")),
        Table {
            name: "document",
            columns: "id integer PRIMARY KEY, place integer NOT NULL, doc jsonb NOT NULL".to_owned(),
            values: "i::integer, (i * 7919 % 1000)::integer, jsonb_build_object('id', i, 'status', (ARRAY['new', 'open', 'paid', 'sent', 'done'])[1 + i % 5], \
                     'customer', jsonb_build_object('name', 'customer ' || i % 5000, 'mail', md5(i::text) || '@example.com', \
                     'address', jsonb_build_object('street', 'street ' || i % 700, 'city', 'city ' || i % 90, 'zip', (i * 37 % 99999)::text)), \
                     'lines', jsonb_build_array(jsonb_build_object('item', i % 1000, 'count', i % 7, 'price', i % 10007 / 100.0), \
                     jsonb_build_object('item', i % 999, 'count', i % 5, 'price', i % 9973 / 100.0)), \
                     'note', 'a note of order ' || i || ' ' || md5('n' || i))"
                .to_owned(),
            divisor: 20,
            indexes: "CREATE INDEX ON {table} (place)",
            ..Table::default()
        },
        Table {
            name: "tagged",
            columns: "id integer PRIMARY KEY, place integer NOT NULL, tags text[] NOT NULL, numbers integer[] NOT NULL, \
                      words tsvector NOT NULL"
                .to_owned(),
            values: format!(
                "i::integer, (i * 7919 % 1000)::integer, \
                 ARRAY(SELECT 'tag' || (i * n * 37 % 311) FROM generate_series(1, 2 + i % 5) n), \
                 ARRAY(SELECT (i * n * 7919 % 100003)::integer FROM generate_series(1, 4 + i % 9) n), \
                 to_tsvector('simple', (SELECT string_agg((ARRAY[{WORDS}])[1 + i * n * 31 % 29] || \
                     CASE WHEN (i + n) % 3 = 0 THEN (i * n % 997)::text ELSE '' END, ' ') FROM generate_series(1, 20 + i % 20) n))"
            ),
            divisor: 20,
            indexes: "CREATE INDEX ON {table} (place)",
            ..Table::default()
        },
        Table {
            name: "places",
            columns: "id integer PRIMARY KEY, place integer NOT NULL, address inet NOT NULL, net cidr NOT NULL, \
                      span int4range NOT NULL, hours tstzrange NOT NULL, flags bit varying(64) NOT NULL"
                .to_owned(),
            values: "i::integer, (i * 7919 % 1000)::integer, '10.0.0.0'::inet + i * 31 % 16777216, \
                     network(set_masklen('172.16.0.0'::inet + i % 1048576, 24))::cidr, int4range((i % 1000)::integer, (i % 1000 + i % 77 + 1)::integer), \
                     tstzrange('2024-01-01 00:00+00'::timestamptz + i * interval '7 minutes', '2024-01-01 00:00+00'::timestamptz + (i + i % 9 + 1) * interval '7 minutes'), \
                     (i * 2654435761 % 4294967296)::bit(40)::bit varying(64)"
                .to_owned(),
            divisor: 20,
            indexes: "CREATE INDEX ON {table} (place)",
            ..Table::default()
        },
        Table {
            name: "split",
            columns: "id integer PRIMARY KEY, v integer, t text".to_owned(),
            values: "i::integer, (i * 7919 % 100003)::integer, 'text ' || md5(i::text)".to_owned(),
            divisor: 20,
            hash_partitions: 8,
            ..Table::default()
        },
        mixed("mixed", 0, ""),
        mixed("mixed_split", 12, ""),
        mixed(
            "mixed_grouped",
            0,
            "grouped_columns => '{id,k,u,m,a,n,f,t,w,j,l,r,b,c,e}'",
        ),
        of_users("usertable", 10, ""),
        of_users(
            "grouped",
            20,
            "grouped_columns => '{field0,field1,field2,field3,field4,field5,field6,field7,field8,field9}'",
        ),
    ]
}

/// The rows of a table where the big one has so many.
pub(super) fn row_count(name: &str, rows: u64) -> u64 {
    let table = tables().into_iter().find(|table| table.name == name);
    table.map_or(0, |table| rows / table.divisor)
}

/// Makes and fills these tables.
pub(super) fn make(client: &mut Client, rows: u64, names: &[&str]) -> anyhow::Result<()> {
    let progress = Progress::open_ended("everyday tables");
    for table in tables() {
        if !names.contains(&table.name) {
            continue;
        }
        let count = rows / table.divisor;
        progress.line(table.name);
        for side in Side::BOTH {
            let name = name(table.name, side);
            let values = table.values.replace("ROWS", &count.to_string());
            client.batch_execute(&table.definition(side))?;
            if side == Side::Howdah && !table.options.is_empty() {
                let options = &table.options;
                client.batch_execute(&format!("SELECT howdah.set_options('{name}', {options})"))?;
            }
            client.batch_execute(&format!(
                "INSERT INTO {name} SELECT {values} FROM generate_series(1::bigint, {count}) i;
                 {}",
                table.indexes.replace("{table}", &name),
            ))?;
            for relation in table.relations(side) {
                writes::settle(client, side, &relation)?;
            }
            if table.is_changed {
                change(client, &name)?;
                writes::settle(client, side, &name)?;
            }
            if table.hash_partitions > 0 {
                client.batch_execute(&format!("ANALYZE {name}"))?;
            }
        }
    }
    for side in Side::BOTH {
        if names.contains(&"child") {
            make_child(client, side)?;
        }
        if names.contains(&"part") {
            make_partitions(client, side)?;
        }
    }
    client.batch_execute("CHECKPOINT")?;
    progress.finish(&format!("{} rows", units::count(rows)));
    Ok(())
}

/// Drops these tables of both sides.
pub(super) fn drop(client: &mut Client, names: &[&str]) -> anyhow::Result<()> {
    let both = names
        .iter()
        .flat_map(|table| Side::BOTH.map(|side| name(table, side)));
    let all = both.collect::<Vec<_>>().join(", ");
    client.batch_execute(&format!("DROP TABLE {all}"))?;
    Ok(())
}

/// Updates each row once, a sixteenth of them at a time and each sixteenth in no order: room that
/// updates leave in a page is used by later ones.
fn change(client: &mut Client, name: &str) -> anyhow::Result<()> {
    client.batch_execute("SET enable_hashjoin = off; SET enable_mergejoin = off")?;
    for round in 0..16 {
        client.batch_execute(&format!(
            "UPDATE {name} t SET k = k + 1 FROM
                 (SELECT id FROM {name} WHERE hashint4(id) & 15 = {round} ORDER BY hashint4(id + 1)) o
             WHERE o.id = t.id"
        ))?;
    }
    client.batch_execute("RESET enable_hashjoin; RESET enable_mergejoin")?;
    Ok(())
}

fn make_child(client: &mut Client, side: Side) -> anyhow::Result<()> {
    let (child, parent) = (name("child", side), name("noise", side));
    client.batch_execute(&format!(
        "CREATE TABLE {child} (id bigint GENERATED ALWAYS AS IDENTITY, parent integer NOT NULL REFERENCES {parent}) USING {}",
        side.name()
    ))?;
    Ok(())
}

fn make_partitions(client: &mut Client, side: Side) -> anyhow::Result<()> {
    let parent = name("part", side);
    let mut sql =
        format!("CREATE TABLE {parent} (id integer, v integer, t text) PARTITION BY RANGE (id);");
    for number in 0..PARTITIONS {
        let (from, to) = (number * PARTITION_ROWS, (number + 1) * PARTITION_ROWS);
        sql.push_str(&format!(
            "CREATE TABLE {parent}_{number} PARTITION OF {parent} FOR VALUES FROM ({from}) TO ({to}) USING {};",
            side.name()
        ));
    }
    sql.push_str(&format!("CREATE INDEX ON {parent} (v);"));
    sql.push_str(&format!(
        "SET howdah.load_threshold = 0;
         INSERT INTO {parent} SELECT i, i * 7919 % 100003, 'text ' || i FROM generate_series(0, {}) i;
         RESET howdah.load_threshold;",
        PARTITIONS * PARTITION_ROWS - 1
    ));
    client.batch_execute(&sql)?;
    for number in 0..PARTITIONS {
        writes::settle(client, side, &format!("{parent}_{number}"))?;
    }
    client.batch_execute(&format!("ANALYZE {parent}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_partitioned_table_are_in_its_partitions() {
        let split = Table {
            name: "split",
            columns: "id integer PRIMARY KEY".to_owned(),
            hash_partitions: 2,
            ..Table::default()
        };
        assert_eq!(
            split.relations(Side::Howdah),
            ["bench.split_howdah_0", "bench.split_howdah_1"]
        );
        let statements: Vec<String> = split
            .definition(Side::Howdah)
            .split_terminator(';')
            .map(str::to_owned)
            .collect();
        assert_eq!(
            statements,
            [
                "CREATE TABLE bench.split_howdah (id integer PRIMARY KEY) PARTITION BY HASH (id)",
                "CREATE TABLE bench.split_howdah_0 PARTITION OF bench.split_howdah FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING howdah",
                "CREATE TABLE bench.split_howdah_1 PARTITION OF bench.split_howdah FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING howdah",
            ]
        );
    }

    #[test]
    fn every_table_is_either_plain_or_partitioned() {
        for table in tables() {
            let definition = table.definition(Side::Heap);
            let relations = table.relations(Side::Heap);
            let made = definition.matches(" USING heap").count();
            assert_eq!(made, relations.len(), "{}", table.name);
        }
    }
}
