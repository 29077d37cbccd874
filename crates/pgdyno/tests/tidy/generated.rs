//! Parts of the documents that are made from the code, between `<!-- generated: NAME -->` and `<!-- end -->`, and
//! names that the code stores, each of which FORMAT.md or a page of the experiment file must explain.

use analysis::budget::{BUDGET, BudgetRow, bounded_by};
use analysis::cost::{COSTS, CostRow, CostUnit};
use analysis::doctor::sight::{SIGHTS, Sight};
use analysis::doctor::{DoctorRow, ROWS};
use analysis::findings::{CATALOGUE, Rule};
use model::experiment::case::setting::table::{ROWS as SETTINGS, SettingRow};
use model::run::ceilings::{CEILINGS, Ceiling};
use model::telemetry::metric::{METRICS, Metric, MetricKind};

use super::tree::{self, SourceFile};
use super::{assert_none, assert_one};

/// The rules as a table.
fn findings_table(rules: &[Rule]) -> String {
    let mut table = "| finding | what it says | when, and how much it weighs | advice | source |\n|---|---|---|---|---|\n".to_string();
    for rule in rules {
        let bounded = bounded_by(rule).map_or(String::new(), |words| format!(". {words}"));
        let when = format!("{}{bounded}", rule.severity);
        let cells = [rule.title, &when, rule.advice, rule.source].map(cell).join(" | ");
        table.push_str(&format!("| `{}` | {cells} |\n", rule.id));
    }
    table
}

/// The rows of the uncertainty's budget as a table.
fn budget_table(rows: &[BudgetRow]) -> String {
    let mut table =
        "| row | what it is | bounds of ln(undisturbed / measured) throughput | source | findings that it bounds |\n|---|---|---|---|---|\n"
            .to_string();
    for row in rows {
        let cells = [row.title, row.formula, row.source].map(cell).join(" | ");
        let findings: Vec<String> = row.findings.iter().map(|id| format!("`{id}`")).collect();
        table.push_str(&format!("| `{}` | {cells} | {} |\n", row.id, findings.join(", ")));
    }
    table
}

/// The costs of a transaction as a table.
fn costs_table(rows: &[CostRow]) -> String {
    let mut table =
        "| cost | what it is | unit | a difference up to this does not matter | assumed spread of runs | source |\n|---|---|---|--:|--:|---|\n"
            .to_string();
    for row in rows {
        let unit = match row.unit {
            CostUnit::Microseconds => "µs",
            CostUnit::Bytes => "bytes",
            CostUnit::Count => "1",
        };
        let [margin, sd] = [row.margin, row.assumed_sd].map(|share| format!("{} %", 100.0 * share));
        table.push_str(&format!(
            "| `{}` | {} | {unit} | {margin} | {sd} | {} |\n",
            row.id,
            row.title,
            cell(row.source)
        ));
    }
    table
}

/// Rules that are said to be tested on a real server, and that no test of such a server names.
fn untested(rules: &[Rule], sources: &[SourceFile]) -> Vec<String> {
    let is_real = |file: &&SourceFile| file.path.starts_with("crates/pgdyno/tests/it/");
    let names = |rule: &Rule| {
        let ways = ["\"", "\\", " ", "]", ":"].map(|end| format!("{}{end}", rule.id));
        sources.iter().filter(is_real).any(|file| ways.iter().any(|way| file.text.contains(way)))
    };
    let is_claimed =
        |rule: &&Rule| !["Made-up records", "By hand: "].iter().any(|word| rule.tested.starts_with(word));
    let bare = rules.iter().filter(is_claimed).filter(|rule| !names(rule));
    bare.map(|rule| format!("`{}` is tested with: {} But no test in tests/it names it", rule.id, rule.tested))
        .collect()
}

/// The metrics as a table.
fn metrics_table(metrics: &[Metric]) -> String {
    let mut table = "| metric | kind (unit) | what |\n|---|---|---|\n".to_string();
    for metric in metrics {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        let name = with_instance(metric.name, metric.instance);
        let unit = in_brackets(metric.unit);
        table.push_str(&format!("| `{name}` | {kind}{unit} | {} |\n", cell(metric.what)));
    }
    table
}

/// A name as records have it, with what its instances are in brackets.
fn with_instance(name: &str, instance: &str) -> String {
    match instance {
        "" => name.to_string(),
        instance => format!("{name}[{instance}]"),
    }
}

/// A unit after a word; nothing for numbers without one.
fn in_brackets(unit: &str) -> String {
    match unit {
        "1" => String::new(),
        unit => format!(" ({unit})"),
    }
}

/// The ceilings as a table.
fn ceilings_table(ceilings: &[Ceiling]) -> String {
    let mut table = "| ceiling | unit | what |\n|---|---|---|\n".to_string();
    for ceiling in ceilings {
        let cells = [ceiling.unit, ceiling.what].map(cell).join(" | ");
        table.push_str(&format!("| `{}` | {cells} |\n", with_instance(ceiling.name, ceiling.instance)));
    }
    table
}

/// What settings can change of data, as a table.
fn settings_table(rows: &[SettingRow]) -> String {
    let mut table = "| settings | what they can change | why |\n|---|---|---|\n".to_string();
    for row in rows {
        let names: Vec<String> = row.words().map(|name| format!("`{name}`")).collect();
        table.push_str(&format!("| {} | {} | {} |\n", names.join(", "), row.acts.as_str(), cell(row.why)));
    }
    table
}

/// The rows of doctor as a table.
fn doctor_table(rows: &[DoctorRow]) -> String {
    let mut table = "| row | wanted | why | source | fix |\n|---|---|---|---|---|\n".to_string();
    for row in rows {
        let cells = [row.wanted, row.why, row.source, row.fix].map(cell).join(" | ");
        table.push_str(&format!("| `{}` | {cells} |\n", row.id));
    }
    table
}

/// What pgdyno can see and do on a server, as a table.
fn sights_table(sights: &[Sight]) -> String {
    let mut table = "| what | lost without it | how to get it | silent |\n|---|---|---|---|\n".to_string();
    for sight in sights {
        let cells = [sight.lost, sight.fix, &sight.silent.join(", ")].map(cell).join(" | ");
        table.push_str(&format!("| `{}`: {} | {cells} |\n", sight.id, sight.what));
    }
    table
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The document with its part replaced; `None` if it has no such part.
fn replaced(document: &str, name: &str, content: &str) -> Option<String> {
    let begin = format!("<!-- generated: {name} -->\n");
    let (head, rest) = document.split_once(&begin)?;
    let (_, tail) = rest.split_once("<!-- end -->")?;
    Some(format!("{head}{begin}{content}<!-- end -->{tail}"))
}

fn out_of_step(document: &SourceFile, name: &str, content: &str) -> Vec<String> {
    let problem = match replaced(&document.text, name, content) {
        None => format!("{} has no part `{name}`", document.path),
        Some(text) if text == document.text => return Vec::new(),
        Some(_) => format!(
            "{}: `{name}` is not what the code has; run: PGDYNO_BLESS=1 cargo test -p pgdyno --test tidy",
            document.path
        ),
    };
    vec![problem]
}

/// Fails if the part is not `content`; writes it when asked to by the environment.
fn check(path: &str, name: &str, content: &str) {
    let document = tree::file(path);
    if std::env::var_os("PGDYNO_BLESS").is_some()
        && let Some(text) = replaced(&document.text, name, content)
    {
        std::fs::write(tree::root().join(path), text).unwrap();
        return;
    }
    assert_none(&out_of_step(&document, name, content));
}

/// Fields of types that are stored, and kinds of events as they are stored.
fn stored_names(file: &SourceFile) -> Vec<String> {
    let mut names = Vec::new();
    let (mut is_serialized, mut is_flattened, mut block) = (false, false, "");
    for line in file.production_text().lines() {
        if line.starts_with("#[derive(") {
            is_serialized = line.contains("Serialize");
        } else if line.starts_with("pub struct ") || line.starts_with("pub enum ") {
            block = if is_serialized { line } else { "" };
            is_serialized = false;
        } else if line == "}" {
            block = "";
        }
        // What is in such a field has its own names.
        let was_flattened = std::mem::replace(&mut is_flattened, line.trim() == "#[serde(flatten)]");
        let name = if was_flattened {
            None
        } else if block.starts_with("pub enum EventKind") {
            line.trim().strip_suffix(',').filter(|name| name.starts_with(char::is_uppercase)).map(snake_case)
        } else if block.starts_with("pub struct") {
            let field = line.strip_prefix("    pub ").and_then(|rest| rest.split_once(": "));
            field.map(|(name, _)| name.to_string())
        } else {
            None
        };
        names.extend(name);
    }
    names
}

fn snake_case(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.extend(c.to_lowercase());
    }
    words
}

/// Files that pgdyno writes, and the one that it reads.
const EXPLAINING: &[&str] = &[
    "FORMAT.md",
    "docs/reference/experiment-file.md",
    "docs/agents.md",
    "docs/data.md",
    "docs/drivers.md",
    "docs/hosts.md",
    "docs/scripts.md",
    "docs/targets.md",
];

/// Names that a document does not have in a code span, alone or at the end of a dotted key.
fn unexplained(names: &[String], document: &str) -> Vec<String> {
    let explains = |name: &String| {
        ["`", ".", "\""].iter().any(|before| {
            ["`", "\""].iter().any(|after| document.contains(&format!("{before}{name}{after}")))
        })
    };
    names
        .iter()
        .filter(|name| !explains(name))
        .map(|name| format!("neither FORMAT.md nor a page of the experiment file explains `{name}`"))
        .collect()
}

#[test]
fn every_name_that_is_stored_is_explained() {
    let is_stored = |file: &SourceFile| file.path.starts_with("crates/model/src/");
    let names: Vec<String> =
        tree::rust().iter().filter(|file| is_stored(file)).flat_map(stored_names).collect();
    assert!(names.len() > 100, "only {} names found", names.len());
    let pages = EXPLAINING.iter().map(|path| tree::file(path).text);
    assert_none(&unexplained(&names, &pages.collect::<Vec<String>>().concat()));
}

#[test]
fn a_name_that_is_not_explained_is_found() {
    let source = "#[derive(Debug, Serialize)]\npub struct A {\n    /// B.\n    pub b_ns: u64,\n    #[serde(flatten)]\n    pub f: F,\n}\n\
                  #[derive(Debug)]\npub struct C {\n    pub d: u64,\n}\n\
                  #[derive(Serialize)]\npub enum EventKind {\n    /// E.\n    DiskFull,\n}\n";
    let names = stored_names(&SourceFile::new("crates/model/src/a.rs", source));
    assert_eq!(names, ["b_ns", "disk_full"]);
    assert_none(&unexplained(&names, "`x.b_ns` and `disk_full`"));
    assert_one(&unexplained(&names, "`b_ns`, disk_full"), "`disk_full`");
}

#[test]
fn the_catalogue_of_findings_is_that_of_the_code() {
    check("docs/findings.md", "findings", &findings_table(CATALOGUE));
    assert_none(&untested(CATALOGUE, &tree::rust()));
}

#[test]
fn the_budget_is_that_of_the_code() {
    check("docs/methodology/uncertainty.md", "budget", &budget_table(BUDGET));
}

#[test]
fn the_costs_are_those_of_the_code() {
    check("docs/methodology/costs.md", "costs", &costs_table(COSTS));
}

#[test]
fn the_tables_of_doctor_are_those_of_the_code() {
    check("docs/doctor.md", "doctor", &doctor_table(ROWS));
    check("docs/doctor.md", "sights", &sights_table(SIGHTS));
}

#[test]
fn the_table_of_settings_is_that_of_the_code() {
    check("docs/settings.md", "settings", &settings_table(SETTINGS));
}

#[test]
fn the_table_of_metrics_is_that_of_the_code() {
    check("FORMAT.md", "metrics", &metrics_table(METRICS));
}

#[test]
fn the_table_of_ceilings_is_that_of_the_code() {
    check("FORMAT.md", "ceilings", &ceilings_table(CEILINGS));
}

#[test]
fn metrics_are_named_with_their_instances_and_units() {
    let row = |name: &str| {
        let metric = *METRICS.iter().find(|metric| metric.name == name).unwrap();
        let table = metrics_table(&[metric]);
        table.lines().nth(2).unwrap().split(" | ").take(2).collect::<Vec<_>>().join(" | ")
    };
    assert_eq!(row("host.cpu.user"), "| `host.cpu.user[cpu]` | counter (s)");
    assert_eq!(row("host.runnable"), "| `host.runnable` | gauge");
}

#[test]
fn a_rule_whose_test_is_gone_is_found() {
    let rule = CATALOGUE.iter().find(|rule| rule.id == "foreign-sessions").unwrap();
    let it = |text: &str| [SourceFile::new("crates/pgdyno/tests/it/a.rs", text)];
    assert_none(&untested(&[*rule], &it("expect(run, \"foreign-sessions\");")));
    assert_one(&untested(&[*rule], &it("expect(run, \"foreign\");")), "`foreign-sessions` is tested with");
}

#[test]
fn a_part_that_is_missing_or_old_is_found() {
    let document = |text: &str| SourceFile::new("A.md", text);
    let part = "a\n<!-- generated: x -->\nnew\n<!-- end -->\nb\n";
    assert_none(&out_of_step(&document(part), "x", "new\n"));
    assert_one(&out_of_step(&document(part), "x", "newer\n"), "PGDYNO_BLESS");
    assert_one(&out_of_step(&document(part), "y", "new\n"), "no part `y`");
    assert_eq!(replaced(part, "x", "c\n").unwrap(), "a\n<!-- generated: x -->\nc\n<!-- end -->\nb\n");
    assert_eq!(cell("a | b"), "a \\| b");
}
