//! The generated pages of `docs/reference`: keys of the experiment file, commands with their options, exit codes.
//! `PGDYNO_BLESS=1 cargo test -p pgdyno --bin pgdyno reference` writes them again.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::EXITS;
use crate::front::cli::Cli;
use crate::front::schema::page;

/// Fails if the generated part of a page is not `content`; writes it when asked to by the environment.
fn check(page: &str, content: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- generated -->\n\n", "<!-- end -->\n");
    let (head, rest) = text.split_once(begin).unwrap_or_else(|| panic!("{page} has no generated part"));
    let (_, tail) = rest.split_once(end).unwrap_or_else(|| panic!("the generated part of {page} has no end"));
    let expected = format!("{head}{begin}{content}{end}{tail}");
    if std::env::var_os("PGDYNO_BLESS").is_some() {
        std::fs::write(path, expected).unwrap();
        return;
    }
    let advice = "run: PGDYNO_BLESS=1 cargo test -p pgdyno --bin pgdyno reference";
    assert!(text == expected, "docs/reference/{page} is not what the code has; {advice}");
}

/// A command and those below it, each with its options. `described` are options, in their words, by the first command that has them.
fn commands(of: &Command, path: &str, described: &mut BTreeMap<String, String>) -> String {
    let mut page = String::new();
    for command in
        of.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        let path = format!("{path} {}", command.get_name());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let usage = command.clone().bin_name(&path).render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").trim();
        page.push_str(&format!("## `{path}`\n\n{}.\n\n```text\n{usage}\n```\n\n", inline(&about)));
        let args = command.get_arguments().filter(|arg| !arg.is_hide_set());
        // --help and --version do the same everywhere.
        let is_own = |arg: &&Arg| !matches!(arg.get_action(), ArgAction::Help | ArgAction::Version);
        let lines = options(&path, args.filter(is_own), described);
        if !lines.is_empty() {
            page.push_str(&format!("{lines}\n"));
        }
        if let Some(examples) = command.get_after_help() {
            let examples = examples.to_string();
            let examples = examples.trim_start_matches("Examples:\n");
            page.push_str(&format!("```text\n{examples}\n```\n\n"));
        }
        page.push_str(&commands(command, &path, described));
    }
    page
}

/// An option with a shorter description is described again: to look it up elsewhere takes longer.
const FEW_WORDS_BYTES: usize = 40;

/// Options and arguments of the command at `path`. What an earlier command has in the same words is named with that command.
fn options<'a>(
    path: &str,
    args: impl Iterator<Item = &'a Arg>,
    described: &mut BTreeMap<String, String>,
) -> String {
    let args: Vec<(&Arg, String)> = args.map(|arg| (arg, option(arg))).collect();
    if let Some(earlier) = having_all(&args, described) {
        return format!("The options of `{earlier}`.\n");
    }
    let mut lines = String::new();
    let mut named = BTreeMap::<String, Vec<String>>::new();
    for (arg, line) in args {
        if let Some(earlier) = described.get(&line)
            && line.len() > FEW_WORDS_BYTES
        {
            named.entry(earlier.clone()).or_default().push(format!("`{}`", name(arg)));
        } else {
            lines.push_str(&line);
            described.entry(line).or_insert_with(|| path.to_string());
        }
    }
    for (earlier, names) in named {
        lines.push_str(&format!("- As in `{earlier}`: {}.\n", names.join(", ")));
    }
    lines
}

/// The earlier command that has these options and no others.
fn having_all(args: &[(&Arg, String)], described: &BTreeMap<String, String>) -> Option<String> {
    let (_, first) = args.first()?;
    let earlier = described.get(first)?;
    let is_same = args.iter().all(|(_, line)| described.get(line) == Some(earlier));
    let n_described = described.values().filter(|path| *path == earlier).count();
    (is_same && args.len() == n_described).then(|| earlier.clone())
}

/// One option or argument as an item of a list.
fn option(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let mut more = Vec::new();
    let words: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let is_said = words.iter().all(|word| help.contains(word.trim_matches('`')));
    if !is_said && arg.get_action().takes_values() && !arg.is_hide_possible_values_set() {
        more.push(format!("One of {}.", words.join(", ")));
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if !defaults.is_empty() && !matches!(arg.get_action(), ArgAction::SetTrue) {
        more.push(format!("Default: {}.", defaults.join(", ")));
    }
    if let Some(variable) = arg.get_env() {
        more.push(format!("Environment: `{}`.", variable.to_string_lossy()));
    }
    let help = inline(&help);
    let end = if help.ends_with(['.', '?', '!']) { "" } else { "." };
    format!(
        "- `{}`: {help}{end}{}{}\n",
        spelling(arg),
        if more.is_empty() { "" } else { " " },
        more.join(" ")
    )
}

/// What an option or argument is called where another command describes it.
fn name(arg: &Arg) -> String {
    arg.get_long().map_or_else(|| spelling(arg), |long| format!("--{long}"))
}

/// An option as it is typed.
fn spelling(arg: &Arg) -> String {
    let value = match arg.get_value_names() {
        Some(names) if arg.get_action().takes_values() => {
            names.iter().map(ToString::to_string).collect::<Vec<String>>().join(" ")
        }
        _ => String::new(),
    };
    let is_optional = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let mut longs: Vec<String> = arg.get_long().iter().map(|name| format!("--{name}")).collect();
    longs.extend(arg.get_visible_aliases().into_iter().flatten().map(|name| format!("--{name}")));
    let names: Vec<String> = short.into_iter().chain(longs).collect();
    match (names.is_empty(), value.is_empty(), is_optional) {
        (true, _, _) => value,
        (false, true, _) => names.join(", "),
        (false, false, true) => format!("{}[={value}]", names.join(", ")),
        (false, false, false) => format!("{} {value}", names.join(", ")),
    }
}

/// Text of the terminal as Markdown: signs mean themselves, and lines are joined.
fn inline(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut page = String::new();
    for (n, part) in joined.split('`').enumerate() {
        match n % 2 {
            0 => {
                for sign in part.chars() {
                    if "*_<[|\\".contains(sign) {
                        page.push('\\');
                    }
                    page.push(sign);
                }
            }
            _ => page.push_str(&format!("`{part}`")),
        }
    }
    page
}

fn exit_codes() -> String {
    let rows = EXITS.map(|(exit, meaning)| format!("| {} | {} |\n", exit as u8, inline(meaning)));
    format!("| exit code | meaning |\n|---|---|\n{}\n", rows.concat())
}

#[test]
fn the_reference_of_the_experiment_file_is_that_of_the_code() {
    check("experiment-file.md", &page::sections());
}

#[test]
fn every_function_of_workload_directories_is_in_their_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/workload-directories.md");
    let page = std::fs::read_to_string(path).unwrap();
    let spans: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| `")).flat_map(|line| line.split('`')).collect();
    let missing: Vec<&str> = generator::expression::usages().filter(|usage| !spans.contains(usage)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_reference_of_commands_is_that_of_the_code() {
    let mut cli = Cli::command();
    cli.build();
    check("commands.md", &commands(&cli, "pgdyno", &mut BTreeMap::new()));
}

#[test]
fn the_reference_of_exit_codes_is_that_of_the_code() {
    check("exit-codes.md", &exit_codes());
}

#[test]
fn options_are_written_as_they_are_typed() {
    let mut cli = Cli::command();
    cli.build();
    let run = cli.find_subcommand("run").unwrap();
    let spelled = |id: &str| spelling(run.get_arguments().find(|arg| arg.get_id() == id).unwrap());
    assert_eq!(spelled("clients"), "-c, --clients N,...");
    assert_eq!(spelled("scripts"), "-f, --script, --file FILE[@WEIGHT]");
    assert_eq!(spelled("fit"), "--fit[=TIME]");
    assert_eq!(spelled("strict"), "--strict");
    assert_eq!(spelled("experiment"), "EXPERIMENT");
    let named = |id: &str| name(run.get_arguments().find(|arg| arg.get_id() == id).unwrap());
    assert_eq!([named("scripts"), named("experiment")], ["--script", "EXPERIMENT"]);
    let mut described = BTreeMap::new();
    let own = |name: &str| {
        let command = cli.find_subcommand(name).unwrap();
        command.get_arguments().filter(|arg| !arg.is_hide_set()).collect::<Vec<_>>().into_iter()
    };
    assert!(options("pgdyno run", own("run"), &mut described).contains("`--strict`"));
    assert_eq!(options("pgdyno plan", own("plan"), &mut described), "The options of `pgdyno run`.\n");
    assert!(options("pgdyno report", own("report"), &mut described).contains("As in `pgdyno run`: "));
    assert_eq!(inline("a `b*` <c>\n  d_e"), "a `b*` \\<c> d\\_e");
}
