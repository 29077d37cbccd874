//! The JSON Schema of the experiment file, for editors: keys, descriptions and which of them are factors come from the
//! table in FORMAT.md; the kinds of their values are listed here. Tests compare both with what the code reads.

use serde_json::{Map, Value, json};

/// The first line of experiment files that pgdyno writes: editors that know TOML take the schema from there.
#[cfg(test)]
pub(crate) const FIRST_LINE: &str = "#:schema ./pgdyno.schema.json\n";

const FORMAT: &str = include_str!("../../../../FORMAT.md");
/// A number in a name that is the user's: `server.settings.NAME`.
const NAME: &str = "NAME";
const SPAN: &str = "^[0-9]+(\\.[0-9]+)? ?(ms|s|min|h|d)$";

/// A row of the table of keys.
struct Row<'a> {
    key: &'a str,
    what: &'a str,
    default: &'a str,
    may_be_list: bool,
}

/// The rows of the table of keys; a row with several keys is one row for each.
fn rows() -> Vec<Row<'static>> {
    let table = FORMAT.lines().skip_while(|line| !line.starts_with("| key | value | default | list |"));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    rows.flat_map(|line| {
        let cells: Vec<&str> = line.trim_start_matches('|').split(" |").map(str::trim).collect();
        let cell = |n: usize| cells.get(n).copied().unwrap_or_default();
        let (what, default, list) = (cell(1), cell(2), cell(3));
        let keys = cell(0).split(", ").map(|key| key.trim_matches('`')).collect::<Vec<_>>();
        keys.into_iter().map(move |key| Row { key, what, default, may_be_list: list == "list" })
    })
    .collect()
}

/// The keys that may be lists, and so factors.
#[cfg(test)]
pub(crate) fn list_keys() -> Vec<String> {
    rows().iter().filter(|row| row.may_be_list).map(|row| row.key.to_string()).collect()
}

/// The schema, draft 2020-12.
pub(crate) fn schema() -> Value {
    let mut sections: Map<String, Value> = Map::new();
    for row in rows() {
        let Some((section, name)) = row.key.split_once('.') else { continue };
        let place = sections.entry(section).or_insert_with(|| section_of(section));
        if name == NAME {
            *place = json!({"type": "object", "additionalProperties": with_words(value(&row), &row)});
            continue;
        }
        put(&mut place["properties"], name, with_words(value(&row), &row));
    }
    sections.insert(
        "target".to_string(),
        json!({"type": "array", "items": target(), "description": "servers in different places"}),
    );
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
fn value(row: &Row) -> Value {
    let single = kind(row.key).schema();
    match row.may_be_list {
        true => json!({"anyOf": [single, {"type": "array", "minItems": 1, "items": single}]}),
        false => single,
    }
}

fn with_words(mut value: Value, row: &Row) -> Value {
    let plain = row.what.replace(['`', '*'], "");
    let default = match row.default.replace('`', "").as_str() {
        "" | "required" => String::new(),
        default => format!(" Default: {default}."),
    };
    value["description"] = json!(format!("{plain}.{default}"));
    value
}

/// Kinds of values.
enum Kind {
    Text,
    Pattern(&'static str),
    Flag,
    Number,
    Whole(u64, u64),
    Words(&'static [&'static str]),
    Or(&'static [Kind]),
    Span,
    /// A combination of levels.
    Selector,
    Other(fn() -> Value),
}

impl Kind {
    fn schema(&self) -> Value {
        match self {
            Kind::Text => json!({"type": "string"}),
            Kind::Pattern(pattern) => json!({"type": "string", "pattern": pattern}),
            Kind::Flag => json!({"type": "boolean"}),
            Kind::Number => json!({"type": "number"}),
            Kind::Whole(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Kind::Words(words) => json!({"type": "string", "enum": words}),
            Kind::Or(kinds) => json!({"anyOf": kinds.iter().map(Kind::schema).collect::<Vec<_>>()}),
            Kind::Span => json!({"type": "string", "pattern": SPAN}),
            Kind::Selector => json!({"type": "object"}),
            Kind::Other(schema) => schema(),
        }
    }
}

const SETTING: Kind = Kind::Or(&[Kind::Text, Kind::Number, Kind::Flag]);

/// Keys that are on or off.
const FLAGS: [&str; 15] = [
    "server.data_checksums",
    "workload.all_warehouses",
    "prepare.restore",
    "prepare.checksums",
    "prepare.vacuum",
    "prepare.analyze",
    "prepare.prewarm",
    "prepare.checkpoint",
    "prepare.settle",
    "prepare.snapshot",
    "run.telemetry",
    "run.counters",
    "run.perf",
    "run.calibrate",
    "run.parallel_targets",
];

/// What the value of a key may be; text, if nothing is said here.
fn kind(key: &str) -> Kind {
    match key {
        "experiment.name" => Kind::Pattern("^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$"),
        "experiment.seed" => Kind::Whole(0, i64::MAX as u64),
        "experiment.repeats" => Kind::Whole(1, 1000),
        "experiment.design" => Kind::Words(&["grid", "one-factor"]),
        "experiment.order" => Kind::Words(&["randomized", "by-server", "sequential"]),
        "experiment.zip" => {
            Kind::Other(|| json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}))
        }
        "experiment.exclude" => Kind::Other(|| json!({"type": "array", "items": {"type": "object"}})),
        "experiment.baseline" => Kind::Selector,
        flag if FLAGS.contains(&flag) => Kind::Flag,
        "limits.data_iops"
        | "limits.data_mb_s"
        | "limits.wal_iops"
        | "limits.wal_mb_s"
        | "limits.network_mb_s" => Kind::Number,
        "server.settings.NAME" | "workload.defines.NAME" | "factors.NAME" => SETTING,
        "experiment.conditions"
        | "server.restart"
        | "hooks.before_case"
        | "hooks.after_case"
        | "hooks.before_run"
        | "hooks.after_run" => Kind::Other(words),
        "hooks.timeout" => Kind::Span,
        "server.host" => Kind::Other(host),
        "server.build" => Kind::Words(&["installed", "fetched"]),
        "server.version" => Kind::Or(&[Kind::Text, Kind::Number]),
        "workload.kind" => Kind::Words(&["tpcb", "tpcb-simple", "tpcb-select", "tpcc", "tproc-c", "scripts"]),
        "workload.scale" => Kind::Or(&[Kind::Whole(1, 1_000_000), Kind::Text]),
        "workload.protocol" => Kind::Words(&["simple", "extended", "prepared"]),
        "workload.clients" => Kind::Whole(1, 100_000),
        "workload.drivers" | "workload.threads" => Kind::Whole(1, u32::MAX as u64),
        "workload.poller" => Kind::Words(&["auto", "io_uring", "epoll"]),
        "workload.busy_poll_us" => Kind::Whole(0, 1_000_000),
        "workload.transactions" => Kind::Whole(1, i64::MAX as u64),
        "workload.pace" => Kind::Text,
        "workload.partitions" => Kind::Whole(0, 10_000),
        "workload.partition_method" => Kind::Words(&["range", "hash"]),
        "workload.max_message_mib" => Kind::Whole(1, 1024),
        "workload.max_tries" => Kind::Whole(0, u32::MAX as u64),
        "workload.on_disconnect" => Kind::Words(&["abort", "reconnect"]),
        "workload.load_streams" => Kind::Whole(1, 256),
        "workload.scripts" => {
            Kind::Other(|| json!({"type": "array", "items": {"anyOf": [{"type": "string"}, script()]}}))
        }
        "workload.data" => Kind::Other(|| json!({"anyOf": [{"enum": ["tpcb", "none"]}, files()]})),
        "workload.restore_from" => Kind::Other(|| json!({"anyOf": [{"type": "string"}, {"type": "object"}]})),
        "workload.calls" => Kind::Words(&["statements", "functions", "procedures"]),
        "workload.think" => Kind::Words(&["none", "spec"]),
        "workload.isolation" => Kind::Words(&["read committed", "repeatable read", "serializable"]),
        "run.ramp_up" => Kind::Or(&[Kind::Words(&["auto"]), Kind::Span]),
        "run.ramp_up_max" | "run.measure" | "run.extend" | "run.grace" | "run.phase_timeout" => Kind::Span,
        "run.repeat_disturbed" => Kind::Whole(0, 10),
        "run.max_failed" => Kind::Or(&[Kind::Text, Kind::Number]),
        "run.wal" => Kind::Words(&["as-is", "no-checkpoint", "two-checkpoints"]),
        "run.servers_at_a_time" => Kind::Whole(1, 1),
        "prepare.restore_by" => Kind::Words(&["auto", "template", "load"]),
        key if key.starts_with("os.") => kind_of_os(key),
        _ => Kind::Text,
    }
}

/// What the value of a key of `[os]` may be.
fn kind_of_os(key: &str) -> Kind {
    match key {
        "os.huge_pages" => Kind::Words(&["on", "off"]),
        "os.transparent_huge_pages" => Kind::Words(&["always", "madvise", "never"]),
        "os.transparent_huge_pages_defrag" => {
            Kind::Words(&["always", "defer", "defer+madvise", "madvise", "never"])
        }
        // Their largest values do not fit into the numbers of JSON.
        "os.shmmax" => Kind::Whole(32 << 20, i64::MAX as u64),
        "os.shmall" => Kind::Whole(2 << 20, i64::MAX as u64),
        "os.numa" => Kind::Other(|| {
            let node = json!({"type": "string", "pattern": "^node(0|[1-9][0-9]*)$"});
            json!({"anyOf": [{"enum": ["local", "remote", "interleave"]}, node]})
        }),
        "os.swappiness" => Kind::Whole(0, 200),
        "os.overcommit_memory" => Kind::Whole(0, 2),
        "os.processors" => Kind::Whole(1, u32::MAX as u64),
        "os.somaxconn" => Kind::Whole(1, 65_535),
        "os.max_map_count" => Kind::Whole(65_530, i32::MAX as u64),
        "os.read_ahead_kb" => Kind::Whole(0, 1 << 20),
        "os.cpu_quota" | "os.data_read_iops" | "os.data_write_iops" | "os.data_read_mb_s"
        | "os.data_write_mb_s" | "os.wal_write_iops" | "os.wal_write_mb_s" => Kind::Number,
        _ => Kind::Text,
    }
}

fn script() -> Value {
    closed(&["file", "builtin", "text", "name"], json!({"weight": {"type": "integer", "minimum": 0}}))
}

fn files() -> Value {
    let file = json!({"anyOf": [{"type": "string"}, closed(&["name", "file", "sha256", "text"], json!({}))]});
    let mut schema = closed(&[], json!({"files": {"type": "array", "items": file}}));
    schema["required"] = json!(["files"]);
    schema
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
    let keys = rows().into_iter().filter_map(|row| row.key.strip_prefix("limits."));
    let properties: Map<String, Value> =
        keys.map(|key| (key.to_string(), json!({"type": "number"}))).collect();
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
