//! Files that documents name exist.

use std::path::Path;

/// The paths of files of code that a document names in backquotes, with their lines from 1 on. A
/// path may leave out its first directories.
fn named_files(text: &str) -> Vec<(usize, &str)> {
    let is_path = |name: &&str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
        name.ends_with(".rs") && name.chars().all(is_part)
    };
    let lines = text.lines().enumerate();
    let named = lines.flat_map(|(at, line)| {
        let names = line.split('`').skip(1).step_by(2).filter(is_path);
        names.map(move |name| (at + 1, name))
    });
    named.collect()
}

/// Those of a document's names that no file has.
pub fn missing_files<'a>(text: &'a str, files: &[&Path]) -> Vec<(usize, &'a str)> {
    let exists = |name: &str| files.iter().any(|file| file.ends_with(name));
    let named = named_files(text).into_iter();
    named.filter(|(_, name)| !exists(name)).collect()
}

#[test]
fn planted_names_are_found() {
    let files = [Path::new("crates/vector/src/stop.rs")];
    let text = "`vector/src/stop.rs` → `stop.rs`\n`op.rs`, `src/runtime/stop.rs`, `f(x).rs`\n";
    assert_eq!(
        missing_files(text, &files),
        [(2, "op.rs"), (2, "src/runtime/stop.rs")]
    );
}
