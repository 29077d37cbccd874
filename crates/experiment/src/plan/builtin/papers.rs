//! The files of the published studies against what the papers state (docs/studies/papers.toml): each number is the paper's, also those of
//! targets and drivers, and what a paper does not state is said to be chosen. The documents have the same tables and results.

use std::collections::BTreeMap;

use model::experiment::Experiment;
use model::experiment::target::TargetSection;
use serde::Deserialize;
use toml::Value;

const PAPERS: &str = include_str!("../../../../../docs/studies/papers.toml");
const DOCUMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
/// Keys that name, describe or bundle; what they say is in other rows.
const WORDS: [&str; 5] =
    ["experiment.name", "experiment.title", "experiment.description", "experiment.zip", "experiment.exclude"];
/// Parts of papers, as the head of the file lists them.
const PARTS: [&str; 23] = [
    "OS",
    "WAL",
    "asked by readers",
    "bid",
    "conditions",
    "dashboard",
    "data",
    "kernel",
    "limits",
    "load",
    "local against network",
    "machines",
    "network disks",
    "procedure",
    "release",
    "releases",
    "results",
    "settings",
    "storage",
    "table",
    "large",
    "small",
    "machine",
];
/// A study, and the one of which its table repeats no row.
const REFERS_TO: (&str, &str) = ("numa-hugepages", "low-variation");

#[derive(Deserialize)]
struct Paper {
    about: String,
    driver: Stated,
    rows: Vec<Row>,
    #[serde(default)]
    targets: Vec<Target>,
    results: Vec<Stated>,
}

/// The value of a key in the file, and what the paper states of it.
#[derive(Deserialize, PartialEq)]
struct Row {
    key: String,
    file: String,
    paper: String,
    #[serde(default, rename = "where")]
    place: String,
}

/// A number or a word of a paper.
#[derive(Deserialize)]
struct Stated {
    #[serde(default)]
    what: String,
    paper: String,
    #[serde(rename = "where")]
    place: String,
}

/// A target as a paper states it.
#[derive(Deserialize)]
struct Target {
    name: String,
    instance: String,
    vcpu: Option<String>,
    memory: Option<String>,
    disk: Option<String>,
    disk_type: Option<String>,
    disk_size: Option<String>,
    clients: Option<u32>,
    data_iops: Option<f64>,
    bid_per_hour: Option<f64>,
    #[serde(rename = "where")]
    place: String,
}

fn papers() -> BTreeMap<String, Paper> {
    toml::from_str(PAPERS).unwrap()
}

fn experiment(study: &str) -> (String, Experiment) {
    let text = super::text(study, 2).unwrap();
    let experiment = crate::plan::file::parse(study, &text, &[]).unwrap();
    (text, experiment)
}

/// The keys of a file with their values as the tables write them.
fn keys_of(table: &toml::Table, prefix: &str, found: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        match value {
            _ if WORDS.contains(&key.as_str()) || ["target", "driver", "figure"].contains(&key.as_str()) => {}
            Value::Table(levels) if key == "experiment.baseline" => {
                let levels: Vec<String> = levels.iter().map(|(k, v)| format!("{k} {}", text(v))).collect();
                found.insert(key, levels.join(", "));
            }
            Value::Table(table) => keys_of(table, &format!("{key}."), found),
            value => {
                found.insert(key, text(value));
            }
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => {
            let mut texts: Vec<String> = Vec::new();
            for one in all.iter().map(text) {
                if !texts.contains(&one) {
                    texts.push(one);
                }
            }
            texts.join(", ")
        }
        other => other.to_string(),
    }
}

#[test]
fn each_file_has_the_numbers_of_its_paper_and_says_what_was_chosen() {
    let papers = papers();
    assert_eq!(papers.len(), 5);
    for (study, paper) in &papers {
        let (text, _) = experiment(study);
        let mut of_file = BTreeMap::new();
        keys_of(&text.parse().unwrap(), "", &mut of_file);
        let of_paper = paper.rows.iter().map(|row| (row.key.clone(), row.file.clone())).collect();
        assert_eq!(of_file, of_paper, "{study}");
        let (_, chosen) = text.split_once("which was chosen:").unwrap();
        let chosen = chosen.split("\n[").next().unwrap();
        for row in &paper.rows {
            assert_eq!(row.paper == "-", row.place.is_empty(), "{study}: where does {} stand?", row.key);
            let name = row.key.rsplit('.').next().unwrap();
            let is_said = row.paper != "-" || chosen.contains(name);
            assert!(is_said, "{study}: {} was chosen, which the file does not say", row.key);
        }
    }
}

#[test]
fn each_number_stands_in_a_part_of_its_paper() {
    for (study, paper) in &papers() {
        let of_rows = paper.rows.iter().filter(|row| row.paper != "-").map(|row| &row.place);
        let of_targets = paper.targets.iter().map(|target| &target.place);
        let stated = paper.results.iter().chain([&paper.driver]).map(|stated| &stated.place);
        for place in of_rows.chain(of_targets).chain(stated) {
            let is_part = |part: &str| PARTS.contains(&part.trim());
            assert!(place.split([';', ',']).all(is_part), "{study}: `{place}` is no part of the paper");
        }
        assert!(paper.results.len() >= 3, "{study}: what did it find?");
    }
}

#[test]
fn targets_and_drivers_are_those_of_the_papers() {
    for (study, paper) in &papers() {
        let (_, experiment) = experiment(study);
        let names: Vec<&String> = experiment.target.iter().map(|target| &target.name).collect();
        assert_eq!(names, paper.targets.iter().map(|target| &target.name).collect::<Vec<_>>(), "{study}");
        let clients = experiment.workload.clients.all();
        for (n, (target, stated)) in experiment.target.iter().zip(&paper.targets).enumerate() {
            let label = |name: &str| target.labels.get(name).cloned();
            assert!(!stated.place.is_empty());
            assert_eq!(target.instance.as_ref(), Some(&stated.instance), "{}", target.name);
            let of = |stated: &Option<String>, found: Option<String>| {
                assert!(stated.is_none() || *stated == found, "{}: {found:?} for {stated:?}", target.name);
            };
            of(&stated.vcpu, label("vcpu"));
            of(&stated.memory, target.memory.clone());
            of(&stated.disk, target.disk.clone());
            of(&stated.disk_type, label("disk_type"));
            of(&stated.disk_size, label("disk_size"));
            assert!(stated.clients.is_none_or(|stated| stated == clients[n]), "{}", target.name);
            assert_eq!(stated.data_iops, target.limits.data_iops, "{}", target.name);
            assert_eq!(stated.bid_per_hour, target.bid_per_hour, "{}", target.name);
        }
        let has_own = |target: &TargetSection| !target.driver.is_empty();
        let is_apart = !experiment.driver.is_empty()
            || (!experiment.target.is_empty() && experiment.target.iter().all(has_own));
        assert!(!paper.driver.place.is_empty());
        assert_eq!(is_apart, paper.driver.paper == "apart", "{study}: driver");
    }
}

#[test]
fn scale_follows_each_servers_own_memory() {
    let (_, clouds) = experiment("five-clouds");
    let mut site = crate::plan::expand::PlanResources::unseen(&clouds);
    for target in &clouds.target {
        let bytes = model::text::units::size_bytes(target.memory.as_ref().unwrap(), 1).unwrap();
        site.targets.get_mut(&target.name).unwrap().memory_bytes = Some(bytes);
    }
    let plan = crate::plan::expand::plan(&clouds, &site).unwrap();
    let scale = |name: &str| {
        let of = |target: &model::experiment::target::TargetSpec| target.name == name;
        let case = plan.cases.iter().find(|case| case.server.target.as_ref().is_some_and(of)).unwrap();
        f64::from(case.workload.scale)
    };
    let ratio = scale("Azure UK South small") / scale("AWS eu-west-1 small");
    assert!((ratio - 14.0 / 16.0).abs() < 0.01, "{ratio}: 14 GB and 16 GB");
    let ratio = scale("AWS eu-west-1 large local") / scale("AWS eu-west-1 large");
    assert!((ratio - 61.0 / 64.0).abs() < 0.01, "{ratio}: 61 GB and 64 GB");
}

fn is_same(row: &Row) -> bool {
    row.paper == row.file
}

fn is_chosen(row: &Row) -> bool {
    row.paper == "-"
}

/// The values of some rows in one line, after what they have in common.
fn line(what: &str, rows: &[&Row], is_one: fn(&Row) -> bool) -> String {
    let some = rows.iter().filter(|row| is_one(row));
    let values: Vec<String> = some.map(|row| format!("`{}` {}", row.key, row.file)).collect();
    if values.is_empty() { String::new() } else { format!("\n{what}: {}.\n", values.join("; ")) }
}

/// The tables of a study for docs/studies.md, without the rows that another one has.
fn tables(paper: &Paper, of_another: &[Row]) -> String {
    let rows: Vec<&Row> = paper.rows.iter().filter(|row| !of_another.contains(row)).collect();
    let mut page = "| key | file | study |\n|---|---|---|\n".to_string();
    for row in rows.iter().filter(|row| !is_same(row) && !is_chosen(row)) {
        page.push_str(&format!("| `{}` | {} | {} |\n", row.key, row.file, row.paper));
    }
    page.push_str(&format!("| driver | | {} |\n", paper.driver.paper));
    page.push_str(&line("As in the study", &rows, is_same));
    page.push_str(&line("Not stated there", &rows, is_chosen));
    if paper.targets.iter().any(|target| target.vcpu.is_some()) {
        page.push_str(
            "\n| targets | machine | vCPU | memory | disk | clients |\n|---|---|---|---|---|---|\n",
        );
        for (names, machine) in machines(&paper.targets) {
            page.push_str(&format!("| {} | {machine} |\n", names.join(", ")));
        }
    }
    page
}

/// What the machines of targets are, each with the names of its targets.
fn machines(targets: &[Target]) -> Vec<(Vec<&str>, String)> {
    let mut found: Vec<(Vec<&str>, String)> = Vec::new();
    for target in targets {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let machine = format!(
            "{} | {} | {} | {}: {}, {} | {}",
            target.instance,
            text(&target.vcpu),
            text(&target.memory),
            text(&target.disk),
            text(&target.disk_type),
            text(&target.disk_size),
            target.clients.unwrap_or_default()
        );
        match found.iter().position(|(_, known)| *known == machine) {
            Some(at) => found[at].0.push(&target.name),
            None => found.push((vec![&target.name], machine)),
        }
    }
    found
}

/// Generates the tables of docs/studies.md if PGDYNO_BLESS is set; otherwise expects them as they would be generated.
#[test]
fn documents_have_the_tables_and_results_of_the_papers() {
    let path = format!("{DOCUMENTS}/studies.md");
    let mut page = std::fs::read_to_string(&path).unwrap();
    let papers = papers();
    for (study, paper) in &papers {
        let (start, end) = (format!("<!-- {study} -->\n"), format!("<!-- end of {study} -->"));
        let (head, rest) = page.split_once(&start).unwrap_or_else(|| panic!("no `{start}` in {path}"));
        let (_, tail) = rest.split_once(&end).unwrap();
        let of_another: &[Row] = if study == REFERS_TO.0 { &papers[REFERS_TO.1].rows } else { &[] };
        let made = format!("{head}{start}{}{end}{tail}", tables(paper, of_another));
        assert!(page.contains(&paper.about), "{study}: {}", paper.about);
        if std::env::var_os("PGDYNO_BLESS").is_some() {
            std::fs::write(&path, &made).unwrap();
        }
        assert!(
            made == page || std::env::var_os("PGDYNO_BLESS").is_some(),
            "{path} is out of date; generate it with PGDYNO_BLESS=1 cargo test -p experiment papers"
        );
        page = made;
        let own = std::fs::read_to_string(format!("{DOCUMENTS}/studies/{study}.md")).unwrap();
        for Stated { what, paper, place } in &paper.results {
            assert!(!place.is_empty() && own.contains(paper.as_str()), "{study}.md lacks {what}: {paper}");
        }
    }
}
