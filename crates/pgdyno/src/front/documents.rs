//! Checks that pgdyno accepts the commands that the documents print.

use std::process::Command as Process;

use clap::Parser;

use crate::front::cli::{Cli, Command};

const COMPARE_IN_CI: &str = include_str!("../../../../docs/compare-in-ci.md");

/// The commands in a document's code blocks, with continued lines joined.
fn commands(document: &str) -> Vec<String> {
    let blocks = document.split("\n```").skip(1).step_by(2);
    let lines: Vec<String> = blocks
        .flat_map(|block| {
            block.replace("\\\n", " ").lines().map(|line| line.trim().to_string()).collect::<Vec<_>>()
        })
        .collect();
    lines.into_iter().filter(|line| line.starts_with("pgdyno ")).collect()
}

/// The arguments that a shell passes to the program, with variables empty and without what follows the command.
pub(super) fn words(command: &str) -> Vec<String> {
    let alone = command.split(" || ").next().unwrap_or(command);
    let alone = alone.split(" > ").next().unwrap_or(alone);
    let script = format!("set -f; set -- {alone}; printf '%s\\0' \"$@\"");
    let out = Process::new("sh").args(["-c", &script]).env_clear().output().unwrap();
    assert!(out.status.success(), "{command}");
    String::from_utf8(out.stdout).unwrap().split_terminator('\0').map(str::to_string).collect()
}

#[test]
fn the_example_for_ci_is_understood() {
    let commands = commands(COMPARE_IN_CI);
    assert_eq!(commands.len(), 4, "{commands:#?}");
    for command in &commands {
        let cli = Cli::try_parse_from(words(command)).unwrap_or_else(|error| panic!("{command}: {error}"));
        assert!(matches!(cli.command, Command::Compare(_)), "{command}");
    }
    let fails = commands.iter().filter(|command| command.contains("--fail-on slower")).count();
    assert_eq!(fails, 2);
    assert!(Cli::try_parse_from(words("pgdyno compare --fail-on slow")).is_err());
}
