//! Which statements a connection has parsed.

/// Prepared statements of a connection, by their number in the whole load.
#[derive(Debug, Clone, Default)]
pub(crate) struct PreparedStatements {
    pub(crate) is_parsed: Box<[bool]>,
    /// Statements whose Parse was sent since the last ReadyForQuery, in order, and how many were answered.
    pub(crate) asked: Vec<usize>,
    pub(crate) n_answered: usize,
}

impl PreparedStatements {
    /// Nothing is parsed yet.
    pub(crate) fn none(n_statements: usize) -> PreparedStatements {
        PreparedStatements { is_parsed: vec![false; n_statements].into(), ..PreparedStatements::default() }
    }

    /// Whether the statement must be parsed now; from then on it counts as parsed.
    pub(crate) fn ask(&mut self, number: usize) -> bool {
        let is_new = !std::mem::replace(&mut self.is_parsed[number], true);
        if is_new {
            self.asked.push(number);
        }
        is_new
    }

    /// As [`PreparedStatements::ask`], but only once: a statement that cannot be parsed stays missing.
    pub(crate) fn ask_once(&mut self, number: usize) -> bool {
        !std::mem::replace(&mut self.is_parsed[number], true)
    }

    /// Whether every Parse was answered.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.asked.is_empty() && self.n_answered == 0
    }

    /// All answers have come; those that are missing were errors.
    pub(crate) fn settle(&mut self) {
        for number in self.asked.drain(..).skip(self.n_answered) {
            self.is_parsed[number] = false;
        }
        self.n_answered = 0;
    }
}
