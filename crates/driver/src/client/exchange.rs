//! One message of a client and its reply: what was asked, and what has come of it.

use wire::ServerError;

use crate::client::fetch::Fetched;
use crate::client::pipeline::Pipeline;

/// The protocol's side of a client: what it waits for.
pub(crate) struct Exchange {
    /// Results of the statement so far, and the most that it can have: one, except with the simple protocol.
    pub(crate) n_results: u32,
    pub(crate) n_results_max: u32,
    /// Rows that its results so far returned or changed, as their tags say.
    pub(crate) n_rows: u64,
    /// ReadyForQuery messages still to come, outside of pipelines. With none to come, the server has nothing to say.
    pub(super) n_awaited: u32,
    /// Scripts may COPY.
    pub(crate) may_copy: bool,
    /// The server waits for the rows of a COPY, or sends some although scripts must not copy.
    pub(crate) is_copying: bool,
    /// The server has asked for rows. If the COPY fails before all of them are read, it answers early.
    pub(crate) has_copied: bool,
    /// The statement's Parse has a Sync of its own, so that its reply comes first.
    pub(crate) awaits_parse: bool,
    /// The error of that Parse.
    pub(crate) parse_error: Option<Box<ServerError>>,
    /// The error of the statement.
    pub(super) error: Option<Box<ServerError>>,
    pub(crate) pipeline: Pipeline,
    /// Statements of the pipeline that could not be parsed.
    pub(crate) refused: Vec<Refused>,
    /// What `\gset` and `\aset` need; only there if some script has one.
    pub(crate) fetched: Option<Box<Fetched>>,
}

/// A statement that could not be parsed.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) statement: usize,
    pub(crate) error: Box<ServerError>,
    /// The error has been reported.
    pub(crate) is_reported: bool,
}

impl Default for Exchange {
    fn default() -> Exchange {
        Exchange {
            n_results: 0,
            n_results_max: u32::MAX,
            n_rows: 0,
            n_awaited: 0,
            may_copy: false,
            is_copying: false,
            has_copied: false,
            awaits_parse: false,
            parse_error: None,
            error: None,
            pipeline: Pipeline::default(),
            refused: Vec::new(),
            fetched: None,
        }
    }
}

impl Exchange {
    /// Nothing is asked on a fresh connection. What scripts may do stays, and what was fetched.
    pub(super) fn reset(&mut self) {
        self.n_awaited = 0;
        self.is_copying = false;
        self.awaits_parse = false;
        self.parse_error = None;
        self.error = None;
        self.pipeline.stop();
        self.refused.clear();
    }

    /// A new message is about to be written: no result has come.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.n_results = 0;
        self.n_rows = 0;
        self.awaits_parse = false;
        self.has_copied = false;
    }

    /// Whether a statement without an error may have `n_results` results.
    #[inline]
    pub(super) fn is_answered_by(&self, n_results: u32) -> bool {
        n_results.wrapping_sub(1) < self.n_results_max
    }
}
