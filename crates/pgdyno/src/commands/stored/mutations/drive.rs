//! Everything that reads stored results, in this process: list, reports in all their forms, comparisons, history, tables, packing,
//! and the pages of a server.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use analysis::history::{History, histories};
use report::{Export, ExportFormat, ExportTable, Input};
use serve::{ConnectionBounds, ServeOptions, Serving};
use store::{PackExtent, Stored};

use super::change::Random;
use super::samples::Sample;
use crate::commands::report as reports;
use crate::commands::serve::makers::DRAWN_HERE;
use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::commands::stored::{history, list};

/// How long a page may take: whoever serves lets all others go first.
const PATIENCE: Duration = Duration::from_secs(50);
/// Most bytes of a page: what readers draw is bounded too.
const PAGE_BYTES_MAX: usize = 64 << 20;

/// A server over each directory of results.
#[derive(Default)]
pub(super) struct Pages {
    serving: HashMap<PathBuf, Serving>,
}

/// What is driven besides what always is.
pub(super) trait Choice {
    /// Whether to do one of `n` things of about the same weight.
    fn wants(&mut self, n: usize) -> bool;
}

impl Choice for Random {
    fn wants(&mut self, n: usize) -> bool {
        self.is_one_in(n)
    }
}

/// Everything.
pub(super) struct All;

impl Choice for All {
    fn wants(&mut self, _: usize) -> bool {
        true
    }
}

/// Drives a result that was changed, next to a whole one.
///
/// # Errors
/// What should not be, in words; most of what should not be is a panic.
pub(super) fn all(sample: &Sample, pages: &mut Pages, choice: &mut impl Choice) -> Result<(), String> {
    let Sample { root, changed, whole, .. } = sample;
    listed(root)?;
    let read = Explained::read(changed, KeptTelemetry::All);
    if let Ok(explained) = &read {
        reported(changed, explained)?;
    }
    // Each of these takes longer than all that is above; 3,000 changes reach each of them some 400 times.
    if choice.wants(6) {
        tables(changed)?;
    }
    if choice.wants(6) {
        pasts(sample, read.ok())?;
    }
    if choice.wants(6) {
        packed(sample)?;
    }
    if choice.wants(8) {
        is_drawn((DRAWN_HERE.result)(changed, &[]))?;
    }
    if choice.wants(8) {
        is_drawn((DRAWN_HERE.comparison)([changed, whole], &[]))?;
    }
    if choice.wants(8) {
        is_drawn((DRAWN_HERE.several)(&[whole, changed, whole], &[]))?;
    }
    if choice.wants(8) {
        let drawn = (DRAWN_HERE.history)("name", &[changed, whole], &[]);
        if let Err(error) = &drawn {
            return Err(format!("a broken result hides the history of another one: {error:#}"));
        }
        is_drawn(drawn)?;
    }
    fs::remove_file(changed.join(list::ANSWER)).ok();
    // Whoever serves lets all others go first: seldom, so that a busy machine takes no hours.
    if choice.wants(16) { served(sample, pages) } else { Ok(()) }
}

/// A page is short, or is refused in words.
fn is_drawn(page: anyhow::Result<report::site::Page>) -> Result<(), String> {
    page.map_or(Ok(()), |page| is_short(&page.html))
}

fn listed(root: &Path) -> Result<(), String> {
    let found = store::list(root).map_err(|error| format!("the list is lost: {error:#}"))?;
    if !found.experiments.iter().any(|listing| listing.path.ends_with("whole")) {
        return Err("a broken result hides another one from the list".to_string());
    }
    let width = list::width(&found.experiments);
    for listing in found.experiments {
        let answer = list::ShortAnswer::read(&listing.path).unwrap_or_default();
        is_short(&list::text(&listing, &answer, width, 1_800_000_000))?;
        is_short(&list::json(&listing, &answer).to_string())?;
    }
    Ok(())
}

/// All forms of `pgdyno report`.
fn reported(dir: &Path, explained: &Explained) -> Result<(), String> {
    let Explained { data, study } = explained;
    let json = report::json(study);
    serde_json::from_str::<serde::de::IgnoredAny>(&json)
        .map_err(|error| format!("its JSON is none: {error}"))?;
    for text in [
        json,
        report::cases_csv(study),
        report::scripts_csv(study).unwrap_or_default(),
        report::seconds_csv(study, None),
    ] {
        is_short(&text)?;
    }
    is_short(&report::terminal_table(study, 100, false))?;
    is_short(&report::terminal_table_in_full(study, 40, true))?;
    is_short(&report::markdown(&Input { study, data, commands: &[], tool_version: "0" }))?;
    reports::write_reports(dir, explained).ok();
    Ok(())
}

fn is_short(text: &str) -> Result<(), String> {
    match text.len() {
        n if n > PAGE_BYTES_MAX => Err(format!("a text of {n} bytes")),
        _ => Ok(()),
    }
}

/// `pgdyno export`.
fn tables(dir: &Path) -> Result<(), String> {
    let Ok(stored) = Stored::open(dir) else { return Ok(()) };
    for table in [ExportTable::Intervals, ExportTable::Readings] {
        for format in [ExportFormat::Csv, ExportFormat::Json, ExportFormat::Parquet] {
            let Ok(mut export) = Export::begin(table, format, stored.plan(), Vec::new()) else { continue };
            for index in 0..stored.n_runs() {
                if let Ok(Some(run)) = stored.run(index) {
                    export.run(&run).map_err(|error| format!("cannot be exported: {error}"))?;
                }
            }
            export.end().map_err(|error| format!("cannot be exported: {error}"))?;
        }
    }
    Ok(())
}

/// `pgdyno history`, over both.
fn pasts(sample: &Sample, changed: Option<Explained>) -> Result<(), String> {
    let whole =
        Explained::read(&sample.whole, KeptTelemetry::No).map_err(|error| format!("whole: {error:#}"))?;
    let named = |(name, Explained { data, study }): (&str, Explained)| (name.to_string(), data, study);
    let alone = [named(("whole", whole))];
    let n_alone = n_points(&histories(&alone));
    let both: Vec<_> = alone.into_iter().chain(changed.map(|changed| named(("changed", changed)))).collect();
    let found = histories(&both);
    // A run of both is of one of them.
    if n_points(&found) < n_alone {
        return Err("a broken result hides another one from the history".to_string());
    }
    found.iter().try_for_each(|history| is_short(&history::text(history)))
}

fn n_points(histories: &[History]) -> usize {
    histories.iter().map(|history| history.points.len()).sum()
}

/// `pgdyno pack` and `unpack`.
fn packed(sample: &Sample) -> Result<(), String> {
    // Next to the results, which may be in memory.
    let place = tempfile::tempdir_in(sample.root.parent().unwrap_or(&sample.root)).unwrap();
    let dir = &sample.changed;
    let archive = place.path().join("packed.tar.gz");
    if store::pack(dir, &archive, PackExtent::All, "0").is_err() {
        return Ok(());
    }
    match store::unpack(&archive, &place.path().join("again"), 1 << 30) {
        Ok(_) => Ok(()),
        // What unpacks to thousands of times its size is refused.
        Err(error) if format!("{error:#}").contains("--size-limit") => Ok(()),
        Err(error) => Err(format!("what was packed cannot be unpacked: {error:#}")),
    }
}

/// The pages of `pgdyno serve`, as a browser gets them.
fn served(sample: &Sample, pages: &mut Pages) -> Result<(), String> {
    let serving = pages.serving.entry(sample.root.clone()).or_insert_with(|| {
        let options = ServeOptions {
            root: sample.root.clone(),
            listen: ([127, 0, 0, 1], 0).into(),
            wants_token: false,
            names: Vec::new(),
            companion: None,
            may_move: false,
            may_control: false,
            machine: String::new(),
            tool_version: "0",
            patience: ConnectionBounds { linger: Duration::ZERO, ..ConnectionBounds::default() },
        };
        serve::start(options, DRAWN_HERE).unwrap()
    });
    ["/", "/plan/changed", "/live/changed", "/live/changed/events"]
        .into_iter()
        .try_for_each(|path| served_at(serving.address, path))
}

fn served_at(address: SocketAddr, path: &str) -> Result<(), String> {
    let page = get(address, path)?;
    let status = page.split(' ').nth(1).unwrap_or_default();
    if !["200", "204", "422"].contains(&status) {
        return Err(format!("`{path}` is answered with `{status}`"));
    }
    if path == "/" && !page.contains("/result/whole") {
        return Err("a broken result hides another one from the page of all".to_string());
    }
    is_short(&page)
}

fn get(address: SocketAddr, path: &str) -> Result<String, String> {
    let mut stream = TcpStream::connect(address).map_err(|error| format!("the server is gone: {error}"))?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    // A stream of events has no end; its beginning is what matters.
    let is_stream = path.ends_with("/events");
    let mut piece = [0; 1 << 16];
    while !is_stream || bytes.is_empty() {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(&piece[..n]),
            Err(error) => return Err(format!("`{path}` is not answered: {error}")),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
