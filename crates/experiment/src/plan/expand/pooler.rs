//! Whether a case can have the pooler that it asks for, and whether its load works through it.

use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::topology::pooler::{PoolMode, PoolerKind, PoolerSpec};
use model::text::prose::plural;

use crate::plan::problems::Problems;
use crate::plan::scripts::session_state;
use crate::plan::scripts::sessions;

const KIND: &str = keys::pooler::KIND.name;
const MODE: &str = keys::pooler::MODE.name;
const CONFIG: &str = keys::pooler::CONFIG.name;
const COMMAND: &str = keys::pooler::COMMAND.name;

/// Settings of pgbouncer that pgdyno gives it, each with what says the same; nothing does for an empty text.
const DECIDED: [(&str, &str); 15] = [
    ("pool_mode", MODE),
    ("default_pool_size", keys::pooler::SIZE.name),
    ("max_client_conn", ""),
    ("so_reuseport", keys::pooler::PROCESSES.name),
    ("listen_addr", ""),
    ("listen_port", ""),
    ("unix_socket_dir", ""),
    ("auth_type", ""),
    ("auth_file", ""),
    ("admin_users", ""),
    ("logfile", ""),
    ("pidfile", ""),
    ("user", ""),
    ("conffile", ""),
    ("service_name", ""),
];

/// Says why `case` cannot have its pooler.
pub(super) fn check(case: &Case, problems: &mut Problems) {
    let Some(pooler) = PoolerSpec::from_case(case) else { return };
    if !case.server.source.is_embedded() {
        return problems.say(format!(
            "{KIND}: pgdyno starts a pooler only in front of a server that it runs itself; a pooler of yours is measured by its own URL, \
             and needs no {KIND}"
        ));
    }

    let all = [of_place(case), of_kind(case, &pooler), of_settings(case), of_load(case, &pooler)];
    all.into_iter().flatten().for_each(|problem| problems.say(problem));
}

/// It is on this machine, where only the load of this machine reaches it.
fn of_place(case: &Case) -> Option<String> {
    let is_elsewhere = case.server.listen.is_some() || !case.workload.drivers.is_empty();
    is_elsewhere.then(|| {
        format!(
            "{KIND}: the pooler is on this machine and listens to it alone; leave server.listen and [[driver]] out, or start a pooler \
             yourself and measure it by URL"
        )
    })
}

fn of_kind(case: &Case, pooler: &PoolerSpec) -> Option<String> {
    let is_command = pooler.kind == PoolerKind::Command;
    let (command, config) = (case.get(keys::pooler::COMMAND), case.get(keys::pooler::CONFIG));
    if is_command && command.is_empty() {
        return Some(format!(
            "{KIND} = \"command\" needs {COMMAND}: the command and its arguments that start the pooler in the foreground, such as \
             [\"/usr/bin/odyssey\", \"/etc/odyssey.conf\"]"
        ));
    }
    if is_command && config.is_some() {
        return Some(format!("{CONFIG} is for {KIND} = \"pgbouncer\"; name the file in {COMMAND}"));
    }
    let is_own = is_command || config.is_some();
    let what = if is_command { COMMAND } else { CONFIG };
    if is_own && pooler.n_processes > 1 {
        return Some(format!(
            "{} is for the configuration that pgdyno writes; leave {what} out",
            keys::pooler::PROCESSES
        ));
    }
    if is_own && !case.get(keys::pooler::SETTINGS).is_empty() {
        return Some(format!("{}: {what} says everything; put them there", keys::pooler::SETTINGS));
    }
    let settings = sessions::session_settings(&case.workload);
    let names: Vec<&str> = settings.keys().map(String::as_str).collect();
    (is_own && !names.is_empty()).then(|| {
        format!(
            "{what}: sessions of the load begin with {}, which pgdyno can set only through a pooler that it configures; leave {what} out, \
             or what asks for that (workload.isolation, workload.schema, workload.only_reads)",
            names.join(", ")
        )
    })
}

fn of_settings(case: &Case) -> Option<String> {
    let settings = case.get(keys::pooler::SETTINGS);
    for (name, value) in &settings {
        let key = format!("{}.{name}", keys::pooler::SETTINGS);
        if let Some((_, other)) = DECIDED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            let instead = if other.is_empty() { "leave it out".to_string() } else { format!("give {other}") };
            return Some(format!("{key}: pgdyno decides this itself; {instead}"));
        }
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name || value.contains(['\n', '\r']) {
            return Some(format!("{key}: `{value}` is no line `name = value` of pgbouncer's configuration"));
        }
    }
    None
}

/// What clients need that share their sessions, or wait for one.
fn of_load(case: &Case, pooler: &PoolerSpec) -> Option<String> {
    let workload = &case.workload;
    if let Some(setting) = sessions::class_setting(workload) {
        return Some(format!(
            "{KIND}: sessions of the workload begin with {setting} as an option of the connection, which a pooler does not hand on; measure \
             the workload without one"
        ));
    }
    let n_most = pooler.n_connections();
    if !pooler.shares_sessions() {
        let is_short = workload.n_clients > n_most && !sessions::connects_each(workload);
        return is_short.then(|| {
            format!(
                "{MODE} = \"session\": a client keeps its connection until it leaves, so that {} at once have one, and the case has {}; \
                 raise {} or lower workload.clients",
                plural(n_most, "client"),
                workload.n_clients,
                keys::pooler::SIZE
            )
        });
    }
    let is_own = workload.kind.is_own() || workload.directory.is_some() || workload.kind.row().only_reads();
    if pooler.mode == PoolMode::Statement
        && (!is_own || session_state::begins_transactions(&workload.scripts))
    {
        return Some(format!(
            "{MODE} = \"statement\": the pooler refuses transactions of several statements, which the workload has; use transaction or \
             session"
        ));
    }
    let found = session_state::all(&workload.scripts);
    (!found.is_empty()).then(|| {
        format!(
            "{MODE} = \"{}\": clients share connections, and a script leaves something in its session that the next client gets: {}; or \
             use session mode",
            pooler.mode,
            found.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::plan::expand::plan_unseen;

    fn problem(text: &str) -> String {
        let text = format!("[experiment]\nname = \"x\"\n{text}");
        let experiment = crate::plan::file::parse("x.toml", &text, &[]).unwrap();
        plan_unseen(&experiment).err().unwrap_or_default()
    }

    #[test]
    fn what_a_pooler_cannot_do_is_refused_with_what_to_do() {
        let script = |sql: &str| {
            format!(
                "[workload]\nkind = \"scripts\"\ndata = \"none\"\nclients = 30\n[[workload.scripts]]\nname = \"s.sql\"\ntext = '{sql}'\n"
            )
        };
        let with =
            |pooler: &str, rest: &str| problem(&format!("{rest}\n[pooler]\nkind = \"pgbouncer\"{pooler}"));
        for (pooler, rest, expected) in [
            (
                "",
                "[server]\nurl = \"postgresql://h/a\"".to_string(),
                "only in front of a server that it runs itself",
            ),
            ("", "[server]\nlisten = \"127.0.0.1\"".to_string(), "the pooler is on this machine"),
            ("", script("set jit = off;"), "s.sql:1: SET lasts for the session"),
            ("\nmode = \"session\"\nsize = 30", script("set jit = off;"), ""),
            ("\nmode = \"session\"\nsize = 29", script("select 1;"), "so that 29 clients at once have one"),
            (
                "\nmode = \"statement\"",
                script("begin; select 1; end;"),
                "refuses transactions of several statements",
            ),
            ("\nmode = \"statement\"", script("select 1;"), ""),
            (
                "\nsettings.pool_mode = \"session\"",
                String::new(),
                "pgdyno decides this itself; give pooler.mode",
            ),
            ("\nsettings.query_wait_timeout = 3", String::new(), ""),
            (
                "\nconfig = \"/c.ini\"\nprocesses = 2",
                String::new(),
                "pooler.processes is for the configuration",
            ),
            (
                "\nconfig = \"/c.ini\"",
                "[workload]\nkind = \"tpcc\"".to_string(),
                "begin with default_transaction_isolation",
            ),
            ("", "[workload]\nkind = \"tpcc\"".to_string(), ""),
        ] {
            let found = with(pooler, &rest);
            assert!(
                found.contains(expected) && found.is_empty() == expected.is_empty(),
                "{pooler} {rest}: {found}"
            );
        }
        let found = problem("[pooler]\nkind = \"command\"");
        assert!(found.contains("needs pooler.command"), "{found}");
    }
}
