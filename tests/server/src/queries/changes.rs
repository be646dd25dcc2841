//! Changes that a transaction makes to a table before it reads it, or while others read it.

use super::columns::COLUMNS;
use crate::differential::Dice;

/// What a change does; `@` stands for the table. Rows that are inserted get numbers that no other
/// row has, because the order of first rows ends with the number.
const CHANGES: [&str; 12] = [
    "INSERT INTO @",
    "SAVEPOINT b; INSERT INTO @; ROLLBACK TO b",
    "SAVEPOINT b; INSERT INTO @; RELEASE b",
    "TRUNCATE @; INSERT INTO @",
    "TRUNCATE @",
    "DELETE FROM @ WHERE id % 3 = 1",
    "DELETE FROM @ WHERE id < 9000",
    "SAVEPOINT b; DELETE FROM @ WHERE id % 2 = 0; ROLLBACK TO b",
    "UPDATE @ SET i4 = 9, w = 'new' WHERE id % 7 = 2",
    "UPDATE @ SET f8 = 'NaN', i8 = NULL, b = NOT b WHERE id % 500 = 2",
    "SAVEPOINT b; UPDATE @ SET i2 = 4, lw = 'x'; ROLLBACK TO b",
    "UPDATE @ SET id = id + 5000000 WHERE id % 11 = 3 AND id < 5000000",
];

/// Some changes, one after the other.
pub(super) fn changes(dice: &mut Dice) -> String {
    let all: Vec<String> = (0..=dice.below(4))
        .map(|at| change(300_000 * (at + 1), dice))
        .collect();
    all.join("; ")
}

/// A change; the rows that it inserts are numbered from `beyond`.
fn change(beyond: usize, dice: &mut Dice) -> String {
    let columns: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    let columns = columns.join(", ");
    let every = dice.pick(&[1, 3, 9]);
    let insert = format!(
        "INSERT INTO @ (id, {columns}) SELECT id + {beyond}, {columns} FROM source
         WHERE id % {every} = 0"
    );
    dice.pick(&CHANGES).replace("INSERT INTO @", &insert)
}

/// A transaction that makes the same change in `h` and `t`, while other transactions read them.
/// `at` is its number among those that change these tables.
#[must_use]
pub fn committed_changes(dice: &mut Dice, at: usize) -> String {
    let mut change = || loop {
        let change = change(100_000 * (at + 1), dice);
        // Rows that were truncated are missing in older snapshots, too.
        if !change.contains("TRUNCATE") {
            return change;
        }
    };
    let changes = change();
    let end = *dice.pick(&["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]);
    format!(
        "BEGIN; SET LOCAL howdah.load_threshold = {}; {}; {}; {end}",
        dice.pick(&[5, 1_000_000]),
        changes.replace('@', "h"),
        changes.replace('@', "t")
    )
}
