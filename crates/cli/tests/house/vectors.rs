//! Loops that are passed to `wide` are inlined where wide vectors are allowed.

/// What comes before the closure of such a loop.
const INLINED: &str = "#[inline(always)]";

/// Calls of `wide` whose closure does not say that it is inlined: their lines from 1 on. Only files
/// that import the function have such calls.
pub fn narrow_loops(code: &str) -> Vec<usize> {
    let imports = |line: &str| line.starts_with("use ") && names(line).any(|name| name == "wide");
    if !code.lines().any(imports) {
        return Vec::new();
    }
    let calls = code.match_indices("wide(").filter(|&(at, call)| {
        let before = code[..at].chars().next_back();
        let is_name = before.is_some_and(|c| c.is_alphanumeric() || "_.".contains(c));
        let after = code[at + call.len()..].trim_start();
        !is_name && !after.starts_with(INLINED)
    });
    let line_of = |at: usize| 1 + code[..at].matches('\n').count();
    calls.map(|(at, _)| line_of(at)).collect()
}

fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

#[test]
fn planted_loops_are_found() {
    let import = "use howdah_columnar::{Column, wide};\n";
    let inlined = "wide(\n    #[inline(always)]\n    move || run(),\n);\n";
    let plain = "wide(move || run());\n";
    assert_eq!(narrow_loops(&format!("{import}{inlined}")), [0; 0]);
    assert_eq!(narrow_loops(&format!("{import}{inlined}{plain}")), [6]);
    assert_eq!(narrow_loops(&format!("{import}fill_wide(of);\n")), [0; 0]);
    assert_eq!(narrow_loops(plain), [0; 0]);
}
