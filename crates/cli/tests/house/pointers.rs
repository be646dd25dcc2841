//! Safe functions that take raw pointers and use them, found in the source text.
//!
//! A caller of a safe function owes nothing: so a function that takes a pointer, or a value of the
//! server's that is one, and contains an `unsafe` block must be unsafe itself, or take a borrowed
//! value. What a type holds is another matter: its constructor is unsafe or borrows, and its
//! `SAFETY` comments name the invariant. Therefore public fields of public types hold none.

/// Names of the server's types that are pointers.
const POINTERS: [&str; 20] = [
    "BufferAccessStrategy",
    "BulkInsertState",
    "FunctionCallInfo",
    "HeapScanDesc",
    "HeapTuple",
    "HeapTupleHeader",
    "IndexScanDesc",
    "Item",
    "ItemId",
    "ItemPointer",
    "MemoryContext",
    "Page",
    "ParallelTableScanDesc",
    "RawCall",
    "Relation",
    "RewriteState",
    "Snapshot",
    "SysScanDesc",
    "TableScanDesc",
    "TupleDesc",
];

/// A function of a source text.
struct Function<'a> {
    name: &'a str,
    is_unsafe: bool,
    parameters: &'a str,
    body: &'a str,
}

/// The names of the safe functions in a text without comments that take a raw pointer and contain
/// an `unsafe` block.
pub fn trusting_functions(code: &str) -> Vec<&str> {
    let functions = functions(code).into_iter();
    functions
        .filter(|function| {
            !function.is_unsafe && names_pointer(function.parameters) && has_unsafe(function.body)
        })
        .map(|function| function.name)
        .collect()
}

/// The public fields of public types, by name, that hold raw pointers.
pub fn open_pointers(code: &str) -> Vec<&str> {
    let types = code.match_indices("pub struct ").filter_map(|(at, _)| {
        let after = &code[at..];
        let opening = after.find(['{', ';', '('])?;
        enclosed(&after[opening..], '{', '}').map(|(fields, _)| fields)
    });
    let lines = types.flat_map(str::lines);
    lines
        .filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(": "))
        .filter(|(_, kind)| names_pointer(kind))
        .map(|(name, _)| name)
        .collect()
}

/// Whether types among these are raw pointers: by themselves, or by the server's name for them.
fn names_pointer(types: &str) -> bool {
    let is_raw = ["*mut ", "*const ", "NonNull<"];
    let mut of_server = types.split("pg_sys::").skip(1).map(|after| {
        let end = after.find(|c: char| !c.is_alphanumeric() && c != '_');
        after.split_at(end.unwrap_or(after.len()))
    });
    is_raw.iter().any(|raw| types.contains(raw))
        // `Kind::Type` is a number.
        || of_server.any(|(name, rest)| POINTERS.contains(&name) && !rest.starts_with("::"))
}

fn has_unsafe(body: &str) -> bool {
    words(body).any(|word| word == "unsafe")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// The functions of a text that have a body; functions inside of others are part of them, and
/// listed as well.
fn functions(code: &str) -> Vec<Function<'_>> {
    let starts = code.match_indices("fn ").filter(|&(at, _)| {
        let before = code[..at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace())
    });
    starts.filter_map(|(at, _)| function(code, at)).collect()
}

fn function(code: &str, at: usize) -> Option<Function<'_>> {
    let line = code[..at]
        .rfind(['\n', ';', '{', '}'])
        .map_or(0, |end| end + 1);
    let is_unsafe = words(&code[line..at]).any(|word| word == "unsafe");
    let rest = &code[at + "fn ".len()..];
    let name = words(rest).next().filter(|name| !name.is_empty())?;
    let mut after = &rest[name.len()..];
    if after.starts_with('<') {
        after = enclosed(after, '<', '>')?.1;
    }
    let (parameters, after) = enclosed(after, '(', ')')?;
    let opening = after.find(['{', ';'])?;
    let (body, _) = enclosed(&after[opening..], '{', '}')?;
    Some(Function {
        name,
        is_unsafe,
        parameters,
        body,
    })
}

/// What lies between the bracket that a text begins with and its partner, and what follows. A
/// bracket that is a character literal counts for nothing, nor does the head of an arrow.
fn enclosed(text: &str, open: char, close: char) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        let is_literal = at > 0 && bytes[at - 1] == b'\'' && bytes.get(at + 1) == Some(&b'\'');
        let is_arrow = at > 0 && matches!(bytes[at - 1], b'-' | b'=');
        if c == open && !is_literal {
            depth += 1;
        } else if c == close && !is_literal && !is_arrow {
            depth -= 1;
        }
        if depth == 0 {
            return (c == close).then(|| (&text[1..at], &text[at + 1..]));
        }
    }
    None
}

#[test]
fn planted_pointers_are_found() {
    let planted = "pub fn f<T: Fn() -> u8>(rel: pg_sys::Relation) { unsafe { g(rel) } }\n\
        fn h(&self, place: *const u8, open: char) -> u8 { if open == '}' { 0 } else { unsafe { *place } } }\n\
        unsafe fn i(place: *const u8) -> u8 { unsafe { *place } }\n\
        unsafe extern \"C-unwind\" fn j(rel: pg_sys::Relation) { unsafe { g(rel) } }\n\
        fn k(mode: pg_sys::Snapshot::Type, table: Table<'_>) { unsafe { l(table.raw()) } }\n\
        fn m(place: *const u8) -> usize { place.addr() }\n\
        impl A { fn n(block: u32) { fn o(at: NonNull<u8>) { unsafe { p(at) } } } }\n";
    assert_eq!(trusting_functions(planted), ["f", "h", "o"]);
    let planted = "pub struct A {\n    pub at: *mut u8,\n    held: *mut u8,\n}\n\
        pub(super) struct B {\n    pub at: *mut u8,\n}\n\
        pub struct C(*mut u8);\n\
        pub struct D<'a> {\n    pub table: Table<'a>,\n    pub rel: pg_sys::Relation,\n}\n";
    assert_eq!(open_pointers(planted), ["at", "rel"]);
}
