//! House rules that the compiler does not know, checked on the source text.
//!
//! ```text
//!   every file           begins with a `//!` header
//!   extension            no file names `pg_sys`
//!                        rooms use the rooms below them (LAYERS)
//!                        `unsafe` becomes rarer (MOST_UNSAFE)
//!                        files of a room use each other in no circles, but for MOST_CIRCLES
//!   unsafe fn            tells its callers their duty under `# Safety`, but for callbacks,
//!                        whose duty is PostgreSQL's
//!   fn                   a safe function that takes a raw pointer has no `unsafe` block, but for
//!                        those listed in house/trusting.txt; public fields are no pointers
//!   comments             have at most 100 columns; transactions are things there, in names of
//!                        functions, and in documents
//!   ARCHITECTURE.md      names files that exist, as the decisions do
//!   SAFETY comment       names what makes the code sound, not another comment
//!   wide                 is given closures that are inlined, so that their vectors are wide
//! ```
//!
//! Lists and numbers only shrink: what is on a list and no longer needed fails the test as well.

#[path = "house/circles.rs"]
mod circles;
#[path = "house/map.rs"]
mod map;
#[path = "house/pointers.rs"]
mod pointers;
#[path = "house/prose.rs"]
mod prose;
#[path = "house/vectors.rs"]
mod vectors;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use circles::{circles, module_of};
use map::missing_files;
use pointers::{open_pointers, trusting_functions};
use prose::{comment_mark, long_comments, persons};
use vectors::narrow_loops;

/// Safe functions that take a raw pointer and contain an `unsafe` block which does not dereference
/// it.
const TRUSTING: &str = include_str!("house/trusting.txt");

/// Uses of `unsafe` in the extension, at most; and how many fewer ask for a lower number here.
const MOST_UNSAFE: usize = 60;
const UNSAFE_SLACK: usize = 20;

/// Circles of files that use each other inside the extension's rooms.
const MOST_CIRCLES: usize = 3;

/// The extension's rooms from the top down. A room uses rooms below its own line.
const LAYERS: &[&[&str]] = &[
    &["lib"],
    &["sql", "utility", "transaction"],
    &["vectorize"],
    &["compact", "columnar_scan"],
    &["am"],
    &["load", "cursor"],
    &["slot_writer", "row_order", "written_databases"],
    &["store"],
    &["types", "scan_stats", "thread_budget"],
    &["settings"],
    &["options"],
    &["bounded_cache", "errors", "stop_point"],
];

struct Source {
    /// Relative to the root of the workspace.
    path: PathBuf,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(under: &str) -> Vec<Source> {
    files(under, |name| name.ends_with(".rs"))
}

/// The files below a directory whose names are wanted, with their texts.
fn files(under: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<Source> {
    let (root, mut found) = (root(), Vec::new());
    let mut open = vec![root.join(under)];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a directory of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.to_str().is_some_and(&is_wanted) {
                let text = fs::read_to_string(&path).expect("a source file");
                let path = path.strip_prefix(&root).expect("below the root").to_owned();
                found.push(Source { path, text });
            }
        }
    }
    assert!(!found.is_empty(), "no files under {under}");
    found
}

fn extension() -> Vec<Source> {
    sources("crates/extension/src")
}

/// The text without comments; a `//` in a string counts as one, which hides no code that matters
/// here.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

fn has_header(text: &str) -> bool {
    text.starts_with("//! ")
}

fn count_unsafe(text: &str) -> usize {
    words(&code(text)).filter(|word| *word == "unsafe").count()
}

/// The rooms of the extension that a text names: `crate::room`, or in braces after `crate::`.
fn rooms_used(text: &str) -> BTreeSet<String> {
    let code = code(text);
    let mut rooms = BTreeSet::new();
    for (_, after) in code
        .match_indices("crate::")
        .map(|(at, name)| (at, &code[at + name.len()..]))
    {
        let named = match after.strip_prefix('{') {
            Some(list) => top_names(list),
            None => words(after).next().into_iter().collect(),
        };
        rooms.extend(named.into_iter().map(str::to_owned));
    }
    rooms
}

/// The first names of the items of a list in braces, whose opening brace is gone.
fn top_names(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.extend(
                    words(list[start..at].trim())
                        .next()
                        .filter(|name| !name.is_empty()),
                );
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// The room that a file of the extension belongs to.
fn room_of(path: &Path) -> String {
    let below = path
        .strip_prefix("crates/extension/src")
        .expect("of the extension");
    let first = below.iter().next().expect("a name").to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

fn layer_of(room: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&room))
}

/// Whether a room may use another by the layers alone.
fn points_down(from: &str, to: &str) -> bool {
    match (layer_of(from), layer_of(to)) {
        (Some(from), Some(to)) => from < to,
        // Items of the crate itself, such as macros.
        (_, None) => true,
        (None, _) => false,
    }
}

/// Unsafe functions without a `# Safety` section: their lines, counted from 1.
fn without_duty(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let is_unsafe = |line: &str| {
        let mut words = words(line).skip_while(|word| *word != "unsafe");
        let is_function = words.any(|word| word == "fn") && !line.contains("fn(");
        is_function && !line.ends_with(';')
    };
    let is_attached = |line: &&&str| line.starts_with("//") || line.starts_with("#[");
    let lacks = |&at: &usize| {
        let above = lines[..at].iter().rev().take_while(is_attached);
        !above
            .clone()
            .any(|line| line.contains("# Safety") || line.contains("#[pg_guard]"))
    };
    let asked = (0..lines.len()).filter(|&at| is_unsafe(&code(lines[at])));
    asked.filter(lacks).map(|at| at + 1).collect()
}

/// SAFETY comments that begin by pointing at another comment: their lines, counted from 1.
fn empty_safety_comments(text: &str) -> Vec<usize> {
    const EMPTY: [&str; 6] = [
        "as above",
        "as before",
        "see above",
        "same",
        "likewise",
        "ditto",
    ];
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let said = |at: usize| -> Option<String> {
        let first = lines[at].strip_prefix("// SAFETY:")?;
        let more = lines[at + 1..]
            .iter()
            .map_while(|line| line.strip_prefix("//"));
        let whole: Vec<&str> = [first].into_iter().chain(more).map(str::trim).collect();
        Some(whole.join(" ").trim().to_lowercase())
    };
    let is_empty = |at: &usize| {
        said(*at).is_some_and(|said| {
            said.is_empty() || EMPTY.iter().any(|empty| said.starts_with(empty))
        })
    };
    (0..lines.len()).filter(is_empty).map(|at| at + 1).collect()
}

#[test]
fn every_file_says_what_it_is_for() {
    for under in ["crates", "tests/server", "fuzz/fuzz_targets"] {
        for source in sources(under) {
            assert!(
                has_header(&source.text),
                "{} has no header",
                source.path.display()
            );
        }
    }
}

#[test]
fn comments_are_short_and_speak_of_things() {
    let is_checked = |name: &str| comment_mark(name).is_some();
    let mut found = Vec::new();
    let pages = ["README.md", "ARCHITECTURE.md", "GLOSSARY.md"].map(|name| Source {
        path: PathBuf::from(name),
        text: fs::read_to_string(root().join(name)).expect("a page"),
    });
    let under = ["crates", "tests", "fuzz/fuzz_targets", "docs"];
    let sources = under.map(|under| files(under, is_checked));
    for source in pages.into_iter().chain(sources.into_iter().flatten()) {
        let name = source.path.to_string_lossy();
        let mark = comment_mark(&name).expect("a file that is checked");
        let lines = persons(&source.text, mark);
        found.extend(lines.iter().map(|at| format!("{name}:{at} a person")));
        if mark == "//" {
            let lines = long_comments(&source.text, mark);
            found.extend(lines.iter().map(|at| format!("{name}:{at} too long")));
        }
    }
    assert!(found.is_empty(), "comments to mend: {found:#?}");
}

#[test]
fn no_file_of_the_extension_names_pg_sys() {
    for source in extension() {
        assert!(
            !source.text.contains("pg_sys"),
            "{} names pg_sys, which belongs into bridge",
            source.path.display()
        );
    }
}

#[test]
fn safe_functions_dereference_no_raw_pointer() {
    let mut found = BTreeSet::new();
    for under in ["crates/bridge/src", "crates/extension/src"] {
        for source in sources(under) {
            let (code, path) = (code(&source.text), source.path.display().to_string());
            let path = path.trim_start_matches("crates/");
            let names = trusting_functions(&code).into_iter();
            found.extend(names.map(|name| format!("{path} {name}")));
            assert!(
                open_pointers(&code).is_empty(),
                "{path}: public fields hold raw pointers: {:?}",
                open_pointers(&code)
            );
        }
    }
    let listed: BTreeSet<String> = TRUSTING.lines().map(str::to_owned).collect();
    let added: Vec<_> = found.difference(&listed).collect();
    assert!(added.is_empty(), "take a pointer, and trust it: {added:?}");
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(
        gone.is_empty(),
        "take them off house/trusting.txt: {gone:?}"
    );
}

#[test]
fn loops_for_wide_vectors_are_inlined() {
    for source in sources("crates") {
        let narrow = narrow_loops(&code(&source.text));
        assert!(
            narrow.is_empty(),
            "{}: `wide` lacks `#[inline(always)]` in lines {narrow:?}",
            source.path.display()
        );
    }
}

#[test]
fn unsafe_becomes_rarer_in_the_extension() {
    let count: usize = extension()
        .iter()
        .map(|source| count_unsafe(&source.text))
        .sum();
    assert!(
        count <= MOST_UNSAFE,
        "{count} uses of unsafe, at most {MOST_UNSAFE} are allowed"
    );
    assert!(
        count + UNSAFE_SLACK >= MOST_UNSAFE,
        "{count} uses of unsafe: lower MOST_UNSAFE"
    );
}

#[test]
fn rooms_of_the_extension_use_the_rooms_below_them() {
    for source in extension() {
        let from = room_of(&source.path);
        assert!(layer_of(&from).is_some(), "room {from} is in no layer");
        for to in rooms_used(&source.text) {
            assert!(
                to == from || points_down(&from, &to),
                "{} uses {to}, which is not below it",
                source.path.display()
            );
        }
    }
}

#[test]
fn circles_inside_rooms_become_rarer() {
    let files: BTreeMap<_, _> = extension()
        .into_iter()
        .map(|source| {
            let below = source
                .path
                .strip_prefix("crates/extension/src")
                .expect("of the extension");
            (module_of(&below.to_string_lossy()), source.text)
        })
        .collect();
    let found = circles(&files);
    assert!(
        found.len() <= MOST_CIRCLES,
        "files of a room use each other in circles: {found:#?}"
    );
    assert!(
        found.len() == MOST_CIRCLES,
        "{} circles: lower MOST_CIRCLES",
        found.len()
    );
}

#[test]
fn planted_circles_are_found() {
    let planted = [
        ("lib.rs", "pub mod room;\nuse room::first;"),
        (
            "room/mod.rs",
            "mod first;\nmod second;\npub use first::Kind;\n",
        ),
        (
            "room/first.rs",
            "use super::second::{self, deep::{Thing, other}};\n",
        ),
        (
            "room/second.rs",
            "fn f() -> super::first::Kind { todo() } // super::Kind\n",
        ),
        (
            "room/third.rs",
            "use crate::room::first::Kind as K;\n#[cfg(test)]\nmod tests {}\n",
        ),
        (
            "room/fourth.rs",
            "#[cfg(test)]\nmod tests { use super::super::fifth::F; }\n",
        ),
        (
            "room/fifth.rs",
            "use super::fourth::G;\nuse crate::other::H;\n",
        ),
        ("other.rs", "use crate::room::fifth::F;\n"),
    ];
    let files = |extra: &str| -> BTreeMap<_, _> {
        let text = |name: &str, text: &str| match name {
            "room/third.rs" => format!("{extra}{text}"),
            _ => text.to_owned(),
        };
        let planted = planted.iter();
        planted
            .map(|(name, code)| (module_of(name), text(name, code)))
            .collect()
    };
    let names = |circles: Vec<BTreeSet<String>>| -> Vec<Vec<String>> {
        let circles = circles.into_iter();
        circles.map(|circle| circle.into_iter().collect()).collect()
    };
    assert_eq!(
        names(circles(&files(""))),
        [["room::first", "room::second"]],
        "neither tests nor comments nor other rooms count"
    );
    // The facade uses `first`, which does not use the facade.
    assert_eq!(
        names(circles(&files(
            "use super::third_of_all;\npub use super::Kind;\n"
        ))),
        [["room::first", "room::second"]]
    );
    let mut files = files("");
    files.insert(module_of("room/second.rs"), "use super::Kind;\n".into());
    assert_eq!(
        names(circles(&files)),
        [["room", "room::first", "room::second"]]
    );
}

#[test]
fn unsafe_functions_tell_their_callers_duty() {
    for under in ["crates/bridge/src", "crates/extension/src"] {
        for source in sources(under) {
            let lines = without_duty(&source.text);
            assert!(
                lines.is_empty(),
                "{}: no # Safety at {lines:?}",
                source.path.display()
            );
        }
    }
}

#[test]
fn safety_comments_say_what_makes_the_code_sound() {
    for under in ["crates", "tests/server", "fuzz/fuzz_targets"] {
        for source in sources(under) {
            let lines = empty_safety_comments(&source.text);
            assert!(
                lines.is_empty(),
                "{}: SAFETY comments that only point elsewhere at {lines:?}",
                source.path.display()
            );
        }
    }
}

#[test]
fn documents_name_files_that_exist() {
    let code: Vec<Source> = ["crates", "tests", "fuzz"]
        .into_iter()
        .flat_map(sources)
        .collect();
    let code: Vec<&Path> = code.iter().map(|source| source.path.as_path()).collect();
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let mut missing = missing_files(&map, &code);
    let decisions = files("docs/decisions", |name| name.ends_with(".md"));
    for decision in &decisions {
        missing.extend(missing_files(&decision.text, &code));
    }
    assert!(missing.is_empty(), "no such files: {missing:?}");
}

#[test]
fn planted_violations_are_found() {
    assert!(!has_header("use std::fs;\n"));
    assert_eq!(
        count_unsafe("unsafe { f() } // unsafe\nunsafe fn g() {}"),
        2
    );
    let used = rooms_used("use crate::{compact, store::{a, b}};\ncrate::sql::f(); // crate::am");
    assert_eq!(used.iter().collect::<Vec<_>>(), ["compact", "sql", "store"]);
    assert!(points_down("am", "store") && !points_down("store", "am"));
    assert!(!points_down("store", "store") && !points_down("unknown", "store"));
    let text = "/// Does it.\npub unsafe fn f() {}\n\n/// # Safety\n/// None.\n#[inline]\npub(crate) unsafe fn g() {}\n";
    assert_eq!(without_duty(text), [2]);
    assert_eq!(
        without_duty("#[pg_guard]\npub unsafe extern \"C-unwind\" fn f() {}\n"),
        [0; 0]
    );
    let text = "unsafe fn f() {}\n/// # Safety\n/// None.\nunsafe fn g() {}\ntype F = unsafe fn();\nunsafe extern \"C\" fn h(\n";
    assert_eq!(without_duty(text), [1, 6]);
    let planted = concat!(
        "// SAFETY",
        ": as above.\nf();\n// SAFETY",
        ": the page is pinned, see above.\n",
        "// SAFETY",
        ":\n// Same.\nf();\n// SAFETY",
        ":\nf();\n"
    );
    assert_eq!(empty_safety_comments(planted), [1, 4, 7]);
}
