//! Cuts the statements of one session into transactions: by their virtual transaction ids, by `BEGIN` and `COMMIT`, and by the id
//! `n/0`, which a statement has that ended its transaction [tried on PostgreSQL 15].

use crate::balance::OmissionReason;
use crate::log::VirtualTransaction;
use crate::statement::StatementRole;
use crate::transaction::{Cut, CutStep, CutTransaction};

/// Most statements of a transaction.
pub const STEPS_MAX: usize = 10_000;
/// Most bytes of the values of a transaction.
const BYTES_MAX: usize = 16 << 20;
/// SQLSTATE of statements after an error.
const IN_FAILED_TRANSACTION: [u8; 5] = *b"25P02";

/// A statement on its way into a transaction.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The kind.
    pub role: StatementRole,
    /// The virtual transaction id of its line.
    pub transaction: Option<VirtualTransaction>,
    /// Whether others follow in the same message.
    pub is_followed: bool,
    /// The statement.
    pub step: CutStep,
}

/// The open transaction of one session.
#[derive(Debug)]
pub struct Cutter {
    session: u32,
    open: Option<Open>,
    /// Whether the log shows the session from its beginning, or at least one transaction of it.
    is_seen: bool,
}

#[derive(Debug)]
struct Open {
    id: Option<VirtualTransaction>,
    is_block: bool,
    has_failed: bool,
    refused: Option<OmissionReason>,
    steps: Vec<CutStep>,
    n_bytes: usize,
}

impl Open {
    fn new(id: Option<VirtualTransaction>, is_block: bool) -> Open {
        Open { id, is_block, has_failed: false, refused: None, steps: Vec::new(), n_bytes: 0 }
    }
}

/// Whether the id is one of a transaction that goes on.
fn is_running(id: Option<VirtualTransaction>) -> bool {
    id.is_some_and(|id| id.local != 0)
}

impl Cutter {
    /// The cutter of a session, which `is_new` if the log shows its beginning.
    pub fn new(session: u32, is_new: bool) -> Cutter {
        Cutter { session, open: None, is_seen: is_new }
    }

    /// Takes a statement; transactions that end with it, or before it, go into `out`.
    pub fn take(&mut self, incoming: Incoming, out: &mut Vec<Cut>) {
        let id = incoming.transaction;
        if let Some(open) = &self.open
            && !belongs(open, &incoming)
        {
            self.close(OmissionReason::Incomplete, out);
        }
        match incoming.role {
            StatementRole::Begin => {
                if self.open.as_ref().is_none_or(|open| !open.is_block) {
                    self.close(OmissionReason::Incomplete, out);
                    self.open = Some(Open::new(id, true));
                }
                self.push(incoming, out);
            }
            StatementRole::End { chains } => {
                let first = self.open.as_ref().and_then(|open| open.steps.first()).cloned();
                let is_block = self.open.as_ref().is_some_and(|open| open.is_block);
                let is_inside = incoming.step.is_inside;
                let start_us = incoming.step.start_us.saturating_add_unsigned(incoming.step.time_us);
                self.push(incoming, out);
                if is_block {
                    self.finish(out);
                } else {
                    let reason =
                        if self.is_seen { OmissionReason::Incomplete } else { OmissionReason::WindowEdge };
                    self.lose(reason, out);
                }
                if chains
                    && is_block
                    && let Some(first) = first
                {
                    let mut open = Open::new(None, true);
                    open.steps.push(CutStep {
                        share: Default::default(),
                        time_us: 0,
                        is_inside,
                        start_us,
                        ..first
                    });
                    self.open = Some(open);
                }
            }
            _ => {
                let is_followed = incoming.is_followed;
                self.push(incoming, out);
                let is_block = self.open.as_ref().is_some_and(|open| open.is_block);
                if !is_block && !is_followed && !is_running(id) {
                    self.finish(out);
                }
            }
        }
    }

    /// The session ended: a block that it had not ended is rolled back.
    pub fn session_ended(&mut self, out: &mut Vec<Cut>) {
        self.close(OmissionReason::Incomplete, out);
    }

    /// The log ended.
    pub fn log_ended(&mut self, out: &mut Vec<Cut>) {
        self.close(OmissionReason::WindowEdge, out);
    }

    fn push(&mut self, incoming: Incoming, out: &mut Vec<Cut>) {
        let open = self.open.get_or_insert_with(|| Open::new(incoming.transaction, false));
        if open.id.is_none() || (!is_running(open.id) && is_running(incoming.transaction)) {
            open.id = incoming.transaction;
        }
        let refused = match incoming.role {
            StatementRole::Refused(reason) => Some(reason),
            _ => None,
        };
        open.refused = open.refused.or(refused);
        open.has_failed |= incoming.step.error.is_some();
        if incoming.step.error == Some(IN_FAILED_TRANSACTION) {
            let alone = CutTransaction { session: self.session, steps: vec![incoming.step], is_block: false };
            out.push(Cut::LeftOut(OmissionReason::Error, alone));
            return;
        }
        open.n_bytes += incoming.step.values.iter().map(|value| value.n_bytes()).sum::<usize>();
        open.steps.push(incoming.step);
        if open.steps.len() >= STEPS_MAX || open.n_bytes > BYTES_MAX {
            // What follows belongs to the same transaction, of which nothing is kept.
            open.refused = Some(OmissionReason::TooLong);
            let steps = std::mem::take(&mut open.steps);
            open.n_bytes = 0;
            out.push(Cut::LeftOut(
                OmissionReason::TooLong,
                CutTransaction { session: self.session, steps, is_block: false },
            ));
        }
    }

    /// What is open ends here: it is whole unless it is a block.
    fn close(&mut self, reason: OmissionReason, out: &mut Vec<Cut>) {
        match &self.open {
            Some(open) if open.is_block => self.lose(reason, out),
            Some(_) => self.finish(out),
            None => {}
        }
    }

    fn finish(&mut self, out: &mut Vec<Cut>) {
        let Some(open) = self.open.take() else { return };
        self.is_seen = true;
        let transaction =
            CutTransaction { session: self.session, steps: open.steps, is_block: open.is_block };
        if transaction.steps.is_empty() {
            return;
        }
        out.push(match open.refused {
            Some(reason) => Cut::LeftOut(reason, transaction),
            None => Cut::Whole(transaction),
        });
    }

    fn lose(&mut self, reason: OmissionReason, out: &mut Vec<Cut>) {
        let Some(open) = self.open.take() else { return };
        self.is_seen = true;
        let transaction =
            CutTransaction { session: self.session, steps: open.steps, is_block: open.is_block };
        if !transaction.steps.is_empty() {
            out.push(Cut::LeftOut(open.refused.unwrap_or(reason), transaction));
        }
    }
}

/// Whether a statement is one of the open transaction.
fn belongs(open: &Open, incoming: &Incoming) -> bool {
    let (id, next) = (open.id, incoming.transaction);
    if is_running(id) && is_running(next) {
        return id == next;
    }
    let is_end = matches!(incoming.role, StatementRole::End { .. });
    // After an error a transaction has no id until it is rolled back.
    let is_outside = next.is_some_and(|next| next.local == 0) && is_running(id);
    open.is_block && (is_end || open.has_failed || !is_outside)
        || !open.is_block && (is_end || !is_running(id) && !is_running(next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::TimeShare;
    use crate::statement::Kind;
    use crate::statement::kind::role;
    use crate::statement::lexer::{Backslash, tokens};

    /// Lines as `id text`, with `!` for an error; the result has a word for each transaction.
    fn check(is_new: bool, lines: &[&str], expected: &[&str]) {
        let mut cutter = Cutter::new(1, is_new);
        let mut out = Vec::new();
        for line in lines {
            let (id, text) = line.split_once(' ').unwrap();
            let transaction =
                id.trim_end_matches('!').parse().ok().map(|local| VirtualTransaction { backend: 3, local });
            let step = CutStep {
                form: u32::from(text.as_bytes()[0]),
                values: Box::default(),
                start_us: 0,
                time_us: 1,
                share: TimeShare { calls: 1, time_us: 1 },
                is_inside: true,
                error: id.ends_with('!').then_some(*b"23505"),
                lacks_values: false,
                number: 0,
            };
            let role = match text.len() {
                1 => StatementRole::Work(Kind::Select),
                _ => role(text, &tokens(text, Backslash::Plain)),
            };
            cutter.take(Incoming { role, transaction, is_followed: false, step }, &mut out);
        }
        cutter.log_ended(&mut out);
        let word = |transaction: &CutTransaction| -> String {
            transaction.steps.iter().map(|step| char::from(step.form as u8)).collect()
        };
        let found: Vec<String> = out
            .iter()
            .map(|cut| match cut {
                Cut::Whole(transaction) => word(transaction),
                Cut::LeftOut(reason, transaction) => format!("{reason} {}", word(transaction)),
            })
            .collect();
        assert_eq!(found, expected, "{lines:?}");
    }

    #[test]
    fn blocks_and_single_statements_are_transactions() {
        check(true, &["5 begin", "5 x", "5 y", "0 commit", "0 z", "0 w"], &["bxyc", "z", "w"]);
        // The extended protocol writes the line of a single statement before its transaction ends.
        check(true, &["5 x", "6 y", "7 begin", "7 z", "0 end"], &["x", "y", "bze"]);
        // Several of them until Sync are one transaction.
        check(true, &["5 x", "5 y", "6 z"], &["xy", "z"]);
        // Without ids.
        check(true, &["- begin", "- x", "- commit", "- y"], &["bxc", "y"]);
    }

    #[test]
    fn what_is_not_whole_is_left_out() {
        check(false, &["5 x", "0 commit", "0 y"], &["window-edge xc", "y"]);
        check(false, &["0 commit", "0 y", "0 commit"], &["window-edge c", "y", "incomplete c"]);
        check(true, &["5 begin", "5 x", "6 begin", "6 y", "0 commit"], &["incomplete bx", "byc"]);
        check(true, &["5 begin", "5 x"], &["window-edge bx"]);
        check(true, &["5 begin", "5 x", "0 y"], &["incomplete bx", "y"]);
    }

    #[test]
    fn a_failed_transaction_ends_with_its_rollback() {
        check(true, &["5 begin", "5! x", "0 y", "0 rollback", "0 z"], &["bxyr", "z"]);
        check(true, &["5! x", "0 y"], &["x", "y"]);
    }

    #[test]
    fn chains_and_refusals() {
        check(true, &["5 begin", "5 x", "0 commit and chain", "7 y", "0 commit"], &["bxc", "byc"]);
        check(true, &["5 begin", "5 vacuum", "5 x", "0 commit"], &["maintenance bvxc"]);
        check(true, &["5 begin", "5 savepoint a", "5 rollback to a", "0 commit"], &["bsrc"]);
    }
}
