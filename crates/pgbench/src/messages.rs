//! Messages in the form of PostgreSQL's programs: `pgbench: error: …`, then `detail:` and `hint:` lines.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use model::secret;
use model::text::visible::visible;

/// Where messages go, and which ones.
pub(crate) struct MessageLog {
    /// Name of the program in front of each message.
    pub(crate) progname: String,
    /// Whether to write debugging output.
    pub(crate) debug: bool,
    is_colored: bool,
    is_terminal: bool,
    sink: Sink,
}

enum Sink {
    Stderr,
    #[cfg(test)]
    Text(String),
}

/// Kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// The program, or a part of its work, ends.
    Error,
    /// Something differs from what the user may expect.
    Warning,
    Info,
    /// More about the message before.
    Detail,
    /// What to do about the message before.
    Hint,
}

impl MessageKind {
    /// The label and its color, as in PostgreSQL's `common/logging.c`.
    fn label(self) -> Option<(&'static str, &'static str)> {
        match self {
            MessageKind::Error => Some(("error: ", "01;31")),
            MessageKind::Warning => Some(("warning: ", "01;35")),
            MessageKind::Detail => Some(("detail: ", "01;36")),
            MessageKind::Hint => Some(("hint: ", "01;36")),
            MessageKind::Info => None,
        }
    }
}

/// Why the program cannot continue, as the lines to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint(Vec<(Option<MessageKind>, String)>);

impl Complaint {
    /// An error.
    pub(crate) fn new(message: impl Into<String>) -> Complaint {
        Complaint(vec![(Some(MessageKind::Error), message.into())])
    }

    /// Text without the program's name in front, as `getopt_long` writes it.
    pub(crate) fn raw(text: impl Into<String>) -> Complaint {
        Complaint(vec![(None, text.into())])
    }

    /// Adds a line.
    pub(crate) fn and(mut self, kind: MessageKind, message: impl Into<String>) -> Complaint {
        self.0.push((Some(kind), message.into()));
        self
    }

    /// Adds text without the program's name in front.
    pub(crate) fn and_raw(mut self, text: impl Into<String>) -> Complaint {
        self.0.push((None, text.into()));
        self
    }

    /// Adds a hint.
    pub(crate) fn hint(self, message: impl Into<String>) -> Complaint {
        self.and(MessageKind::Hint, message)
    }
}

impl MessageLog {
    /// Messages to standard error, colored as `PG_COLOR` says.
    pub(crate) fn to_stderr(progname: &str) -> MessageLog {
        let is_colored = match std::env::var("PG_COLOR").as_deref() {
            Ok("always") => true,
            Ok("auto") => std::io::stderr().is_terminal(),
            _ => false,
        };
        let is_terminal = std::io::stderr().is_terminal();
        MessageLog {
            progname: progname.to_string(),
            debug: false,
            is_colored,
            is_terminal,
            sink: Sink::Stderr,
        }
    }

    /// A log that keeps its messages, for tests.
    #[cfg(test)]
    pub(crate) fn to_text() -> MessageLog {
        MessageLog {
            progname: "pgbench".to_string(),
            debug: false,
            is_colored: false,
            is_terminal: false,
            sink: Sink::Text(String::new()),
        }
    }

    /// The messages so far.
    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        match &self.sink {
            Sink::Text(text) => text,
            Sink::Stderr => "",
        }
    }

    /// Writes a message.
    pub(crate) fn say(&mut self, kind: MessageKind, message: &str) {
        let paint = |code: &str, text: &str| {
            if self.is_colored { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
        };
        let label = kind.label().map_or(String::new(), |(text, code)| paint(code, text));
        let name = paint("01", &format!("{}: ", self.progname));
        let message = self.shown(message.strip_suffix('\n').unwrap_or(message));
        let line = format!("{name}{label}{message}\n");
        self.write(&line);
    }

    /// Writes an error.
    pub(crate) fn error(&mut self, message: &str) {
        self.say(MessageKind::Error, message);
    }

    /// Writes a debug message.
    pub(crate) fn debug(&mut self, message: &str) {
        if self.debug {
            self.say(MessageKind::Info, message);
        }
    }

    /// Writes all lines of a complaint.
    pub(crate) fn complain(&mut self, complaint: &Complaint) {
        for (kind, message) in &complaint.0 {
            match kind {
                Some(kind) => self.say(*kind, message),
                None => {
                    let shown = self.shown(message);
                    self.write(&shown);
                }
            }
        }
    }

    /// Writes results without secrets, as standard output would have them.
    pub(crate) fn results(&mut self, text: &str) {
        let is_json = text.starts_with('{');
        let text = if is_json { secret::hide_json(text) } else { secret::hide_text(text) };
        let shown = self.shown(&text).into_owned();
        self.write(&shown);
    }

    /// A message unchanged, for programs that read pgbench's; on a terminal, control characters are escaped.
    fn shown<'a>(&self, message: &'a str) -> Cow<'a, str> {
        if self.is_terminal { visible(message) } else { Cow::Borrowed(message) }
    }

    /// Writes text unchanged.
    pub(crate) fn write(&mut self, text: &str) {
        match &mut self.sink {
            // A closed standard error is no reason to stop measuring.
            Sink::Stderr => std::io::stderr().lock().write_all(text.as_bytes()).unwrap_or(()),
            #[cfg(test)]
            Sink::Text(kept) => kept.push_str(text),
        }
    }
}

/// The last line of messages about wrong usage.
pub(crate) fn try_help(progname: &str) -> String {
    format!("Try \"{progname} --help\" for more information.")
}

/// A system error in C's words, without Rust's `(os error 2)`.
pub(crate) fn system_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_steered_and_a_program_reads_every_byte() {
        for (is_terminal, expected) in [(false, "a\u{1b}[2J\tb"), (true, "a\\u{1b}[2J\tb")] {
            let mut log = MessageLog { is_terminal, ..MessageLog::to_text() };
            log.error("a\u{1b}[2J\tb");
            log.complain(&Complaint::new("a\u{1b}[2J\tb").and_raw("a\u{1b}[2J\tb"));
            let error = format!("pgbench: error: {expected}\n");
            assert_eq!(log.text(), format!("{error}{error}{expected}"));
        }
    }

    #[test]
    fn colors_take_the_blanks_behind_name_and_label() {
        let mut log = MessageLog { is_colored: true, ..MessageLog::to_text() };
        log.error("no");
        log.say(MessageKind::Info, "yes");
        assert_eq!(
            log.text(),
            "\x1b[01mpgbench: \x1b[0m\x1b[01;31merror: \x1b[0mno\n\x1b[01mpgbench: \x1b[0myes\n"
        );
    }
}
