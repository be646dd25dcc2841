//! Circles of `use` between the files of a room.
//!
//! A file uses another if a `use` or a path in its code names it, or something in it, from `crate`,
//! `super` or `self` on. Test modules do not count. Two files that use each other, directly or by
//! way of others of their room, lie in one circle.

use std::collections::{BTreeMap, BTreeSet};

use super::code;

/// A module that is a file, by its path from the crate's root.
pub type Module = Vec<String>;

/// The module of a file, whose path is relative to the sources.
pub fn module_of(below: &str) -> Module {
    let path = below.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').map(str::to_owned).collect()
}

/// The circles of each room, as the paths of their modules.
pub fn circles(files: &BTreeMap<Module, String>) -> Vec<BTreeSet<String>> {
    let uses: BTreeMap<&Module, BTreeSet<&Module>> = files
        .iter()
        .map(|(module, text)| (module, used_in_room(files, module, text)))
        .collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = files
        .keys()
        .map(|from| (from, reach(&uses, from)))
        .collect();
    let mut found = Vec::new();
    let mut placed = BTreeSet::new();
    for module in files.keys() {
        let beside = reached[module]
            .iter()
            .filter(|other| reached[*other].contains(module));
        let circle: BTreeSet<String> = beside.map(|other| other.join("::")).collect();
        if circle.len() > 1 && placed.insert(circle.clone()) {
            found.push(circle);
        }
    }
    found
}

/// The modules to which uses lead from one, itself among them if they lead back.
fn reach<'a>(
    uses: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
    from: &'a Module,
) -> BTreeSet<&'a Module> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for &next in &uses[module] {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}

/// The other modules of its room that a module uses.
fn used_in_room<'a>(
    files: &'a BTreeMap<Module, String>,
    module: &Module,
    text: &str,
) -> BTreeSet<&'a Module> {
    let code = code(text);
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let paths = paths_of(code);
    let used = paths.iter().filter_map(|path| resolve(files, module, path));
    used.filter(|used| *used != module && used.first() == module.first())
        .collect()
}

/// The paths that code names: those of `use` items, and others that begin with `crate` or `super`.
fn paths_of(code: &str) -> Vec<Vec<String>> {
    let (mut paths, mut rest) = (Vec::new(), String::new());
    let mut tail = code;
    while let Some(at) = find_use(tail) {
        let item = &tail[at + "use ".len()..];
        let end = item.find(';').unwrap_or(item.len());
        let tree: String = item[..end].split(" as ").collect::<Vec<_>>().join(",as=");
        let tree: String = tree.split_whitespace().collect();
        expand(&tree, &mut Vec::new(), &mut paths);
        rest.push_str(&tail[..at]);
        tail = &item[end..];
    }
    rest.push_str(tail);
    for root in ["crate::", "super::"] {
        for (at, _) in rest.match_indices(root) {
            let path = rest[at..].split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
            let segments = path.take(1).flat_map(|path| path.split("::"));
            paths.push(segments.map(str::to_owned).collect());
        }
    }
    paths
}

/// Where the next `use` item begins.
fn find_use(code: &str) -> Option<usize> {
    let begins = |at: &usize| {
        let before = code[..*at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    };
    code.match_indices("use ").map(|(at, _)| at).find(begins)
}

/// Splits a tree of a `use` item into its paths; other names that items get (`as=`) are left out.
fn expand(tree: &str, before: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let (mut depth, mut start) = (0, 0);
    let mut parts = Vec::new();
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&tree[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tree[start..]);
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        if part.starts_with("as=") {
            continue;
        }
        let (head, list) = match part.split_once('{') {
            Some((head, list)) => (head, list.strip_suffix('}')),
            None => (part, None),
        };
        let known = before.len();
        let segments = head.split("::").filter(|segment| !segment.is_empty());
        before.extend(segments.map(str::to_owned));
        match list {
            Some(list) => expand(list, before, paths),
            None => paths.push(before.clone()),
        }
        before.truncate(known);
    }
}

/// The file that a path leads to from a module, as far as it names files.
fn resolve<'a>(
    files: &'a BTreeMap<Module, String>,
    module: &Module,
    path: &[String],
) -> Option<&'a Module> {
    let mut at = module.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            at.clear();
            rest = &path[1..];
        }
        "super" | "self" => {
            while let Some(("super" | "self", after)) = rest
                .split_first()
                .map(|(first, after)| (first.as_str(), after))
            {
                if rest[0] == "super" {
                    at.pop();
                }
                rest = after;
            }
        }
        // A child of this module, or another crate.
        child => {
            at.push(child.to_owned());
            files.get_key_value(&at)?;
            at.pop();
        }
    }
    let mut found = files.get_key_value(&at).map(|(module, _)| module);
    for segment in rest {
        at.push(segment.clone());
        match files.get_key_value(&at) {
            Some((module, _)) => found = Some(module),
            None => break,
        }
    }
    found
}
