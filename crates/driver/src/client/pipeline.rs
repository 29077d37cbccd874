//! Statements sent without waiting for earlier results: what is under way, and what was answered.

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
}

/// A message of a pipeline.
#[derive(Debug, Clone, Copy)]
enum Sent {
    Statement {
        index: usize,
        at: Nanos,
        /// When its answer came; 0 while there is none.
        answered: Nanos,
    },
    /// `\syncpipeline` or `\endpipeline`.
    Sync,
    /// The Sync behind the Parse of a statement, which comes before the pipeline's own messages.
    SyncOfParse { index: usize },
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
        self.sent.push(Sent::Statement { index, at, answered: 0 });
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
    pub(crate) fn acknowledged(&mut self, now: Nanos) -> bool {
        let Some(Sent::Statement { answered, .. }) = self.sent.get_mut(self.next) else { return false };
        *answered = now;
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
        self.n_syncs = self.n_syncs.saturating_sub(1);
        let is_over = self.is_ending && self.n_syncs == 0;
        if is_over {
            self.is_on = false;
        }
        Some(is_over)
    }

    /// The statements not answered yet.
    pub(crate) fn open(&self) -> impl Iterator<Item = usize> {
        self.sent.iter().skip(self.next).filter_map(|sent| match sent {
            Sent::Statement { index, .. } => Some(*index),
            Sent::Sync | Sent::SyncOfParse { .. } => None,
        })
    }

    /// The statements that succeeded, with the time from send to answer.
    pub(crate) fn answered(&self) -> impl Iterator<Item = (usize, Nanos)> {
        self.sent.iter().filter_map(|sent| match *sent {
            Sent::Statement { index, at, answered } if answered > 0 => {
                Some((index, answered.saturating_sub(at)))
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
        assert!(pipeline.acknowledged(15));
        assert_eq!(pipeline.open().collect::<Vec<_>>(), [1, 2, 3]);
        pipeline.failed();
        assert_eq!(pipeline.failure(), Some((1, 0)));
        assert_eq!(pipeline.synced(), Some(false));
        assert!(pipeline.acknowledged(20));
        assert_eq!((pipeline.synced(), pipeline.is_on), (Some(true), false));
        assert_eq!(pipeline.answered().collect::<Vec<_>>(), [(0, 5), (3, 10)]);
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
        assert!(pipeline.acknowledged(15));
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
        assert!(pipeline.synced().is_none() && !pipeline.acknowledged(1), "nothing was sent");
        pipeline.push(0, 10);
        pipeline.push_sync();
        pipeline.is_ending = true;
        assert_eq!(pipeline.synced(), None, "the statement has no answer");
        assert!(pipeline.acknowledged(15) && !pipeline.acknowledged(16));
        assert_eq!((pipeline.synced(), pipeline.synced()), (Some(true), None));
    }
}
