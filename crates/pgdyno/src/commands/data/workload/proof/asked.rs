//! What a server says of a workload directory: the one that is named, or one of our own that exists for this alone.

use anyhow::Result;
use experiment::plan::scripts::directories;
use experiment::site::progress::ProgressEvent;
use experiment::site::{Permissions, Risks};
use experiment::stage::directory_data::{self, proof};
use generator::Instance;
use model::experiment::case::Layout;
use model::experiment::script::CaseData;
use server::Cache;
use server::alter_system::AllowedChange;

use crate::commands::data::check::embedded_case;
use crate::commands::data::site::without_experiment;
use crate::commands::data::workload::found::FoundDirectory;
use crate::front::cli::data::workloads::ProofArgs;
use crate::front::setup;
use crate::job::screen::Screen;
use crate::say;

/// What the server says, and which one it is.
///
/// # Errors
/// When it does not answer, or there is none.
pub(super) fn problems(
    found: &FoundDirectory,
    instance: &Instance,
    args: &ProofArgs,
) -> Result<(Vec<String>, String)> {
    let cache = Cache::default_location()?;
    let permissions = Permissions {
        replace: false,
        replace_databases: &args.replace_databases,
        risks: Risks { trusted_workload: args.trust_workload, ..Risks::default() },
        allowed: AllowedChange::Nothing,
        outages: &[],
    };
    let site = without_experiment(&cache, permissions)?;
    let mut case =
        embedded_case(&args.server, args.chosen.workload.kind(), args.chosen.scale, Layout::default(), None)?;
    case.workload.data = CaseData::Directory;
    case.workload.schema = args.schema.clone();
    case.workload.directory =
        Some(Box::new(directories::as_planned(&found.name.place, &found.files, instance)));
    if let Some(target) = &args.server.server {
        let conninfo = setup::resolve_to_change(target)?;
        return Ok((directory_data::problems_by_url(&conninfo, &case, &site)?, format!("asked: {conninfo}")));
    }
    let mut screen = Screen::of_one();
    // The server exists for this alone; that it was made says nothing of the directory.
    let said = proof::on_own_server(&case, &site, &mut |progress| match progress {
        ProgressEvent::Step(_) => {}
        // A note would read as one of the directory's problems.
        ProgressEvent::Note(text) => {
            say(&format!("about the server that is asked, not the workload: {text}"))
        }
        other => screen.show(other),
    });
    screen.close();
    Ok((said?, format!("asked: {}", case.server.source)))
}
