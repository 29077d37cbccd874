//! What a process of PostgreSQL calls itself: `postgres: s1: walreceiver streaming 0/3000148`, where `s1` is `cluster_name`, if there is one.

/// The title without `postgres` and `cluster_name`; `None` if it is not the title of a process that a postmaster has started.
pub fn purpose(title: &str) -> Option<&str> {
    let title = title.strip_prefix("postgres: ")?;
    Some(title.rsplit_once(": ").map_or(title, |(_, purpose)| purpose))
}

/// Whether a process is of this kind: `startup`, `walreceiver`, `checkpointer`. Releases before 11 say `wal receiver process`.
pub fn is_kind(title: &str, kind: &str) -> bool {
    let letters = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    purpose(title).is_some_and(|purpose| letters(purpose).starts_with(&letters(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_says_what_a_process_does() {
        for (title, kind, expected) in [
            ("postgres: startup recovering 000000010000000000000003", "startup", true),
            ("postgres: s1: walreceiver streaming 0/3000148", "walreceiver", true),
            ("postgres: wal receiver process", "walreceiver", true),
            ("postgres: 18/main: checkpointer ", "checkpointer", true),
            ("postgres: checkpointer ", "startup", false),
            ("postgres: postgres startup [local] idle", "startup", false),
            ("/usr/lib/postgresql/15/bin/postgres -D /x/startup", "startup", false),
        ] {
            assert_eq!(is_kind(title, kind), expected, "{title}");
        }
        assert_eq!(purpose("postgres: s1: walreceiver"), Some("walreceiver"));
        assert_eq!(purpose("/usr/bin/postgres -D /x"), None);
    }
}
