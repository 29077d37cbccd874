//! `docs/tour.md` is true: its commands run in order, with shorter times, and print the words that the page shows.
//!
//! The output in the page is refreshed, with the times as written, by
//! `cargo test -p pgdyno --test it -- --ignored tour`. `PGDYNO_TOUR_BINARY` names a release build to measure with, by an absolute path.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::tool::{Ended, Place, tell};

/// What shortens the commands of the page. Each must occur in it.
const SHORTER: &[(&str, &str)] = &[
    ("--measure 20s", "--measure 2s"),
    ("--measure 10s", "--measure 2s"),
    ("--repeats 3", "--repeats 1"),
    ("--pairs 8", "--time 1s"),
    ("-s 20", "-s 2"),
    // A run of fewer than some hundred transactions counts for nothing.
    ("--pace 100/s", "--pace 250/s"),
    ("--acid ", "--acid --acid-load 2s "),
    // Other load on the machine must not cause repeats.
    (" -o results/", " --set run.repeat_disturbed=0 -o results/"),
];

/// No command of the page takes longer with its times as written.
const DEADLINE: Duration = Duration::from_secs(20 * 60);

/// A command of the page, and what the page shows of its output.
#[derive(Debug)]
struct Step {
    command: String,
    exit_codes: Vec<i32>,
    words: Vec<String>,
    lines: Option<Lines>,
    /// The lines of the page, counted from 0, that hold the output; empty if it shows none.
    shown: std::ops::Range<usize>,
}

/// Which lines of an output the page shows.
#[derive(Debug)]
enum Lines {
    These(RangeInclusive<usize>),
    Last(usize),
}

impl Lines {
    /// These lines of an output, with `...` where others are left out.
    fn of(&self, output: &str) -> Vec<String> {
        let all: Vec<String> = output.lines().map(|line| line.trim_end().to_string()).collect();
        let (from, to) = match self {
            Lines::These(range) => (range.start() - 1, (*range.end()).min(all.len())),
            Lines::Last(n) => (all.len().saturating_sub(*n), all.len()),
        };
        let mut shown = all[from.min(to)..to].to_vec();
        if let Lines::Last(_) = self
            && from > 0
        {
            shown.insert(0, "...".to_string());
        }
        if to < all.len() {
            shown.push("...".to_string());
        }
        shown
    }
}

/// The commands in the `sh` blocks of a page. A `text` block belongs to the last command before it; the comment before the
/// block says how to compare it.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut fence, mut began, mut comment) = ("", 0, String::new());
    let mut command = String::new();
    for (at, line) in page.lines().enumerate() {
        match (fence, line) {
            ("", _) if line.starts_with("```") => (fence, began) = (&line[3..], at + 1),
            ("", _) if line.starts_with("<!-- exit ") => comment = line.to_string(),
            ("text", "```") => {
                let step = steps.last_mut().unwrap();
                assert!(!comment.is_empty(), "line {at}: no comment says what is stable in this output");
                step.read(&comment);
                step.shown = began..at;
                comment.clear();
            }
            ("sh", "```") => assert_eq!(command, "", "a command does not end"),
            ("sh", _) => {
                command.push_str(line.trim_end_matches('\\'));
                if !line.ends_with('\\') {
                    let (exit_codes, words) = (vec![0], Vec::new());
                    let command = std::mem::take(&mut command);
                    steps.push(Step { command, exit_codes, words, lines: None, shown: 0..0 });
                }
            }
            _ => {}
        }
        if line == "```" {
            fence = "";
        }
    }
    steps
}

impl Step {
    /// `<!-- exit 0 or 1; lines 2-9; words: a | b -->`, or `last 9 lines`.
    fn read(&mut self, comment: &str) {
        let inner = comment.trim_start_matches("<!-- ").trim_end_matches(" -->");
        let parts: Vec<&str> = inner.splitn(3, "; ").collect();
        let [exit, lines, words] = parts.as_slice() else { panic!("{comment}: three parts are needed") };
        let numbers = |text: &str| -> Vec<usize> {
            let texts = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
            texts.map(|digits| digits.parse().unwrap()).collect()
        };
        self.exit_codes = numbers(exit).into_iter().map(|code| code as i32).collect();
        self.lines = match numbers(lines)[..] {
            [n] if lines.starts_with("last ") => Some(Lines::Last(n)),
            [from, to] if lines.starts_with("lines ") => Some(Lines::These(from..=to)),
            _ => panic!("{comment}: which lines?"),
        };
        self.words = words.trim_start_matches("words: ").split(" | ").map(String::from).collect();
    }

    fn run(&self, place: &Place, program: &Path, command: &str) -> Ended {
        let mut shell: Command = place.command_of(Path::new("sh"), &["-c", command]);
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
        let ended = place.start(shell).wait_for_end(DEADLINE);
        let code = ended.code().unwrap_or(-1);
        assert!(self.exit_codes.contains(&code), "{command}\n{code}\n{}\n{}", ended.stdout, ended.stderr);
        ended
    }
}

fn page_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tour.md")
}

#[test]
fn the_tour_runs_as_written_and_shows_what_is_printed() {
    let page = fs::read_to_string(page_path()).unwrap();
    for (from, _) in SHORTER {
        assert!(page.contains(from), "the tour has no `{from}`");
    }
    let steps = steps(&page);
    assert!(steps.len() > 8, "{steps:?}");
    let place = Place::with_binaries(&["18"]);
    for step in &steps {
        let command = SHORTER.iter().fold(step.command.clone(), |text, (from, to)| text.replace(from, to));
        let printed = step.run(&place, Path::new(env!("CARGO_BIN_EXE_pgdyno")), &command).stdout;
        for words in &step.words {
            assert!(printed.contains(words.as_str()), "{command} does not print `{words}`:\n{printed}");
        }
        let shown = page.lines().skip(step.shown.start).take(step.shown.len());
        let shown = shown.collect::<Vec<_>>().join("\n");
        for words in &step.words {
            assert!(shown.contains(words.as_str()), "{}: the page does not show `{words}`", step.command);
        }
    }
    for name in ["first", "decision", "users"] {
        for file in ["report.html", "report.md", "runs.csv"] {
            assert!(place.path("results").join(name).join(file).exists(), "results/{name}/{file}");
        }
    }
    place.expect_clean();
}

#[test]
#[ignore = "measures for as long as its commands take, and rewrites docs/tour.md"]
fn the_tour_is_refreshed_with_its_times_as_written() {
    let program = std::env::var_os("PGDYNO_TOUR_BINARY")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_pgdyno")), PathBuf::from);
    let page = fs::read_to_string(page_path()).unwrap();
    let place = Place::with_binaries(&["18"]);
    let mut fresh: Vec<String> = Vec::new();
    let mut lines = page.lines().enumerate().peekable();
    for step in steps(&page) {
        tell(&step.command);
        let printed = step.run(&place, &program, &step.command).stdout;
        let Some(shown) = &step.lines else { continue };
        while lines.peek().is_some_and(|(at, _)| *at < step.shown.start) {
            fresh.extend(lines.next().map(|(_, line)| line.to_string()));
        }
        while lines.peek().is_some_and(|(at, _)| *at < step.shown.end) {
            lines.next();
        }
        let printed = printed.replace(&place.path("").display().to_string(), "/var/tmp/tour/");
        fresh.extend(shown.of(&printed));
    }
    fresh.extend(lines.map(|(_, line)| line.to_string()));
    fs::write(page_path(), fresh.join("\n") + "\n").unwrap();
}

#[test]
fn a_page_is_read_as_commands_with_what_they_print() {
    let page =
        "```sh\na \\\n  b\nc 1\n```\n\n<!-- exit 0 or 1; lines 2-3; words: x | y -->\n```text\nx\ny\n```\n";
    let steps = steps(page);
    let [first, second] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!((first.command.as_str(), first.shown.len()), ("a   b", 0));
    assert_eq!((second.command.as_str(), second.shown.clone()), ("c 1", 8..10));
    assert_eq!(
        (second.exit_codes.as_slice(), second.words.as_slice()),
        (&[0, 1][..], &["x".into(), "y".into()][..])
    );
    assert_eq!(second.lines.as_ref().unwrap().of("1\n2\n3\n4\n"), ["2", "3", "..."]);
    assert_eq!(Lines::Last(1).of("1\n2\n"), ["...", "2"]);
}
