//! What scripts exchange with the outside world: command lines for a shell, the numbers that they print, and the
//! columns of results. The caller runs the commands and reads the results; this file only formats and parses text.

use crate::number;
use crate::script::interpreter::{Interpreter, RunError, Unsendable};
use crate::script::program::{Program, ScriptCommand, ShellWord};
use crate::script::value::Value;
use crate::script::variables::is_valid_name;

/// Longest command line in bytes, its final zero included, as in pgbench.
const SHELL_COMMAND_BYTES: usize = 256;
/// Most bytes of a shell's answer that are read, as in pgbench.
const ANSWER_BYTES_MAX: usize = 63;

/// pgbench's words for a `\shell` or `\setshell` that failed.
const FAILED: &str = "execution of meta-command failed";

impl Interpreter {
    /// The command line of the `\shell` or `\setshell` that was handed out last.
    ///
    /// # Errors
    /// A variable that is not set, or NULL unless pgbench's dialect makes a text of it, or a line longer than pgbench allows.
    pub fn shell_line(&self, program: &Program) -> Result<String, RunError> {
        let words = self.shell_words(program);
        let name = self.shell_name(program);
        let mut line = Vec::new();
        for (i, word) in words.iter().enumerate() {
            if i > 0 {
                line.push(b' ');
            }
            match word {
                ShellWord::Text(text) => line.extend_from_slice(text.as_bytes()),
                ShellWord::Variable(variable) => {
                    if self.is_null(*variable) {
                        let why = Unsendable::NullInText(*variable).cause(&program.variables);
                        return Err(self.failed(program, FAILED, format!("{name}: {why}")));
                    }
                    if !self.text(*variable, &mut line) {
                        let cause =
                            format!("{name}: undefined variable \":{}\"", program.variables.name(*variable));
                        return Err(self.failed(program, FAILED, cause));
                    }
                }
            }
            if line.len() >= SHELL_COMMAND_BYTES - 1 {
                return Err(self.failed(program, FAILED, format!("{name}: shell command is too long")));
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Assigns what the command of a `\setshell` wrote: an integer on its first line.
    ///
    /// # Errors
    /// Anything else.
    pub fn take_shell_answer(&mut self, program: &Program, output: &[u8]) -> Result<(), RunError> {
        let ScriptCommand::SetShell { variable, .. } = &program.commands[self.current()].command else {
            return Ok(());
        };
        let line = output.split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(&line[..line.len().min(ANSWER_BYTES_MAX)]);
        let Some(number) = shell_integer(&line) else {
            let name = self.shell_name(program);
            let cause = format!("{name}: shell command must return an integer (not \"{line}\")");
            return Err(self.failed(program, FAILED, cause));
        };
        let name = program.variables.name(*variable);
        if !is_valid_name(name) {
            let cause = format!("setshell: invalid variable name: \"{name}\"");
            return Err(self.failed(program, FAILED, cause));
        }
        self.set_value(*variable, Value::Int(number));
        Ok(())
    }

    /// The error for a shell that failed in a way that only the caller has seen.
    pub fn shell_error(&self, program: &Program, what: &str) -> RunError {
        let cause = format!("{}: {what}", self.shell_name(program));
        self.failed(program, FAILED, cause)
    }

    /// Assigns a column of a result, `None` for NULL. A name that no script mentions is dropped.
    ///
    /// # Errors
    /// `context` (`gset` or `aset`) and what is wrong with the name.
    pub fn assign_column(
        &mut self,
        program: &Program,
        context: &str,
        name: &str,
        value: Option<&[u8]>,
    ) -> Result<(), String> {
        match program.variables.find(name) {
            Some(variable) => self.set_column(variable, value),
            None if is_valid_name(name) => {}
            None => return Err(format!("{context}: invalid variable name: \"{name}\"")),
        }
        Ok(())
    }

    fn shell_words<'p>(&self, program: &'p Program) -> &'p [ShellWord] {
        match &program.commands[self.current()].command {
            ScriptCommand::Shell { words } | ScriptCommand::SetShell { words, .. } => words,
            _ => &[],
        }
    }

    /// The first word, by which pgbench's messages name the command.
    fn shell_name(&self, program: &Program) -> String {
        match self.shell_words(program).first() {
            // Of two colons in front, the first is not there any more.
            Some(ShellWord::Text(text)) if text.starts_with(':') => format!(":{text}"),
            Some(ShellWord::Text(text)) => text.clone(),
            Some(ShellWord::Variable(variable)) => format!(":{}", program.variables.name(*variable)),
            None => String::new(),
        }
    }
}

/// C's `(int) strtol` with blanks allowed around the number; a line of blanks is 0.
fn shell_integer(line: &str) -> Option<i64> {
    if line.is_empty() {
        return None;
    }
    let trimmed = line.trim_matches(number::is_c_space);
    if trimmed.is_empty() {
        return Some(0);
    }
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let clamp = if trimmed.starts_with('-') { i64::MIN } else { i64::MAX };
    let number: i64 = trimmed.parse().unwrap_or(clamp);
    Some(i64::from(number as i32))
}

#[cfg(test)]
mod tests {
    use super::shell_integer;

    #[test]
    fn a_shell_answers_with_an_integer() {
        for (line, wanted) in [
            ("7\n", Some(7)),
            ("  -12  \n", Some(-12)),
            ("\n", Some(0)),
            ("4294967297\n", Some(1)),
            ("", None),
            ("seven\n", None),
            ("7 8\n", None),
            ("+\n", None),
        ] {
            assert_eq!(shell_integer(line), wanted, "{line:?}");
        }
    }
}
