//! Small tables whose rows have all been changed: sessions that prepared their statements while the
//! rows were cold switch to plain scans, and still see rows that become cold later.

use anyhow::ensure;
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;

fn plan(session: &mut Client) -> anyhow::Result<String> {
    query(session, "EXPLAIN (COSTS OFF) EXECUTE add(1, 0)")
}

#[test]
fn prepared_statements_notice_that_nothing_cold_is_left() -> anyhow::Result<()> {
    let primary = Primary::start(
        "small-tables",
        &[
            ("autovacuum", "off"),
            ("howdah.compaction", "off"),
            ("plan_cache_mode", "force_generic_plan"),
            // For so few rows the planner chooses ColumnarScan only if opening their group costs
            // nothing.
            ("cpu_tuple_cost", "0"),
        ],
    )?;
    let mut sessions = [primary.session()?, primary.session()?];
    sessions[0].batch_execute(
        "CREATE TABLE tellers (id int PRIMARY KEY, n int) USING howdah;
         INSERT INTO tellers SELECT i, 0 FROM generate_series(1, 20) i",
    )?;
    sessions[0].batch_execute("CALL howdah.compact('tellers')")?;
    sessions[0].batch_execute("VACUUM ANALYZE tellers")?;
    for session in &mut sessions {
        session.batch_execute("PREPARE add AS UPDATE tellers SET n = n + $2 WHERE id = $1")?;
        let plan = plan(session)?;
        ensure!(plan.contains("Custom Scan (HowdahColumnarScan)"), "{plan}");
    }
    let mut expected = 0;
    for round in 0..3 {
        for id in 1..=20 {
            for session in &mut sessions {
                session.batch_execute(&format!("EXECUTE add({id}, 1)"))?;
                expected += 1;
            }
        }
        for session in &mut sessions {
            let sum = query(session, "SELECT sum(n), count(*) FROM tellers")?;
            assert_eq!(sum, format!("{expected}|20"), "round {round}");
        }
    }
    for session in &mut sessions {
        let plan = plan(session)?;
        ensure!(plan.contains("Seq Scan on tellers"), "{plan}");
    }
    // Rows that become cold again are seen by sessions that have found the cold side empty.
    for round in 0..4 {
        let [first, second] = &mut sessions;
        first.batch_execute("CALL howdah.compact('tellers')")?;
        for session in [&mut *first, &mut *second] {
            let sum = query(session, "SELECT sum(n), count(*) FROM tellers")?;
            assert_eq!(sum, format!("{expected}|20"), "compacted in round {round}");
        }
        second.batch_execute("BEGIN; EXECUTE add(3, 1)")?;
        first.batch_execute("EXECUTE add(4, 1)")?;
        second.batch_execute("ROLLBACK")?;
        expected += 1;
        for id in 1..=20 {
            first.batch_execute(&format!("EXECUTE add({id}, 1)"))?;
            second.batch_execute(&format!("EXECUTE add({id}, 1)"))?;
            expected += 2;
        }
        for session in [first, second] {
            let sum = query(session, "SELECT sum(n), count(*) FROM tellers")?;
            assert_eq!(sum, format!("{expected}|20"), "changed in round {round}");
        }
    }
    Ok(())
}
