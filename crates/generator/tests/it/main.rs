//! Workload directories as an author writes them: complete ones, broken ones, and ones that mean harm.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod broken;
mod builtin;
mod draws;
mod examples;
mod hostile;
mod identity;
mod native;
mod proof;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use generator::{Choice, Directory, Instance, Problem};

/// Names of the directories that are built in.
fn builtins() -> Vec<String> {
    let entries = fs::read_dir(directories()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Where the built-in directories are.
fn directories() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../workload/directories")
}

/// The files of a built-in directory.
fn builtin(name: &str) -> BTreeMap<String, String> {
    files_under(&directories().join(name))
}

/// The files of a directory, by their names in it.
fn files_under(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_string();
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

/// A small directory in which tests change a line.
fn shop() -> BTreeMap<String, String> {
    let files = [
        ("workload.toml", include_str!("../directories/shop.toml")),
        ("schema.sql", "create table customer (id int, name text);\ncreate table purchase{n} (a int);\n"),
        ("transactions/read.sql", "select * from customer where id = :id;\n"),
        ("checks/rows.sql", "select 1 where :rows_customer < :committed_read;\n"),
        ("lists/words.txt", "one\ntwo\n\nthree\n"),
    ];
    files.into_iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
}

fn choice(scale: u32) -> Choice {
    Choice { scale, ..Choice::default() }
}

fn of_variant(variant: &str, scale: u32) -> Choice {
    Choice { variant: Some(variant.to_string()), ..choice(scale) }
}

fn instance(files: &BTreeMap<String, String>, choice: &Choice) -> Arc<Instance> {
    match Directory::new(files.clone()).and_then(|directory| Instance::new(&directory, choice)) {
        Ok(instance) => Arc::new(instance),
        Err(problems) => panic!("{}", words(&problems)),
    }
}

/// What is wrong with these files.
fn problems(files: &BTreeMap<String, String>, choice: &Choice) -> Vec<Problem> {
    let found = Directory::new(files.clone()).and_then(|directory| Instance::new(&directory, choice));
    found.err().unwrap_or_default()
}

fn words(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<String>>().join("\n")
}
