//! Statements that change the schema, and maintenance commands.

use super::author::Author;
use super::kinds::KINDS;
use super::schema::{Column, Partitions};
use super::script::Step;

impl Author {
    pub fn change_schema(&mut self) -> String {
        match self.dice.below(24) {
            0..=2 => self.create_index(),
            3 if !self.indexes.is_empty() => {
                let at = self.dice.below(self.indexes.len());
                format!("DROP INDEX {}", self.indexes.swap_remove(at))
            }
            4 => {
                let column = Column {
                    name: self.name("a"),
                    kind: self.dice.pick(KINDS),
                };
                let default = column.kind.value.replace("{i}", "5");
                let clause = if self.dice.one_in(2) {
                    format!(" DEFAULT {default}")
                } else {
                    String::new()
                };
                let text = format!(
                    "ALTER TABLE t ADD COLUMN {} {}{clause}",
                    column.name, column.kind.sql
                );
                self.schema.columns.push(column);
                text
            }
            5 if self.schema.columns.len() > 1 => {
                let at = self.dice.below(self.schema.columns.len());
                let gone = self.schema.columns.remove(at);
                // Its indexes are dropped with it; forget them all rather than track which.
                self.indexes.clear();
                format!("ALTER TABLE t DROP COLUMN {}", gone.name)
            }
            6 if self.dice.one_in(4) => "TRUNCATE t".to_owned(),
            7 if self.schema.partitions == Partitions::None && !self.schema.has_child => {
                "ALTER TABLE t ALTER COLUMN word TYPE varchar(60)".to_owned()
            }
            8 => "REINDEX TABLE t".to_owned(),
            9 => "CREATE TABLE copy AS SELECT * FROM t; SELECT count(*) FROM copy; DROP TABLE copy"
                .to_owned(),
            10 => "ANALYZE t".to_owned(),
            11 => (*self.dice.pick(&[
                "REFRESH MATERIALIZED VIEW m",
                "REFRESH MATERIALIZED VIEW CONCURRENTLY m",
            ]))
            .to_owned(),
            12 => {
                let mode = *self.dice.pick(&[
                    "ACCESS SHARE",
                    "ROW EXCLUSIVE",
                    "SHARE",
                    "SHARE ROW EXCLUSIVE",
                    "ACCESS EXCLUSIVE",
                ]);
                format!("LOCK TABLE t IN {mode} MODE")
            }
            13 => (*self.dice.pick(&[
                "TRUNCATE t CASCADE",
                "TRUNCATE t RESTART IDENTITY",
                "TRUNCATE archive",
            ]))
            .to_owned(),
            _ => self.alter(),
        }
    }

    /// One of the forms of ALTER TABLE that keep the columns that other statements name.
    fn alter(&mut self) -> String {
        let name = self.name("n");
        let part = match self.schema.partitions {
            Partitions::None => "t",
            _ => "t1",
        };
        let form = match self.dice.below(26) {
            0 => "t ALTER COLUMN word SET NOT NULL".to_owned(),
            1 => "t ALTER COLUMN word DROP NOT NULL".to_owned(),
            2 => "t ALTER COLUMN k SET NOT NULL".to_owned(),
            3 => "t ALTER COLUMN k DROP NOT NULL".to_owned(),
            4 => format!("t ADD CONSTRAINT {name} CHECK (id > -5) NOT VALID; ALTER TABLE t VALIDATE CONSTRAINT {name}"),
            5 => format!("t ADD CONSTRAINT {name} CHECK (id < 700 OR k IS NOT NULL); ALTER TABLE t DROP CONSTRAINT {name}"),
            6 => format!("t ADD CONSTRAINT {name} UNIQUE (id, k, word)"),
            7 => format!("t ADD CONSTRAINT {name} UNIQUE NULLS NOT DISTINCT (id, k)"),
            8 => format!("{part} SET ACCESS METHOD heap"),
            9 | 10 => format!("{part} SET ACCESS METHOD {{am}}"),
            11 => format!("{part} SET UNLOGGED"),
            12 => format!("{part} SET LOGGED"),
            13 => "t ALTER COLUMN k TYPE bigint".to_owned(),
            14 => "t ALTER COLUMN word SET DEFAULT 'default'".to_owned(),
            15 => "t ALTER COLUMN word SET STORAGE EXTERNAL".to_owned(),
            16 => format!("t ADD COLUMN {name} bigint GENERATED ALWAYS AS (id + 1) STORED"),
            17 => format!("t ADD COLUMN {name} int DEFAULT 7; ALTER TABLE t DROP COLUMN {name}"),
            18 => "t RENAME COLUMN word TO term; UPDATE t SET term = term || 'r' WHERE id % 10 = 0; ALTER TABLE t RENAME COLUMN term TO word".to_owned(),
            19 => "t DISABLE TRIGGER USER".to_owned(),
            20 => "t ENABLE TRIGGER USER".to_owned(),
            21 => format!("{part} REPLICA IDENTITY FULL"),
            22 => match self.schema.partitions {
                Partitions::Range | Partitions::List => "t DETACH PARTITION t3; SELECT count(*) FROM t; SELECT count(*) FROM t3; ALTER TABLE t ATTACH PARTITION t3 DEFAULT".to_owned(),
                _ => format!("{part} SET (fillfactor = 70)"),
            },
            23 if self.has_key() && self.schema.partitions == Partitions::None => {
                return "CLUSTER t USING t_pkey".to_owned();
            }
            24 => format!("t ADD COLUMN {name} int NOT NULL DEFAULT 3, ALTER COLUMN k SET STATISTICS 10"),
            _ => "t ALTER COLUMN id TYPE bigint USING id + 0".to_owned(),
        };
        format!("ALTER TABLE {form}")
    }

    fn create_index(&mut self) -> String {
        let name = self.name("i");
        let indexable: Vec<String> = self
            .schema
            .columns
            .iter()
            .filter(|column| column.kind.indexable)
            .map(|column| column.name.clone())
            .chain(["k".to_owned(), "word".to_owned(), "id".to_owned()])
            .collect();
        let column = self.dice.pick(&indexable).clone();
        let wider = *self.dice.pick(&["", ", id"]);
        let condition = *self.dice.pick(&["", "", " WHERE id % 2 = 0"]);
        let unique = if column == "id" && self.schema.partitions == Partitions::None {
            *self.dice.pick(&["", "UNIQUE "])
        } else {
            ""
        };
        self.indexes.push(name.clone());
        match self.dice.below(9) {
            0 => return format!("CREATE INDEX {name} ON t USING hash ({column})"),
            1 => return format!("CREATE INDEX {name} ON t ((id % 10), lower(word))"),
            2 => return format!("CREATE INDEX {name} ON t USING gist (id, k)"),
            3 => return format!("CREATE INDEX {name} ON t USING brin (id)"),
            4 => return format!("CREATE INDEX {name} ON t (k) INCLUDE (word)"),
            5 => {
                let special = self.schema.columns.iter().find_map(|column| {
                    let method = match column.kind.sql {
                        "jsonb" | "int[]" => "gin",
                        "int4range" => "gist",
                        _ => return None,
                    };
                    Some((column.name.clone(), method))
                });
                if let Some((column, method)) = special {
                    return format!("CREATE INDEX {name} ON t USING {method} ({column})");
                }
            }
            _ => {}
        }
        format!("CREATE {unique}INDEX {name} ON t ({column}{wider}){condition}")
    }

    /// A maintenance command that runs beside the sessions, between their steps.
    pub fn maintenance(&mut self) -> Step {
        let table = self.table_in_need();
        match self.dice.below(12) {
            0 => Step::Maintain(format!("VACUUM {table}")),
            1 => Step::Maintain(format!("VACUUM (FULL) {table}")),
            2 => Step::Maintain(format!("VACUUM (FREEZE, ANALYZE) {table}")),
            3 if self.dice.one_in(3) => {
                Step::Maintain(format!("REINDEX TABLE CONCURRENTLY {table}"))
            }
            4 => Step::Maintain(format!("VACUUM (INDEX_CLEANUP on) {table}")),
            5 if self.has_key() && self.schema.partitions == Partitions::None => {
                Step::Maintain("CLUSTER w.t USING t_pkey".to_owned())
            }
            _ => Step::Compact(table),
        }
    }

    fn table_in_need(&mut self) -> String {
        let mut tables = match self.schema.partitions {
            Partitions::None => vec!["w.t", "w.t", "w.t"],
            _ => vec!["w.t1", "w.t1", "w.t2"],
        };
        if self.schema.has_child {
            tables.push("w.f");
        }
        if self.schema.has_parent {
            tables.push("w.p");
        }
        if self.schema.has_ranges {
            tables.push("w.e");
        }
        (*self.dice.pick(&tables)).to_owned()
    }
}
