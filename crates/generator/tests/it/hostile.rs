//! Directories that mean harm: each ends in a problem, soon, and never in a panic.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use generator::{Choice, Directory, Instance};

use super::{builtin, builtins, choice, shop, words};

/// Longest time that any directory is looked at; most of it is a build without optimization.
const TIME_MAX: Duration = Duration::from_secs(20);

fn look_at(files: BTreeMap<String, String>, choice: &Choice) -> Result<Instance, usize> {
    let start = Instant::now();
    let found = Directory::new(files).and_then(|directory| Instance::new(&directory, choice));
    assert!(start.elapsed() < TIME_MAX, "{:?}", start.elapsed());
    found.map_err(|problems| {
        let shown: usize = problems.iter().map(|problem| problem.to_string().len()).sum();
        assert!(shown < 1 << 20, "{shown} bytes of messages");
        problems.len()
    })
}

/// The shop with a manifest that was changed.
fn changed(from: &str, to: &str) -> Result<Instance, usize> {
    let mut files = shop();
    let text = files.get_mut("workload.toml").unwrap();
    assert!(text.contains(from));
    *text = text.replacen(from, to, 1);
    look_at(files, &choice(1))
}

#[test]
fn huge_numbers_are_problems() {
    for rows in ["9223372036854775807", "1e300", "-5", "10 / 0", "9223372036854775807 * 2", "0.0 / 0.0"] {
        let found = changed("100 * scale", rows);
        assert!(rows.starts_with("9223372036854775807") || found.is_err(), "{rows}");
    }
    for bound in
        ["{0..9223372036854775807}", "{-9223372036854775808..1}", "{1..1e18}", "{99999999999999999999..1}"]
    {
        assert!(changed("{1..2}", bound).is_err(), "{bound}");
    }
    for value in ["9223372036854775807 + 1", "row * 9223372036854775807", "-(-9223372036854775807 - 2)"] {
        let _ = changed("\"row + 1\"", &format!("\"{value}\""));
    }
    let mut most = choice(u32::MAX);
    most.data_seed = Some(u64::MAX);
    for name in &builtins() {
        if let Ok(instance) = look_at(builtin(name), &most) {
            for table in instance.tables() {
                let last = table.n_rows.saturating_sub(1);
                table.rows(last..u64::MAX).fill(&mut Vec::new(), 1000);
                assert!(table.estimated_rows() as f64 * table.estimated_row_bytes() >= 0.0);
            }
        }
    }
}

#[test]
fn deep_nesting_is_a_problem() {
    let deep = 50_000;
    for expression in [
        format!("{}1{}", "(".repeat(deep), ")".repeat(deep)),
        format!("{}1", "-".repeat(deep)),
        format!("{}true", "not ".repeat(deep)),
        format!("1{}", " + 1".repeat(deep)),
        format!("{}1{}", "choose(true, 1, ".repeat(deep), ")".repeat(deep)),
        format!("{}0{}", "customer.id[".repeat(deep), "]".repeat(deep)),
    ] {
        assert!(changed("row + 1", &expression).is_err(), "{}", &expression[..20]);
    }
    for value in [
        format!("{}{}", "[".repeat(deep), "]".repeat(deep)),
        format!("{}1{}", "{a=".repeat(deep), "}".repeat(deep)),
    ] {
        assert!(changed("[1, 10]", &value).is_err());
    }
    assert!(changed("[let]", &format!("[{}a]\n[let]", "a.".repeat(deep))).is_err());
}

#[test]
fn many_names_are_problems() {
    let n = 40_000;
    let many = |line: &dyn Fn(usize) -> String| (0..n).map(line).collect::<String>();
    assert!(changed("[let]", &format!("[let]\n{}", many(&|i| format!("a{i} = \"a{}\"\n", i + 1)))).is_err());
    assert!(changed("[let]", &many(&|i| format!("x{i} = {i}\n"))).is_err());
    let columns = many(&|i| format!("c{i} = \"1\"\n"));
    assert!(changed("id = \"row + 1\"", &format!("id = \"row + 1\"\n{columns}")).is_err());
    let transactions = many(&|i| format!("[[transaction]]\nname = \"t{i}\"\n"));
    assert!(changed("[[session]]", &format!("{transactions}[[session]]")).is_err());
    let weights = many(&|i| format!("t{i}=1,"));
    assert!(changed("{read = 1}", &format!("{{{weights} read = 1}}")).is_err());
    let braces = "\"p{1..1000}\" = \"1\"\n\"q{1..1000}\" = \"1\"\n";
    assert!(changed("id = \"row + 1\"", &format!("id = \"row + 1\"\n{braces}")).is_ok());
    let tables: String = (0..3)
        .map(|i| format!("[[table]]\nname = \"x{i}_{{1..1000}}\"\nrows = 1\ncolumns = {{a = \"1\"}}\n"))
        .collect();
    assert!(changed("[[transaction]]", &format!("{tables}[[transaction]]")).is_err());
}

#[test]
fn expressions_that_grow_from_each_other_are_bounded() {
    // Each doubles the one before it.
    let lets: String = (1..60).map(|i| format!("a{i} = \"a{} + a{}\"\n", i - 1, i - 1)).collect();
    let found = changed("[let]", &format!("[let]\na0 = \"row\"\n{lets}"));
    assert!(found.is_ok(), "unused expressions are only warnings");
    let used = format!("[let]\na0 = \"1\"\n{lets}");
    let mut files = shop();
    let text = files.get_mut("workload.toml").unwrap();
    *text = text.replacen("[let]", &used, 1).replacen("row + 1", "a59", 1);
    assert!(look_at(files, &choice(1)).is_err());
}

#[test]
fn expressions_are_bounded_together_too() {
    // Each column alone is within its bound.
    let long = format!("pick(1{})", ", 1".repeat(8_000));
    let columns = |n: usize| format!("\"c{{1..{n}}}\" = \"{long}\"\nid = \"row + 1\"");
    let mut files = shop();
    let text = files.get_mut("workload.toml").unwrap();
    *text = text.replacen("id = \"row + 1\"", &columns(130), 1);
    let directory = Directory::new(files).unwrap();
    let problems = Instance::new(&directory, &choice(1)).unwrap_err();
    assert_eq!(problems.len(), 1, "{}", words(&problems));
    assert!(problems[0].message.starts_with("all expressions together have more than 1000000 parts"));
}

#[test]
fn cut_and_garbled_texts_never_panic() {
    for name in &builtins() {
        let files = builtin(name);
        let text = &files["workload.toml"];
        let mut state = 1u64;
        for _ in 0..60 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = text.floor_char_boundary((state >> 33) as usize % text.len());
            let odd = ["", "\"", "{", "}", "[", "9", "-", "é", "'", "\\", "\0", "(", ")", "..", "="];
            let put = odd[(state >> 20) as usize % odd.len()];
            let mut files = files.clone();
            files.insert("workload.toml".to_string(), format!("{}{put}{}", &text[..at], &text[at..]));
            let _ = look_at(files.clone(), &choice(1));
            files.insert("workload.toml".to_string(), text[..at].to_string());
            let _ = look_at(files, &choice(1));
        }
    }
}

#[test]
fn sql_is_bounded() {
    let mut files = shop();
    files.insert("schema.sql".to_string(), format!("select '{}{{n}}'", "x".repeat(1_000_000)));
    let text = files.get_mut("workload.toml").unwrap();
    *text = text.replace("{1..2}", "{1..900}");
    assert_eq!(look_at(files.clone(), &choice(1)).map(drop), Err(1));
    files.insert("schema.sql".to_string(), "(".repeat(1_000_000) + "{n}");
    assert!(look_at(files.clone(), &choice(1)).is_err());
    files.insert("schema.sql".to_string(), "/*".repeat(500_000) + "{n}");
    assert!(look_at(files, &choice(1)).is_ok());
}
