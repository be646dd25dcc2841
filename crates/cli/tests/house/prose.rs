//! What the house asks of comments and documents: short lines, and transactions that are things.

/// The longest line of a comment, in characters.
const COMMENT_COLUMNS: usize = 100;

/// Words for persons. A transaction, a backend or a statement is none.
const PERSONS: [&str; 11] = [
    "who",
    "whom",
    "whoever",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "everyone",
    "he",
    "him",
    "she",
];

/// What begins a comment in a file of this name, or `""` if all of it is prose; `None` for files
/// that are not checked.
pub fn comment_mark(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    Some(match extension {
        "rs" => "//",
        "sql" => "--",
        "spec" => "#",
        "md" => "",
        _ => return None,
    })
}

/// The lines that are comments as a whole, counted from 1.
fn comments<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines.filter(move |(_, line)| line.trim_start().starts_with(mark))
}

/// Comments that are too long: their lines, counted from 1.
pub fn long_comments(text: &str, mark: &str) -> Vec<usize> {
    let is_long = |line: &str| line.chars().count() > COMMENT_COLUMNS;
    let lines = comments(text, mark).filter(|(_, line)| is_long(line));
    lines.map(|(at, _)| at).collect()
}

/// Comments and names of functions that speak of persons: their lines, counted from 1. Words in
/// backquotes are names of something else.
pub fn persons(text: &str, mark: &str) -> Vec<usize> {
    let names_one = |prose: &str| {
        let prose = prose.split('`').step_by(2);
        let words = prose.flat_map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '\''));
        words
            .map(str::to_lowercase)
            .any(|word| PERSONS.contains(&word.trim_end_matches("'s")))
    };
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines
        .filter(|(_, line)| names_one(comment_of(line, mark)) || names_one(function_of(line)))
        .map(|(at, _)| at)
        .collect()
}

/// The comment in a line, alone or behind code; empty if there is none. A mark behind an odd number
/// of quotes lies in a string.
fn comment_of<'a>(line: &'a str, mark: &str) -> &'a str {
    if line.trim_start().starts_with(mark) {
        return line;
    }
    let begins = |&(at, _): &(usize, &str)| {
        let code = &line[..at];
        code.ends_with(' ') && code.matches('"').count().is_multiple_of(2)
    };
    line.match_indices(mark)
        .find(begins)
        .map_or("", |(at, _)| &line[at..])
}

/// The name of the function that begins in a line of Rust; empty if there is none.
fn function_of(line: &str) -> &str {
    let Some((before, name)) = line.split_once("fn ") else {
        return "";
    };
    match before
        .chars()
        .all(|c| c.is_alphanumeric() || " ()_:\"-".contains(c))
    {
        true => name.split(['(', '<']).next().unwrap_or(""),
        false => "",
    }
}

#[test]
fn planted_prose_is_found() {
    let text =
        "//! Who waits first.\nlet who = 1;\n  // nobody's row\n  // the whole `who` there\n";
    assert_eq!(persons(text, "//"), [1, 3]);
    assert_eq!(
        persons("-- fine\nSELECT 1; -- he\n-- He waits.\n", "--"),
        [2, 3]
    );
    assert_eq!(persons("Everybody\n\nsees it.", ""), [1]);
    let text = concat!(
        "f(); /",
        "/ he waits\nlet url = \"a /",
        "/ who\";\n    pub fn nobody_",
        "waits(a: u8) {\nfn whole() {}\n"
    );
    assert_eq!(persons(text, "//"), [1, 3]);
    let row = "ä".repeat(97);
    assert_eq!(long_comments(&format!("// {row}\n//! {row}\n"), "//"), [2]);
    assert_eq!(comment_mark("a/b.spec"), Some("#"));
    assert_eq!(comment_mark("Cargo.lock"), None);
}
