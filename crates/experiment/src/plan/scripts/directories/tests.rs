//! Tests: directories are read once, chosen from by keys, and refused with their places.

use std::fs;
use std::sync::atomic::AtomicBool;

use model::experiment::case::Case;
use model::experiment::script::CaseData;
use model::experiment::{Experiment, WorkloadSection};
use model::load::Protocol;

use crate::plan::expand::{self, PlanResources};
use crate::plan::scripts::{self, ExperimentSource};

/// A directory with a table, two transactions and two variants.
pub(crate) const SHOP: [(&str, &str); 5] = [
    (
        "workload.toml",
        r#"format = 1
name = "shop"
title = "Shop"
about = "Items are looked at, and taken."
source = "own"
licence = "MIT"
scale = "10 items"
needs = {server = "9.6"}

[options]
most = {default = 3, least = 1, most = 10, about = "how many are taken at most"}

[[table]]
name = "item"
rows = "10 * scale"
[table.columns]
id = "row + 1"
stock = "uniform(100, 999)"

[[transaction]]
name = "look"
params = {id = "uniform(1, rows(item))"}

[[transaction]]
name = "take"
params = {id = "uniform(1, rows(item))", n = "uniform(1, most)"}

[variants]
calm = {weights = {look = 9, take = 1}}
busy = {weights = {take = 1}}
"#,
    ),
    ("schema.sql", "create table item (id int primary key, stock int not null);\n"),
    ("transactions/look.sql", "select stock from item where id = :id;\n"),
    ("transactions/take.sql", "update item set stock = stock - :n where id = :id;\n"),
    ("README.md", "A shop.\n"),
];

/// The experiment of `[workload]` with these lines, from a directory in which `shop` has these files.
fn read(workload: &str, files: &[(&str, String)]) -> Result<Experiment, String> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join("shop").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let text = format!("[experiment]\nname = \"x\"\nseed = 1\n[workload]\n{workload}\n");
    let mut experiment = crate::plan::file::parse("x.toml", &text, &[]).map_err(|error| error.to_string())?;
    let stop = AtomicBool::new(false);
    scripts::read(
        &mut experiment,
        &ExperimentSource { name: "x.toml", text: &text, dir: dir.path(), stop: &stop },
    )?;
    Ok(experiment)
}

fn shop() -> Vec<(&'static str, String)> {
    SHOP.map(|(name, text)| (name, text.to_string())).into()
}

/// The same with a change of `workload.toml`.
fn changed(from: &str, to: &str) -> Vec<(&'static str, String)> {
    let mut files = shop();
    assert!(files[0].1.contains(from), "{from}");
    files[0].1 = files[0].1.replacen(from, to, 1);
    files
}

fn cases(workload: &str) -> Result<Vec<Case>, String> {
    let site = PlanResources { memory_bytes: Some(1 << 30), n_cpus: 2, ..PlanResources::default() };
    expand::plan(&read(workload, &shop())?, &site).map(|plan| plan.cases)
}

const KIND: &str = "kind = \"./shop\"\n";

#[test]
fn a_case_has_the_directory_with_what_is_chosen_of_it() {
    let experiment = read(KIND, &shop()).unwrap();
    let all = cases(KIND).unwrap();
    let workload = &all[0].workload;
    let directory = workload.directory.as_deref().unwrap();
    assert_eq!((workload.name(), workload.scale), ("shop:calm".to_string(), 1), "the first variant");
    assert_eq!((&workload.data, workload.protocol), (&CaseData::Directory, Protocol::Prepared));
    let weights = |case: &Case| -> Vec<(String, u32)> {
        case.workload.scripts.iter().map(|script| (script.name.clone(), script.weight)).collect()
    };
    assert_eq!(weights(&all[0]), [("look".to_string(), 9), ("take".to_string(), 1)]);
    assert_eq!(workload.scripts[0].source, SHOP[2].1);
    assert_eq!(workload.defines, [("most".to_string(), "3".to_string())].into());
    let table = &directory.tables[0];
    assert_eq!((table.name.as_str(), table.n_rows), ("item", 10));
    assert!(
        table.bytes > 100
            && !workload::directories::is_builtin(directory)
            && !directory.texts.contains_key("README.md")
    );
    assert_eq!(experiment.workload.directories["./shop"].len(), SHOP.len());

    let busy = cases("kind = \"./shop:busy\"\nscale = 3").unwrap();
    assert_eq!(weights(&busy[0]), [("look".to_string(), 0), ("take".to_string(), 1)]);
    let other = busy[0].workload.directory.as_deref().unwrap();
    assert_eq!((other.tables[0].n_rows, &other.identity), (30, &directory.identity));
    assert_ne!(other.data_identity, directory.data_identity);
}

#[test]
fn variants_and_options_are_factors() {
    let plan = |workload: &str| expand::plan_unseen(&read(workload, &shop()).unwrap()).unwrap();
    let two = plan(&format!("{KIND}variant = [\"calm\", \"busy\"]\noptions.most = [1, 5]"));
    assert_eq!(two.factors, ["workload.variant", "workload.options.most"]);
    let labels: Vec<String> = two.cases.iter().map(Case::label).collect();
    assert_eq!(labels[1], "most 5, variant calm");
    assert_eq!(two.cases[3].workload.defines["most"], "5");
    assert_eq!(two.title, "Shop (calm) and Shop (busy) on PostgreSQL 18: throughput by variant and most");
    let of = |n: usize| two.cases[n].workload.directory.as_deref().unwrap();
    assert_eq!(of(0).data_identity, of(3).data_identity, "no table uses the option");
    let mixed = plan("kind = [\"./shop:busy\", \"tpcb\"]");
    assert_eq!(mixed.cases[1].workload.directory, None);
}

#[test]
fn an_experiment_that_was_read_needs_no_files_any_more() {
    let experiment = read(KIND, &shop()).unwrap();
    let written = toml::to_string_pretty(&experiment).unwrap();
    let mut again = crate::plan::file::parse("y.toml", &written, &[]).unwrap();
    assert_eq!(again, experiment, "{written}");
    let stop = AtomicBool::new(false);
    let nowhere = ExperimentSource { name: "y.toml", text: &written, dir: "/none".as_ref(), stop: &stop };
    scripts::read(&mut again, &nowhere).unwrap();
    assert_eq!(again, experiment);
    let plans = [&experiment, &again].map(|one| expand::plan_unseen(one).unwrap());
    assert_eq!(plans[0].cases, plans[1].cases);
    let json = serde_json::to_string(&plans[0]).unwrap();
    assert_eq!(serde_json::from_str::<model::experiment::plan::Plan>(&json).unwrap(), plans[0]);
}

#[test]
fn a_plan_without_a_directory_does_not_mention_one() {
    let json = serde_json::to_string(&crate::plan::sample::plan("")).unwrap();
    assert!(!json.contains("directory"), "{json}");
}

#[test]
fn mistakes_are_reported_with_their_place_in_the_directory() {
    let check = |workload: &str, files: Vec<(&'static str, String)>, expected: &[&str]| {
        let message = read(workload, &files).unwrap_err();
        for expected in expected {
            assert!(message.contains(expected), "{message}\nexpected: {expected}");
        }
    };
    let line = |files: &[(&str, String)], part: &str| {
        1 + files[0].1.lines().position(|line| line.contains(part)).unwrap()
    };
    let files = changed("uniform(100, 999)", "uniformly(100, 999)");
    let place = format!("./shop/workload.toml:{}:", line(&files, "uniformly"));
    check(KIND, files, &[&place, "uniformly", "^"]);
    let files: Vec<_> = shop().into_iter().filter(|(name, _)| *name != "transactions/take.sql").collect();
    check(KIND, files, &["./shop/workload.toml:", "transactions/take.sql"]);
    check("kind = \"./none\"", shop(), &["workload directory `./none`: cannot read `"]);
    check(&format!("{KIND}variant = \"bussy\""), shop(), &["bussy"]);
    check(&format!("{KIND}options.most = [3, 11]"), shop(), &["most"]);
    check(&format!("{KIND}options.least = 1"), shop(), &["least"]);
    check(&format!("{KIND}defines.n = 1"), shop(), &["workload.defines needs workload.kind", "has options"]);
    check(&format!("{KIND}data = \"tpcb\""), shop(), &["workload.data needs workload.kind"]);
}

#[test]
fn keys_of_directories_are_for_directories_alone() {
    let check = |workload: &str, expected: &str| {
        let message = read(workload, &shop()).and_then(|experiment| expand::check(&experiment)).unwrap_err();
        assert!(message.contains(expected), "{message}\nexpected: {expected}");
    };
    check("variant = \"a\"", "workload.variant is for workload directories alone");
    check("options.a = 1", "workload.options is for workload directories alone");
    check("kind = [\"tpcb\", \"./shop\"]\ndata_seed = 7", "and not for \"tpcb\"");
    check("kind = \"./shop:busy\"\nvariant = \"calm\"", "both name a variant; give one");
    check(&format!("{KIND}partitions = 2"), "workload.partitions is for TPC-B-like tables");
    check(&format!("{KIND}calls = \"functions\""), "workload.calls is for workload.kind");
    check(&format!("{KIND}unlogged = true"), "workload.unlogged is for tables that pgdyno loads");
    check("kind = \"ychsb\"", "`ychsb` is no workload");
}

#[test]
fn a_multiple_of_memory_is_a_scale_by_the_bytes_of_the_tables() {
    let scale = |scale: &str| cases(&format!("{KIND}scale = {scale}")).map(|cases| cases[0].workload.scale);
    let unit = cases(KIND).unwrap()[0].workload.directory.as_ref().unwrap().estimated_bytes();
    let found = scale("\"0.0001x RAM\"").unwrap();
    let expected = (0.0001 * f64::from(1 << 30) / unit as f64) as u32;
    assert!(found.abs_diff(expected) <= 1 + expected / 10, "{found}, {expected}");
    assert_eq!(scale("\"fit\""), Ok(1));
    assert!(scale("\"3x RAM\"").unwrap_err().contains("need more than 1000000 units"));
}

#[test]
fn the_seed_of_the_data_makes_other_data() {
    let identity = |more: &str| {
        let all = cases(&format!("{KIND}{more}")).unwrap();
        let directory = all[0].workload.directory.as_deref().unwrap().clone();
        (directory.data_seed, directory.data_identity)
    };
    let (seed, plain) = identity("");
    assert_eq!((seed, identity("data_seed = 1").1), (1, plain.clone()));
    assert_ne!(identity("data_seed = 2"), (2, plain));
}

/// A text as zstd stores what it does not compress.
fn stored(text: &str) -> Vec<u8> {
    let n = u32::try_from(text.len()).unwrap();
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    bytes.extend(n.to_le_bytes());
    bytes.extend(&(n << 3 | 1).to_le_bytes()[..3]);
    bytes.extend(text.as_bytes());
    bytes
}

/// A trace of one statement that takes so many seconds.
fn trace(length_s: u32) -> Vec<u8> {
    stored(&format!(
        concat!(
            r#"{{"format":1,"n_clients":1,"n_sessions":1,"n_forms":1,"n_transactions":1,"n_statements":1,"length_us":{}000000,"n_each_max":1}}"#,
            "\n",
            r#"{{"text":"select 1","values":""}}"#,
            "\n",
            r#"{{"c":0,"t":0,"s":[{{"f":0}}]}}"#,
            "\n",
        ),
        length_s
    ))
}

/// The workload of directories `a` and the following ones, whose traces take so many seconds.
fn traced(lengths_s: &[u32]) -> WorkloadSection {
    let dir = tempfile::tempdir().unwrap();
    let mut kinds = Vec::new();
    for (name, length_s) in ["a", "b", "c"].iter().zip(lengths_s) {
        for (file, text) in SHOP {
            let path = dir.path().join(name).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(dir.path().join(name).join("trace.zst"), trace(*length_s)).unwrap();
        kinds.push(format!("\"./{name}\""));
    }
    let text = format!(
        "[experiment]\nname = \"x\"\n[workload]\nreplay = \"trace\"\nkind = [{}]\n",
        kinds.join(", ")
    );
    let mut experiment = crate::plan::file::parse("x.toml", &text, &[]).unwrap();
    let stop = AtomicBool::new(false);
    let source = ExperimentSource { name: "x.toml", text: &text, dir: dir.path(), stop: &stop };
    scripts::read(&mut experiment, &source).unwrap();
    experiment.workload
}

#[test]
fn traces_of_several_directories_have_the_time_of_the_longest_one() {
    let replay_s = |lengths_s: &[u32]| super::asked_load(&traced(lengths_s)).replay_s;
    assert_eq!(replay_s(&[10]), Some(80));
    assert_eq!(replay_s(&[10, 100, 20]), Some(260));
}
