//! Schemas, data and statements from a seed.

use super::Dice;

/// A type and how values of it are made from the integer expression `{i}`.
struct Kind {
    sql: &'static str,
    value: &'static str,
    /// Whether a btree index on it makes sense here.
    indexable: bool,
}

const KINDS: &[Kind] = &[
    Kind {
        sql: "int",
        value: "(({i}) * 7919 % 1000)::int",
        indexable: true,
    },
    Kind {
        sql: "bigint",
        value: "(({i})::bigint * 1000003)",
        indexable: true,
    },
    Kind {
        sql: "smallint",
        value: "(({i}) % 300)::smallint",
        indexable: true,
    },
    Kind {
        sql: "text",
        value: "repeat('w' || (({i}) % 97), 1 + ({i}) % 5)",
        indexable: true,
    },
    Kind {
        sql: "varchar(40)",
        value: "('v' || ({i}) % 13)::varchar(40)",
        indexable: true,
    },
    Kind {
        sql: "numeric",
        value: "(({i}) * 1.10 / (1 + ({i}) % 4))",
        indexable: true,
    },
    Kind {
        sql: "numeric(12,2)",
        value: "CASE WHEN ({i}) % 50 = 0 THEN 'NaN' ELSE (({i}) % 9999) / 100.0 END",
        indexable: true,
    },
    Kind {
        sql: "float8",
        value: "CASE ({i}) % 40 WHEN 0 THEN 'NaN'::float8 WHEN 1 THEN 'infinity' WHEN 2 THEN '-0' ELSE ({i}) / 8.0 END",
        indexable: true,
    },
    Kind {
        sql: "float4",
        value: "(({i}) % 1000 / 4.0)::float4",
        indexable: true,
    },
    Kind {
        sql: "bool",
        value: "(({i}) % 3 = 0)",
        indexable: false,
    },
    Kind {
        sql: "date",
        value: "CASE WHEN ({i}) % 60 = 0 THEN 'infinity' ELSE date '2020-01-01' + (({i}) % 2000)::int END",
        indexable: true,
    },
    Kind {
        sql: "timestamptz",
        value: "(timestamptz '2021-03-04 05:06:07+00' + ({i}) * interval '13 seconds')",
        indexable: true,
    },
    Kind {
        sql: "interval",
        value: "(({i}) % 500 * interval '7 minutes')",
        indexable: true,
    },
    Kind {
        sql: "uuid",
        value: "md5(({i})::text)::uuid",
        indexable: true,
    },
    Kind {
        sql: "jsonb",
        value: "jsonb_build_object('a', ({i}) % 10, 'b', ({i})::text)",
        indexable: false,
    },
    Kind {
        sql: "int[]",
        value: "ARRAY[({i}) % 5, NULL, ({i})]::int[]",
        indexable: true,
    },
    Kind {
        sql: "bytea",
        value: "decode(md5(({i})::text), 'hex')",
        indexable: true,
    },
    Kind {
        sql: "int4range",
        value: "int4range((({i}) % 100)::int, (({i}) % 100)::int + 5)",
        indexable: true,
    },
];

struct Column {
    name: String,
    kind: &'static Kind,
}

/// One generated table and the statements thrown at it.
pub(super) struct Case {
    dice: Dice,
    columns: Vec<Column>,
    indexes: Vec<String>,
    next_name: usize,
    next_row: u64,
}

impl Case {
    pub(super) fn new(seed: u64) -> Case {
        let mut case = Case {
            dice: Dice::new(seed),
            columns: Vec::new(),
            indexes: Vec::new(),
            next_name: 0,
            next_row: 1,
        };
        for _ in 0..1 + case.dice.below(7) {
            let column = case.new_column();
            case.columns.push(column);
        }
        case
    }

    fn name(&mut self, prefix: &str) -> String {
        self.next_name += 1;
        format!("{prefix}{}", self.next_name)
    }

    fn new_column(&mut self) -> Column {
        let kind = &KINDS[self.dice.below(KINDS.len())];
        Column {
            name: self.name("c"),
            kind,
        }
    }

    /// The statement that makes the table, without its access method.
    pub(super) fn create(&mut self) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|c| format!("{} {}", c.name, c.kind.sql))
            .collect();
        let key = if self.dice.one_in(2) {
            "bigint PRIMARY KEY"
        } else {
            "bigint"
        };
        format!("(id {key}, {})", columns.join(", "))
    }

    fn values(&mut self, i: &str) -> String {
        let mut out = vec![i.to_owned()];
        for c in 0..self.columns.len() {
            let value = self.columns[c].kind.value.replace("{i}", i);
            out.push(match self.dice.below(12) {
                0 => format!("CASE WHEN ({i}) % 7 = 0 THEN NULL ELSE {value} END"),
                1 => "NULL".to_owned(),
                _ => value,
            });
        }
        out.join(", ")
    }

    fn names(&self) -> String {
        let mut out = vec!["id".to_owned()];
        out.extend(self.columns.iter().map(|c| c.name.clone()));
        out.join(", ")
    }

    fn insert_rows(&mut self, rows: u64) -> String {
        // Now and then a range that overlaps what is there, for duplicate keys.
        let first = if self.dice.one_in(8) {
            self.next_row.saturating_sub(rows / 2)
        } else {
            self.next_row
        };
        self.next_row = self.next_row.max(first + rows);
        let (names, values) = (self.names(), self.values("i"));
        let last = first + rows - 1;
        format!(
            "INSERT INTO {{t}} ({names}) SELECT {values} FROM generate_series({first}, {last}) i"
        )
    }

    /// A filter over the table's columns.
    pub(super) fn predicate(&mut self) -> String {
        let top = self.next_row.max(2);
        let a = self.dice.roll() % top;
        match self.dice.below(6) {
            0 => format!("id = {a}"),
            1 => format!("id BETWEEN {a} AND {}", a + 40),
            2 => format!("id % 17 = {}", a % 17),
            3 => format!("id IN ({a}, {}, {})", a / 2, a / 3),
            kind => {
                let c = self.dice.below(self.columns.len());
                let column = &self.columns[c];
                let value = column.kind.value.replace("{i}", &a.to_string());
                let operator = *self
                    .dice
                    .pick(&["=", "<", ">=", "<>", "IS NOT DISTINCT FROM"]);
                if kind == 4 {
                    format!("{} IS NULL", column.name)
                } else {
                    format!("{} {operator} {value}", column.name)
                }
            }
        }
    }

    /// The next statement, with `{t}` for the table and `{x}` for names derived from it.
    pub(super) fn statement(&mut self) -> String {
        match self.dice.below(30) {
            0..=5 => {
                let rows = 1 + self.dice.roll() % 30;
                self.insert_rows(rows)
            }
            6..=9 => {
                let rows = 100 + self.dice.roll() % 3000;
                self.insert_rows(rows)
            }
            10 => {
                let rows = 500 + self.dice.roll() % 1000;
                let load = self.insert_rows(rows);
                format!("SAVEPOINT inner_one; {load}; ROLLBACK TO inner_one; {}", self.insert_rows(60))
            }
            11..=13 => {
                let c = self.dice.below(self.columns.len());
                let (name, value) = (
                    self.columns[c].name.clone(),
                    self.columns[c].kind.value.replace("{i}", "id + 1"),
                );
                format!("UPDATE {{t}} SET {name} = {value} WHERE {}", self.predicate())
            }
            14..=15 => format!("DELETE FROM {{t}} WHERE {}", self.predicate()),
            16..=17 => {
                let c = self.dice.below(self.columns.len());
                if !self.columns[c].kind.indexable {
                    return "ANALYZE {t}".to_owned();
                }
                let index = self.name("i");
                self.indexes.push(index.clone());
                let (column, extra) = (
                    self.columns[c].name.clone(),
                    *self.dice.pick(&["", " WHERE id % 2 = 0", ""]),
                );
                let wider = *self.dice.pick(&["", ", id"]);
                format!("CREATE INDEX {{x}}_{index} ON {{t}} ({column}{wider}){extra}")
            }
            18 if !self.indexes.is_empty() => {
                let at = self.dice.below(self.indexes.len());
                format!("DROP INDEX {{x}}_{}", self.indexes.swap_remove(at))
            }
            19 => {
                let column = self.new_column();
                let default = column.kind.value.replace("{i}", "5");
                let clause = if self.dice.one_in(2) { format!(" DEFAULT {default}") } else { String::new() };
                let sql = format!("ALTER TABLE {{t}} ADD COLUMN {} {}{clause}", column.name, column.kind.sql);
                self.columns.push(column);
                sql
            }
            20 if self.columns.len() > 2 => {
                let at = self.dice.below(self.columns.len());
                let gone = self.columns.remove(at);
                // Its indexes go with it; forget them all rather than track which.
                self.indexes.clear();
                format!("ALTER TABLE {{t}} DROP COLUMN {}", gone.name)
            }
            21 if self.dice.one_in(4) => "TRUNCATE {t}".to_owned(),
            22 => "ANALYZE {t}".to_owned(),
            23 if self.dice.one_in(2) => {
                "ALTER TABLE {t} ALTER COLUMN id TYPE numeric; ALTER TABLE {t} ALTER COLUMN id TYPE bigint".to_owned()
            }
            24 => "REINDEX TABLE {t}".to_owned(),
            _ => {
                let rows = 1 + self.dice.roll() % 200;
                self.insert_rows(rows)
            }
        }
    }

    /// What runs outside a transaction block, now and then.
    pub(super) fn maintenance(&mut self) -> Option<&'static str> {
        match self.dice.below(10) {
            0 => Some("VACUUM {t}"),
            1 => Some("VACUUM (FULL) {t}"),
            2 | 3 => Some("COMPACT {t}"),
            4 => Some("VACUUM (FREEZE, ANALYZE) {t}"),
            _ => None,
        }
    }

    pub(super) fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }
}
