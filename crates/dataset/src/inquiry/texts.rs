//! Tokens of SQL, as far as an inquiry looks at a text itself: for the parameters near the place of an error, in the rows of VALUES and in
//! the assignments of SET, which no plan shows; and of the expressions in plans, which the server has written.
//!
//! Pure. It follows the lexical rules of PostgreSQL's manual (4.1) with `standard_conforming_strings`; no grammar.

/// A token and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SqlToken {
    pub(super) kind: SqlTokenKind,
    /// Characters before it.
    pub(super) start: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SqlTokenKind {
    /// A name or a keyword: folded to lower case, or as quoted.
    Word(String),
    /// `$1`.
    Parameter(usize),
    /// A string or a number.
    Literal,
    /// `=`, `<=`, `::`.
    Operator(String),
    /// `(`, `)`, `[`, `]`, `,`, `.`, `;`.
    Symbol(char),
}

impl SqlToken {
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(&self.kind, SqlTokenKind::Word(found) if found == word)
    }

    pub(super) fn is_symbol(&self, symbol: char) -> bool {
        self.kind == SqlTokenKind::Symbol(symbol)
    }

    pub(super) fn is_operator(&self, operator: &str) -> bool {
        matches!(&self.kind, SqlTokenKind::Operator(found) if found == operator)
    }

    pub(super) fn parameter(&self) -> Option<usize> {
        if let SqlTokenKind::Parameter(number) = self.kind { Some(number) } else { None }
    }

    fn opens(&self) -> bool {
        self.is_symbol('(') || self.is_symbol('[')
    }

    fn closes(&self) -> bool {
        self.is_symbol(')') || self.is_symbol(']')
    }
}

/// The characters of operators.
const OPERATOR: &str = "+-*/<>=~!@#%^&|`?:";

/// The tokens of a text; what follows a string that does not end is part of it.
pub(super) fn tokens(text: &str) -> Vec<SqlToken> {
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(c) = chars.get(at) {
        let start = at;
        let rest = &chars[at..];
        let (length, kind) = match c {
            _ if c.is_whitespace() => (1, None),
            '-' if rest.starts_with(&['-', '-']) => (until(rest, '\n'), None),
            '/' if rest.starts_with(&['/', '*']) => (comment(rest), None),
            '\'' => (quoted(rest, '\'', false), Some(SqlTokenKind::Literal)),
            'e' | 'E' if rest.get(1) == Some(&'\'') => {
                (1 + quoted(&rest[1..], '\'', true), Some(SqlTokenKind::Literal))
            }
            '"' => {
                let length = quoted(rest, '"', false);
                let name: String = rest[1..length.max(2) - 1].iter().collect();
                (length, Some(SqlTokenKind::Word(name.replace("\"\"", "\""))))
            }
            '$' => dollar(rest),
            _ if c.is_ascii_digit() => (number(rest), Some(SqlTokenKind::Literal)),
            _ if is_of_word(*c) => {
                let length = rest.iter().take_while(|c| is_of_word(**c) || **c == '$').count();
                let name: String = rest[..length].iter().collect();
                (length, Some(SqlTokenKind::Word(name.to_lowercase())))
            }
            _ if OPERATOR.contains(*c) => {
                let length = rest.iter().take_while(|c| OPERATOR.contains(**c)).count();
                (length, Some(SqlTokenKind::Operator(rest[..length].iter().collect())))
            }
            _ => (1, Some(SqlTokenKind::Symbol(*c))),
        };
        found.extend(kind.map(|kind| SqlToken { kind, start }));
        at += length.max(1);
    }
    found
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || !c.is_ascii()
}

fn until(rest: &[char], end: char) -> usize {
    rest.iter().position(|c| *c == end).unwrap_or(rest.len())
}

fn number(rest: &[char]) -> usize {
    let mut length = 0;
    while let Some(c) = rest.get(length) {
        let is_exponent_sign = matches!(c, '+' | '-')
            && matches!(rest.get(length.wrapping_sub(1)), Some('e' | 'E'))
            && rest.get(length + 1).is_some_and(char::is_ascii_digit);
        if !is_of_word(*c) && *c != '.' && !is_exponent_sign {
            break;
        }
        length += 1;
    }
    length
}

/// Length of a comment, which may contain others.
fn comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match (rest[at], rest.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Length of what stands in quotes, with them.
fn quoted(rest: &[char], quote: char, has_escapes: bool) -> usize {
    let mut at = 1;
    while let Some(c) = rest.get(at) {
        match (*c == quote, rest.get(at + 1)) {
            (true, Some(next)) if *next == quote => at += 2,
            (true, _) => return at + 1,
            (false, Some(_)) if has_escapes && *c == '\\' => at += 2,
            (false, _) => at += 1,
        }
    }
    rest.len()
}

/// A parameter, or a string in dollar quotes.
fn dollar(rest: &[char]) -> (usize, Option<SqlTokenKind>) {
    let length = 1 + rest[1..].iter().take_while(|c| is_of_word(**c)).count();
    let word: String = rest[1..length].iter().collect();
    if let Ok(number) = word.parse() {
        return (length, Some(SqlTokenKind::Parameter(number)));
    }
    if rest.get(length) != Some(&'$') {
        return (1, Some(SqlTokenKind::Symbol('$')));
    }
    let tag = &rest[..=length];
    let end = rest[tag.len()..].windows(tag.len()).position(|window| window == tag);
    (end.map_or(rest.len(), |end| end + 2 * tag.len()), Some(SqlTokenKind::Literal))
}

/// The end of the group that begins at `open`: the index of what closes it, or the end of the tokens.
pub(super) fn group_end(tokens: &[SqlToken], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

/// The parts between commas outside parentheses.
pub(super) fn items(tokens: &[SqlToken]) -> Vec<&[SqlToken]> {
    let (mut found, mut start, mut at) = (Vec::new(), 0, 0);
    while at < tokens.len() {
        if tokens[at].opens() {
            at = group_end(tokens, at);
        } else if tokens[at].is_symbol(',') {
            found.push(&tokens[start..at]);
            start = at + 1;
        }
        at += 1;
    }
    found.push(&tokens[start..]);
    found
}

/// The parameters that an error at this character is about: the operands of an operator, the arguments of a function, else all.
pub(super) fn near(tokens: &[SqlToken], character: usize) -> Vec<usize> {
    let numbers =
        |tokens: &[SqlToken]| -> Vec<usize> { tokens.iter().filter_map(SqlToken::parameter).collect() };
    let at = tokens.iter().rposition(|token| token.start <= character).unwrap_or(0);
    let mut found = Vec::new();
    if matches!(tokens.get(at).map(|token| &token.kind), Some(SqlTokenKind::Operator(_))) {
        found.extend(numbers(&tokens[before(tokens, at)..at]));
    }
    let after = &tokens[(at + 1).min(tokens.len())..];
    let n_words = after
        .iter()
        .take_while(|token| matches!(token.kind, SqlTokenKind::Word(_) | SqlTokenKind::Symbol('.')))
        .count();
    match after.get(n_words) {
        Some(token) if token.opens() => found.extend(numbers(&after[n_words..group_end(after, n_words)])),
        Some(token) => found.extend(token.parameter()),
        None => {}
    }
    if found.is_empty() { numbers(tokens) } else { found }
}

/// Where the operand that ends before `at` begins.
fn before(tokens: &[SqlToken], at: usize) -> usize {
    let mut start = at.saturating_sub(1);
    let mut depth = 0_usize;
    while start > 0 && (tokens[start].closes() || depth > 0) {
        if tokens[start].closes() {
            depth += 1;
        } else if tokens[start].opens() {
            depth -= 1;
        }
        if depth == 0 {
            break;
        }
        start -= 1;
    }
    start
}

/// A parameter in the rows of a VALUES list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InValues {
    pub(super) parameter: usize,
    /// Number of its column, from 1.
    pub(super) column: usize,
    pub(super) is_bare: bool,
}

/// The parameters in the rows of the first VALUES list.
pub(super) fn values(tokens: &[SqlToken]) -> Vec<InValues> {
    let mut found = Vec::new();
    let Some(mut at) = tokens.iter().position(|token| token.is_word("values")).map(|at| at + 1) else {
        return found;
    };
    while tokens.get(at).is_some_and(|token| token.is_symbol('(')) {
        let end = group_end(tokens, at);
        for (index, item) in items(&tokens[at + 1..end]).into_iter().enumerate() {
            let is_bare = is_bare(item);
            let numbers = item.iter().filter_map(SqlToken::parameter);
            found.extend(numbers.map(|parameter| InValues { parameter, column: index + 1, is_bare }));
        }
        at = end + 1;
        if !tokens.get(at).is_some_and(|token| token.is_symbol(',')) {
            break;
        }
        at += 1;
    }
    found
}

/// A parameter in an assignment of SET.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InSet {
    pub(super) parameter: usize,
    pub(super) column: String,
    pub(super) is_bare: bool,
}

/// The parameters in the assignments of the first SET.
pub(super) fn assignments(tokens: &[SqlToken]) -> Vec<InSet> {
    const ENDS: [&str; 4] = ["where", "from", "returning", "when"];
    let Some(start) = tokens.iter().position(|token| token.is_word("set")) else { return Vec::new() };
    let rest = &tokens[start + 1..];
    let (mut end, mut at) = (rest.len(), 0);
    while at < rest.len() {
        if rest[at].opens() {
            at = group_end(rest, at);
        } else if rest[at].closes() || ENDS.iter().any(|word| rest[at].is_word(word)) {
            end = at;
            break;
        }
        at += 1;
    }
    let mut found = Vec::new();
    for item in items(&rest[..end]) {
        let [SqlToken { kind: SqlTokenKind::Word(column), .. }, equals, value @ ..] = item else { continue };
        if equals.is_operator("=") {
            let is_bare = is_bare(value);
            let numbers = value.iter().filter_map(SqlToken::parameter);
            found.extend(numbers.map(|parameter| InSet { parameter, column: column.clone(), is_bare }));
        }
    }
    found
}

/// Whether these tokens are nothing but values: parameters and literals, in lists and arrays, with casts.
pub(super) fn is_bare(tokens: &[SqlToken]) -> bool {
    const LISTS: [&str; 4] = ["any", "some", "array", "row"];
    let mut rest = tokens;
    while let [token, after @ ..] = rest {
        match &token.kind {
            SqlTokenKind::Operator(operator) if operator == "::" => {
                rest = after_type(after);
                continue;
            }
            SqlTokenKind::Operator(_) => return false,
            SqlTokenKind::Word(word) if !LISTS.contains(&word.as_str()) => return false,
            _ => rest = after,
        }
    }
    true
}

/// What follows the name of a type.
fn after_type(tokens: &[SqlToken]) -> &[SqlToken] {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let is_length = token.is_symbol('(') && at > 0;
        match token.kind {
            SqlTokenKind::Word(_) | SqlTokenKind::Symbol('.') => at += 1,
            SqlTokenKind::Symbol('[') => at = group_end(tokens, at) + 1,
            _ if is_length => at = group_end(tokens, at) + 1,
            _ => break,
        }
    }
    &tokens[at.min(tokens.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_seen_outside_strings_and_comments() {
        let check = |text: &str, expected: &[usize]| {
            let found: Vec<usize> = tokens(text).iter().filter_map(SqlToken::parameter).collect();
            assert_eq!(found, expected, "{text}");
        };
        check(
            "select $1, '$2', \"$3\", $$ $4 $$, $a$ $5 $a$, E'\\'$6', $7 -- $8\n, /* $9 /* */ $10 */ $11",
            &[1, 7, 11],
        );
        check("select 1e-5, 'it''s $1', a$1, $2", &[2]);
        check("select 'open $1", &[]);
    }

    #[test]
    fn parameters_near_an_error_are_its_operands_or_arguments() {
        let check = |text: &str, expected: &[usize]| {
            let at = text.find('^').unwrap();
            let text = text.replace('^', "");
            assert_eq!(near(&tokens(&text), at), expected, "{text}");
        };
        check("select $1 ^+ $2 where $3", &[1, 2]);
        check("select ($1) ^+ ($2) where $3", &[1, 2]);
        check("select ^date_part('day', $2) where $3", &[2]);
        check("select id ^= any(array[$5, $6]) and $7", &[5, 6]);
        check("select ^x, $3, $4", &[3, 4]);
    }

    #[test]
    fn rows_of_values_and_assignments_name_their_columns() {
        let found = values(&tokens(
            "insert into t(b, a) values ($1, lower($2)), ('x', $3::text) on conflict do nothing",
        ));
        let flat: Vec<_> = found.iter().map(|one| (one.parameter, one.column, one.is_bare)).collect();
        assert_eq!(flat, [(1, 1, true), (2, 2, false), (3, 2, true)]);
        let found = assignments(&tokens("update t set a = $1, \"B\" = b + $2, c = f(x, $3) where id = $4"));
        let flat: Vec<_> =
            found.iter().map(|one| (one.parameter, one.column.as_str(), one.is_bare)).collect();
        assert_eq!(flat, [(1, "a", true), (2, "B", false), (3, "c", false)]);
    }

    #[test]
    fn values_with_casts_are_bare_and_expressions_are_not() {
        for (text, expected) in [
            ("$1", true),
            ("($1)::character varying(20)[]", true),
            ("ANY (ARRAY[$1, 5])", true),
            ("ANY ('{1,2}'::integer[])", true),
            ("($1 + 1)", false),
            ("lower($1)", false),
            ("(now() - $3)", false),
        ] {
            assert_eq!(is_bare(&tokens(text)), expected, "{text}");
        }
    }
}
