//! Backslash commands of scripts: names, arguments, and what is wrong with them.

use crate::script::expr;
use crate::script::lexer::{Lexer, SyntaxError, Token};
use crate::script::program::{Delay, ScriptCommand, ScriptError, ShellWord};
use crate::script::statement::{Fetch, TextPiece, rows};
use crate::script::variables::{VariableTable, is_valid_name};

/// Most words of a command, its name included.
const WORDS_MAX: usize = 256;

/// Where a backslash command stands.
pub(crate) struct CommandPlace<'a> {
    pub(crate) file: &'a str,
    pub(crate) source: &'a str,
    pub(crate) line: usize,
    /// Offset of the backslash.
    pub(crate) start: usize,
    /// Commands that do not exist here.
    pub(crate) without: &'a [&'a str],
    /// Names of loops; `None` where there is no `\repeat`.
    pub(crate) loops: Option<&'a [&'a str]>,
}

/// What a backslash turned out to be.
pub(crate) enum MetaCommand {
    /// A lone backslash.
    Nothing,
    Command {
        command: ScriptCommand,
        label: String,
    },
    /// `\gset` or `\aset`: belongs to the statement before it.
    Fetch(Fetch),
    /// `\copydata`: rows for the COPY before it.
    CopyData(Vec<TextPiece>),
}

/// A word and its offset in the script.
type Word<'a> = (&'a str, usize);

/// Parses the command after the backslash at `place`; also returns the offset at which SQL continues.
pub(crate) fn parse(
    place: &CommandPlace<'_>,
    variables: &mut VariableTable,
) -> Result<(MetaCommand, usize), ScriptError> {
    let mut lexer = Lexer::new(place.source, place.start + 1);
    let Some((name, _)) = lexer.word() else {
        return Ok((MetaCommand::Nothing, lexer.position()));
    };
    let lower = name.to_ascii_lowercase();
    let command = match lower.as_str() {
        "set" | "if" | "elif" => expression_command(place, &mut lexer, name, &lower, variables)?,
        _ => {
            let mut words = Vec::new();
            while let Some(word) = lexer.word() {
                if words.len() + 1 >= WORDS_MAX {
                    return Err(place.error(name, "too many arguments"));
                }
                words.push(word);
            }
            let fault = Fault { place, name, line: &place.source[place.start..lexer.clone().finish()] };
            match word_command(&fault, &lower, &words, variables)? {
                Worded::Fetch(fetch) => return Ok((MetaCommand::Fetch(fetch), lexer.position())),
                Worded::CopyData => {
                    let (data, end) = copy_data(&fault, place.source, lexer.finish())?;
                    return Ok((MetaCommand::CopyData(rows(data, variables)), end));
                }
                Worded::Command(command) => command,
            }
        }
    };
    let end = lexer.position();
    let label = place.source[place.start..lexer.finish()].to_owned();
    Ok((MetaCommand::Command { command, label }, end))
}

fn expression_command(
    place: &CommandPlace<'_>,
    lexer: &mut Lexer<'_>,
    name: &str,
    lower: &str,
    variables: &mut VariableTable,
) -> Result<ScriptCommand, ScriptError> {
    let mut target = "";
    if lower == "set" {
        target = lexer.word().ok_or_else(|| place.error(name, "missing argument"))?.0;
    }
    let expr =
        expr::parse(lexer, variables).map_err(|error| place.syntax_error(name, error, lexer.clone()))?;
    Ok(match lower {
        "if" => ScriptCommand::If { condition: expr, otherwise: 0 },
        "elif" => ScriptCommand::Elif { condition: expr, otherwise: 0, end: 0 },
        _ => ScriptCommand::Set {
            variable: variables.intern(target),
            expr,
            is_valid_name: is_valid_name(target),
        },
    })
}

enum Worded {
    Command(ScriptCommand),
    Fetch(Fetch),
    CopyData,
}

/// The lines from the end of the command's line to one that is `\.`, and the offset after that.
fn copy_data<'a>(
    fault: &Fault<'_>,
    source: &'a str,
    end_of_line: usize,
) -> Result<(&'a str, usize), ScriptError> {
    let found = ended_data(source, end_of_line);
    found.ok_or_else(|| fault.error("the data has no end: a line with \\. must follow it", None))
}

fn ended_data(source: &str, end_of_line: usize) -> Option<(&str, usize)> {
    let start = source[end_of_line..].find('\n').map_or(source.len(), |newline| end_of_line + newline + 1);
    let mut at = start;
    for line in source[start..].split_inclusive('\n') {
        if line.trim_end_matches(['\n', '\r']) == "\\." {
            return Some((&source[start..at], at + line.len()));
        }
        at += line.len();
    }
    None
}

/// The name of the command after the backslash before `position`, in lower case, and the offset at which SQL continues, whatever the
/// command's arguments are.
pub(crate) fn name_and_end(source: &str, position: usize) -> (String, usize) {
    let mut lexer = Lexer::new(source, position);
    let name = lexer.word().map_or(String::new(), |(name, _)| name.to_ascii_lowercase());
    let end_of_line = lexer.finish();
    let end = match name.as_str() {
        "copydata" => ended_data(source, end_of_line).map_or(source.len(), |(_, end)| end),
        _ => lexer.position(),
    };
    (name, end)
}

fn word_command(
    fault: &Fault<'_>,
    lower: &str,
    words: &[Word<'_>],
    variables: &mut VariableTable,
) -> Result<Worded, ScriptError> {
    let prefix = || words.first().map_or(String::new(), |(prefix, _)| (*prefix).to_owned());
    let command = match lower {
        later if fault.place.without.contains(&later) => return Err(fault.error("invalid command", None)),
        "sleep" => ScriptCommand::Sleep(delay(fault, words, variables)?),
        "shell" if words.is_empty() => return Err(fault.error("missing command", None)),
        "shell" => ScriptCommand::Shell { words: shell_words(words, variables) },
        "setshell" if words.len() < 2 => return Err(fault.error("missing argument", None)),
        "setshell" => ScriptCommand::SetShell {
            variable: variables.intern(words[0].0),
            words: shell_words(&words[1..], variables),
        },
        "else" | "endif" | "startpipeline" | "syncpipeline" | "endpipeline" if !words.is_empty() => {
            return Err(fault.error("unexpected argument", None));
        }
        "else" => ScriptCommand::Else { end: 0 },
        "endif" => ScriptCommand::Endif,
        "startpipeline" => ScriptCommand::StartPipeline,
        "syncpipeline" => ScriptCommand::SyncPipeline,
        "endpipeline" => ScriptCommand::EndPipeline,
        "repeat" if fault.place.loops.is_some() => repeat(fault, words, variables)?,
        "endrepeat" if fault.place.loops.is_some() && words.is_empty() => {
            ScriptCommand::EndRepeat { each: 0, start: 0 }
        }
        "copydata" if !words.is_empty() => return Err(fault.error("unexpected argument", None)),
        "copydata" => return Ok(Worded::CopyData),
        "gset" | "aset" if words.len() > 1 => return Err(fault.error("too many arguments", None)),
        "gset" => return Ok(Worded::Fetch(Fetch::Gset { prefix: prefix() })),
        "aset" => return Ok(Worded::Fetch(Fetch::Aset { prefix: prefix() })),
        _ => return Err(fault.error("invalid command", None)),
    };
    Ok(Worded::Command(command))
}

/// `NAME :n`: a loop and the variable with the number of its rounds.
fn repeat(
    fault: &Fault<'_>,
    words: &[Word<'_>],
    variables: &mut VariableTable,
) -> Result<ScriptCommand, ScriptError> {
    let loops = fault.place.loops.unwrap_or_default();
    let [(name, at), (count, count_at)] = words else {
        return Err(fault.error("expected the name of a loop and a variable, as in \\repeat lines :n", None));
    };
    let found = loops.iter().zip(0u16..).find(|(known, _)| *known == name);
    let Some((_, each)) = found else {
        return Err(fault.error("the transaction declares no such loop", Some((Some(name), *at))));
    };
    let variable = count.strip_prefix(':').filter(|name| is_valid_name(name));
    let Some(variable) = variable else {
        return Err(fault.error("the number of rounds is a variable", Some((Some(count), *count_at))));
    };
    Ok(ScriptCommand::Repeat { each, count: variables.intern(variable), end: 0 })
}

/// `n`, `:variable`, with a unit after a blank, or immediately after a number.
fn delay(fault: &Fault<'_>, words: &[Word<'_>], variables: &mut VariableTable) -> Result<Delay, ScriptError> {
    let (amount, offset) = *words.first().ok_or_else(|| fault.error("missing argument", None))?;
    if let Some((_, offset)) = words.get(2) {
        return Err(fault.error("too many arguments", Some((None, *offset))));
    }
    let mut unit = words.get(1).copied();
    let unsigned = amount.strip_prefix(['+', '-']).unwrap_or(amount);
    let digits_end = amount.len() - unsigned.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let is_variable = amount.starts_with(':');
    if !is_variable && digits_end < amount.len() {
        let has_digit = amount[..digits_end].ends_with(|c: char| c.is_ascii_digit());
        if unit.is_some() || !has_digit {
            let message = "invalid sleep time, must be an integer";
            return Err(fault.error(message, Some((Some(amount), offset))));
        }
        unit = Some((&amount[digits_end..], offset + digits_end));
    }
    let unit_us = match unit {
        None => 1_000_000,
        Some((word, _)) if word.eq_ignore_ascii_case("s") => 1_000_000,
        Some((word, _)) if word.eq_ignore_ascii_case("ms") => 1_000,
        Some((word, _)) if word.eq_ignore_ascii_case("us") => 1,
        Some((word, offset)) => {
            let message = "unrecognized time unit, must be us, ms or s";
            return Err(fault.error(message, Some((Some(word), offset))));
        }
    };
    if is_variable {
        return Ok(Delay::Variable { variable: variables.intern(&amount[1..]), unit_us });
    }
    Ok(Delay::Fixed { us: leading_int(amount.as_bytes()).saturating_mul(unit_us) })
}

/// C's `atoi`, except that large numbers stop at the ends of the range.
pub(crate) fn leading_int(text: &[u8]) -> i64 {
    let start = text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(text.len());
    let text = &text[start..];
    let (sign, digits) = match text.first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let magnitude =
        digits.fold(0i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    sign * magnitude
}

fn shell_words(words: &[Word<'_>], variables: &mut VariableTable) -> Vec<ShellWord> {
    let word = |(word, _): &Word<'_>| match word.strip_prefix(':') {
        Some(rest) if rest.starts_with(':') => ShellWord::Text(rest.to_owned()),
        Some(name) => ShellWord::Variable(variables.intern(name)),
        None => ShellWord::Text((*word).to_owned()),
    };
    words.iter().map(word).collect()
}

/// A complete command, to be shown with its error.
struct Fault<'a> {
    place: &'a CommandPlace<'a>,
    name: &'a str,
    line: &'a str,
}

impl Fault<'_> {
    /// `at`: the word at fault, if the message names one, and its offset in the script.
    fn error(&self, message: &str, at: Option<(Option<&str>, usize)>) -> ScriptError {
        let detail = at.and_then(|(word, _)| word);
        let column = at.map(|(_, offset)| offset - self.place.start);
        self.place.error_at(self.name, message, detail, Some(self.line), column)
    }
}

impl CommandPlace<'_> {
    fn error(&self, name: &str, message: &str) -> ScriptError {
        self.error_at(name, message, None, None, None)
    }

    /// pgbench reads on to the end of the line, to show it. If it cannot read that, this becomes the error that it
    /// reports.
    fn syntax_error(&self, name: &str, first: SyntaxError, mut lexer: Lexer<'_>) -> ScriptError {
        let mut error = first;
        loop {
            match lexer.token() {
                Ok(Token::EndOfCommand) => break,
                Ok(_) => {}
                Err(later) => error = later,
            }
        }
        let line = &self.source[self.start..lexer.finish()];
        // The caret stands below the last byte of the token.
        let column = error.end.saturating_sub(1 + self.start);
        self.error_at(name, error.message, error.detail.as_deref(), Some(line), Some(column))
    }

    /// `column` counts bytes from the backslash.
    fn error_at(
        &self,
        name: &str,
        message: &str,
        detail: Option<&str>,
        line: Option<&str>,
        column: Option<usize>,
    ) -> ScriptError {
        let detail = detail.map_or(String::new(), |detail| format!(" ({detail})"));
        ScriptError {
            file: self.file.to_owned(),
            line: self.line,
            column: column.map(|column| column + 1),
            message: format!("{}:{}: {message}{detail} in command \"{name}\"", self.file, self.line),
            source_line: line.map(str::to_owned),
        }
    }
}
