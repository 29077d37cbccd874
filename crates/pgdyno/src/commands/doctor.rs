//! `pgdyno doctor`: looks at a host and a server, has the rows judged, and sets values of this machine if asked to.

mod applied;
mod seen;

use std::time::Duration;

use analysis::doctor::{Diagnosis, DoctorVerdict, HostOf, diagnose};
use anyhow::{Context, Result, ensure};
use dataset::session::limit;
use host::KernelFiles;

use self::applied::Applied;
use self::seen::SeenHere;
use crate::commands::report::{colour, width};
use crate::front::cli::doctor::DoctorArgs;
use crate::restore_report::report_undone;
use crate::{Exit, print_exact, say};

/// Paragraphs are read in columns of this width, whatever the terminal's.
const WIDTH_MAX: usize = 80;

/// Examines what `args` name, and shows the verdicts.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<Exit> {
    if args.undo {
        return undo();
    }
    let is_named = args.target.is_some() || args.server.is_some();
    ensure!(
        args.host.is_none() || is_named,
        "--host names the host of a server: name that server too, or run pgdyno doctor on that host"
    );
    let wanted = args.apply.as_deref().map(applied::rows).transpose()?;
    let longest = Duration::from_millis(args.timeout.ms);
    let mut seen = limit::within_option("doctor", longest, "--timeout", || SeenHere::look(args))?;
    let mut diagnosis = diagnose(&seen.examined());
    let applied = match &wanted {
        Some(wanted) => {
            let applied = applied::apply(&diagnosis, wanted, &seen)?;
            seen.look_again();
            diagnosis = diagnose(&seen.examined());
            Some(applied)
        }
        None => None,
    };
    if args.json {
        print_exact(&format!("{}\n", json(&diagnosis, &seen, applied.as_ref())?))?;
    } else {
        applied.iter().for_each(Applied::tell);
        let width = width().min(WIDTH_MAX);
        print_exact(&report::doctor(&diagnosis, &seen.about(), width, colour(), args.verbose))?;
    }
    let is_unfit = diagnosis.worst() == DoctorVerdict::Void
        || (args.strict && diagnosis.worst() == DoctorVerdict::Doubt);
    Ok(match applied {
        _ if is_unfit => Exit::Void,
        Some(applied) if !applied.refused.is_empty() => Exit::Partial,
        _ => Exit::Done,
    })
}

/// Restores what `--apply` has set, and what a killed pgdyno has left on top of it.
fn undo() -> Result<Exit> {
    let machine = KernelFiles::this();
    let restore = || "cannot restore values of the operating system";
    let mut undone = host::undo_left(&machine).with_context(restore)?;
    undone.extend(host::undo_kept(&machine).with_context(restore)?);
    report_undone(&undone);
    if undone.is_empty() {
        say("no value of this machine was set by pgdyno doctor --apply");
    }
    let is_all = undone.iter().all(|value| value.problem.is_none());
    Ok(if is_all { Exit::Done } else { Exit::Failed })
}

/// The examination for programs; FORMAT.md explains it.
fn json(diagnosis: &Diagnosis, seen: &SeenHere, applied: Option<&Applied>) -> Result<String> {
    let server = seen.server.as_ref().map(|server| {
        serde_json::json!({
            "release": server.record.release(), "version_num": server.record.version_num, "route": server.record.route,
        })
    });
    let mut whole = serde_json::json!({
        "format": model::FORMAT,
        "tool_version": env!("CARGO_PKG_VERSION"),
        "host": { "hostname": seen.host.hostname, "of": seen.host_of },
        "server": server,
        "worst": diagnosis.worst(),
        "rows": diagnosis.rows,
        "sights": diagnosis.sights,
    });
    if let (Some(applied), Some(fields)) = (applied, whole.as_object_mut()) {
        fields.insert("applied".to_string(), serde_json::to_value(&applied.set)?);
        fields.insert("refused".to_string(), serde_json::to_value(&applied.refused)?);
    }
    Ok(serde_json::to_string_pretty(&whole)?)
}

/// In which words the host is named.
fn whose(host_of: HostOf) -> &'static str {
    match host_of {
        HostOf::ThisMachine => "this machine",
        HostOf::Server => "the host of the server",
        HostOf::Driver => "this machine, the driver's only: the server's host is not seen",
    }
}
