//! The user's view: the same words in the same order, on the same stream, with the same exit code. Figures differ,
//! so each number becomes a `#`.

use regex_lite::Regex;

use crate::cluster::{Cluster, Who, database};

/// A text with every number, and the spaces that align it, replaced.
fn mask(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        masked.push_str(rest[..at].trim_end_matches(' '));
        if rest[..at].ends_with(' ') {
            masked.push(' ');
        }
        masked.push('#');
        rest = rest[at..].trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    }
    masked + rest
}

/// The parts of a text that do not depend on who wrote it and when.
fn normal(text: &str, who: Who) -> String {
    let mut lines: Vec<String> = text
        .replace(database(who), "DATABASE")
        .lines()
        .map(|line| if line.starts_with("pgbench (") { "pgbench (...)\n".into() } else { mask(line) + "\n" })
        .collect();
    // Whether the last second of a load is reported, and how often a socket is waited for, varies by chance. Our driver
    // parses a statement with its first execution, not separately.
    lines.retain(|line| !line.contains(" preparing "));
    lines.dedup_by(|a, b| a == b && (a.starts_with("progress") || a.ends_with("receiving\n")));
    lines.concat()
}

/// Command lines that the two programs interpret differently.
#[derive(Default)]
struct Differences(String);

impl Differences {
    fn check(&mut self, cluster: &Cluster, arguments: &str) {
        let (genuine, ours) = (cluster.run(Who::Genuine, arguments), cluster.run(Who::Ours, arguments));
        for (expected, got) in [(&genuine.stdout, &ours.stdout), (&genuine.stderr, &ours.stderr)] {
            if normal(expected, Who::Genuine) != normal(got, Who::Ours) {
                self.0 += &format!("--- {arguments}\n{expected}+++\n{got}\n");
            }
        }
        if genuine.code != ours.code {
            self.0 += &format!("--- {arguments}: {:?} instead of {:?}\n", ours.code, genuine.code);
        }
    }
}

pub(crate) fn results_have_the_same_form(cluster: &Cluster) {
    let mut differences = Differences::default();
    cluster.write("sleep", "\\sleep 2 ms\nSELECT 1;\n");
    cluster.write(
        "serial",
        "BEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT 1;\nDO $$BEGIN RAISE SQLSTATE '40001'; END$$;\nEND;\n",
    );
    for arguments in [
        "-i -q",
        "-i",
        "-t 5",
        "-T 1 -S -c 2 -j 2",
        "-S -t 5 -v -M prepared",
        "-S -t 5 -C -n",
        "-t 4 -r -n",
        "-t 20 -r -n -S -b tpcb-like@0 --random-seed=1",
        "-t 20 -n -S -N -r --max-tries=3 --failures-detailed --random-seed=1",
        "-t 5 -n -S -R 1000",
        "-t 5 -n -S -R 1000 -L 1000 -r",
        "-t 5 -n -S -L 0.0001",
        "-t 5 -n -S -L 500.25",
        "-T 2 -n -f sleep -P 1",
        "-T 2 -n -f sleep -P 1 --progress-timestamp --max-tries=2",
        "-T 2 -n -f sleep -P 1 -R 20 -L 100",
        "-t 3 -n -f serial",
        "-t 2 -n -f serial -f sleep -r --failures-detailed --random-seed=1",
        "-t 2 -n -f serial --max-tries=3 --verbose-errors -r",
        "-t 1 -n -f serial --max-tries=0 -L 20 -P 5",
        "-i --partitions=2 -q",
        "-S -t 1",
        "-i -q -s 2",
        "-S -s 3 -t 1 -n",
        "-n -f sleep -s 3 -t 1",
    ] {
        differences.check(cluster, arguments);
    }
    assert!(differences.0.is_empty(), "{}", differences.0);
}

/// Scripts with errors or warnings, by the name of their file.
const SCRIPTS_WITH_ERRORS: &[(&str, &str)] = &[
    ("syntax", "SELECT 1 + ;\n"),
    ("division", "\\set x 1 / 0\n"),
    ("unknown", "\\set x :nosuch\n"),
    ("rows", "SELECT 1 UNION SELECT 2 \\gset\n"),
    ("block", "BEGIN;\nSELECT 1;\n"),
    ("shell", "\\shell echo beware >&2\n\\shell no-such-command\n"),
    ("setshell", "\\setshell x echo one\n"),
    ("copy", "COPY pgbench_history FROM STDIN;\n"),
    ("die", "SELECT pg_terminate_backend(pg_backend_pid());\n"),
    ("pipe", "\\startpipeline\nSELECT 1;\nSELECT 1 / 0;\n\\endpipeline\n"),
    ("piped", "\\startpipeline\nSELECT 1;\nSELECT * FROM nosuch;\n\\endpipeline\n"),
    ("unrun", "\\startpipeline\n\\if false\nselet 1;\n\\endif\nSELECT 2;\n\\endpipeline\nSELECT 3;\n"),
    ("unparsed", "\\startpipeline\nSELECT 1 / 0;\nselet 1;\nselet 2;\n\\endpipeline\n"),
    ("warned", "\\startpipeline\nCOMMIT;\nselet 1;\n\\endpipeline\n"),
    (
        "dying",
        "\\startpipeline\nBEGIN;\nSELECT pg_terminate_backend(pg_backend_pid());\nSELECT 1;\n\\endpipeline\n",
    ),
    ("inner", "DO $$BEGIN raiseb; END$$;\n"),
    ("wide", "SELECT '日本' x y z;\n"),
    ("line", "SELECT 'é' x\r y z;\n"),
    ("loud", "DO $$BEGIN FOR i IN 1..300 LOOP RAISE NOTICE 'n %', i; END LOOP; END$$;\n"),
    ("escape", "SET standard_conforming_strings = off;\nSELECT 'a\\\\b';\n"),
    ("colons", "\\setshell y ::echo 1\n"),
    ("least", "\\set x -(-9223372036854775808)\n"),
    ("open", "\\startpipeline\nSELECT 1;\n"),
    ("raise", "DO $$BEGIN RAISE 'no' USING hint = 'try', detail = 'more'; END$$;\n"),
    (
        "notice",
        "DO $$BEGIN RAISE NOTICE '% times', 2; RAISE WARNING 'beware' USING hint = 'look'; END$$;\nSELECT '\\n';\n",
    ),
    ("unset", "SELECT 1;\nSELECT :nosuch::int;\n"),
    ("unset-text", "SELECT 1;\nSELECT ':nosuch';\n"),
    ("unset-if", "\\if :nosuch\nSELECT 1;\n\\endif\n"),
    ("unset-sleep", "\\sleep :nosuch us\n"),
    ("unset-shell", "\\shell echo :nosuch\n"),
    ("unset-setshell", "\\setshell x echo :nosuch\n"),
    ("unset-row", "SELECT 1 AS q WHERE false \\aset\n\\set x :q + 1\n"),
    ("no-row", "SELECT 1 AS q WHERE false \\gset\nSELECT :q;\n"),
    ("null-column", "SELECT NULL::int AS q \\gset\nSELECT :q::int;\n"),
    ("badset", "\\set x 1 +\n"),
    ("debug", "\\set x debug(1 + 1.5)\n\\set y debug(true)\n"),
];

/// Those of them whose variables have no value, and what the two programs make of that depends on the protocol.
const WITHOUT_VALUES: &[&str] = &[
    "unset",
    "unset-text",
    "unset-if",
    "unset-sleep",
    "unset-shell",
    "unset-setshell",
    "unset-row",
    "no-row",
    "null-column",
];

/// Command lines for them, and command lines that are themselves wrong.
const ARGUMENTS_WITH_ERRORS: &[&str] = &[
    "-n -t 2 -f syntax",
    "-n -t 2 -f syntax -M extended",
    "-n -t 2 -f raise -M prepared",
    "-n -t 2 -f notice",
    "-n -t 2 -f notice -M prepared",
    "-n -t 2 -f syntax -M prepared",
    "-n -t 2 -f unknown -M prepared",
    "-n -t 2 -f gset -M prepared --debug",
    "-n -t 2 -f simple --debug --random-seed=1",
    "-n -t 2 -f rows -M extended",
    "-n -t 2 -f pipe -M prepared -c 2",
    "-n -t 2 -f division -c 2",
    "-n -t 2 -f unknown",
    "-n -t 2 -f rows",
    "-n -t 2 -f block",
    "-n -t 2 -f shell",
    "-n -t 2 -f setshell",
    "-n -t 2 -f copy",
    "-n -t 2 -f pipe -M extended",
    "-n -t 2 -f piped -M extended",
    "-n -t 2 -f piped -M prepared",
    "-n -t 2 -f unrun -M prepared",
    "-n -t 2 -f unrun -M extended",
    "-n -t 2 -f unparsed -M prepared",
    "-n -t 2 -f warned -M prepared",
    "-n -t 1 -f dying -M extended",
    "-n -t 1 -f inner -M prepared",
    "-n -t 1 -f inner",
    "-n -t 1 -f wide",
    "-n -t 1 -f wide postgresql:///?client_encoding=UTF8",
    "-n -t 1 -f line postgresql:///?client_encoding=UTF8",
    "-n -t 1 -f line -M extended",
    "-n -t 2 -f loud",
    "-n -t 1 -f escape -M prepared",
    "-n -t 1 -f escape",
    "-n -t 1 -f colons",
    "-n -t 2 -f least",
    "--d -t 1",
    "-n -t 2 -f open -M extended",
    "-n -t 2 -f open",
    "-n -t 2 -f raise --verbose-errors",
    "-n -t 2 -f badset",
    "-n -t 2 -f debug",
    "-n -t 2 -f no-such-file",
    "-n -t 2 -f die",
    "-d nosuch -t 1",
    "-h nowhere.invalid -t 1",
    "-p 1 -t 1",
    "-U nosuch -t 1",
    "-i -I x",
    "-i -s 0",
    "-i --tablespace=nosuch",
    "-i -S",
    "-q",
    "--rate",
    "--pro=1 --proto=x",
    "--p=1",
    "-Z",
    "a b",
    "-t 1 -T 1",
    "-b list",
    "--show-script=si",
    "--show-script=s",
    "--random-seed=x",
    "-D x",
    "-D 1=2",
    "-l --aggregate-interval=3 -T 10",
    "-c 2000000",
];

pub(crate) fn errors_have_the_same_words(cluster: &Cluster) {
    let mut differences = Differences::default();
    for (name, text) in SCRIPTS_WITH_ERRORS {
        cluster.write(name, text);
    }
    for arguments in ARGUMENTS_WITH_ERRORS {
        differences.check(cluster, arguments);
    }
    for script in WITHOUT_VALUES {
        for protocol in ["simple", "extended", "prepared"] {
            differences.check(cluster, &format!("-n -t 2 -f {script} -M {protocol}"));
        }
    }
    assert!(differences.0.is_empty(), "{}", differences.0);
}

pub(crate) fn a_file_for_results_is_made_before_the_load(cluster: &Cluster) {
    for path in ["/nosuch/results.json", ""] {
        let said = cluster.run(Who::Ours, &format!("-n -S -t 5 --json={path}"));
        let expected = format!("pgbench: error: could not open file \"{path}\": No such file or directory\n");
        assert_eq!((said.code, said.stdout.as_str(), said.stderr), (Some(1), "", expected));
    }
}

pub(crate) fn logs_have_the_same_form(cluster: &Cluster) {
    for who in [Who::Genuine, Who::Ours] {
        cluster.run(who, "-i -q");
    }
    let logged = |who: Who, arguments: &str| -> Vec<String> {
        let prefix = cluster.dir().join(format!("log{who:?}"));
        let said = cluster.run(who, &format!("{arguments} -l --log-prefix={}", prefix.display()));
        assert_eq!(said.code, Some(0), "{arguments}: {said:?}");
        let mut logs = Vec::new();
        for entry in std::fs::read_dir(cluster.dir()).expect("the directory exists").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(rest) = name.strip_prefix(&format!("log{who:?}.")) {
                let text = std::fs::read_to_string(entry.path()).expect("a log is text");
                // A transaction is a line; how many seconds there are is chance.
                let lines: Vec<String> = text.lines().map(mask).collect();
                let kinds: std::collections::BTreeSet<String> = lines.iter().cloned().collect();
                let n = if arguments.contains("aggregate") { 0 } else { lines.len() };
                logs.push(format!("{} {n} {kinds:?}", mask(rest)));
                std::fs::remove_file(entry.path()).expect("the test's own file can be removed");
            }
        }
        logs.sort();
        logs
    };
    for arguments in [
        "-S -t 5 -c 2 -j 2 -n",
        "-S -t 5 -R 1000 -n",
        "-S -t 5 -R 1000 -L 1000 --max-tries=2 -n",
        "-f serial -t 3 -n",
        "-f serial -t 3 -n --failures-detailed --max-tries=2",
        "-S -T 2 --aggregate-interval=1 -n",
        "-S -T 4 --aggregate-interval=2 -R 100 -L 100 --max-tries=2 -n -c 2 -j 2",
        "-S -t 100 --sampling-rate=0.3 --random-seed=5 -n",
    ] {
        assert_eq!(logged(Who::Ours, arguments), logged(Who::Genuine, arguments), "{arguments}");
    }
}

/// The patterns that public parsers of pgbench's output use on its version, and what they find.
pub(crate) fn the_banner_is_read_by_the_patterns_of_parsers(cluster: &Cluster) {
    for who in [Who::Genuine, Who::Ours] {
        let version = cluster.run(who, "--version").stdout;
        let text = cluster.run(who, "-S -n -t 1").stdout;
        let banner = text.lines().next().unwrap_or_default();
        let first = |pattern: &str, text: &str| {
            let found = Regex::new(pattern).expect("a valid pattern").captures(text)?;
            Some(found.get(1)?.as_str().to_string())
        };
        let release = first(r"pgbench \(PostgreSQL\) (\d+)(?:\.\d+)?", &version);
        assert!(release.is_some(), "{who:?}: {version}");
        let strict = r"^pgbench \(([^\s(),]+)(?: \([^)]*\))?(?:, server [^\s(),]+(?: \([^)]*\))?)?\)$";
        let bare = first(strict, banner).unwrap_or_else(|| panic!("{who:?}: {banner}"));
        assert_eq!(bare.split('.').next(), release.as_deref(), "{who:?}: {banner}");
        let whole = first(r"^pgbench \((.+)\)$", banner).unwrap_or_else(|| panic!("{who:?}: {banner}"));
        assert_eq!(first("^([1-9][0-9]*)", &whole), release, "{who:?}: {banner}");
    }
}
