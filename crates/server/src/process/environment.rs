//! The environment of PostgreSQL's programs: what they need, and nothing that is meant for other programs, such as
//! cloud keys or passwords. Anybody who runs code in the server could read those.

use std::env;
use std::process::Command;

/// Variables that pass: where programs and libraries are, and where temporary files go.
const PASSED: [&str; 5] = ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD"];

/// Prefixes of variables that pass: options of allocators and sanitizers.
const PASSED_PREFIXES: [&str; 6] =
    ["MALLOC_", "GLIBC_TUNABLES", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"];

/// Gives `command` a clean environment in English.
pub(crate) fn clean(command: &mut Command) {
    command.env_clear();
    for (name, value) in env::vars_os() {
        if name.to_str().is_some_and(passes) {
            command.env(name, value);
        }
    }
    command.env("LC_ALL", "C");
}

fn passes(name: &str) -> bool {
    PASSED.contains(&name) || PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_server_needs_passes() {
        for (name, expected) in [
            ("PATH", true),
            ("LD_PRELOAD", true),
            ("MALLOC_ARENA_MAX", true),
            ("AWS_SECRET_ACCESS_KEY", false),
            ("GOOGLE_APPLICATION_CREDENTIALS", false),
            ("PGPASSWORD", false),
            ("PGDATA", false),
            ("NOTIFY_SOCKET", false),
            ("LANG", false),
            ("TZ", false),
            ("MY_TOKEN", false),
        ] {
            assert_eq!(passes(name), expected, "{name}");
        }
    }
}
