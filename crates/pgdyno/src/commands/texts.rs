//! Commands that print or write texts made from the program itself: templates of experiments, the schema of their files,
//! completions and man pages.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::front::cli::Cli;
use crate::front::schema;
use crate::front::template::QuestionTemplate;
use crate::{Exit, print_exact, say};

/// Far more than a man page.
const PAGE_BYTES_MAX: u64 = 1 << 20;

/// Prints an experiment file to start from.
pub(crate) fn template(template: QuestionTemplate) -> Result<Exit> {
    print_exact(&template.text())?;
    Ok(Exit::Done)
}

/// Prints the JSON Schema of the experiment file.
pub(crate) fn schema() -> Result<Exit> {
    print_exact(&format!("{}\n", serde_json::to_string_pretty(&schema::schema())?))?;
    Ok(Exit::Done)
}

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut without_hidden(&Cli::command()), "pgdyno", &mut text);
    print_exact(&String::from_utf8(text).context("completions are text")?)?;
    Ok(Exit::Done)
}

/// The commands that help shows, and nothing else: completions would offer hidden ones, too.
fn without_hidden(all: &Command) -> Command {
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("pgdyno").version(env!("CARGO_PKG_VERSION")).subcommands(shown.cloned())
}

/// Writes the man pages of all commands into a directory.
///
/// # Errors
/// When the directory cannot be made or written, or has a file with the name of a page and another content.
pub(crate) fn man(dir: &Path) -> Result<Exit> {
    if nix::unistd::geteuid().is_root() {
        files::trust::check_output(dir)?;
    }
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot create the directory `{}`", dir.display()))?;
    expect_no_others(dir)?;
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), dir)
        .with_context(|| format!("cannot write man pages into `{}`", dir.display()))?;
    say(&format!("man pages: {} (man -l {})", dir.display(), dir.join("pgdyno.1").display()));
    Ok(Exit::Done)
}

/// Fails if a file that would be replaced is no man page of pgdyno.
fn expect_no_others(dir: &Path) -> Result<()> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("cannot read `{}`", dir.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !(name.starts_with("pgdyno") && name.ends_with(".1")) {
            continue;
        }
        let text = files::read(&path, PAGE_BYTES_MAX).unwrap_or_default();
        let is_page = String::from_utf8_lossy(&text).contains(".TH pgdyno");
        ensure!(
            is_page,
            "`{}` is no man page of pgdyno; choose another directory, or remove it",
            path.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use experiment::plan::expand::{self, PlanResources};
    use experiment::plan::file;
    use experiment::plan::scripts::{self, ExperimentSource};
    use wire::Conninfo;

    use super::*;

    #[test]
    fn every_template_is_an_experiment_that_can_be_planned() {
        let dir = tempfile::tempdir().unwrap();
        for script in ["read.sql", "write.sql", "schema.sql"] {
            std::fs::write(dir.path().join(script), "SELECT 1;\n").unwrap();
        }
        for template in QuestionTemplate::value_variants() {
            let text = template.text();
            assert!(text.starts_with(schema::FIRST_LINE), "{template:?}");
            let mut experiment = file::parse("x.toml", &text, &[]).unwrap();
            let stop = std::sync::atomic::AtomicBool::new(false);
            let origin = ExperimentSource { name: "x.toml", text: &text, dir: dir.path(), stop: &stop };
            scripts::read(&mut experiment, &origin).unwrap();
            let mut site =
                PlanResources { memory_bytes: Some(24 << 30), n_cpus: 4, ..PlanResources::default() };
            for target in &experiment.target {
                let url_keywords =
                    target.url.as_deref().map(|url| Conninfo::resolve(url).unwrap().keywords());
                let place = PlanResources { n_cpus: 4, url_keywords, ..PlanResources::default() };
                site.targets.insert(target.name.clone(), place);
            }
            let plan =
                expand::plan(&experiment, &site).unwrap_or_else(|error| panic!("{template:?}: {error}"));
            assert!(plan.cases.len() > 1 && plan.repeats >= 3, "{template:?}");
        }
    }

    /// Commands that help shows, below `command`, with the names of their man pages.
    fn shown(command: &clap::Command, page: &str) -> Vec<(String, clap::Command)> {
        let below = command.get_subcommands().filter(|below| !below.is_hide_set());
        let named = below.map(|below| (format!("{page}-{}", below.get_name()), below.clone()));
        named.flat_map(|(page, below)| [shown(&below, &page), vec![(page, below)]].concat()).collect()
    }

    fn long_options(command: &clap::Command) -> Vec<String> {
        let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
        shown.filter_map(|argument| argument.get_long().map(str::to_string)).collect()
    }

    #[test]
    fn man_pages_replace_only_man_pages() {
        let dir = tempfile::tempdir().unwrap();
        man(dir.path()).unwrap();
        man(dir.path()).unwrap();
        let mine = dir.path().join("pgdyno-run.1");
        std::fs::write(&mine, "mine").unwrap();
        let refused = man(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("pgdyno-run.1` is no man page"), "{refused}");
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
    }

    #[test]
    fn every_command_has_a_man_page_with_its_options_and_no_hidden_one_has() {
        let dir = tempfile::tempdir().unwrap();
        man(dir.path()).unwrap();
        let commands = shown(&Cli::command(), "pgdyno");
        assert!(commands.iter().any(|(page, _)| page == "pgdyno-server-list"), "{commands:?}");
        for (page, command) in &commands {
            let text = std::fs::read_to_string(dir.path().join(format!("{page}.1"))).expect(page);
            // A hyphen is escaped there.
            let text = text.replace("\\-", "-");
            for option in long_options(command) {
                assert!(text.contains(&format!("--{option}")), "{page}: --{option}");
            }
        }
        let pages = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(pages, commands.len() + 1, "one for each command and one for pgdyno itself");
    }

    #[test]
    fn every_command_and_option_is_completed_but_hidden_ones() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut without_hidden(&Cli::command()), "pgdyno", &mut text);
            let text = String::from_utf8(text).unwrap();
            let is_offered = |name: &str| text.contains(&format!("pgdyno,{name})"));
            if shell == Shell::Bash {
                assert!(is_offered("run") && !is_offered("host"), "{text}");
            }
            let prefix = if shell == Shell::Fish { "-l " } else { "--" };
            for (page, command) in shown(&Cli::command(), "pgdyno") {
                assert!(text.contains(command.get_name()), "{shell}: {page}");
                for option in long_options(&command) {
                    assert!(text.contains(&format!("{prefix}{option}")), "{shell}: {page} --{option}");
                }
            }
        }
    }
}
