//! The schema against what the code reads: the same keys, all experiments that come with the program, and mistakes.

use std::collections::BTreeSet;

use model::experiment::Experiment;

use super::*;

/// Whether a value is valid: the part of JSON Schema that [`schema`] uses.
fn is_valid(value: &Value, schema: &Value) -> bool {
    let known = [
        "type",
        "enum",
        "pattern",
        "minimum",
        "exclusiveMinimum",
        "maximum",
        "minItems",
        "items",
        "properties",
        "required",
        "additionalProperties",
        "anyOf",
        "description",
        "$schema",
        "title",
    ];
    schema.as_object().unwrap().iter().all(|(rule, of)| {
        assert!(known.contains(&rule.as_str()), "{rule}");
        match rule.as_str() {
            "type" => match of.as_str().unwrap() {
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "number" => value.is_number(),
                "integer" => value.is_i64() || value.is_u64(),
                "array" => value.is_array(),
                "object" => value.is_object(),
                other => panic!("{other}"),
            },
            "enum" => of.as_array().unwrap().contains(value),
            "pattern" => value
                .as_str()
                .is_none_or(|text| regex_lite::Regex::new(of.as_str().unwrap()).unwrap().is_match(text)),
            "minimum" => value.as_f64().is_none_or(|n| n >= of.as_f64().unwrap()),
            "exclusiveMinimum" => value.as_f64().is_none_or(|n| n > of.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|n| n <= of.as_f64().unwrap()),
            "minItems" => value.as_array().is_none_or(|list| list.len() as u64 >= of.as_u64().unwrap()),
            "items" => value.as_array().is_none_or(|list| list.iter().all(|item| is_valid(item, of))),
            "required" => value.as_object().is_none_or(|map| {
                of.as_array().unwrap().iter().all(|key| map.contains_key(key.as_str().unwrap()))
            }),
            "properties" => value.as_object().is_none_or(|map| {
                map.iter().all(|(key, value)| of.get(key).is_none_or(|schema| is_valid(value, schema)))
            }),
            "additionalProperties" => {
                let is_named =
                    |key: &str| schema.get("properties").is_some_and(|named| named.get(key).is_some());
                let others = value.as_object().into_iter().flatten().filter(|(key, _)| !is_named(key));
                others.into_iter().all(|(_, value)| {
                    if of.is_object() { is_valid(value, of) } else { of.as_bool().unwrap() }
                })
            }
            "anyOf" => of.as_array().unwrap().iter().any(|one| is_valid(value, one)),
            _ => true,
        }
    })
}

fn json_of(toml: &str) -> Value {
    serde_json::to_value(toml.parse::<toml::Table>().unwrap()).unwrap()
}

fn is_list(section: &str) -> bool {
    ["target", "driver", "import", "figure"].contains(&section)
}

/// The keys that the code names when it meets one that it does not know.
fn keys_of(section: &str) -> BTreeSet<String> {
    let head = if section == "experiment" { "" } else { "[experiment]\nname = \"x\"\n" };
    let open = if is_list(section) { format!("[[{section}]]") } else { format!("[{section}]") };
    keys_named(&format!("{head}{open}\nno_such_key = 1\n"))
}

/// The keys that are named where a text has one that is not known.
fn keys_named(text: &str) -> BTreeSet<String> {
    let error = toml::from_str::<Experiment>(text).unwrap_err();
    let (_, listed) = error.message().split_once("expected one of ").unwrap_or_else(|| panic!("{error}"));
    listed.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

#[test]
fn the_schema_has_the_keys_that_the_code_reads() {
    let schema = schema();
    for section in [
        "experiment",
        "server",
        "workload",
        "run",
        "prepare",
        "os",
        "hooks",
        "target",
        "driver",
        "import",
        "figure",
    ] {
        let of = &schema["properties"][section];
        let properties = if is_list(section) { &of["items"]["properties"] } else { &of["properties"] };
        let described: BTreeSet<String> = properties.as_object().unwrap().keys().cloned().collect();
        assert_eq!(described, keys_of(section), "{section}");
    }
}

#[test]
fn the_newest_release_is_the_default_wherever_one_is_named() {
    let newest = model::release::Release::NEWEST.series();
    assert_eq!(experiment::plan::expand::DEFAULT_VERSION, newest);
    let row = keys::all().find(|row| row.name == "server.version").unwrap();
    assert!(row.default.contains(&format!("`\"{newest}\"`")), "{}", row.default);
}

#[test]
fn format_lists_every_section_of_the_experiment_file() {
    let format = include_str!("../../../../../FORMAT.md");
    let (_, after) = format.split_once("TOML with the sections ").unwrap();
    let (listed, _) = after.split_once(". Only").unwrap();
    let listed: BTreeSet<String> = listed.split('`').skip(1).step_by(2).map(str::to_string).collect();
    assert_eq!(listed, keys_named("no_such_section = 1\n"));
}

#[test]
fn words_of_the_schema_are_words_of_the_code() {
    let mut n = 0;
    for row in keys::all() {
        let KeyKind::Words(words) = row.kind else { continue };
        let (section, name) = row.parts().unwrap();
        for word in words {
            let text = match section {
                "experiment" => format!("[experiment]\nname = \"x\"\n{name} = \"{word}\"\n"),
                _ => format!("[experiment]\nname = \"x\"\n[{section}]\n{name} = \"{word}\"\n"),
            };
            toml::from_str::<Experiment>(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            n += 1;
        }
    }
    assert!(n > 30, "{n}");
}

#[test]
fn experiments_are_valid_and_mistakes_are_not() {
    let schema = schema();
    let mut texts: Vec<String> = Vec::new();
    for dir in ["../../experiments", "templates"] {
        let entries = std::fs::read_dir(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)).unwrap();
        let files = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "toml"));
        texts.extend(files.map(|path| std::fs::read_to_string(path).unwrap()));
    }
    texts.extend(
        experiment::plan::builtin::BUILTINS
            .iter()
            .map(|one| experiment::plan::builtin::text(one.name, 4).unwrap()),
    );
    assert!(texts.len() > 14, "{}", texts.len());
    for text in &texts {
        assert!(is_valid(&json_of(text), &schema), "{text}");
    }
    let head = "[experiment]\nname = \"x\"\n";
    for (valid, text) in [
        (true, "[workload]\nclients = [1, 8]\n"),
        (false, "[workload]\nclient = 8\n"),
        (false, "[workload]\nclients = \"8\"\n"),
        (false, "[workload]\nclients = []\n"),
        (false, "[worklod]\nclients = 8\n"),
        (false, "[run]\nmeasure = 60\n"),
        (false, "[run]\nmeasure = \"60\"\n"),
        (true, "[run]\nramp_up = \"auto\"\nmeasure = [\"60s\", \"2min\"]\n"),
        (false, "[workload]\nprotocol = \"preparred\"\n"),
        (false, "[[target]]\nurl = \"x\"\n"),
        (true, "[[driver]]\nhosts = \"hosts.txt\"\n[[driver]]\nkubernetes = {selector = \"app=x\"}\n"),
        (false, "[[driver]]\nkubernetes = {namespace = \"x\"}\n"),
        (false, "[limits]\ndata_iops = 0\n"),
        (false, "[workload]\nthreads = [1, 0]\n"),
        (true, "[server.settings]\nwork_mem = [\"4MB\", 65536]\njit = false\n"),
    ] {
        let text = format!("{head}{text}");
        assert_eq!(is_valid(&json_of(&text), &schema), valid, "{text}");
        // The code agrees.
        assert_eq!(
            experiment::plan::file::parse("x", &text, &[]).is_ok() || text.contains("[[target]]"),
            valid || text.contains("[[target]]"),
            "{text}"
        );
    }
    assert!(!is_valid(&json_of("[run]\nmeasure = \"60s\"\n"), &schema), "the experiment has no name");
}
