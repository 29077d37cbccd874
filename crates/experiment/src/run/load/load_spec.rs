//! The driver's orders for a run.

use std::collections::BTreeMap;

use anyhow::Result;
use model::experiment::case::directory::WorkloadDirectory;
use model::experiment::case::{Case, OnLostConnection};
use model::experiment::topology::pooler::PoolerSpec;
use model::load::{
    LoadSpec, MESSAGE_BYTES_MAX, OUTAGE_CONNECT_TIMEOUT_S, OUTAGE_REPLY_TIMEOUT_MS, OnDisconnect, Profiles,
    ReadTarget, ScriptSpec,
};
use model::run::RunRecord;
use model::workload::{Programs, TryLimit};
use wire::Conninfo;
use workload::{Builtins, Schema};

use crate::plan::scripts;
use crate::plan::scripts::ledger::{self, LedgerPlace};
use crate::plan::scripts::reads;
use crate::plan::scripts::sessions;
use crate::run::live::OneRun;
use crate::run::place::LocalParts;
use crate::stage::Stage;
use crate::stage::connections::options_with;

impl OneRun<'_> {
    pub(crate) fn load_spec(&self, conninfo: &Conninfo, place: &LocalParts, record: &RunRecord) -> LoadSpec {
        let workload = &self.case.workload;
        let common = self.common_load(conninfo, record);
        let schema = place.home.as_ref().map_or_else(Schema::searched, |home| home.schema.clone());
        let row = workload.kind.row();
        let max_tries = match row.options.tries {
            TryLimit::AsAsked => common.max_tries,
            TryLimit::Endless => 0,
            TryLimit::Once => 1,
        };
        let common = LoadSpec { max_tries, ..common };
        let directory = workload.directory.as_deref();
        let place_of_tokens = ledger::of_case(self.case).unwrap_or_else(LedgerPlace::None);
        let analytical = directory.filter(|directory| directory.analytical.is_some());
        match row.programs {
            Programs::Native(profiles) => {
                let builtins = Builtins::of_case(profiles, workload, place.c_load, self.spec.seed);
                native_load(common, profiles, builtins, &schema)
            }
            Programs::Own | Programs::Scripts => LoadSpec {
                only_reads: workload.only_reads,
                scripts: ledger::with_tokens(&place_of_tokens, scripts::for_driver(workload, &schema)),
                ledger: !matches!(place_of_tokens, LedgerPlace::None(_)),
                defines: scripts::variables(workload),
                connect_each: sessions::connects_each(workload),
                directory: workload.directory.clone().map(without_answers),
                each_execution: analytical.is_some() || common.each_execution,
                // Parameters and orders of queries belong to the workload, as its rows do.
                seed: analytical.map_or(common.seed, |directory| directory.data_seed),
                ..common
            },
        }
    }

    /// Connection keywords by which sessions of the load begin with their settings. The connections of our own pooler have them already.
    fn target(&self, conninfo: &Conninfo) -> BTreeMap<String, String> {
        if PoolerSpec::from_case(self.case).is_some() {
            return conninfo.keywords();
        }
        with_options(conninfo.keywords(), &sessions::session_settings(&self.case.workload))
    }

    /// Where some transactions of the case read, if that is elsewhere.
    pub(crate) fn read_target(&self, stage: &Stage) -> Result<Option<ReadTarget>> {
        let Some(scripts) = reads::over_second_connection(self.case) else { return Ok(None) };
        Ok(Some(ReadTarget { target: self.target(&stage.reads_conninfo(self.case)?), scripts }))
    }

    /// The part of the load that all workloads share.
    fn common_load(&self, conninfo: &Conninfo, record: &RunRecord) -> LoadSpec {
        let workload = &self.case.workload;
        let has_outage = self.case.outage.is_some();
        let mut target = self.target(conninfo);
        if has_outage {
            // A frozen server takes connections, and says nothing on them.
            target
                .entry("connect_timeout".to_string())
                .or_insert_with(|| OUTAGE_CONNECT_TIMEOUT_S.to_string());
        }
        LoadSpec {
            target,
            each_execution: has_outage,
            reply_timeout_ms: reply_timeout_ms(self.case),
            protocol: workload.protocol,
            n_clients: workload.n_clients,
            n_threads: workload.n_threads,
            pace: workload.pace,
            transactions_per_client: workload.transactions,
            poller: workload.poller,
            busy_poll_us: workload.busy_poll_us,
            turns: self.side.as_ref().map(|side| side.turns.clone()),
            reply_delay_ns: u64::from(workload.reply_delay_us) * 1000,
            copy: true,
            ask_settings: true,
            message_bytes_max: workload.max_message_mib.map_or(MESSAGE_BYTES_MAX, |n| n << 20),
            max_tries: workload.max_tries.unwrap_or(1),
            on_disconnect: match workload.on_disconnect {
                OnLostConnection::Abort => OnDisconnect::EndClient,
                OnLostConnection::Reconnect => OnDisconnect::Reconnect,
            },
            window: self.case.window,
            seed: self.spec.seed,
            // What the server could not parse before the load may be created by statements that run first.
            lazy_parse: record.survey.as_ref().is_some_and(|survey| !survey.unchecked.is_empty()),
            ..LoadSpec::default()
        }
    }
}

/// How long a client waits for an answer before it gives its connection up. One that its pooler holds back waits for that time more.
fn reply_timeout_ms(case: &Case) -> Option<u32> {
    let outage = case.outage.as_ref()?;
    let is_pooled = PoolerSpec::from_case(case).is_some();
    let paused_s = if is_pooled { outage.pooler_paused_s() } else { 0.0 };
    Some(OUTAGE_REPLY_TIMEOUT_MS.saturating_add((paused_s * 1000.0) as u32))
}

/// A workload directory as drivers need it, which compare no answers.
fn without_answers(mut directory: Box<WorkloadDirectory>) -> Box<WorkloadDirectory> {
    directory.texts.retain(|name, _| !name.starts_with("answers/"));
    directory
}

/// The load of built-in transactions: their texts and their parameters.
fn native_load(common: LoadSpec, profiles: Profiles, builtins: Builtins, schema: &Schema) -> LoadSpec {
    let mut defines = builtins.defines();
    schema.define(&mut defines);
    let scripts = scripts_of(&builtins, schema);
    LoadSpec { scripts, profiles: Some(profiles), defines, ..common }
}

/// Connection keywords by which a session begins with these settings, after those that its `options` have.
fn with_options(
    mut target: BTreeMap<String, String>,
    settings: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let options = options_with(target.remove("options"), settings);
    target.extend(options.map(|options| ("options".to_string(), options)));
    target
}

/// Built-in transactions as the load names them, with their SQL for readers.
fn scripts_of(builtins: &Builtins, schema: &Schema) -> Vec<ScriptSpec> {
    let script = |(program, weight): (workload::Program, u32)| ScriptSpec {
        tag: program.name.clone(),
        weight,
        source: program.statements.iter().map(|s| format!("{};\n", s.text)).collect(),
        name: program.name,
    };
    builtins.programs(schema).into_iter().map(script).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;

    #[test]
    fn a_client_waits_for_a_pause_of_its_pooler_and_gives_up_what_is_silent() {
        let limit = |pooler: &str, outage: &str| {
            let text = format!(
                "[workload]\nclients = 1\npace = \"10/s\"\n[run]\nmeasure = \"60s\"\n[topology]\nstandbys = 1\n{pooler}\n{outage}"
            );
            reply_timeout_ms(&sample::plan(&text).cases[0])
        };
        let pooled = "[pooler]\nkind = \"pgbouncer\"\n";
        let switchover = "[[outage]]\ndo = \"switchover\"\n";
        for (pooler, outage, expected) in [
            (pooled, "".to_string(), None),
            (pooled, format!("{switchover}for = \"20s\"\n"), Some(25_000)),
            (pooled, format!("{switchover}for = \"2s\"\n"), Some(15_000)),
            (pooled, switchover.to_string(), Some(15_000)),
            ("", switchover.to_string(), Some(5_000)),
            (pooled, "[[outage]]\ndo = \"freeze s1\"\nfor = \"20s\"\n".to_string(), Some(5_000)),
        ] {
            assert_eq!(limit(pooler, &outage), expected, "{pooler}{outage}");
        }
    }

    #[test]
    fn settings_of_sessions_follow_the_options_that_are_there() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let check = |target: &[(&str, &str)], settings: &[(&str, &str)], expected: Option<&str>| {
            let with = with_options(map(target), &map(settings));
            assert_eq!(with.get("options").map(String::as_str), expected);
        };
        check(&[("host", "h")], &[], None);
        check(&[("options", "-c jit=off")], &[], Some("-c jit=off"));
        let two = [("work_mem", "1MB"), ("default_transaction_isolation", "read committed")];
        check(
            &[("options", "-c jit=off")],
            &two,
            Some("-c jit=off -c default_transaction_isolation=read\\ committed -c work_mem=1MB"),
        );
        check(&[], &[("search_path", "a\\b")], Some("-c search_path=a\\\\b"));
    }
}
