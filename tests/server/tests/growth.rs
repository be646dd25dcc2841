//! Tables whose cold rows are updated one by one grow by several pages at a time once they are
//! large, and fill them.

use anyhow::ensure;
use howdah_server_tests::cluster::{Primary, query};

/// Some eight new versions fill a page.
const ROW_COUNT: u32 = 12_000;
/// Pages that are appended at once, at most.
const MOST_AT_ONCE: u32 = 16;

#[test]
fn large_tables_grow_by_several_pages_and_fill_them() -> anyhow::Result<()> {
    let primary = Primary::start(
        "growth",
        &[("autovacuum", "off"), ("howdah.load_threshold", "1000")],
    )?;
    let mut session = primary.session()?;
    session.batch_execute(&format!(
        "CREATE TABLE sizes (what text, pages int);
         CREATE TABLE heap_rows (id int, filler text) USING heap;
         CREATE TABLE rows (id int PRIMARY KEY, filler text) USING howdah;
         INSERT INTO rows SELECT i, 'x' FROM generate_series(1, {ROW_COUNT}) i;
         SELECT howdah.set_options('rows', compaction => false)"
    ))?;
    // The first rows of the load were hot.
    session.batch_execute("CALL howdah.compact('rows')")?;
    session.batch_execute("VACUUM rows")?;
    session.batch_execute(&format!(
        "DO $$ BEGIN
           FOR i IN 1 .. {ROW_COUNT} LOOP
             INSERT INTO heap_rows VALUES (i, repeat('x', 900));
             UPDATE rows SET filler = repeat('x', 900) WHERE id = i;
             INSERT INTO sizes VALUES ('heap', pg_relation_size('heap_rows') / 8192),
                                      ('howdah', pg_relation_size('rows') / 8192);
           END LOOP;
         END $$"
    ))?;
    let sizes = query(
        &mut session,
        "SELECT max(pages), count(DISTINCT pages), count(DISTINCT pages) FILTER (WHERE pages < 64)
         FROM sizes GROUP BY what ORDER BY what",
    )?;
    let sizes: Vec<u32> = sizes
        .split(['|', '\n'])
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [heap, heap_steps, heap_first, ours, our_steps, our_first] = sizes[..] else {
        anyhow::bail!("{sizes:?}");
    };
    assert_eq!(
        (heap_steps, heap_first),
        (heap, 63),
        "heap grows page by page"
    );
    assert_eq!(our_first, 63, "so do small tables");
    ensure!(
        our_steps < heap_steps / 2,
        "{our_steps} steps to {ours} pages"
    );
    ensure!(ours < heap + MOST_AT_ONCE, "{ours} pages, {heap} on heap");
    let seen = query(
        &mut session,
        "SELECT count(*), sum(length(filler)) FROM rows",
    )?;
    assert_eq!(seen, format!("{ROW_COUNT}|{}", 900 * ROW_COUNT));
    Ok(())
}
