//! The ledger of a load with an outage: the tokens that its transactions have written, read from a server and compared with what
//! servers have acknowledged.
//!
//! Not here: who writes them (`workload::ledger`), and which servers are asked (`experiment`).

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use model::load::execution::{Execution, ExecutionEnd, TRANSACTIONS_MAX};
use model::run::server::outage::LedgerRecord;
use wire::session::Session;
use workload::{Schema, ledger};

/// Rows that are read at once.
const ROWS_AT_ONCE: usize = 50_000;
/// The comment by which a table of tokens is known as pgdyno's.
const MARK: &str = "pgdyno: tokens of a load";

/// The token of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitToken {
    /// Number of the client in the load, from 0.
    pub client: u32,
    /// Number of the transaction among the client's, from 1.
    pub number: u64,
}

impl CommitToken {
    /// The token as the filler of a row in `pgbench_history`, which is padded with blanks.
    fn parse(text: &str) -> Option<CommitToken> {
        let (client, number) = text.trim_end().split_once('.')?;
        Some(CommitToken { client: client.parse().ok()?, number: number.parse().ok()? })
    }
}

/// Where the load has written its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenPlace {
    /// `pgbench_history` of this schema, as fillers.
    History(Schema),
    /// The table of [`create_table`].
    Table,
}

/// The tokens that a server has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeTokens {
    /// Name of the server: `primary`, `s1`.
    pub node: String,
    /// All tokens, in order; one that is present twice is there twice.
    tokens: Vec<CommitToken>,
    /// Rows that have something else in a token's place.
    n_others: u64,
}

impl NodeTokens {
    /// The tokens of a server, in any order, and how many rows had something else.
    pub fn new(node: &str, mut tokens: Vec<CommitToken>, n_others: u64) -> NodeTokens {
        tokens.sort_unstable();
        NodeTokens { node: node.to_string(), tokens, n_others }
    }

    fn has(&self, token: CommitToken) -> bool {
        self.tokens.binary_search(&token).is_ok()
    }
}

/// A server that took over while the load ran.
#[derive(Debug, Clone, Copy)]
pub struct Takeover<'a> {
    /// When it was ready to take writes, nanoseconds after `go`.
    pub at_ns: u64,
    /// The tokens that it has.
    pub tokens: &'a NodeTokens,
}

/// Compares the tokens of a server with the executions that the drivers have reported. A transaction that was cancelled when the load ended is
/// one whose end nobody knows.
pub fn judge(node: &NodeTokens, executions: &[Execution], takeover: Option<Takeover>) -> LedgerRecord {
    let mut record = LedgerRecord {
        node: node.node.clone(),
        n_tokens: node.tokens.len() as u64,
        n_foreign: node.n_others,
        ..LedgerRecord::default()
    };
    // Each token once, with how often it is present, and whether an execution has it.
    let mut present: Vec<(CommitToken, u32, bool)> = Vec::with_capacity(node.tokens.len());
    for &token in &node.tokens {
        match present.last_mut() {
            Some((last, n, _)) if *last == token => *n = n.saturating_add(1),
            _ => present.push((token, 1, false)),
        }
    }

    for execution in executions.iter().filter(|execution| execution.number > 0) {
        let token = CommitToken { client: execution.client, number: execution.number };
        let found = present.binary_search_by_key(&token, |(token, ..)| *token).ok();
        if let Some(at) = found {
            present[at].2 = true;
        }
        count(&mut record, execution, found.is_some());
        if let Some(takeover) = takeover
            && found.is_some()
            && execution.end == ExecutionEnd::Committed
            && takeover.tokens.node != node.node
            && execution.end_ns() >= takeover.at_ns
            && !takeover.tokens.has(token)
        {
            record.n_of_two_primaries += 1;
        }
    }

    record.n_doubled = present.iter().map(|(_, n, _)| u64::from(*n > 1)).sum();
    record.n_foreign += present.iter().map(|(_, _, is_known)| u64::from(!is_known)).sum::<u64>();
    record
}

fn count(record: &mut LedgerRecord, execution: &Execution, is_present: bool) {
    let counter = match (execution.end, is_present) {
        (ExecutionEnd::Committed, true) => &mut record.n_acknowledged,
        (ExecutionEnd::Committed, false) => {
            record.n_acknowledged += 1;
            let end_ns = execution.end_ns();
            let (first, last) = record.lost_ns.unwrap_or((end_ns, end_ns));
            record.lost_ns = Some((first.min(end_ns), last.max(end_ns)));
            &mut record.n_lost
        }
        (ExecutionEnd::Failed | ExecutionEnd::Expected, true) => &mut record.n_ghosts,
        (ExecutionEnd::Unknown | ExecutionEnd::Aborted, true) => &mut record.n_unknown_present,
        (ExecutionEnd::Unknown | ExecutionEnd::Aborted, false) => &mut record.n_unknown_absent,
        (ExecutionEnd::Failed | ExecutionEnd::Expected | ExecutionEnd::Skipped, _) => return,
    };
    *counter += 1;
}

/// Creates the table of tokens where the session's search path makes tables, or empties the one that pgdyno has created before.
///
/// # Errors
/// When there is a table of this name that pgdyno has not created, or the server refuses.
pub fn create_table(session: &mut Session) -> Result<()> {
    let table = ledger::TABLE;
    let rows = session.query(&format!(
        "select pg_catalog.obj_description(pg_catalog.to_regclass('{table}'), 'pg_class') as mark, \
         pg_catalog.to_regclass('{table}') is not null as is_there"
    ))?;
    if rows.get(0, "is_there") == Some("t") {
        ensure!(
            rows.get(0, "mark") == Some(MARK),
            "table `{table}` is there, and pgdyno has not created it; rename it, or set workload.ledger = false"
        );
        return session.execute(&format!("truncate {table}")).context("empty the table of tokens");
    }
    let sql = format!(
        "create table {table} (client integer not null, number bigint not null); comment on table {table} is '{MARK}'"
    );
    session.execute(&sql).context("create the table of tokens, which workload.ledger = false leaves out")
}

/// Reads the tokens of a server, in pieces, within a time.
///
/// # Errors
/// When the server fails or takes longer, has no such table, or has more rows than a load can have written.
pub fn read(session: &mut Session, node: &str, place: &TokenPlace, longest: Duration) -> Result<NodeTokens> {
    let deadline = Instant::now() + longest;
    set_timeout(session, deadline)?;
    let sql = match place {
        TokenPlace::History(schema) => {
            schema.fill("select filler as token from @.pgbench_history where filler is not null")
        }
        TokenPlace::Table => {
            format!("select client || '.' || number as token from {}", find_table(session)?)
        }
    };
    session.execute(&format!("begin read only; declare tokens no scroll cursor for {sql}"))?;
    let (mut tokens, mut n_others) = (Vec::new(), 0);
    loop {
        set_timeout(session, deadline)?;
        let texts = session.query(&format!("fetch {ROWS_AT_ONCE} from tokens"))?.into_first_column();
        let n = texts.len();
        let parsed = texts.iter().filter_map(|text| CommitToken::parse(text));
        let n_before = tokens.len();
        tokens.extend(parsed);
        n_others += (n - (tokens.len() - n_before)) as u64;
        if n < ROWS_AT_ONCE {
            break;
        }
        // As many as there can be, each twice.
        ensure!(
            tokens.len() as u64 + n_others <= 2 * TRANSACTIONS_MAX,
            "server `{node}` has too many tokens to be judged"
        );
    }
    session.execute("commit")?;
    session.set_timeout(None);
    Ok(NodeTokens::new(node, tokens, n_others))
}

/// The name of the table of tokens, whatever the search path of this session.
fn find_table(session: &mut Session) -> Result<String> {
    let rows = session.query_params(
        "select pg_catalog.format('%I.%I', n.nspname, c.relname) as name from pg_catalog.pg_class c \
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where c.relname = $1 and c.relkind = 'r' order by 1",
        &[Some(ledger::TABLE)],
    )?;
    let names = rows.into_first_column();
    match names.as_slice() {
        [name] => Ok(name.clone()),
        [] => bail!("there is no table `{}`", ledger::TABLE),
        _ => bail!("several tables could have the tokens: {}; drop those of earlier loads", names.join(", ")),
    }
}

fn set_timeout(session: &mut Session, deadline: Instant) -> Result<()> {
    let rest = deadline.saturating_duration_since(Instant::now());
    ensure!(!rest.is_zero(), "the tokens could not be read in time");
    session.set_timeout(Some(rest));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A transaction of client 3 that ended after so many seconds.
    fn ended(number: u64, end: ExecutionEnd, at_s: u64) -> Execution {
        Execution {
            client: 3,
            number,
            end,
            start_ns: at_s * S / 2,
            length_ns: at_s * S / 2,
            ..Execution::default()
        }
    }

    fn node(name: &str, numbers: &[u64]) -> NodeTokens {
        NodeTokens::new(name, numbers.iter().map(|&number| CommitToken { client: 3, number }).collect(), 0)
    }

    #[test]
    fn each_transaction_is_counted_by_what_was_said_and_what_is_there() {
        use ExecutionEnd::{Aborted, Committed, Expected, Failed, Skipped, Unknown};
        let base = || LedgerRecord { node: "s1".to_string(), ..LedgerRecord::default() };
        let check = |said: &[(u64, ExecutionEnd)], present: &[u64], expected: LedgerRecord| {
            let executions: Vec<Execution> =
                said.iter().map(|(number, end)| ended(*number, *end, *number)).collect();
            let record = judge(&node("s1", present), &executions, None);
            assert_eq!(
                record,
                LedgerRecord { n_tokens: present.len() as u64, ..expected },
                "{said:?} {present:?}"
            );
        };
        check(&[], &[], base());
        check(&[(1, Committed), (2, Committed)], &[2, 1], LedgerRecord { n_acknowledged: 2, ..base() });
        // Acknowledged and forgotten.
        check(
            &[(1, Committed), (2, Committed), (3, Committed), (4, Committed)],
            &[1],
            LedgerRecord { n_acknowledged: 4, n_lost: 3, lost_ns: Some((2 * S, 4 * S)), ..base() },
        );
        // Doubled, however often.
        check(
            &[(1, Committed), (2, Committed)],
            &[1, 2, 1, 1],
            LedgerRecord { n_acknowledged: 2, n_doubled: 1, ..base() },
        );
        // Reported as failed, and kept.
        check(&[(1, Failed), (2, Expected), (3, Failed)], &[1, 2], LedgerRecord { n_ghosts: 2, ..base() });
        check(
            &[(1, Unknown), (2, Unknown), (3, Unknown), (4, Aborted)],
            &[2, 4],
            LedgerRecord { n_unknown_present: 2, n_unknown_absent: 2, ..base() },
        );
        // Of nobody in this load; those without a number say nothing.
        check(
            &[(1, Committed), (0, Committed), (0, Skipped)],
            &[1, 7, 8],
            LedgerRecord { n_acknowledged: 1, n_foreign: 2, ..base() },
        );
        // A foreign one that is doubled is both, once.
        check(&[], &[7, 7], LedgerRecord { n_foreign: 1, n_doubled: 1, ..base() });
    }

    #[test]
    fn what_a_server_acknowledged_alone_after_another_took_over_is_of_two_primaries() {
        let executions: Vec<Execution> = (1..=5).map(|n| ended(n, ExecutionEnd::Committed, n)).collect();
        let (old, new) = (node("primary", &[1, 2, 3, 4]), node("s1", &[1, 3, 5]));
        let takeover = Takeover { at_ns: 3 * S, tokens: &new };
        let record = judge(&old, &executions, Some(takeover));
        // 2 was lost before, 3 is on both, 5 is on the new one alone.
        assert_eq!((record.n_of_two_primaries, record.n_lost), (1, 1));
        let record = judge(&new, &executions, Some(takeover));
        assert_eq!((record.n_of_two_primaries, record.n_lost, record.lost_ns), (0, 2, Some((2 * S, 4 * S))));
    }

    #[test]
    fn tokens_are_read_as_they_are_written() {
        let check = |text: &str, expected: Option<(u32, u64)>| {
            assert_eq!(
                CommitToken::parse(text),
                expected.map(|(client, number)| CommitToken { client, number }),
                "{text}"
            );
        };
        check("17.345                ", Some((17, 345)));
        check("0.1", Some((0, 1)));
        check("99999.18446744073709551615", Some((99_999, u64::MAX)));
        for text in ["", "17", "17.", "a.b", "1.2.3", "-1.2"] {
            check(text, None);
        }
    }
}
