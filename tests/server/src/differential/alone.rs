//! Scripts of one session: every kind of statement, in and out of transaction blocks.

use super::author::Author;
use super::schema::Partitions;
use super::script::{Script, Step};

/// Statements, or short runs of them, in one script.
const ACT_COUNT: usize = 30;

pub(super) fn script(seed: u64) -> Script {
    let mut author = Author::new(seed);
    let mut steps = first_rows(&mut author);
    let mut act_count = 0;
    while act_count < ACT_COUNT {
        if author.dice.one_in(3) {
            act_count += 1;
            let act = act(&mut author);
            steps.extend(act);
        } else {
            act_count += transaction(&mut author, &mut steps);
        }
        if author.dice.one_in(2) {
            steps.push(author.maintenance());
        }
    }
    steps.push(Step::Compact(compacted(&author)));
    let force_cold = if author.dice.one_in(3) { "on" } else { "off" };
    let threshold = *author.dice.pick(&["0", "50", "8192"]);
    Script {
        session_count: 1,
        settings: vec![
            // A prepared transaction may hold a lock that the next statement needs.
            "SET lock_timeout = '50ms'".into(),
        ],
        howdah_settings: vec![
            format!("SET howdah.debug_force_cold = {force_cold}"),
            format!("SET howdah.load_threshold = {threshold}"),
        ],
        setup: author.schema.setup,
        steps,
    }
}

fn compacted(author: &Author) -> String {
    match author.schema.partitions {
        Partitions::None => "w.t".into(),
        _ => "w.t1".into(),
    }
}

fn sql(text: String) -> Step {
    Step::Sql { session: 0, text }
}

/// The rows at the start, some of them cold.
fn first_rows(author: &mut Author) -> Vec<Step> {
    let row_count = if author.schema.is_wide {
        350 + author.dice.roll() % 500
    } else {
        20 + author.dice.roll() % 200
    };
    let names = author.names();
    let rows = author.rows(row_count);
    let mut steps = vec![sql(format!("INSERT INTO t ({names}) {rows}"))];
    if author.schema.is_wide || author.dice.one_in(2) {
        steps.push(Step::Compact(compacted(author)));
    }
    steps
}

fn act(author: &mut Author) -> Vec<Step> {
    if author.dice.one_in(8) {
        return vec![sql(author.change_schema())];
    }
    author.statement().into_iter().map(sql).collect()
}

fn transaction(author: &mut Author, steps: &mut Vec<Step>) -> usize {
    let isolation = *author.dice.pick(&[
        "",
        "",
        " ISOLATION LEVEL REPEATABLE READ",
        " ISOLATION LEVEL SERIALIZABLE",
    ]);
    steps.push(sql(format!("BEGIN{isolation}")));
    let act_count = 1 + author.dice.below(5);
    for _ in 0..act_count {
        let depth = *author.dice.pick(&[0, 0, 1, 1, 2]);
        for name in ["one", "two"].iter().take(depth) {
            steps.push(sql(format!("SAVEPOINT {name}")));
            steps.extend(act(author));
        }
        if depth == 0 {
            steps.extend(act(author));
        }
        for name in ["one", "two"].iter().take(depth).rev() {
            let end = *author.dice.pick(&["ROLLBACK TO", "RELEASE", "ROLLBACK TO"]);
            steps.push(sql(format!("{end} {name}")));
            if author.dice.one_in(3) {
                steps.extend(act(author));
            }
        }
        if author.dice.one_in(6) {
            steps.push(author.maintenance());
        }
    }
    match author.dice.below(6) {
        0 => steps.push(sql("ROLLBACK".into())),
        1 => {
            let gid = author.name("{w}_");
            steps.push(sql(format!("PREPARE TRANSACTION '{gid}'")));
            if author.dice.one_in(2) {
                let act = act(author);
                steps.extend(act);
            }
            let end = *author.dice.pick(&["COMMIT", "ROLLBACK"]);
            steps.push(sql(format!("{end} PREPARED '{gid}'")));
        }
        2 => {
            steps.push(sql("COMMIT AND CHAIN".into()));
            steps.extend(act(author));
            steps.push(sql("COMMIT".into()));
        }
        _ => steps.push(sql("COMMIT".into())),
    }
    act_count
}
