//! What a statement does, by its first words: work, the frame of a transaction, the state of a session, or what cannot be replayed.

use crate::balance::OmissionReason;
use crate::statement::lexer::{LexedToken, TokenKind};

/// The effect of a statement on rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Reads.
    Select,
    /// Adds rows.
    Insert,
    /// Changes rows.
    Update,
    /// Removes rows.
    Delete,
    /// Anything else.
    Other,
}

impl Kind {
    /// The word in files.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Select => "select",
            Kind::Insert => "insert",
            Kind::Update => "update",
            Kind::Delete => "delete",
            Kind::Other => "other",
        }
    }
}

/// What a statement is for its transaction and its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementRole {
    /// A statement that is replayed, with literals that can vary.
    Work(Kind),
    /// A statement that is replayed as it is: `SAVEPOINT`, `FETCH`, `LOCK`, `SHOW`.
    Fixed,
    /// `BEGIN`, `START TRANSACTION`.
    Begin,
    /// `COMMIT`, `END`, `ROLLBACK`, `ABORT`.
    End {
        /// `AND CHAIN`: the next transaction begins with it.
        chains: bool,
    },
    /// `SET name` of the session.
    Set,
    /// What is left out alone, and the rest of its transaction is not.
    Dropped(OmissionReason),
    /// What is left out with all of its transaction.
    Refused(OmissionReason),
}

/// Functions of large objects.
const LARGE_OBJECTS: [&str; 14] = [
    "lo_close",
    "lo_creat",
    "lo_create",
    "lo_export",
    "lo_from_bytea",
    "lo_get",
    "lo_import",
    "lo_lseek",
    "lo_open",
    "lo_put",
    "lo_truncate",
    "lo_unlink",
    "loread",
    "lowrite",
];

/// The words of a statement that decide what it is.
struct Words<'a> {
    all: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn new(text: &'a str, tokens: &[LexedToken]) -> Words<'a> {
        let words = tokens.iter().filter(|token| token.kind == TokenKind::Word);
        Words { all: words.map(|token| token.text(text)).collect() }
    }

    fn is(&self, n: usize, words: &[&str]) -> bool {
        self.all.get(n).is_some_and(|found| words.iter().any(|word| word.eq_ignore_ascii_case(found)))
    }

    fn has(&self, words: &[&str]) -> bool {
        (0..self.all.len()).any(|n| self.is(n, words))
    }

    fn has_pair(&self, first: &str, second: &str) -> bool {
        (1..self.all.len()).any(|n| self.is(n - 1, &[first]) && self.is(n, &[second]))
    }

    /// Whether a word begins so: that of a function, or of a variant of it.
    fn call(&self, prefix: &str) -> bool {
        self.all
            .iter()
            .any(|word| word.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)))
    }
}

/// What a statement with these tokens is.
pub fn role(text: &str, tokens: &[LexedToken]) -> StatementRole {
    let words = Words::new(text, tokens);
    let Some(first) = words.all.first().map(|word| word.to_ascii_lowercase()) else {
        // `(select ...) union ...` has words, a lone literal has none.
        return StatementRole::Dropped(OmissionReason::NoStatement);
    };
    match first.as_str() {
        "select" | "values" | "table" | "with" => work(&words),
        "insert" => StatementRole::Work(Kind::Insert),
        "update" => StatementRole::Work(Kind::Update),
        "delete" => StatementRole::Work(Kind::Delete),
        "merge" => StatementRole::Work(Kind::Update),
        "call" | "explain" => StatementRole::Work(Kind::Other),
        "do" | "lock" | "savepoint" | "show" => StatementRole::Fixed,
        "declare" if words.has_pair("with", "hold") => StatementRole::Refused(OmissionReason::Cursor),
        "declare" => StatementRole::Work(Kind::Other),
        "fetch" | "move" | "close" => StatementRole::Fixed,
        "begin" => StatementRole::Begin,
        "start" if words.is(1, &["transaction"]) => StatementRole::Begin,
        "start_replication"
        | "identify_system"
        | "base_backup"
        | "create_replication_slot"
        | "timeline_history" => StatementRole::Refused(OmissionReason::Replication),
        "commit" | "end" | "rollback" | "abort" => ending(&words),
        "prepare" if words.is(1, &["transaction"]) => StatementRole::Refused(OmissionReason::TwoPhase),
        "release" => StatementRole::Fixed,
        "set" => set(&words),
        "reset" | "discard" | "deallocate" | "prepare" | "execute" | "load" => {
            StatementRole::Dropped(OmissionReason::SessionState)
        }
        "listen" | "unlisten" | "notify" => StatementRole::Dropped(OmissionReason::Listen),
        "copy" => StatementRole::Refused(OmissionReason::Copy),
        "vacuum" | "analyze" | "analyse" | "cluster" | "reindex" | "checkpoint" | "refresh" => {
            StatementRole::Refused(OmissionReason::Maintenance)
        }
        "create" => create(&words),
        "drop" | "alter" | "truncate" | "grant" | "revoke" | "comment" | "security" | "reassign"
        | "import" => StatementRole::Refused(OmissionReason::Ddl),
        _ => StatementRole::Dropped(OmissionReason::NoStatement),
    }
}

/// What a query does: a `WITH` may change rows.
fn work(words: &Words<'_>) -> StatementRole {
    if words.has(&LARGE_OBJECTS) {
        return StatementRole::Refused(OmissionReason::LargeObject);
    }
    // `SELECT ... INTO` makes a table.
    if words.is(0, &["select"]) && words.has(&["into"]) && !words.has(&["insert", "merge"]) {
        return StatementRole::Refused(OmissionReason::Ddl);
    }
    let is_changing = words.is(0, &["with"]);
    // `FOR UPDATE` and `FOR NO KEY UPDATE` change nothing.
    let changes = |word: &str| {
        is_changing
            && (0..words.all.len())
                .any(|n| words.is(n, &[word]) && (n == 0 || !words.is(n - 1, &["for", "key", "do"])))
    };
    let kinds = [("insert", Kind::Insert), ("update", Kind::Update), ("delete", Kind::Delete)];
    let found = kinds.iter().find(|(word, _)| changes(word));
    StatementRole::Work(found.map_or(Kind::Select, |(_, kind)| *kind))
}

fn ending(words: &Words<'_>) -> StatementRole {
    let is_optional = |n: usize| words.is(n, &["work", "transaction"]);
    let next = if is_optional(1) { 2 } else { 1 };
    if words.is(1, &["prepared"]) {
        StatementRole::Refused(OmissionReason::TwoPhase)
    } else if words.is(0, &["rollback"]) && words.is(next, &["to"]) {
        StatementRole::Fixed
    } else {
        StatementRole::End { chains: words.is(next, &["and"]) && words.is(next + 1, &["chain"]) }
    }
}

fn set(words: &Words<'_>) -> StatementRole {
    if words.is(1, &["local", "constraints", "transaction"]) {
        StatementRole::Fixed
    } else if words.is(1, &["role"])
        || (words.is(1, &["session"]) && words.is(2, &["authorization", "characteristics"]))
    {
        StatementRole::Dropped(OmissionReason::SessionState)
    } else {
        StatementRole::Set
    }
}

/// A temporary table that ends with its transaction is a part of it.
fn create(words: &Words<'_>) -> StatementRole {
    let is_temporary = words.is(1, &["temp", "temporary"]) || words.is(2, &["temp", "temporary"]);
    if is_temporary && words.has_pair("commit", "drop") {
        StatementRole::Fixed
    } else if is_temporary {
        StatementRole::Refused(OmissionReason::TemporaryTable)
    } else {
        StatementRole::Refused(OmissionReason::Ddl)
    }
}

/// Advisory locks of the session that statements take and release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdvisoryLocks {
    /// Statements that take one.
    pub taken: u32,
    /// Statements that release one.
    pub released: u32,
}

impl AdvisoryLocks {
    /// Those of a statement.
    pub fn new(text: &str, tokens: &[LexedToken]) -> AdvisoryLocks {
        let words = Words::new(text, tokens);
        let takes =
            words.has(&["pg_advisory_lock", "pg_advisory_lock_shared"]) || words.call("pg_try_advisory_lock");
        AdvisoryLocks { taken: takes.into(), released: words.call("pg_advisory_unlock").into() }
    }

    /// Adds those of another statement.
    pub fn add(&mut self, other: AdvisoryLocks) {
        self.taken += other.taken;
        self.released += other.released;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::lexer::{Backslash, tokens};

    fn check(text: &str, expected: StatementRole) {
        assert_eq!(role(text, &tokens(text, Backslash::Plain)), expected, "{text}");
    }

    #[test]
    fn statements_are_what_their_first_words_say() {
        for (text, expected) in [
            ("select 1", StatementRole::Work(Kind::Select)),
            ("(select 1) union (select 2)", StatementRole::Work(Kind::Select)),
            (
                "with a as (delete from t returning 1) select count(*) from a",
                StatementRole::Work(Kind::Delete),
            ),
            ("with a as (select 1) select * from a for update", StatementRole::Work(Kind::Select)),
            ("select * from t for update", StatementRole::Work(Kind::Select)),
            ("merge into t using s on true when matched then do nothing", StatementRole::Work(Kind::Update)),
            ("/* x */ BEGIN ISOLATION LEVEL SERIALIZABLE", StatementRole::Begin),
            ("start transaction", StatementRole::Begin),
            ("START_REPLICATION SLOT x", StatementRole::Refused(OmissionReason::Replication)),
            ("commit", StatementRole::End { chains: false }),
            ("END", StatementRole::End { chains: false }),
            ("commit work and chain", StatementRole::End { chains: true }),
            ("rollback and no chain", StatementRole::End { chains: false }),
            ("rollback to savepoint a", StatementRole::Fixed),
            ("rollback work to a", StatementRole::Fixed),
            ("commit prepared 'x'", StatementRole::Refused(OmissionReason::TwoPhase)),
            ("prepare transaction 'x'", StatementRole::Refused(OmissionReason::TwoPhase)),
            ("prepare p as select 1", StatementRole::Dropped(OmissionReason::SessionState)),
            ("set local work_mem = '1GB'", StatementRole::Fixed),
            ("set transaction read only", StatementRole::Fixed),
            ("SET work_mem TO '64MB'", StatementRole::Set),
            ("set session authorization x", StatementRole::Dropped(OmissionReason::SessionState)),
            ("create temp table x (a int) on commit drop", StatementRole::Fixed),
            ("create temp table x (a int)", StatementRole::Refused(OmissionReason::TemporaryTable)),
            ("create index on t (a)", StatementRole::Refused(OmissionReason::Ddl)),
            ("select * into x from t", StatementRole::Refused(OmissionReason::Ddl)),
            ("copy t from stdin", StatementRole::Refused(OmissionReason::Copy)),
            ("declare c cursor with hold for select 1", StatementRole::Refused(OmissionReason::Cursor)),
            ("declare c cursor for select 1", StatementRole::Work(Kind::Other)),
            ("select lo_create(0)", StatementRole::Refused(OmissionReason::LargeObject)),
            ("vacuum t", StatementRole::Refused(OmissionReason::Maintenance)),
            ("listen x", StatementRole::Dropped(OmissionReason::Listen)),
            ("", StatementRole::Dropped(OmissionReason::NoStatement)),
            ("5", StatementRole::Dropped(OmissionReason::NoStatement)),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn advisory_locks_of_the_session_are_counted() {
        let mut locks = AdvisoryLocks::default();
        for text in [
            "select pg_advisory_lock(1)",
            "select pg_try_advisory_lock(1)",
            "select pg_advisory_xact_lock(1)",
            "select pg_advisory_unlock_all()",
        ] {
            locks.add(AdvisoryLocks::new(text, &tokens(text, Backslash::Plain)));
        }
        assert_eq!(locks, AdvisoryLocks { taken: 2, released: 1 });
    }
}
