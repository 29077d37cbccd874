//! Folders of a crate: few modules on one level, and no circle of imports between them.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{self, SourceFile};
use super::{assert_none, assert_one};

/// Most modules that one folder may have on its level; our convention: what a reader can look over at a glance.
const MODULES_MAX: usize = 15;

/// A crate's folders, each with the folders that it imports from.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// A production file's place: its crate, and its path below `src` without `.rs`.
fn place(file: &SourceFile) -> Option<(&str, &str)> {
    let (name, path) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
    (!file.is_test).then_some((name, path.strip_suffix(".rs")?))
}

/// Folders with more modules than a reader can look over.
fn crowded(files: &[SourceFile]) -> Vec<String> {
    let mut folders: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (name, path) in files.iter().filter_map(place) {
        let (folder, module) = path.rsplit_once('/').unwrap_or(("", path));
        if !["lib", "main"].contains(&path) {
            folders.entry(format!("crates/{name}/src/{folder}")).or_default().insert(module);
        }
    }
    let is_crowded = |modules: &BTreeSet<&str>| modules.len() > MODULES_MAX;
    let crowded = folders.into_iter().filter(|(_, modules)| is_crowded(modules));
    crowded
        .map(|(folder, modules)| {
            format!(
                "{folder}: {} modules on one level ({MODULES_MAX} at most); give them rooms",
                modules.len()
            )
        })
        .collect()
}

/// First names of the paths that begin with `crate::` in a text, also of those in braces.
fn imports(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, prefix) in text.match_indices("crate::") {
        if text[..at].ends_with(['$', '_']) || text[..at].ends_with(char::is_alphanumeric) {
            continue;
        }
        let rest = &text[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(names_of_group(group)),
            None => found.extend(first_name(rest)),
        }
    }
    found
}

fn first_name(text: &str) -> Option<String> {
    let name: String = text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// First names of the paths of `a::b, c::{d, e}, f}`, up to the brace that ends the group.
fn names_of_group(group: &str) -> Vec<String> {
    let (mut depth, mut names, mut begin) = (0, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.extend(first_name(&group[begin..at]));
                begin = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// Which top-level module of a crate imports which, for each crate.
fn graph(files: &[SourceFile]) -> BTreeMap<&str, Imports> {
    let mut graph: BTreeMap<&str, Imports> = BTreeMap::new();
    for file in files {
        let Some((name, path)) = place(file) else { continue };
        let own = path.split('/').next().unwrap_or(path);
        if !["lib", "main"].contains(&own) {
            let used = graph.entry(name).or_default().entry(own.to_string()).or_default();
            used.extend(imports(file.production_text()).into_iter().filter(|used| used != own));
        }
    }
    graph
}

/// The modules of each circle, in the order of their names.
fn circles(imports: &Imports) -> Vec<Vec<String>> {
    let reaches = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_string()]);
        while let Some(module) = open.pop() {
            let next = imports.get(&module).into_iter().flatten();
            open.extend(next.filter(|next| seen.insert((*next).clone())).cloned());
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        imports.keys().map(|module| (module, reaches(module))).collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, there) in &reached {
        let back = there.iter().filter(|other| reached.get(other).is_some_and(|r| r.contains(*module)));
        let circle: Vec<String> = back.cloned().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn circle_problems(files: &[SourceFile]) -> Vec<String> {
    let found = graph(files).into_iter().flat_map(|(name, imports)| {
        circles(&imports).into_iter().map(move |circle| (name, circle)).collect::<Vec<_>>()
    });
    found.map(|(name, circle)| format!("crates/{name}: {} import each other", circle.join(", "))).collect()
}

#[test]
fn no_folder_is_crowded() {
    assert_none(&crowded(&tree::rust()));
}

#[test]
fn folders_of_a_crate_import_each_other_without_circles() {
    assert_none(&circle_problems(&tree::rust()));
}

#[test]
fn crowds_and_circles_are_found() {
    let many = (0..=MODULES_MAX).map(|n| SourceFile::new(&format!("crates/x/src/a/m{n}.rs"), ""));
    assert_one(&crowded(&many.clone().collect::<Vec<_>>()), "crates/x/src/a: 16 modules");
    assert_none(&crowded(&many.skip(1).collect::<Vec<_>>()));
    let file = |path: &str, text: &str| SourceFile::new(&format!("crates/x/src/{path}.rs"), text);
    let circle = [
        file("lib", "mod a; use crate::b;"),
        file("a/one", "use crate::{c, b::{self, D}};"),
        file("b", "fn f() { crate::c::g() }"),
        file("c", "use crate::a::one;\n#[cfg(test)]\nmod tests {\n use crate::d; }"),
        file("d", "use crate::a;"),
    ];
    assert_one(&circle_problems(&circle), "crates/x: a, b, c import each other");
    assert_none(&circle_problems(&circle[..3]));
    assert_eq!(imports("use crate::{a::{b, c}, d as e};"), ["a", "d"].map(String::from).into());
    assert_none(&imports("$crate::a").into_iter().collect::<Vec<_>>());
}
