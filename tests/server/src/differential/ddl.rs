//! Statements that change the schema, and what keeps tables in shape.

use super::author::Author;
use super::kinds::KINDS;
use super::schema::{Column, Partitions};
use super::script::Step;

impl Author {
    pub fn change_schema(&mut self) -> String {
        match self.dice.below(12) {
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
                // Its indexes go with it; forget them all rather than track which.
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
            _ => "ANALYZE t".to_owned(),
        }
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
        format!("CREATE {unique}INDEX {name} ON t ({column}{wider}){condition}")
    }

    /// What runs beside the sessions, between their steps.
    pub fn maintenance(&mut self) -> Step {
        let table = self.table_in_need();
        match self.dice.below(12) {
            0 => Step::Maintain(format!("VACUUM {table}")),
            1 => Step::Maintain(format!("VACUUM (FULL) {table}")),
            2 => Step::Maintain(format!("VACUUM (FREEZE, ANALYZE) {table}")),
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
