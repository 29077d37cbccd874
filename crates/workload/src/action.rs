//! What a client asks of its caller: the next step, and the next transaction.

/// What the caller has to do before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a statement of the program and wait for its result.
    Send {
        /// Index in [`Program::statements`](crate::Program::statements).
        statement: usize,
    },
    /// Wait.
    Sleep {
        /// Nanoseconds.
        ns: u64,
    },
    /// Run the command line of [`Interpreter::shell_line`](crate::Interpreter::shell_line).
    Shell,
    /// Run the command line of [`Interpreter::shell_line`](crate::Interpreter::shell_line) and give its output to [`Interpreter::take_shell_answer`](crate::Interpreter::take_shell_answer).
    SetShell,
    /// Keep the statements that follow without waiting for results.
    StartPipeline,
    /// Let the server answer up to here.
    SyncPipeline,
    /// Wait for all results since the pipeline was started.
    EndPipeline,
    /// The script is over.
    End,
}

/// The transaction that a client of built-in transactions takes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextTransaction {
    /// Index of its program in the bundle.
    pub program: usize,
    /// When it is due, on the caller's clock in nanoseconds; in the past if the client is late.
    pub due_ns: u64,
}
