//! The reference of the experiment file, `docs/reference/experiment-file.md`: each key with its values, its default and
//! its meaning.

use super::*;

/// The keys of all sections, as Markdown.
pub(crate) fn sections() -> String {
    let mut page = String::new();
    let mut section = "";
    for row in keys::all() {
        let Some((of, _)) = row.parts() else { continue };
        if of != section {
            section = of;
            page.push_str(&format!("## `[{section}]`\n\n"));
        }
        page.push_str(&key(row));
    }
    let schema = schema();
    for (name, what) in TABLES {
        let of = &schema["properties"][name];
        let (title, table) = if of["items"].is_object() {
            (format!("[[{name}]]"), &of["items"])
        } else {
            (format!("[{name}]"), of)
        };
        page.push_str(&format!("## `{title}`\n\n{what}\n\n{}\n", members(table)));
    }
    page
}

/// Sections that the table of keys does not list.
const TABLES: [(&str, &str); 5] = [
    ("target", "Servers in different places: [targets](../targets.md)."),
    ("driver", "Drivers on other machines: [drivers](../drivers.md)."),
    ("agents", "Drivers that wait at a NATS server: [agents](../agents.md)."),
    ("import", "Series that something else measures: [imports](../targets.md#imports)."),
    ("figure", "Figures of the study, which `--fit` keeps: [figures](../targets.md#figures)."),
];

/// Where the pages are that keys name (`see *Scale*`).
const MANUALS: [(&str, &str); 12] = [
    ("Targets", "targets.md"),
    ("Source", "servers.md#source"),
    ("Settings", "servers.md#settings"),
    ("Checkpoints", "servers.md#checkpoints"),
    ("Scale", "data.md#scale"),
    ("Restore", "data.md#restore"),
    ("Your own scripts", "scripts.md"),
    ("Hosts", "hosts.md"),
    ("Settings by URL", "hosts.md#settings-of-the-server"),
    ("Drivers", "drivers.md"),
    ("Poolers", "poolers.md"),
    ("Hooks", "hooks.md"),
];

fn key(row: &KeyRow) -> String {
    let schema = of_kind(&row.kind);
    let mut facts = Vec::new();
    if !says_values(row, &schema) {
        facts.push(format!("*Value:* {}.", words(&row.kind)));
    }
    if row.may_vary {
        facts.push("Can vary.".to_string());
    }
    match row.default {
        "" => {}
        "required" => facts.push("Required.".to_string()),
        default => facts.push(format!("*Default:* {}.", linked(default))),
    }
    format!("### `{}`\n\n{}.\n\n{}\n\n", row.name, capital(&linked(row.what())), facts.join(" "))
}

/// Whether the description lists all values or has their bounds, or the default shows that they are `true` and `false`.
fn says_values(row: &KeyRow, schema: &Value) -> bool {
    match row.kind {
        KeyKind::Flag => ["`true`", "`false`"].iter().any(|word| row.default.contains(word)),
        KeyKind::Whole(least, most) => row.what().contains(&format!("{least} to {most}")),
        _ => schema["enum"].as_array().is_some_and(|known| {
            known.iter().filter_map(Value::as_str).all(|word| row.what().contains(word))
        }),
    }
}

/// Text of a key with the links of this page, and with links to the manuals that it names.
fn linked(text: &str) -> String {
    let text =
        text.replace("](#", "](FORMAT.md#").replace("](", "](../../").replace("](../../http", "](http");
    MANUALS.iter().fold(text, |text, (title, page)| {
        text.replace(&format!("see *{title}*"), &format!("see [{title}](../{page})"))
    })
}

/// The values of a kind, in words.
fn words(kind: &KeyKind) -> String {
    match kind {
        KeyKind::Seconds(0) => "a duration in whole seconds".to_string(),
        KeyKind::Seconds(least) => format!("a duration in whole seconds, at least `{least}s`"),
        KeyKind::Or(kinds) => kinds.iter().map(words).collect::<Vec<_>>().join(", or "),
        _ => values(&of_kind(kind)),
    }
}

/// The values that a schema allows, in words.
fn values(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    if let (None, Some(any)) = (schema["type"].as_str(), schema["anyOf"].as_array()) {
        return any.iter().map(values).collect::<Vec<_>>().join(", or ");
    }
    match schema["type"].as_str().unwrap_or_default() {
        "string" if schema["pattern"] == SPAN => "a duration: `\"30s\"`, `\"5min\"`".to_string(),
        "string" => "text".to_string(),
        "boolean" => "`true`, `false`".to_string(),
        "number" if schema["exclusiveMinimum"].is_number() => "a number above 0".to_string(),
        "number" => "a number".to_string(),
        "integer" => match (schema["minimum"].as_u64(), schema["maximum"].as_u64()) {
            (Some(least), Some(most)) if least == most => format!("`{least}`"),
            (Some(least), Some(most)) if most < u64::from(u32::MAX) => {
                format!("a whole number from {least} to {most}")
            }
            (Some(least), _) => format!("a whole number, at least {least}"),
            _ => "a whole number".to_string(),
        },
        "array" => format!("a list of: {}", values(&schema["items"])),
        _ if schema["properties"].is_object() => {
            let names = schema["properties"].as_object().into_iter().flat_map(|map| map.keys());
            format!("a table of {}", names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
        }
        _ => "a table".to_string(),
    }
}

/// The keys of a table, one a line.
fn members(table: &Value) -> String {
    let required: Vec<&str> =
        table["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let members = table["properties"].as_object().into_iter().flatten();
    let line = |(name, schema): (&String, &Value)| {
        let needed = if required.contains(&name.as_str()) { " (required)" } else { "" };
        format!("- `{name}`{needed}: {}\n", values(schema))
    };
    members.map(line).collect()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

#[test]
fn values_and_links_are_those_of_the_page() {
    let values_of = |key: &str| words(&keys::find(key).unwrap().kind);
    assert_eq!(values_of("run.measure"), "a duration in whole seconds, at least `2s`");
    assert_eq!(values_of("limits.data_iops"), "a number above 0");
    assert_eq!(values_of("workload.scale"), "a whole number from 1 to 1000000, or text");
    assert_eq!(values_of("os.huge_pages"), "`\"on\"`, `\"off\"`");
    assert_eq!(
        linked("text (see *Scale*), [x](METHODOLOGY.md#y), [z](#plan)"),
        "text (see [Scale](../data.md#scale)), [x](../../METHODOLOGY.md#y), [z](../../FORMAT.md#plan)"
    );
    assert_eq!(linked("see [x](METHODOLOGY.md)"), "see [x](../../METHODOLOGY.md)");
    assert_eq!(capital("`a` b"), "`a` b");
    let says = |key: &str| {
        let row = keys::find(key).unwrap();
        says_values(row, &of_kind(&row.kind))
    };
    let said = ["run.wal", "run.perf", "experiment.repeats", "experiment.seed", "server.source"].map(says);
    assert_eq!(said, [true, true, true, false, false]);
    let texts = keys::all().flat_map(|row| [linked(row.what()), linked(row.default)]);
    assert_eq!(texts.filter(|text| text.contains("see *")).collect::<Vec<_>>(), Vec::<String>::new());
}
