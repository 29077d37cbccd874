//! Notices and warnings that the server raises under load. Some are reported, the others only counted: a script may raise
//! one per statement, and reporting must not cost more than the load itself.

use wire::ServerError;

/// Most notices of one piece of input that are read.
const READ_MAX: usize = 16;
/// Most notices that a thread reports in a second, unless all are wanted.
const REPORTED_MAX: u32 = 100;
/// Most even then, and most bytes of them: reported notices stay in memory until the parent reads them.
const ALL_REPORTED_MAX: u32 = 10_000;
const REPORTED_BYTES_MAX: usize = 16 << 20;

/// A notice that nobody has looked at yet.
#[derive(Debug)]
pub(crate) struct UnreadNotice {
    pub(crate) notice: ServerError,
    /// Whether the Parse of the client's statement raised it: its position then refers to the statement's text.
    pub(crate) is_of_parse: bool,
}

/// Notices of one client.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Report all of them.
    pub(crate) are_all_read: bool,
    read: Vec<UnreadNotice>,
    n_unread: u64,
}

impl Notices {
    /// Takes in the body of a NoticeResponse.
    #[cold]
    pub(crate) fn take_in(&mut self, body: &[u8], is_of_parse: bool) {
        if self.are_all_read || self.read.len() < READ_MAX {
            self.read.push(UnreadNotice { notice: wire::parse_error(body), is_of_parse })
        } else {
            self.n_unread += 1
        }
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.read.is_empty()
    }
}

/// How many notices a thread may still report in this second.
#[derive(Debug, Default)]
pub(crate) struct NoticeBudget {
    n_reported: u32,
    reported_bytes: usize,
    n_dropped: u64,
}

impl NoticeBudget {
    /// Takes all notices, and returns those to report.
    pub(crate) fn choose(&mut self, notices: &mut Notices) -> Vec<UnreadNotice> {
        let mut read = std::mem::take(&mut notices.read);
        let n_max = if notices.are_all_read { ALL_REPORTED_MAX } else { REPORTED_MAX };
        let n_before = read.len();
        read.retain(|notice| {
            let is_reported = self.n_reported < n_max && self.reported_bytes < REPORTED_BYTES_MAX;
            if is_reported {
                self.n_reported += 1;
                self.reported_bytes += notice.notice.n_bytes();
            }
            is_reported
        });
        self.n_dropped += std::mem::take(&mut notices.n_unread) + (n_before - read.len()) as u64;
        read
    }

    /// Begins a new second, and returns how many notices the last one dropped.
    pub(crate) fn renew(&mut self) -> u64 {
        std::mem::take(self).n_dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_that_are_not_reported_are_counted() {
        let (mut budget, mut n_reported) = (NoticeBudget::default(), 0);
        for _ in 0..10 {
            let mut notices = Notices::default();
            (0..20).for_each(|_| notices.take_in(b"SNOTICE\0Mhello\0\0", false));
            assert!(!notices.is_empty());
            n_reported += budget.choose(&mut notices).len();
            assert!(notices.is_empty());
        }
        assert_eq!((n_reported, budget.renew()), (100, 100));
        assert_eq!(budget.renew(), 0);
        let mut notices = Notices { are_all_read: true, ..Notices::default() };
        (0..500).for_each(|_| notices.take_in(b"SNOTICE\0Mhello\0\0", true));
        assert_eq!((budget.choose(&mut notices).len(), budget.renew()), (500, 0));
        assert!(notices.are_all_read, "also the next ones");
        (0..10_500).for_each(|_| notices.take_in(b"SNOTICE\0Mhello\0\0", true));
        assert_eq!(
            (budget.choose(&mut notices).len(), budget.renew()),
            (10_000, 500),
            "a server may go on for ever"
        );
        let long = [&b"SNOTICE\0M"[..], &[b'x'; 60_000], b"\0\0"].concat();
        (0..1000).for_each(|_| notices.take_in(&long, true));
        let n_reported = budget.choose(&mut notices).len();
        assert!((200..300).contains(&n_reported), "{n_reported} of 60,000 bytes");
    }
}
