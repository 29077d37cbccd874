//! What `workload show` prints of a directory.

use generator::{
    CountOrOption, DeclaredData, Directory, DirectoryTransaction, Instance, Manifest, OptionSpec,
    SessionClass, Table, Think, Variant, Weights,
};
use model::text::prose::{brief_hash, bytes, grouped, percent, plural, significant};
use serde_json::{Value, json};

use crate::commands::data::workload::cells::{self, Cell};

/// A directory with what is chosen of it.
pub(super) struct Shown<'a> {
    pub(super) files: &'a Directory,
    pub(super) instance: &'a Instance,
    pub(super) scale: u32,
}

impl Shown<'_> {
    /// The text for people.
    pub(super) fn text(&self) -> String {
        let manifest = self.instance.manifest();
        let mut out = format!("{}: {}\n", manifest.name, manifest.title);
        if !manifest.about.is_empty() {
            out.push_str(&format!("{}\n", manifest.about));
        }
        out.push('\n');
        for (what, text) in self.facts() {
            out.push_str(&format!("{what:<9} {text}\n"));
        }
        for (names, rows) in self.lists() {
            if !rows.is_empty() {
                out.push_str(&format!("\n{}", cells::table(&names, &rows, usize::MAX)));
            }
        }
        out
    }

    /// Facts about the whole.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let manifest = self.instance.manifest();
        let mut facts = vec![
            ("source", manifest.source.clone()),
            ("licence", manifest.licence.clone()),
            ("notice", manifest.notice.clone().unwrap_or_default()),
            ("needs", needs(manifest)),
            ("scale", self.scale_words()),
            ("rows", rows_of_library(manifest).unwrap_or_default()),
        ];
        if let Some(variant) = self.instance.variant() {
            let about = variant.about.as_ref().map_or(String::new(), |about| format!(": {about}"));
            facts.push(("variant", format!("{}{about}", variant.name)));
        }
        let of_files = self.files.identity();
        let (files, data) = (brief_hash(&of_files), brief_hash(self.instance.data_identity()));
        facts.push((
            "identity",
            format!("{files} of all files, {data} of the data (seed {})", self.instance.data_seed()),
        ));
        facts.retain(|(_, text)| !text.is_empty());
        facts
    }

    fn scale_words(&self) -> String {
        let manifest = self.instance.manifest();
        let unit =
            if manifest.scale.is_empty() { String::new() } else { format!("; one unit: {}", manifest.scale) };
        let scales: Vec<String> = manifest.scales.iter().map(ToString::to_string).collect();
        let sensible =
            if scales.is_empty() { String::new() } else { format!("; sensible: {}", scales.join(", ")) };
        let size: f64 = self.instance.tables().iter().map(table_bytes).sum();
        format!("{}, about {} without indexes{unit}{sensible}", self.scale, bytes(size))
    }

    /// The part of each transaction in the load, in words.
    fn shares(&self) -> Vec<String> {
        let classes = self.instance.sessions();
        let share = |n: usize| {
            let weights = &classes[0].weights;
            if classes.iter().any(|class| class.weights != *weights) {
                return "by class".to_string();
            }
            let sum: u64 = weights.iter().copied().map(u64::from).sum();
            match weights[n] {
                0 => "-".to_string(),
                weight => percent(f64::from(weight) / sum as f64),
            }
        };
        (0..self.instance.transactions().len()).map(share).collect()
    }

    /// Tables of text: their columns' names, and their rows.
    fn lists(&self) -> Vec<(Vec<&'static str>, Vec<Vec<Cell>>)> {
        let manifest = self.instance.manifest();
        let cells = |texts: Vec<String>| texts.into_iter().map(Some).collect::<Vec<Cell>>();
        let options = manifest.options.iter().map(|option| {
            let value = self.instance.options().get(&option.name).cloned().unwrap_or_default();
            cells(vec![option.name.clone(), value, bounds(option), option.about.clone()])
        });
        let tables = self.instance.tables().iter().map(|table| {
            let size = bytes(table_bytes(table));
            cells(vec![table.name.clone(), rows_words(table), size, table.copy_columns().join(", ")])
        });
        let transactions =
            self.instance.transactions().iter().zip(self.shares()).map(|(transaction, share)| {
                cells(vec![transaction.name.clone(), share, parameters(transaction), manner(transaction)])
            });
        let named = self.instance.sessions().iter().filter(|session| !session.name.is_empty());
        let sessions = named.map(|session| cells(vec![session.name.clone(), self.class(session)]));
        let variants = manifest.variants.iter().map(|variant| {
            let about = variant.about.clone().unwrap_or_default();
            cells(vec![variant.name.clone(), about, mix(variant)])
        });
        let measures = manifest.measures.iter().map(|measure| {
            cells(vec![measure.name.clone(), format!("{} / {}", measure.numerator, measure.denominator)])
        });
        let checks = manifest.checks.iter().map(|check| {
            cells(vec![check.name.clone(), times(check.on_load, check.on_run), check.title.clone()])
        });
        vec![
            (vec!["option", "value", "may be", "what it is"], options.collect()),
            (vec!["table", "rows", "size", "columns"], tables.collect()),
            (vec!["transaction", "share", "parameters", "manner"], transactions.collect()),
            (vec!["class of clients", "what it does"], sessions.collect()),
            (vec!["variant", "what it is", "weights"], variants.collect()),
            (vec!["measure", "ratio of facts"], measures.collect()),
            (vec!["check", "when", "what holds"], checks.collect()),
        ]
    }

    /// The manner of a class of clients.
    fn class(&self, session: &SessionClass) -> String {
        let mut words = Vec::new();
        words.extend(session.clients.map(|n| plural(n, "client")));
        words.extend(session.share.map(|share| format!("{} of the clients", percent(share))));
        let transactions = self.instance.transactions().iter().zip(&session.weights);
        let weights = transactions.filter(|(_, weight)| **weight > 0);
        words.extend(weights.map(|(transaction, weight)| format!("{} {weight}", transaction.name)));
        words.extend(session.pace_per_s.map(|rate| format!("{rate}/s together")));
        words.extend(session.think.map(|pause| format!("thinks {}", think(pause))));
        words.extend(session.reconnect.then(|| "connects for each transaction".to_string()));
        words.extend(session.settings.iter().map(|(name, value)| format!("{name} = {value}")));
        words.join(", ")
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let Shown { files, instance, scale } = self;
        let manifest = instance.manifest();
        let options = manifest.options.iter().map(|option| {
            json!({"name": option.name, "value": instance.options().get(&option.name), "about": option.about,
                "default": option.default.to_string(),
                "least": option.least.as_ref().map(ToString::to_string),
                "most": option.most.as_ref().map(ToString::to_string), "words": option.words})
        });
        let tables = instance.tables().iter().map(|table| {
            json!({"name": table.name, "rows": table.estimated_rows(), "each": table.parent,
                "bytes": table_bytes(table), "columns": table.copy_columns()})
        });
        let transactions = instance.transactions().iter().map(|one| {
            let parameters: Vec<&str> =
                one.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
            json!({"name": one.name, "weight": one.weight, "parameters": parameters,
                "expected": one.expected, "retry": one.retry})
        });
        let variants = manifest.variants.iter().map(|variant| {
            let weights: serde_json::Map<String, Value> = variant
                .weights
                .iter()
                .flatten()
                .map(|(name, weight)| (name.clone(), json!(weight)))
                .collect();
            json!({"name": variant.name, "about": variant.about, "weights": weights})
        });
        let checks = manifest.checks.iter().map(|check| {
            json!({"name": check.name, "title": check.title, "on_load": check.on_load, "on_run": check.on_run})
        });
        json!({
            "name": manifest.name, "title": manifest.title, "about": manifest.about, "directory": true,
            "source": manifest.source, "licence": manifest.licence, "notice": manifest.notice,
            "scale": scale, "scale_unit": manifest.scale, "rows": rows_of_library(manifest), "variant": instance.variant().map(|one| &one.name),
            "identity": files.identity(), "data_identity": instance.data_identity(), "data_seed": instance.data_seed(),
            "options": options.collect::<Vec<Value>>(), "tables": tables.collect::<Vec<Value>>(),
            "transactions": transactions.collect::<Vec<Value>>(), "variants": variants.collect::<Vec<Value>>(),
            "checks": checks.collect::<Vec<Value>>(),
        })
    }
}

fn table_bytes(table: &Table) -> f64 {
    table.estimated_rows() as f64 * table.estimated_row_bytes()
}

/// Where rows come from that no expressions make.
fn rows_of_library(manifest: &Manifest) -> Option<String> {
    match &manifest.data {
        DeclaredData::Native { data, .. } => Some(data.source().to_string()),
        DeclaredData::Tables | DeclaredData::Existing | DeclaredData::RestoredFrom { .. } => None,
    }
}

/// How many rows; those of a table with lines are counted in some rows of its parent.
fn rows_words(table: &Table) -> String {
    let n_rows = grouped(&table.estimated_rows().to_string());
    if table.parent.is_some() { format!("about {n_rows}") } else { n_rows }
}

fn needs(manifest: &Manifest) -> String {
    let server = manifest.needs.server.iter().map(|version| format!("PostgreSQL {version} or newer"));
    let extensions = manifest.needs.extensions.iter().map(|extension| format!("extension {extension}"));
    server.chain(extensions).collect::<Vec<String>>().join(", ")
}

fn bounds(option: &OptionSpec) -> String {
    if !option.words.is_empty() {
        return option.words.join(", ");
    }
    match (&option.least, &option.most) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("{least} or more"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => String::new(),
    }
}

fn parameters(transaction: &DirectoryTransaction) -> String {
    let names: Vec<&str> = transaction.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    names.join(", ")
}

/// What is declared next to a transaction's script, but for its parameters.
fn manner(transaction: &DirectoryTransaction) -> String {
    let mut words = Vec::new();
    if !transaction.expected.is_empty() {
        words.push(format!("expects {}", transaction.expected.join(" ")));
    }
    if !transaction.retry.is_empty() {
        words.push(format!("retries {}", transaction.retry.join(" ")));
    }
    words.extend(transaction.limit.map(|(percentile, most_ms)| limit(percentile, most_ms)));
    words.extend(transaction.think.map(|pause| format!("then thinks {}", think(pause))));
    words.extend(transaction.protocol.iter().map(|protocol| format!("{protocol} protocol")));
    words.join(", ")
}

fn limit(percentile: f64, most_ms: f64) -> String {
    format!("p{percentile} at most {} ms", significant(most_ms))
}

fn think(pause: Think) -> String {
    let ms = |duration: std::time::Duration| format!("{} ms", significant(duration.as_secs_f64() * 1e3));
    match pause {
        Think::Fixed(length) => ms(length),
        Think::Exponential(mean) => format!("{} on average", ms(mean)),
    }
}

fn mix(variant: &Variant) -> String {
    let mut words = Vec::new();
    words.extend(variant.weights.as_ref().map(weights));
    words.extend(variant.clients.map(|n| format!("{n} clients")));
    let lets: Vec<String> = variant.lets.iter().map(|one| format!("{} = {}", one.name, one.text)).collect();
    words.extend((!lets.is_empty()).then(|| lets.join(", ")));
    let passes = [("passes", &variant.passes), ("warm passes", &variant.warm_passes)];
    words.extend(passes.into_iter().filter_map(|(what, n)| Some(format!("{} {what}", number(n.as_ref()?)))));
    words.join("; ")
}

fn number(count: &CountOrOption) -> String {
    match count {
        CountOrOption::Count(n) => n.to_string(),
        CountOrOption::Option(name) => format!("{{{name}}}"),
    }
}

fn weights(weights: &Weights) -> String {
    let all: Vec<String> = weights.iter().map(|(name, weight)| format!("{name} {weight}")).collect();
    all.join(", ")
}

fn times(on_load: bool, on_run: bool) -> String {
    let times = [(on_load, "after the load"), (on_run, "after each run")];
    let all: Vec<&str> = times.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words).collect();
    all.join(", ")
}
