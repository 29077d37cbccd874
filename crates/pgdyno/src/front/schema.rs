//! The JSON Schema of the experiment file, for editors, made from the table of keys. Sections that are tables of their own,
//! such as `[[target]]`, are described here. Tests compare both with what the code reads.

use model::experiment::keys;
use model::experiment::keys::row::{KeyKind, KeyRow, NAME};
use model::experiment::script::ScriptTarget;
use serde_json::{Map, Value, json};

/// The first line of experiment files that pgdyno writes: editors that know TOML take the schema from there.
#[cfg(test)]
pub(crate) const FIRST_LINE: &str = "#:schema ./pgdyno.schema.json\n";

/// The schema, draft 2020-12.
pub(crate) fn schema() -> Value {
    let mut sections: Map<String, Value> = Map::new();
    for row in keys::all() {
        let Some((section, name)) = row.parts() else { continue };
        let place = sections.entry(section).or_insert_with(|| section_of(section));
        if name == NAME {
            *place = json!({"type": "object", "additionalProperties": with_words(value(row), row)});
            continue;
        }
        put(&mut place["properties"], name, with_words(value(row), row));
    }
    sections.insert(
        "target".to_string(),
        json!({"type": "array", "items": target(), "description": "servers in different places"}),
    );
    let outage = keys::find(keys::OUTAGE).map(|row| with_words(value(row), row)).unwrap_or_default();
    sections.insert(keys::OUTAGE.to_string(), outage);
    sections.insert(
        "driver".to_string(),
        json!({"type": "array", "items": driver(), "description": "drivers on other machines"}),
    );
    sections.insert(
        "import".to_string(),
        json!({"type": "array", "items": import(), "description": "series that something else measures"}),
    );
    sections.insert(
        "figure".to_string(),
        json!({"type": "array", "items": figure(), "description": "figures of the study, which --fit keeps"}),
    );
    sections.insert("agents".to_string(), agents());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pgdyno experiment",
        "type": "object",
        "required": ["experiment"],
        "additionalProperties": false,
        "properties": sections,
    })
}

fn section_of(name: &str) -> Value {
    let mut section = json!({"type": "object", "additionalProperties": false, "properties": {}});
    if name == "experiment" {
        section["required"] = json!(["name"]);
    }
    section
}

/// Puts a key below the properties of its section; names of the user's own become a map.
fn put(properties: &mut Value, name: &str, value: Value) {
    match name.split_once('.') {
        Some((map, NAME)) => properties[map] = json!({"type": "object", "additionalProperties": value}),
        _ => properties[name] = value,
    }
}

/// A value, or where the key may be a factor a list of values.
fn value(row: &KeyRow) -> Value {
    let single = of_kind(&row.kind);
    if !row.may_vary {
        return single;
    }
    json!({"anyOf": [single, {"type": "array", "minItems": 1, "items": single}]})
}

fn with_words(mut value: Value, row: &KeyRow) -> Value {
    let plain = row.what().replace(['`', '*'], "");
    let default = match row.default.replace('`', "").as_str() {
        "" | "required" => String::new(),
        default => format!(" Default: {default}."),
    };
    value["description"] = json!(format!("{plain}.{default}"));
    value
}

/// The form of a duration.
const SPAN: &str = "^[0-9]+(\\.[0-9]+)? ?(ms|s|min|h|d)$";

/// The form of a name; [`keys::bounds`] reads it.
const NAME_FORM: &str = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$";

fn of_kind(kind: &KeyKind) -> Value {
    match kind {
        KeyKind::Text => json!({"type": "string"}),
        KeyKind::Pattern(pattern) => json!({"type": "string", "pattern": pattern}),
        KeyKind::Name => json!({"type": "string", "pattern": NAME_FORM}),
        KeyKind::Flag => json!({"type": "boolean"}),
        KeyKind::Number => json!({"type": "number"}),
        KeyKind::Positive => json!({"type": "number", "exclusiveMinimum": 0}),
        KeyKind::Whole(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        KeyKind::Words(words) => json!({"type": "string", "enum": words}),
        KeyKind::Span | KeyKind::Seconds(_) => json!({"type": "string", "pattern": SPAN}),
        KeyKind::Or(kinds) => json!({"anyOf": kinds.iter().map(of_kind).collect::<Vec<_>>()}),
        KeyKind::List(of) => json!({"type": "array", "items": of_kind(of)}),
        KeyKind::Table => json!({"type": "object"}),
        KeyKind::Machine => host(),
        KeyKind::Script => script(),
        KeyKind::Files => files(),
        KeyKind::Outages => outages(),
    }
}

fn script() -> Value {
    let more = json!({
        "weight": {"type": "integer", "minimum": 0},
        "to": {"type": "string", "enum": ScriptTarget::WORDS},
    });
    closed(&["file", "builtin", "text", "name"], more)
}

fn files() -> Value {
    let file = json!({"anyOf": [{"type": "string"}, closed(&["name", "file", "sha256", "text"], json!({}))]});
    let mut schema = closed(&[], json!({"files": {"type": "array", "items": file}}));
    schema["required"] = json!(["files"]);
    schema
}

/// `[[outage]]`, or faults alone.
fn outages() -> Value {
    let texts =
        json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]});
    let more = json!({
        "do": texts,
        "for": {"type": "string", "pattern": SPAN},
        "run": words(),
        "undo": words(),
        "check": words(),
        "scripts": {"type": "object", "additionalProperties": {"type": "string"}},
    });
    let mut table = closed(&["name", "at", "then"], more);
    table["required"] = json!(["do"]);
    json!({"anyOf": [texts, {"type": "array", "items": table}]})
}

/// A command and its arguments.
fn words() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

/// `[[driver]]`: one machine, the hosts of a file, or pods.
fn driver() -> Value {
    let mut schema = host();
    let pods = closed(&["selector", "namespace", "context", "container"], json!({}));
    schema["properties"]["kubernetes"] = pods;
    schema["properties"]["kubernetes"]["required"] = json!(["selector"]);
    schema["properties"]["hosts"] = json!({"type": "string"});
    schema.as_object_mut().expect("it is an object").remove("required");
    schema["anyOf"] = ["via", "hosts", "kubernetes"].map(|key| json!({"required": [key]})).into();
    schema
}

/// The way to one machine.
fn host() -> Value {
    let more = json!({
        "via": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "upload": {"type": "boolean"},
    });
    let mut schema = closed(&["name", "program", "address"], more);
    schema["required"] = json!(["via"]);
    schema
}

/// `[agents]`.
fn agents() -> Value {
    let more = json!({
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "count": {"type": "integer", "minimum": 1},
    });
    let mut schema = closed(&["nats", "creds", "ca"], more);
    schema["description"] = json!("drivers that wait at a NATS server");
    schema
}

/// `[[target]]`.
fn target() -> Value {
    let texts = [
        "name",
        "url",
        "directory",
        "provider",
        "region",
        "size",
        "instance",
        "disk",
        "memory",
        "currency",
        "telemetry",
    ];
    let more = json!({
        "host": host(),
        "restart": words(),
        "driver": {"type": "array", "items": driver()},
        "exporter": exporter(),
        "price_per_hour": {"type": "number"},
        "price_per_month": {"type": "number"},
        "spot_price_per_hour": {"type": "number"},
        "bid_per_hour": {"type": "number"},
        "limits": limits(),
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    });
    let mut schema = closed(&texts, more);
    schema["required"] = json!(["name"]);
    schema
}

/// `limits` of a target, which has the keys of `[limits]`.
fn limits() -> Value {
    let of_limits = keys::limits::ROWS.iter().filter_map(KeyRow::parts);
    let properties: Map<String, Value> =
        of_limits.map(|(_, name)| (name.to_string(), json!({"type": "number"}))).collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

/// `[target.exporter]`.
fn exporter() -> Value {
    let samples = json!({
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "scale": {"type": "number"},
        "per_second": {"type": "boolean"},
    });
    let metric = json!({"anyOf": [{"type": "string"}, closed(&["name", "instance"], samples)]});
    let texts = ["ca", "user", "password_env", "password_file", "token_env", "token_file"];
    closed(&texts, json!({"metrics": {"type": "object", "additionalProperties": metric}}))
}

/// `[[import]]`.
fn import() -> Value {
    let source = ["name", "unit", "prometheus", "query", "csv", "time_column", "value_column"];
    let access = ["ca", "user", "password_env", "password_file", "token_env", "token_file"];
    let texts = [&source[..], &access].concat();
    let mut schema = closed(&texts, json!({"clock_offset_s": {"type": "number"}}));
    schema["required"] = json!(["name"]);
    schema
}

/// `[[figure]]`.
fn figure() -> Value {
    let need =
        json!({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "enum": ["all", "curve"]}]});
    let more = json!({
        "at": {"type": "object"},
        "needs": {"type": "object", "additionalProperties": need},
        "within": {"type": "array", "items": {"type": "string"}},
        "reads": {"type": "array", "items": {"type": "string"}},
    });
    let mut schema = closed(&["name"], more);
    schema["required"] = json!(["name"]);
    schema
}

/// An object with these keys of text, these others, and no more.
fn closed(texts: &[&str], mut properties: Value) -> Value {
    for name in texts {
        properties[*name] = json!({"type": "string"});
    }
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

#[cfg(test)]
pub(crate) mod page;
#[cfg(test)]
mod tests;
