//! Collects what is wrong with an experiment, so that all of it is reported at once.

/// Most problems in one message.
const PROBLEMS_MAX: usize = 20;

/// Problems in the order in which they were found, each once.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<String>,
}

impl Problems {
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether more would not be reported.
    pub(crate) fn are_enough(&self) -> bool {
        self.found.len() >= PROBLEMS_MAX
    }

    pub(crate) fn say(&mut self, problem: String) {
        if !self.are_enough() && !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }

    /// The value, or `None` after noting why there is none.
    pub(crate) fn take<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|problem| self.say(problem)).ok()
    }

    /// The value if there is no problem; else all of them, one a line.
    ///
    /// # Errors
    /// When there is a problem.
    pub(crate) fn end<T>(self, value: Option<T>) -> Result<T, String> {
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ => Err(self.found.join("\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_reported_once_and_in_order() {
        let mut problems = Problems::default();
        assert_eq!(problems.take(Ok(1)), Some(1));
        assert!(problems.is_empty());
        for problem in ["b", "a", "b"] {
            assert_eq!(problems.take::<u32>(Err(problem.to_string())), None);
        }
        assert_eq!(problems.end(Some(1)), Err("b\na".to_string()));
        assert_eq!(Problems::default().end(Some(1)), Ok(1));
    }
}
