//! A stored experiment is executed as it is only if its seal shows that this user's pgdyno made it. Of any other, all that it would
//! execute or use on this machine is shown first, and kept, left out or refused as the user decides. `repeat`, `run --resume`, `why`
//! and pages share this code. The text of the experiment is searched as the plan is: it names the servers, and goes into new results,
//! whose report says how to run it.

mod found;
mod named;
#[cfg(test)]
mod sample;
mod thing;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use experiment::plan::file::Override;
use experiment::plan::{expand, file};
use model::experiment::Experiment;
use model::experiment::case::{Case, ServerSource};
use model::experiment::plan::Plan;
use model::secret;
use store::{Author, Reason, Sealed};

use self::thing::{THINGS, Thing};
use crate::front::ask::{AllowedCommands, Ask, ConsentLine};
use crate::front::setup::{self, ExperimentText};
use crate::say;

/// What the command line itself names, and is therefore not foreign.
#[derive(Debug, Default)]
pub(crate) struct Ours {
    sources: Vec<ServerSource>,
    urls: Vec<String>,
}

impl Ours {
    /// A server of a case.
    pub(crate) fn add_source(&mut self, source: ServerSource) {
        self.sources.push(source);
    }

    /// An address in the text.
    pub(crate) fn add_url(&mut self, url: String) {
        self.urls.push(url);
    }

    fn has_source(&self, source: &ServerSource) -> bool {
        self.sources.contains(source)
    }

    fn has_url(&self, url: &String) -> bool {
        self.urls.contains(url)
    }
}

/// How a command comes to a stored experiment, and what its options say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Road<'a> {
    pub(crate) author: Author,
    /// `--allow-commands`.
    pub(crate) allowed: Option<&'a AllowedCommands>,
    /// `--here`, of a command that can leave things out.
    pub(crate) here: Option<bool>,
    pub(crate) ours: &'a Ours,
}

impl Road<'_> {
    fn leaves_out(&self, thing: Thing, plan: &Plan) -> bool {
        let is_kept = self.allowed.is_some() && thing.is_command();
        self.here == Some(true) && thing.can_be_left_out(plan) && !is_kept
    }

    /// Options that make a consent unnecessary for this thing, in words.
    fn instead(&self, thing: Thing, plan: &Plan) -> String {
        let Some(_) = self.here else { return String::new() };
        let leave_out = thing.can_be_left_out(plan).then_some("--here leaves it out");
        let replace = match thing {
            Thing::Source | Thing::BinDir => Some("--version or --bin-dir replaces it"),
            _ => None,
        };
        leave_out.into_iter().chain(replace).collect::<Vec<_>>().join(", ")
    }
}

/// Lets a command go on with results in `dir` as they are, if this user's pgdyno made them or their whole list is allowed. Returns the
/// text of the experiment, of others without what their plan does not have.
///
/// # Errors
/// As [`decide`].
pub(crate) fn expect_allowed(
    dir: &Path,
    stored: &Sealed,
    allowed: Option<&AllowedCommands>,
    ours: &Ours,
) -> Result<String> {
    let Sealed { plan, experiment_toml, author } = stored;
    let Author::Unknown(reason) = author else { return Ok(experiment_toml.clone()) };
    say(&format!("note: `{}` may hold results of somebody else: {}", dir.display(), reason.words()));
    let mut experiment = file::parse(store::names::EXPERIMENT, experiment_toml, &[])?;
    let road = Road { author: *author, allowed, here: None, ours };
    decide(&mut plan.clone(), &mut experiment, &road)?;
    setup::toml_text(&secret::hidden(&experiment)?)
}

/// Lets a command measure the experiment file of stored results, if this user's pgdyno made them or what it names is allowed. `asked` is
/// the experiment with the `options` of the command line: what they replace is not executed, and what they make of the file is. Files
/// elsewhere are their user's own. Returns whose the text is.
///
/// # Errors
/// As [`decide`].
pub(crate) fn expect_file_allowed(
    given: &ExperimentText,
    asked: &Experiment,
    options: &[Override],
    allowed: Option<&AllowedCommands>,
) -> Result<Author> {
    // A link to such a file is that file.
    let path = fs::canonicalize(&given.name).unwrap_or_else(|_| PathBuf::from(&given.name));
    let Some(dir) = path.parent() else { return Ok(Author::Ours) };
    if !path.ends_with(store::names::EXPERIMENT) || !store::is_experiment_dir(dir) {
        return Ok(Author::Ours);
    }
    let author = match store::read_sealed(dir) {
        Ok(sealed) if sealed.experiment_toml == given.text => sealed.author,
        _ => Author::Unknown(Reason::Broken),
    };
    let Author::Unknown(reason) = author else { return Ok(author) };
    say(&format!("note: `{}` may hold results of somebody else: {}", dir.display(), reason.words()));
    let ours = named_by(options);
    let mut list = all_of(&planned(asked)?, asked);
    list.retain(|line| !ours.contains(line));
    expect_listed(&list, allowed)?;
    Ok(author)
}

/// What options name without any file, which is their user's own. Options that make no experiment by themselves name nothing.
fn named_by(options: &[Override]) -> Vec<ConsentLine> {
    let alone = file::parse("options", "[experiment]\nname = \"options\"\n", options).ok();
    let named = alone.and_then(|alone| planned(&alone).ok().map(|cases| all_of(&cases, &alone)));
    named.unwrap_or_default()
}

/// All that a text names.
fn all_of(cases: &[Case], experiment: &Experiment) -> Vec<ConsentLine> {
    let none = Ours::default();
    let texts = THINGS.iter().flat_map(|thing| found(*thing, cases.iter(), experiment, &none));
    texts.map(|text| ConsentLine { text, instead: String::new() }).collect()
}

/// Each thing of a kind once, with its key.
fn found<'a>(
    thing: Thing,
    cases: impl Iterator<Item = &'a Case>,
    experiment: &Experiment,
    ours: &Ours,
) -> BTreeSet<String> {
    let texts = cases.flat_map(|case| thing.of(case, ours)).chain(thing.of_text(experiment, ours));
    texts.map(|text| format!("{}: {text}", thing.key())).collect()
}

/// Leaves out of the plan and of its text what is not wanted here, and shows what is executed.
///
/// # Errors
/// When nobody can consent to it: numbers that no experiment has, a text that this pgdyno does not accept. Else an [`Ask`] with all
/// that needs a consent which is missing.
pub(crate) fn decide(plan: &mut Plan, experiment: &mut Experiment, road: &Road) -> Result<()> {
    expect_possible_numbers(plan)?;
    let of_text = if road.author.is_us() { Vec::new() } else { cases_of_text(plan, experiment)? };
    let (mut list, mut left_out) = (Vec::new(), Vec::new());
    for thing in THINGS {
        let texts = found(thing, plan.cases.iter().chain(&of_text), experiment, road.ours).into_iter();
        if road.leaves_out(thing, plan) {
            left_out.extend(texts);
            plan.cases.iter_mut().for_each(|case| thing.leave_out(case));
            thing.leave_out_of(experiment);
        } else {
            list.extend(texts.map(|text| ConsentLine { text, instead: road.instead(thing, plan) }));
        }
    }
    if !road.author.is_us() {
        expect_listed(&list, road.allowed)?;
    }
    show("left out", &left_out);
    Ok(())
}

/// Shows what is executed, if it is allowed.
fn expect_listed(list: &[ConsentLine], allowed: Option<&AllowedCommands>) -> Result<()> {
    if list.is_empty() {
        return Ok(());
    }

    let about = match allowed {
        Some(_) => {
            "the list that was allowed is not this one, of what the experiment would execute here or use of another place"
        }
        None => "the experiment would use or execute here what belongs to another place",
    };
    let ask = Ask::commands(about.to_string(), list.to_vec());
    ensure!(
        ask.is_shown_whole(),
        "what the experiment would use or execute here contains what looks like a secret, which is never shown, and nobody can consent to \
         what is not shown. Nothing was executed; read `{}` and the plan, and write an experiment of your own with what you accept of it",
        store::names::EXPERIMENT
    );
    if !allowed.is_some_and(|allowed| allowed.covers(list)) {
        return Err(ask.into());
    }

    let texts: Vec<String> = list.iter().map(|line| line.text.clone()).collect();
    show("executed or used here, as --allow-commands says", &texts);
    Ok(())
}

fn show(what: &str, texts: &[String]) {
    if !texts.is_empty() {
        say(&format!("{what}:"));
        texts.iter().flat_map(|text| text.lines()).for_each(|line| say(&format!("  {line}")));
    }
}

/// What the text of the experiment would measure, without that of which the plan has nothing.
///
/// # Errors
/// As [`planned`].
fn cases_of_text(plan: &Plan, experiment: &mut Experiment) -> Result<Vec<Case>> {
    let none = Ours::default();
    for thing in THINGS {
        if plan.cases.iter().all(|case| thing.of(case, &none).is_empty()) {
            thing.leave_out_of(experiment);
        }
    }
    planned(experiment)
}

/// The cases of a text.
///
/// # Errors
/// When this pgdyno would not measure what it says. No consent helps: nobody can say what it would allow.
fn planned(experiment: &Experiment) -> Result<Vec<Case>> {
    match expand::plan_unseen(experiment) {
        Ok(of_text) => Ok(of_text.cases),
        Err(problems) => bail!(
            "what the text of the experiment would use or execute is not known, because this pgdyno does not accept it:\n{problems}\n\
             Nothing was executed; correct `{}` if you know what it should say, or write an experiment of your own and use pgdyno run",
            store::names::EXPERIMENT
        ),
    }
}

/// Longest part of a run that is believed: a year.
const PART_S_MAX: u32 = 366 * 86_400;

/// A plan that somebody else wrote may hold numbers that no experiment file accepts.
fn expect_possible_numbers(plan: &Plan) -> Result<()> {
    for case in &plan.cases {
        let (load, window) = (&case.workload, case.window);
        let is_possible = (1..=100_000).contains(&load.n_clients)
            && (1..=load.n_clients).contains(&load.n_threads)
            && (1..=1_000_000).contains(&load.scale)
            && (1..=PART_S_MAX).contains(&window.measure_s)
            && window.ramp_up_s.max(window.grace_s).max(case.adapt.extend_s) <= PART_S_MAX;
        ensure!(
            is_possible,
            "case {} has numbers of clients, data or seconds that no experiment has",
            case.id
        );
    }
    for run in &plan.runs {
        ensure!(
            plan.case(run.case).is_some(),
            "run {} is of case {}, which the plan does not have",
            run.run,
            run.case
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGER: Author = Author::Unknown(Reason::Unsealed);

    fn read(text: &str) -> Experiment {
        file::parse("x", &format!("[experiment]\nname = \"x\"\n{text}"), &[]).unwrap()
    }

    /// Decides about the plan of one text with another one.
    fn decided(
        texts: [&str; 2],
        author: Author,
        (allowed, here): (Option<&AllowedCommands>, bool),
    ) -> Result<Experiment> {
        let (mut plan, mut experiment) = (expand::plan_unseen(&read(texts[0])).unwrap(), read(texts[1]));
        let road = Road { author, allowed, here: Some(here), ours: &Ours::default() };
        decide(&mut plan, &mut experiment, &road).map(|()| experiment)
    }

    fn refused(texts: [&str; 2], allowed: Option<&AllowedCommands>) -> anyhow::Error {
        decided(texts, STRANGER, (allowed, false)).unwrap_err()
    }

    const HOOKS: &str = "[hooks]\nbefore_run = [\"theirs\"]";

    #[test]
    fn a_text_that_has_more_than_its_plan_is_refused_or_loses_it() {
        for (more, expected) in [
            ("[server.settings]\nlog_filename = \"evil\"", "server.settings: log_filename = evil"),
            ("[server]\nbin_dir = \"/tmp/evil\"", "server.bin_dir: /tmp/evil"),
            ("[server]\nurl = \"host=evil\"", "server.url: host=evil"),
            (
                "[workload]\nkind = \"scripts\"\nscripts = [{name = \"x\", text = \"\\\\shell evil\"}]",
                "\n    \\shell evil",
            ),
            ("[workload]\nkind = \"scripts\"\nscripts = [{file = \"/tmp/evil\"}]", "the file `/tmp/evil`"),
            ("[workload]\nrestore_from = \"/tmp/evil\"", "workload.data: the file `/tmp/evil`"),
        ] {
            let error = refused(["", more], None);
            let ask = error.downcast_ref::<Ask>().unwrap_or_else(|| panic!("{more}: {error:#}"));
            assert!(ask.list.iter().any(|line| line.text.contains(expected)), "{more}: {ask}");
        }
        let more = "[hooks]\nbefore_run = [\"evil\"]\n[os]\nswappiness = 1\n[[driver]]\nvia = [\"evil\"]";
        assert_eq!(decided(["", more], STRANGER, (None, false)).unwrap(), read(""));
        assert!(refused([HOOKS, more], None).to_string().contains("hooks: before_run: evil"));
        assert!(decided([HOOKS, more], STRANGER, (None, true)).unwrap().hooks.is_empty());
    }

    #[test]
    fn no_consent_helps_where_it_cannot_be_said_what_it_would_allow() {
        for text in ["[workload]\nclients = [1, 1]", "[run]\nramp_up_max = \"1min\""] {
            let hidden = format!("{text}\n{HOOKS}");
            for allowed in [None, Some(&AllowedCommands::All)] {
                let error = refused([HOOKS, &hidden], allowed);
                assert!(!error.is::<Ask>(), "{error:#}");
                let said = error.to_string();
                assert!(said.contains("this pgdyno does not accept it") && !said.contains("--"), "{said}");
            }
        }
    }

    #[test]
    fn what_would_be_hidden_when_it_is_shown_is_refused_for_good() {
        let key = "[hooks]\nafter_case = [\"echo\", \"-----BEGIN PRIVATE KEY-----\"]\nafter_run = [\"sh\", \"-c\", \"evil\"]\n\
                   before_run = [\"echo\", \"-----END PRIVATE KEY-----\"]";
        let word =
            "[hooks]\nbefore_run = [\"bash\", \"-c\", \"eval \\\"$1\\\"\", \"command was:\", \"evil\"]";
        let setting = "[server.settings]\narchive_command = \"evil\"";
        for text in [key, word, setting] {
            for allowed in [None, Some(&AllowedCommands::All)] {
                let error = refused([text, text], allowed);
                assert!(!error.is::<Ask>(), "{text}: {error:#}");
                let said = error.to_string();
                assert!(said.contains("looks like a secret") && !said.contains("--allow"), "{said}");
            }
        }
    }

    /// What is asked about a stranger's file that is measured with options, each `KEY=VALUE`.
    fn asked_about(text: &str, options: &[&str]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(store::names::EXPERIMENT);
        let text = format!("[experiment]\nname = \"x\"\n{text}");
        std::fs::write(&path, &text).unwrap();
        std::fs::write(dir.path().join(store::names::PLAN), "{}").unwrap();
        let options: Vec<Override> = options.iter().map(|text| Override::parse(text).unwrap()).collect();
        let asked = file::parse("x", &text, &options).unwrap();
        let given = ExperimentText { name: path.display().to_string(), text };
        match expect_file_allowed(&given, &asked, &options, None) {
            Ok(_) => Vec::new(),
            Err(error) => error.downcast::<Ask>().unwrap().list.into_iter().map(|line| line.text).collect(),
        }
    }

    const INERT: &str = "[workload]\nkind = \"tpcb\"\ndata = {files = [{name = \"x.sql\", text = \"copy t to program 'evil'\"}]}";

    #[test]
    fn a_strangers_file_is_judged_as_options_make_it_and_what_they_name_is_not_foreign() {
        let own = ["workload.kind=scripts", "workload.scripts=[{name=\"own.sql\", text=\"select 1;\"}]"];
        assert_eq!(asked_about(INERT, &[]), Vec::<String>::new());
        assert_eq!(asked_about(INERT, &own), ["workload.data: x.sql\n    copy t to program 'evil'"]);
        // A level that the file excludes for its own number of clients.
        let excluded = "exclude = [{server.settings.log_filename = \"evil\", workload.clients = [1]}]\n[workload]\nclients = [1]\n\
                        [server.settings]\nlog_filename = [\"x\", \"evil\"]";
        let evil = "server.settings: log_filename = evil".to_string();
        assert!(asked_about(excluded, &["workload.clients=[1, 2]"]).contains(&evil));
        assert_eq!(
            asked_about("[server.settings]\nlog_filename = \"x\"", &["server.settings.log_filename=mine"]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn what_has_no_effect_in_a_strangers_text_is_not_taken_over_into_new_results() {
        let taken = decided(["", INERT], STRANGER, (None, false)).unwrap();
        assert_eq!(taken.workload.data, None);
    }

    #[test]
    fn the_number_of_a_list_allows_it_and_no_other() {
        let shown = refused([HOOKS, ""], None).downcast::<Ask>().unwrap();
        let allowed: AllowedCommands = shown.number.parse().unwrap();
        decided([HOOKS, ""], STRANGER, (Some(&allowed), false)).unwrap();
        let changed = "[hooks]\nbefore_run = [\"changed\"]";
        let again = refused([changed, ""], Some(&allowed)).downcast::<Ask>().unwrap();
        assert!(again.about.contains("is not this one") && again.list[0].text.contains("changed"), "{again}");
        decided([changed, ""], STRANGER, (Some(&AllowedCommands::All), false)).unwrap();
    }

    #[test]
    fn what_hooks_find_in_their_environment_is_a_part_of_their_list() {
        let with = |mode: &str| format!("{HOOKS}\n[factors]\nmode = [\"{mode}\"]");
        let (quiet, evil) = (with("quiet"), with("$(evil)"));
        let shown = refused([&quiet, ""], None).downcast::<Ask>().unwrap();
        assert!(
            shown.list.iter().any(|line| line.text == "hooks: with PGDYNO_FACTOR_MODE = quiet"),
            "{shown}"
        );
        let allowed: AllowedCommands = shown.number.parse().unwrap();
        decided([&quiet, ""], STRANGER, (Some(&allowed), false)).unwrap();
        assert!(refused([&evil, ""], Some(&allowed)).to_string().contains("PGDYNO_FACTOR_MODE = $(evil)"));
    }

    #[test]
    fn of_our_own_results_nothing_is_asked_and_what_is_to_be_left_out_is() {
        let texts = [HOOKS, HOOKS];
        assert!(!decided(texts, Author::Ours, (None, false)).unwrap().hooks.is_empty());
        assert!(decided(texts, Author::Ours, (None, true)).unwrap().hooks.is_empty());
    }

    #[test]
    fn what_the_command_line_names_is_not_foreign() {
        let text = "[server]\nbin_dir = \"/usr/lib/postgresql/15/bin\"";
        let (mut plan, mut experiment) = (expand::plan_unseen(&read(text)).unwrap(), read(text));
        let mut ours = Ours::default();
        ours.add_source(plan.cases[0].server.source.clone());
        let road = Road { author: STRANGER, allowed: None, here: Some(false), ours: &ours };
        decide(&mut plan, &mut experiment, &road).unwrap();
        let road = Road { ours: &Ours::default(), ..road };
        assert!(decide(&mut plan, &mut experiment, &road).is_err());
    }
}
