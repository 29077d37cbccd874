//! Asks binaries whether they know settings and take their values, without a cluster and without starting a server.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use model::text::nearest::nearest;

use crate::binaries::Binaries;
use crate::process::command::{run_logged, server_command};
use crate::process::socket::NAME_BEGIN;
use crate::process::start_error::{StartFault, fault_of};
use crate::user::account::Account;
use crate::user::given::Scratch;

/// `postgres -C` reads the configuration, prints one setting and ends.
const DEADLINE: Duration = Duration::from_secs(20);

/// What these binaries say against each of `settings`, one sentence for each that they refuse. Whether several settings
/// fit together and fit the machine is found only by starting the server.
///
/// # Errors
/// When the binaries cannot be run.
pub fn refused_settings(binaries: &Binaries, settings: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let account = Account::choose()?;
    let scratch = Scratch::make(&std::env::temp_dir(), NAME_BEGIN, &account)?;
    // A data directory with nothing but an empty configuration.
    let (dir, log) = (&scratch.given, scratch.outer.join("log"));
    let configuration = dir.join("postgresql.conf");
    account
        .act(|| files::create_new(&configuration, 0o600))
        .with_context(|| format!("create `{}`", configuration.display()))?;
    let mut refused = Vec::new();
    for (name, value) in settings {
        let mut command = server_command(&binaries.program("postgres"), &account, dir);
        command.args(["-C", name, "-D"]).arg(dir).args(["-c", &format!("{name}={value}")]);
        let Err(error) = run_logged(command, &log, DEADLINE) else { continue };
        let said = format!("{error:#}");
        let of_server = |label: &str| said.lines().find_map(|line| Some(line.split_once(label)?.1.trim()));
        let Some(fatal) = of_server("FATAL:") else {
            refused.push(said);
            continue;
        };
        let hint = of_server("HINT:").map(|hint| format!(" ({})", hint.trim_end_matches('.')));
        let fault = fault_of(&said);
        let advice = match fault {
            StartFault::UnknownSetting => like(binaries, &account, dir, &log, name),
            _ => None,
        };
        let advice = advice.unwrap_or_else(|| fault.advice().to_string());
        refused.push(format!("FATAL: {fatal}{}; {advice}", hint.unwrap_or_default()));
    }
    Ok(refused)
}

/// The question whether the setting of the binaries that is spelt most like `name` was meant, if one is like it.
fn like(binaries: &Binaries, account: &Account, dir: &Path, log: &Path, name: &str) -> Option<String> {
    let mut command = server_command(&binaries.program("postgres"), account, dir);
    command.arg("--describe-config");
    let text = run_logged(command, log, DEADLINE).ok()?;
    let names = text.lines().filter_map(|line| line.split('\t').next());
    nearest(&name.to_lowercase(), names).map(|known| format!("did you mean `{known}`?"))
}
