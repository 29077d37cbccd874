//! The identity of data: it changes with what rows depend on, and with nothing else.

use std::collections::BTreeMap;

use super::{choice, instance, of_variant, shop};

type Files = BTreeMap<String, String>;

/// The identity after one file was changed.
fn changed(file: &str, from: &str, to: &str) -> String {
    let mut files = shop();
    let text = files.get_mut(file).unwrap();
    assert!(text.contains(from), "{file}: {from}");
    *text = text.replacen(from, to, 1);
    identity(&files)
}

fn identity(files: &Files) -> String {
    instance(files, &choice(1)).data_identity().to_string()
}

#[test]
fn it_changes_with_what_rows_depend_on() {
    let first = identity(&shop());
    assert_eq!(first.len(), 64);
    for (file, from, to) in [
        ("workload.toml", "100 * scale", "101 * scale"),
        ("workload.toml", "row + 1", "row + 2"),
        ("workload.toml", "uniform(0, most)", "uniform(1, most)"),
        ("workload.toml", "2 * number", "3 * number"),
        ("workload.toml", "{default = 3,", "{default = 4,"),
        ("workload.toml", "default = \"any\"", "default = \"old\""),
        ("workload.toml", "{1..2}", "{1..3}"),
        ("workload.toml", "number =", "n =\"1\"\nnumber ="),
        ("lists/words.txt", "two", "deux"),
        ("schema.sql", "name text", "name varchar"),
    ] {
        assert_ne!(changed(file, from, to), first, "{file}: {to}");
    }
    let shop = shop();
    assert_ne!(instance(&shop, &choice(10)).data_identity(), first);
    let seed = generator::Choice { data_seed: Some(2), ..choice(1) };
    assert_ne!(instance(&shop, &seed).data_identity(), first);
    let mut option = choice(1);
    option.options.insert("most".to_string(), "5".to_string());
    assert_ne!(instance(&shop, &option).data_identity(), first);
    let mut files = shop.clone();
    files.insert("after.sql".to_string(), "analyze;".to_string());
    assert_ne!(identity(&files), first);
}

#[test]
fn it_does_not_change_with_anything_else() {
    let first = identity(&shop());
    for (file, from, to) in [
        ("workload.toml", "title = \"Shop\"", "title = \"Shop of mine\""),
        ("workload.toml", "who = \"uniform(1,", "who = \"uniform(2,"),
        ("workload.toml", "5s", "6s"),
        ("workload.toml", "params = {id = \"who\"}", "params = {id = \"who + 1\"}"),
        ("workload.toml", "[let]", "# a comment\n[let]"),
        ("workload.toml", "most = 10", "most = 11"),
        ("transactions/read.sql", "*", "id"),
        ("checks/rows.sql", "<", ">"),
    ] {
        assert_eq!(changed(file, from, to), first, "{file}: {to}");
    }
    let seed = generator::Choice { data_seed: Some(1), ..choice(1) };
    assert_eq!(instance(&shop(), &seed).data_identity(), first);
    assert_eq!(instance(&shop(), &of_variant("skewed", 1)).data_identity(), first);
    let mut files = shop();
    files.insert("lists/other.txt".to_string(), "x".to_string());
    assert_eq!(identity(&files), first);
}

#[test]
fn options_that_only_transactions_use_keep_the_data() {
    let ycsb = super::builtin("ycsb");
    let first = identity(&ycsb);
    let mut chosen = of_variant("a-exact", 1);
    chosen.options.insert("theta".to_string(), "0.5".to_string());
    assert_eq!(instance(&ycsb, &chosen).data_identity(), first);
}
