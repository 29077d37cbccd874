//! Statements sent without waiting for earlier results: what is under way, and what was answered.

use crate::client::script::control::BlockControl;
use crate::clock::Nanos;

/// A client's pipeline. Empty, and without memory of its own, for clients whose scripts have none.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    /// Between `\startpipeline` and the last answer after `\endpipeline`.
    pub(crate) is_on: bool,
    /// `\endpipeline` was reached: the last answer ends the pipeline.
    pub(crate) is_ending: bool,
    /// Syncs that were sent and not answered.
    n_syncs: u32,
    /// Messages that were sent, in order.
    sent: Vec<Sent>,
    /// The first entry of `sent` that is not answered.
    next: usize,
    /// The first statement that failed, and how many Syncs were answered just before it.
    failure: Option<(usize, u32)>,
    /// A statement has failed since the last Sync that was answered.
    part_has_failed: bool,
}

/// A message of a pipeline.
#[derive(Debug, Clone, Copy)]
enum Sent {
    Statement {
        index: usize,
        at: Nanos,
        /// When its answer came; 0 while there is none.
        answered: Nanos,
        /// Rows that it returned or changed.
        n_rows: u64,
    },
    /// `\syncpipeline` or `\endpipeline`.
    Sync,
    /// The Sync behind the Parse of a statement, which comes before the pipeline's own messages.
    SyncOfParse { index: usize },
}

/// A statement of a pipeline that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnsweredStatement {
    pub(crate) index: usize,
    /// Time from send to answer.
    pub(crate) ns: Nanos,
    pub(crate) n_rows: u64,
}

impl Pipeline {
    /// Begins a pipeline.
    pub(crate) fn start(&mut self) {
        self.is_on = true;
        self.is_ending = false;
        self.n_syncs = 0;
        self.sent.clear();
        self.next = 0;
        self.failure = None;
        self.part_has_failed = false;
    }

    /// Forgets the pipeline, except for the statement that failed.
    pub(crate) fn stop(&mut self) {
        let failure = self.failure;
        self.start();
        self.is_on = false;
        self.failure = failure;
    }

    /// A statement was written.
    pub(crate) fn push(&mut self, index: usize, at: Nanos) {
        self.sent.push(Sent::Statement { index, at, answered: 0, n_rows: 0 });
    }

    /// A Sync was written.
    pub(crate) fn push_sync(&mut self) {
        self.sent.push(Sent::Sync);
        self.n_syncs += 1;
    }

    /// The Parse of a statement that the pipeline needs was written, with a Sync.
    pub(crate) fn push_sync_of_parse(&mut self, index: usize) {
        self.sent.push(Sent::SyncOfParse { index });
        self.n_syncs += 1;
    }

    /// A statement was answered; `false` if none was due.
    #[must_use]
    pub(crate) fn acknowledged(&mut self, now: Nanos, n: u64) -> bool {
        let Some(Sent::Statement { answered, n_rows, .. }) = self.sent.get_mut(self.next) else {
            return false;
        };
        (*answered, *n_rows) = (now, n);
        self.next += 1;
        true
    }

    /// A statement failed: the server skips everything up to the next Sync.
    pub(crate) fn failed(&mut self) {
        if let (None, Some(Sent::Statement { index, .. })) = (self.failure, self.sent.get(self.next)) {
            let before = self.sent[..self.next].iter().rev();
            let n_syncs = before.take_while(|sent| matches!(sent, Sent::Sync)).count() as u32;
            self.failure = Some((*index, n_syncs));
        }
        self.part_has_failed = true;
        self.skip();
    }

    /// The statement whose Parse, before the pipeline, gets the next answer.
    pub(crate) fn parsing(&self) -> Option<usize> {
        match self.sent.get(self.next) {
            Some(Sent::SyncOfParse { index }) => Some(*index),
            _ => None,
        }
    }

    /// The first statement that failed, and its number among the results that libpq returns together: those of Syncs
    /// count with the statement that follows.
    pub(crate) fn failure(&self) -> Option<(usize, u32)> {
        self.failure
    }

    fn skip(&mut self) {
        while matches!(self.sent.get(self.next), Some(Sent::Statement { .. })) {
            self.next += 1;
        }
    }

    /// A Sync was answered. Returns whether that ended the pipeline, or `None` if no Sync was due.
    #[must_use]
    pub(crate) fn synced(&mut self) -> Option<bool> {
        let Some(Sent::Sync | Sent::SyncOfParse { .. }) = self.sent.get(self.next) else { return None };
        self.next += 1;
        self.part_has_failed = false;
        self.n_syncs = self.n_syncs.saturating_sub(1);
        let is_over = self.is_ending && self.n_syncs == 0;
        if is_over {
            self.is_on = false;
        }
        Some(is_over)
    }

    /// Whether the server may have committed something that it has not confirmed by the answer to a Sync. `in_block` says
    /// whether a block was open at the last one that was answered; outside of blocks, a Sync commits what came before it.
    pub(crate) fn may_be_committed(
        &self,
        mut in_block: bool,
        control: impl Fn(usize) -> BlockControl,
    ) -> bool {
        let is_sync = |sent: &Sent| !matches!(sent, Sent::Statement { .. });
        let begun = self.sent[..self.next].iter().rposition(is_sync).map_or(0, |at| at + 1);
        let mut has_failed = self.part_has_failed;
        let mut is_empty = true;
        for (at, sent) in self.sent.iter().enumerate().skip(begun) {
            match *sent {
                Sent::Statement { index, .. } if !has_failed => {
                    let BlockControl { commits, begins } = control(index);
                    if commits && at >= self.next {
                        return true;
                    }
                    in_block = begins || (in_block && !commits);
                    is_empty = false;
                }
                Sent::Sync if !(has_failed || is_empty || in_block) => return true,
                Sent::Sync => (has_failed, is_empty) = (false, true),
                Sent::Statement { .. } | Sent::SyncOfParse { .. } => {}
            }
        }
        false
    }

    /// The statements that succeeded.
    pub(crate) fn answered(&self) -> impl Iterator<Item = AnsweredStatement> {
        self.sent.iter().filter_map(|sent| match *sent {
            Sent::Statement { index, at, answered, n_rows } if answered > 0 => {
                Some(AnsweredStatement { index, ns: answered.saturating_sub(at), n_rows })
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_skips_to_the_next_sync() {
        let mut pipeline = Pipeline::default();
        pipeline.start();
        for index in 0..3 {
            pipeline.push(index, 10);
        }
        pipeline.push_sync();
        pipeline.push(3, 10);
        pipeline.push_sync();
        pipeline.is_ending = true;
        assert!(pipeline.acknowledged(15, 3));
        pipeline.failed();
        assert_eq!(pipeline.failure(), Some((1, 0)));
        assert_eq!(pipeline.synced(), Some(false));
        assert!(pipeline.acknowledged(20, 1));
        assert_eq!((pipeline.synced(), pipeline.is_on), (Some(true), false));
        let answered = |index, ns, n_rows| AnsweredStatement { index, ns, n_rows };
        assert_eq!(pipeline.answered().collect::<Vec<_>>(), [answered(0, 5, 3), answered(3, 10, 1)]);
    }

    #[test]
    fn a_sync_without_an_answer_may_have_committed_what_no_block_holds() {
        // Statements: 0 begins a block, 1 works in it, 2 commits. The server has answered the first `n_answered` messages.
        let control = |index| BlockControl { begins: index == 0, commits: index == 2 };
        let check = |sent: &str, n_answered: usize, expected: bool| {
            let mut pipeline = Pipeline::default();
            pipeline.start();
            for message in sent.chars() {
                match message.to_digit(10) {
                    Some(index) => pipeline.push(index as usize, 10),
                    None => pipeline.push_sync(),
                }
            }
            let mut in_block = false;
            for message in sent.chars().take(n_answered) {
                match message {
                    'S' => assert_eq!(pipeline.synced(), Some(false)),
                    _ => assert!(pipeline.acknowledged(20, 1)),
                }
                in_block = message == '0' || (in_block && message != '2');
            }
            // The server says so with the answer to a Sync.
            in_block &= sent[..n_answered].ends_with('S');
            assert_eq!(
                pipeline.may_be_committed(in_block, control),
                expected,
                "{sent}, {n_answered} answered"
            );
        };
        check("1", 0, false);
        check("1S", 0, true);
        check("1S", 1, true);
        check("1S", 2, false);
        check("S", 0, false);
        check("01S", 0, false);
        check("01S", 2, false);
        check("01S12S", 3, true);
        check("01S1", 3, false);
        check("01S1S", 3, false);
        check("012S", 2, true);
        check("012S", 3, true);
        check("012S", 4, false);
        check("1S1S", 2, true);
        let mut pipeline = Pipeline::default();
        pipeline.start();
        pipeline.push(1, 10);
        pipeline.push_sync();
        pipeline.failed();
        assert!(!pipeline.may_be_committed(false, control), "it was rolled back");
        pipeline.push(1, 10);
        pipeline.push_sync();
        assert!(pipeline.may_be_committed(false, control), "what follows is a transaction of its own");
    }

    #[test]
    fn answers_to_parses_come_first() {
        let mut pipeline = Pipeline::default();
        pipeline.start();
        pipeline.push_sync_of_parse(4);
        pipeline.push_sync_of_parse(5);
        pipeline.push(4, 10);
        pipeline.push_sync();
        pipeline.is_ending = true;
        assert_eq!(pipeline.parsing(), Some(4));
        assert_eq!(pipeline.synced(), Some(false));
        assert_eq!(pipeline.parsing(), Some(5));
        assert_eq!(pipeline.synced(), Some(false));
        assert_eq!(pipeline.parsing(), None);
        pipeline.failed();
        assert_eq!(pipeline.failure(), Some((4, 0)));
        assert_eq!(pipeline.synced(), Some(true));
    }

    #[test]
    fn syncs_before_a_failure_are_counted() {
        let mut pipeline = Pipeline::default();
        pipeline.start();
        pipeline.push(7, 10);
        pipeline.push_sync();
        pipeline.push_sync();
        pipeline.push(8, 10);
        pipeline.push_sync();
        pipeline.is_ending = true;
        assert!(pipeline.acknowledged(15, 3));
        assert_eq!(
            (pipeline.synced(), pipeline.synced(), pipeline.failure()),
            (Some(false), Some(false), None)
        );
        pipeline.failed();
        assert_eq!(pipeline.failure(), Some((8, 2)));
        assert_eq!(pipeline.synced(), Some(true));
    }

    #[test]
    fn an_answer_out_of_turn_is_refused() {
        let mut pipeline = Pipeline::default();
        pipeline.start();
        assert!(pipeline.synced().is_none() && !pipeline.acknowledged(1, 1), "nothing was sent");
        pipeline.push(0, 10);
        pipeline.push_sync();
        pipeline.is_ending = true;
        assert_eq!(pipeline.synced(), None, "the statement has no answer");
        assert!(pipeline.acknowledged(15, 3) && !pipeline.acknowledged(16, 1));
        assert_eq!((pipeline.synced(), pipeline.synced()), (Some(true), None));
    }
}
