//! One SQL statement of a script, ready for either protocol.
//!
//! As in pgbench, a variable is any `:name` that is not part of `::`, even within quotes and comments. Each occurrence
//! becomes a separate parameter.

use crate::script::declared::glued::Glued;
use crate::script::sqlfile::line_start;
use crate::script::sqlscan;
use crate::script::variables::{VariableId, VariableTable, is_name_byte, is_name_start};

/// Most parameters that pgbench accepts in a statement under the extended protocol.
pub const PARAMETERS_MAX: usize = 255;

/// First keywords of statements that may change how others are parsed: they may create or redirect the objects that
/// those use.
const CHANGES_PARSING: [&str; 10] =
    ["alter", "call", "create", "declare", "do", "drop", "import", "prepare", "set", "reset"];

/// Longest label in bytes, as in pgbench's reports.
const LABEL_BYTES_MAX: usize = 127;

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The text for Parse: `$1` to `$n` in place of variables, semicolon included.
    pub text: String,
    /// The first line of the original, for reports.
    pub label: String,
    /// Line of the script on which it starts, from 1.
    pub line: usize,
    /// The variable of each parameter, in order; one per occurrence.
    pub parameters: Vec<VariableId>,
    /// The original, cut at variables, for the simple protocol.
    pub pieces: Vec<TextPiece>,
    /// The use of the rows.
    pub fetch: Fetch,
    /// `\copydata`: the rows for a `COPY FROM STDIN`, cut at variables.
    pub copy_data: Option<Vec<TextPiece>>,
    /// The statements that are sent in place of this one if it has glued names; it is then the first of them.
    pub glued: Option<Box<Glued>>,
}

/// A part of a statement's original text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPiece {
    /// Text to send as it is.
    Text(String),
    /// `:name`.
    Variable(VariableId),
    /// `:name` inside quotes, or in rows to copy: its value is a part of a text, where NULL cannot be written.
    Quoted(VariableId),
}

impl TextPiece {
    /// The text of these pieces as it is in the script.
    pub fn original(pieces: &[TextPiece], variables: &VariableTable) -> String {
        pieces.iter().fold(String::new(), |text, piece| match piece {
            TextPiece::Text(plain) => text + plain,
            TextPiece::Variable(id) | TextPiece::Quoted(id) => text + ":" + variables.name(*id),
        })
    }

    /// The variable, if it is one.
    pub fn variable(&self) -> Option<VariableId> {
        match self {
            TextPiece::Text(_) => None,
            TextPiece::Variable(id) | TextPiece::Quoted(id) => Some(*id),
        }
    }
}

/// What happens to the rows of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fetch {
    /// Rows are read and discarded.
    #[default]
    Discard,
    /// `\gset`: the one row of the last query goes to variables named prefix + column.
    Gset {
        /// Prefix of each column's name.
        prefix: String,
    },
    /// `\aset`: the last row of every query goes to variables; queries without rows set none.
    Aset {
        /// Prefix of each column's name.
        prefix: String,
    },
    /// All rows go to the terminal ([`Emulator::take_row`](crate::Emulator::take_row)), by the places of their columns.
    Rows,
}

impl Statement {
    pub(crate) fn new(source: &str, line: usize, variables: &mut VariableTable) -> Statement {
        let mut statement = Statement {
            text: String::with_capacity(source.len()),
            label: label(source).to_owned(),
            line,
            parameters: Vec::new(),
            pieces: Vec::new(),
            fetch: Fetch::Discard,
            copy_data: None,
            glued: None,
        };
        let mut quoted = sqlscan::quoted(source).into_iter().peekable();
        let mut rest = source;
        let mut plain_len = 0;
        while plain_len < rest.len() {
            let Some(name) = variable_at(&rest[plain_len..]) else {
                // All colons of a run go together, so that `::name` is not `:` and `:name`.
                let here = &rest[plain_len..];
                let colons = here.len() - here.trim_start_matches(':').len();
                plain_len += colons.max(here.chars().next().map_or(1, char::len_utf8));
                continue;
            };
            let at = source.len() - rest.len() + plain_len;
            while quoted.next_if(|range| range.end <= at).is_some() {}
            let is_quoted = quoted.peek().is_some_and(|range| range.start <= at);
            statement.push_text(&rest[..plain_len]);
            statement.push_variable(variables.intern(name), is_quoted);
            rest = &rest[plain_len + 1 + name.len()..];
            plain_len = 0;
        }
        statement.push_text(rest);
        statement
    }

    /// The first of the statements that a statement with glued names becomes, which stands for all of them.
    pub(crate) fn first_of(glued: Glued, source: &str) -> Option<Statement> {
        let first = glued.variants.first()?.clone();
        Some(Statement { label: label(source).to_owned(), glued: Some(Box::new(glued)), ..first })
    }

    /// The statement as the script has it, and with the least value in place of each glued variable.
    pub fn original(&self, variables: &VariableTable) -> String {
        TextPiece::original(&self.pieces, variables)
    }

    /// Where a character of [`Statement::text`] stands in the script `source`, by its number from 0: a byte.
    pub fn offset_in(&self, source: &str, variables: &VariableTable, position: usize) -> usize {
        let start = line_start(source, self.line);
        let found = source[start..].find(&self.original(variables)).unwrap_or(0);
        (start + found + self.offset_in_original(variables, position)).min(source.len())
    }

    /// A character of the text with `$1` for variables, by its number, as a byte of the original.
    fn offset_in_original(&self, variables: &VariableTable, position: usize) -> usize {
        let (mut n_chars, mut n_bytes, mut n_parameters) = (0, 0, 0);
        for piece in &self.pieces {
            let (text, original_bytes) = match piece {
                TextPiece::Text(text) => (text.clone(), text.len()),
                TextPiece::Variable(variable) | TextPiece::Quoted(variable) => {
                    n_parameters += 1;
                    (format!("${n_parameters}"), 1 + variables.name(*variable).len())
                }
            };
            let here = text.chars().count();
            if position < n_chars + here {
                let within = match piece {
                    TextPiece::Text(text) => text.chars().take(position - n_chars).map(char::len_utf8).sum(),
                    TextPiece::Variable(_) | TextPiece::Quoted(_) => 0,
                };
                return n_bytes + within;
            }
            n_chars += here;
            n_bytes += original_bytes;
        }
        n_bytes
    }

    /// What is sent: with glued names, one statement for each combination of their values.
    pub fn sent(&self) -> &[Statement] {
        self.glued.as_deref().map_or(std::slice::from_ref(self), |glued| &glued.variants)
    }

    /// Whether it may create or redirect what others are parsed with.
    pub fn changes_parsing(&self) -> bool {
        let text = self.text.to_ascii_lowercase();
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        // A function may do anything, but that is not likely enough to give up checking.
        words.next().is_some_and(|word| CHANGES_PARSING.contains(&word))
            || words.any(|word| word == "into") && text.trim_start().starts_with("select")
    }

    /// Whether the simple protocol may make something else of it than what is parsed: values become part of the text, and a query may
    /// contain several statements.
    pub fn differs_in_simple(&self) -> bool {
        !self.parameters.is_empty() || self.text.trim_end_matches(';').contains(';')
    }

    /// The statements that `\;` combines, each as Parse takes it, with parameters of its own.
    pub fn parts(&self, variables: &VariableTable) -> Vec<String> {
        let mut names = VariableTable::default();
        let part = |text: &String| Statement::new(text, 0, &mut names).text;
        sqlscan::statements(&self.original(variables)).iter().map(part).collect()
    }

    /// Whether it has the words of a `COPY ... FROM STDIN`; comments between them do not matter.
    pub(crate) fn may_read_rows(&self) -> bool {
        let is_word = |keyword: &str| {
            let mut words = self.text.split(|c: char| !c.is_alphanumeric());
            words.any(|word| word.eq_ignore_ascii_case(keyword))
        };
        ["copy", "from", "stdin"].into_iter().all(is_word)
    }

    fn push_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.text.push_str(text);
            self.pieces.push(TextPiece::Text(text.to_owned()));
        }
    }

    fn push_variable(&mut self, variable: VariableId, is_quoted: bool) {
        self.parameters.push(variable);
        self.text.push('$');
        self.text.push_str(&self.parameters.len().to_string());
        self.pieces.push(if is_quoted { TextPiece::Quoted(variable) } else { TextPiece::Variable(variable) });
    }
}

/// Rows to copy, cut at variables.
pub(crate) fn rows(text: &str, variables: &mut VariableTable) -> Vec<TextPiece> {
    let pieces = Statement::new(text, 0, variables).pieces.into_iter();
    pieces.map(|piece| piece.variable().map_or(piece, TextPiece::Quoted)).collect()
}

/// The name of the variable that `text` starts with a reference to.
fn variable_at(text: &str) -> Option<&str> {
    let name = text.strip_prefix(':')?;
    if !name.bytes().next().is_some_and(is_name_start) {
        return None;
    }
    let len = name.bytes().position(|byte| !is_name_byte(byte)).unwrap_or(name.len());
    Some(&name[..len])
}

/// The first line of a command, cut to [`LABEL_BYTES_MAX`] at a character boundary.
fn label(source: &str) -> &str {
    let line = source.split(['\n', '\r']).next().unwrap_or("");
    &line[..line.floor_char_boundary(LABEL_BYTES_MAX)]
}
