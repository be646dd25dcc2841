//! The parts of generated statements: rows, filters, assignments.

use super::Dice;
use super::schema::{Key, PARENT_COUNT, Partitions, Schema};

pub(super) struct Author {
    pub dice: Dice,
    pub schema: Schema,
    /// Ids below this have been used.
    pub next_id: u64,
    fresh_count: u64,
    name_count: usize,
    /// Indexes that were made and not dropped, as far as is known.
    pub indexes: Vec<String>,
}

impl Author {
    pub fn new(seed: u64) -> Author {
        let mut dice = Dice::new(seed);
        let schema = Schema::new(&mut dice);
        Author {
            dice,
            schema,
            next_id: 1,
            fresh_count: 0,
            name_count: 0,
            indexes: Vec::new(),
        }
    }

    pub fn name(&mut self, prefix: &str) -> String {
        self.name_count += 1;
        format!("{prefix}{}", self.name_count)
    }

    /// A number that shifts every key to a value that no key has had.
    pub fn fresh(&mut self) -> u64 {
        self.fresh_count += 1;
        self.fresh_count * 1_000_000
    }

    /// An id that probably exists.
    pub fn some_id(&mut self) -> u64 {
        1 + self.dice.roll() % self.next_id.max(2)
    }

    pub fn has_key(&self) -> bool {
        self.schema.key != Key::None
    }

    /// The columns of an insert, beside generated ones.
    pub fn names(&self) -> String {
        let mut names = vec!["id".to_owned(), "k".to_owned(), "word".to_owned()];
        if self.schema.partitions == Partitions::List {
            names.push("part".to_owned());
        }
        names.extend(self.schema.columns.iter().map(|column| column.name.clone()));
        names.join(", ")
    }

    /// The values of an insert, made from the integer expression `i`.
    pub fn values(&mut self, i: &str) -> String {
        let k = if self.schema.has_parent {
            format!("({i})::int % {PARENT_COUNT}")
        } else if self.schema.k_is_unique {
            format!("({i})::int")
        } else {
            format!("({i})::int % 50")
        };
        let mut values = vec![i.to_owned(), k, format!("'w' || ({i}) % 97")];
        if self.schema.partitions == Partitions::List {
            values.push(format!("(({i}) % 3)::int"));
        }
        for number in 0..self.schema.columns.len() {
            let value = self.schema.columns[number].kind.value.replace("{i}", i);
            values.push(match self.dice.below(12) {
                0 => format!("CASE WHEN ({i}) % 7 = 0 THEN NULL ELSE {value} END"),
                1 => "NULL".to_owned(),
                _ => value,
            });
        }
        values.join(", ")
    }

    /// `SELECT` of rows to insert; sometimes including rows that exist already.
    pub fn rows(&mut self, row_count: u64) -> String {
        let first = if self.dice.one_in(6) {
            self.next_id.saturating_sub(row_count / 2).max(1)
        } else {
            self.next_id
        };
        self.next_id = self.next_id.max(first + row_count);
        let values = self.values("i");
        format!(
            "SELECT {values} FROM generate_series({first}, {}) i",
            first + row_count - 1
        )
    }

    /// A filter over `t`.
    pub fn predicate(&mut self) -> String {
        let a = self.some_id();
        if self.schema.is_wide && self.dice.one_in(3) {
            return self.wide_predicate();
        }
        match self.dice.below(9) {
            0..=2 => format!("id = {a}"),
            3 => format!("id BETWEEN {a} AND {}", a + 1 + self.dice.roll() % 40),
            4 => format!("id % 17 = {}", a % 17),
            5 => format!("id IN ({a}, {}, {})", a / 2, a / 3),
            6 => format!("k = {}", a % 50),
            _ if self.schema.columns.is_empty() => format!("word = 'w{}'", a % 97),
            7 => {
                let number = self.dice.below(self.schema.columns.len());
                format!("{} IS NULL", self.schema.columns[number].name)
            }
            _ => {
                let number = self.dice.below(self.schema.columns.len());
                let operator = *self
                    .dice
                    .pick(&["=", "<", ">=", "<>", "IS NOT DISTINCT FROM"]);
                let column = &self.schema.columns[number];
                let value = column.kind.value.replace("{i}", &a.to_string());
                format!("{} {operator} {value}", column.name)
            }
        }
    }

    /// A filter that hundreds of rows pass.
    pub fn wide_predicate(&mut self) -> String {
        let a = self.some_id();
        match self.dice.below(6) {
            0 => "id > 0".to_owned(),
            1 => format!("id % 2 = {}", a % 2),
            2 => format!("id > {}", a / 4),
            3 => format!("id BETWEEN {} AND {}", a / 3, a / 3 + 500),
            4 => format!("id % 9 <> {}", a % 9),
            _ => format!("id < {} OR id > {}", a / 2, a / 2 + 30),
        }
    }

    /// What an UPDATE of any number of rows may set without depending on their order.
    pub fn assignments(&mut self) -> String {
        let fresh = self.fresh();
        let k = if self.schema.has_parent {
            format!("k = (id % {PARENT_COUNT})::int")
        } else {
            format!("k = k + {fresh}")
        };
        match self.dice.below(8) {
            0 => format!("id = id + {fresh}"),
            1 if self.schema.key == Key::Deferred => "id = id + 1".to_owned(),
            1 => format!("{k}, word = 'both'"),
            2 if self.schema.partitions == Partitions::List => "part = (part + 1) % 3".to_owned(),
            2 | 3 => k,
            4 if !self.schema.columns.is_empty() => {
                let number = self.dice.below(self.schema.columns.len());
                let column = &self.schema.columns[number];
                format!(
                    "{} = {}",
                    column.name,
                    column.kind.value.replace("{i}", "id + 1")
                )
            }
            5 => "word = NULL".to_owned(),
            _ => "word = word || 'x'".to_owned(),
        }
    }

    /// What a statement returns of the rows it changed; or nothing.
    pub fn returning(&mut self) -> &'static str {
        self.dice.pick::<&str>(&[
            "",
            "",
            " RETURNING id, k, word",
            " RETURNING old.id, old.k, new.id, new.k, old.word, new.word",
            " RETURNING *",
        ])
    }

    /// A clause that locks rows.
    pub fn locking(&mut self) -> String {
        let strength = *self
            .dice
            .pick(&["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"]);
        let policy = *self.dice.pick(&["", "", " NOWAIT", " SKIP LOCKED"]);
        format!("FOR {strength}{policy}")
    }
}
