//! Texts of SQL that are meant once for each table of a name with braces: `{n}` is its number, `{name}` its name.
//!
//! Only texts with such places are cut into statements here; all others stay as they are.

use crate::problem::Problem;

/// Most bytes of SQL that one file becomes.
const EXPANDED_BYTES_MAX: usize = 64 << 20;
const TOO_LONG: &str = "has more than 64 MiB for all tables together";
const NUMBER: &str = "{n}";
const NAME: &str = "{name}";

/// A statement, or a whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlPart {
    /// The SQL.
    pub text: String,
    /// The line of the file at which it begins, from 1.
    pub line: usize,
    /// The table that it was made for, if it was made for one.
    pub table: Option<String>,
}

/// A text, and the table that it was made for, if it was made for one.
type ForTable = (Option<String>, String);

/// The tables that a name with braces stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BraceSet {
    pub(super) prefix: String,
    pub(super) suffix: String,
    /// Number and name of each.
    pub(super) tables: Vec<(i64, String)>,
}

/// The parts of a file of SQL.
pub(super) fn parts(file: &str, text: &str, sets: &[BraceSet], problems: &mut Vec<Problem>) -> Vec<SqlPart> {
    if !has_places(text) {
        let is_blank = statements(text).is_empty();
        let whole = SqlPart { text: text.to_string(), line: 1, table: None };
        return if is_blank { Vec::new() } else { vec![whole] };
    }
    let mut found = Vec::new();
    let mut n_bytes = 0usize;
    for (start, statement) in statements(text) {
        n_bytes = n_bytes.saturating_add(expanded_bytes(statement, sets));
        if n_bytes > EXPANDED_BYTES_MAX {
            problems.push(Problem::whole(file, TOO_LONG));
            return Vec::new();
        }
        let line = 1 + text[..start].matches('\n').count();
        match expanded(statement, sets) {
            Ok(expanded) => {
                found.extend(expanded.into_iter().map(|(table, text)| SqlPart { text, line, table }));
            }
            Err((at, why)) => {
                let at = start + at;
                problems.push(Problem::at(file, text, at..at + NUMBER.len(), why));
            }
        }
    }
    found
}

/// A whole query, once for each table if it has places for one.
pub(super) fn queries(
    file: &str,
    text: &str,
    sets: &[BraceSet],
    problems: &mut Vec<Problem>,
) -> Vec<ForTable> {
    if expanded_bytes(text, sets) > EXPANDED_BYTES_MAX {
        problems.push(Problem::whole(file, TOO_LONG));
        return Vec::new();
    }
    match expanded(text, sets) {
        Ok(expanded) => expanded,
        Err((at, why)) => {
            problems.push(Problem::at(file, text, at..at + NUMBER.len(), why));
            Vec::new()
        }
    }
}

/// Most bytes that a text becomes.
fn expanded_bytes(text: &str, sets: &[BraceSet]) -> usize {
    let n_tables = sets.iter().map(|set| set.tables.len()).max().unwrap_or(0);
    if has_places(text) { text.len().saturating_mul(n_tables) } else { text.len() }
}

fn has_places(text: &str) -> bool {
    text.contains(NUMBER) || text.contains(NAME)
}

/// The texts that one with places stands for, or where it has one that means nothing.
fn expanded(text: &str, sets: &[BraceSet]) -> Result<Vec<ForTable>, (usize, String)> {
    let Some(first) = text.find(NUMBER).into_iter().chain(text.find(NAME)).min() else {
        return Ok(vec![(None, text.to_string())]);
    };
    let set = set_of(text, sets).map_err(|why| (first, why))?;
    let of_table = |(number, name): &(i64, String)| {
        let text = text.replace(NAME, name).replace(NUMBER, &number.to_string());
        (Some(name.clone()), text)
    };
    Ok(set.tables.iter().map(of_table).collect())
}

/// The set that a text with places is about.
fn set_of<'a>(text: &str, sets: &'a [BraceSet]) -> Result<&'a BraceSet, String> {
    if let [set] = sets {
        return Ok(set);
    }
    if sets.is_empty() {
        return Err("no [[table]] has a name with braces, which this place could stand for".to_string());
    }
    let is_named = |set: &&BraceSet| text.contains(&format!("{}{NUMBER}{}", set.prefix, set.suffix));
    let named: Vec<&BraceSet> = sets.iter().filter(is_named).collect();
    let numbers = |set: &BraceSet| set.tables.iter().map(|(number, _)| *number).collect::<Vec<i64>>();
    match named[..] {
        [] => {
            let examples: Vec<String> =
                sets.iter().map(|set| format!("`{}{NUMBER}{}`", set.prefix, set.suffix)).collect();
            Err(format!("several names have braces; the statement must name one: {}", examples.join(", ")))
        }
        [one] => Ok(one),
        [first, ..] if named.iter().any(|other| numbers(other) != numbers(first)) => {
            Err("the statement names tables of several names with braces, whose numbers differ".to_string())
        }
        [..] if text.contains(NAME) => {
            Err(format!("the statement names tables of several names with braces; `{NAME}` is ambiguous"))
        }
        [first, ..] => Ok(first),
    }
}

/// The statements of a text with their offsets, by psql's rules for quotes, comments, parentheses and bodies of functions.
fn statements(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut start = None;
    let mut n_open = 0usize;
    let mut body = Body::default();
    while at < text.len() {
        let (len, token) = token(&text[at..]);
        match token {
            Token::Blank => {}
            Token::Semicolon if n_open == 0 && body.n_begun == 0 => {
                found.extend(start.take().map(|start: usize| (start, &text[start..=at])));
                body = Body::default();
            }
            Token::Semicolon => {}
            Token::Open | Token::Close | Token::Word | Token::Other => {
                start.get_or_insert(at);
                match token {
                    Token::Open => n_open += 1,
                    Token::Close => n_open = n_open.saturating_sub(1),
                    Token::Word if n_open == 0 => body.word(&text[at..at + len]),
                    _ => {}
                }
            }
        }
        at += len;
    }
    found.extend(start.map(|start| (start, text[start..].trim_end())));
    found
}

/// The variables of a query, outside of quotes and comments: where the colon stands, and the name.
pub fn variables(sql: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    let mut colon = None;
    std::iter::from_fn(move || {
        while at < sql.len() {
            let (len, token) = token(&sql[at..]);
            let start = at;
            at += len;
            let text = &sql[start..at];
            let before = colon.take();
            if text == ":" && before.is_none() {
                colon = Some(start);
            } else if let Some(colon) = before
                && token == Token::Word
            {
                return Some((colon, text));
            }
        }
        None
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Blank,
    Semicolon,
    Open,
    Close,
    Word,
    Other,
}

/// The token at the beginning of a text that is not empty, and its length.
fn token(text: &str) -> (usize, Token) {
    let first = text.chars().next().unwrap_or(' ');
    let until =
        |end: &str, from: usize| text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    match first {
        ';' => (1, Token::Semicolon),
        '(' => (1, Token::Open),
        ')' => (1, Token::Close),
        // A doubled quote is the end of one string and the beginning of another.
        '\'' | '"' => (until(&first.to_string(), 1), Token::Other),
        '$' => (dollar_len(text), Token::Other),
        '-' if text.starts_with("--") => (text.find('\n').unwrap_or(text.len()), Token::Blank),
        '/' if text.starts_with("/*") => (comment_len(text), Token::Blank),
        'e' | 'E' if text[1..].starts_with('\'') => (1 + escape_string_len(&text[1..]), Token::Other),
        _ if first.is_whitespace() => (first.len_utf8(), Token::Blank),
        _ if first.is_alphanumeric() || first == '_' => {
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            (text.find(|c: char| !is_part(c)).unwrap_or(text.len()), Token::Word)
        }
        _ => (first.len_utf8(), Token::Other),
    }
}

/// Length of `$tag$...$tag$`, or of the lone dollar.
fn dollar_len(text: &str) -> usize {
    let Some(tag_len) = text[1..].find('$') else { return 1 };
    let tag = &text[1..=tag_len];
    if !tag.chars().all(|c| c.is_alphanumeric() || c == '_') || tag.starts_with(|c: char| c.is_ascii_digit())
    {
        return 1;
    }
    let (quote, rest) = text.split_at(tag_len + 2);
    rest.find(quote).map_or(text.len(), |at| 2 * quote.len() + at)
}

/// Length of a comment that may contain comments.
fn comment_len(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0usize);
    loop {
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else { return text.len() };
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += first.len_utf8();
        }
    }
}

/// Length of a string with backslash escapes.
fn escape_string_len(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\'' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// Whether semicolons are those of a function's `BEGIN ATOMIC ... END`.
#[derive(Default)]
struct Body {
    n_words: usize,
    is_create: bool,
    is_routine: bool,
    n_begun: usize,
}

impl Body {
    fn word(&mut self, word: &str) {
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        self.n_words += 1;
        self.is_create |= self.n_words == 1 && is("create");
        self.is_routine |= self.is_create && self.n_words <= 4 && (is("function") || is("procedure"));
        if !self.is_routine {
            return;
        }
        if is("begin") || (self.n_begun > 0 && is("case")) {
            self.n_begun += 1;
        } else if is("end") {
            self.n_begun = self.n_begun.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(prefix: &str, n: i64) -> BraceSet {
        let tables = (1..=n).map(|number| (number, format!("{prefix}{number}"))).collect();
        BraceSet { prefix: prefix.to_string(), suffix: String::new(), tables }
    }

    fn check(text: &str, sets: &[BraceSet], expected: &[(usize, &str, Option<&str>)]) {
        let mut problems = Vec::new();
        let found = parts("schema.sql", text, sets, &mut problems);
        let found: Vec<_> =
            found.iter().map(|part| (part.line, part.text.as_str(), part.table.as_deref())).collect();
        assert_eq!(problems, [], "{text}");
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn statements_with_places_are_made_for_each_table() {
        let sets = [set("t", 2)];
        check("-- {n}\n", &sets, &[]);
        check(
            "create table a ();\ncreate table b ();",
            &sets,
            &[(1, "create table a ();\ncreate table b ();", None)],
        );
        check(
            "-- for {n}\ncreate table t{n} (a int);\n\ncreate table u ('{1,2}');",
            &sets,
            &[
                (2, "create table t1 (a int);", Some("t1")),
                (2, "create table t2 (a int);", Some("t2")),
                (4, "create table u ('{1,2}');", None),
            ],
        );
        check(
            "select '{name}', {n}",
            &sets,
            &[(1, "select 't1', 1", Some("t1")), (1, "select 't2', 2", Some("t2"))],
        );
        let two = [set("a", 1), set("b", 1)];
        check("x b{n}; y a{n} b{n}", &two, &[(1, "x b1;", Some("b1")), (1, "y a1 b1", Some("a1"))]);
    }

    #[test]
    fn semicolons_in_quotes_comments_and_bodies_end_nothing() {
        let count = |text: &str| statements(text).len();
        for text in [
            "select ';', \";\", $$;$$, $a$ ; $$ ; $a$ /* ; /* ; */ ; */ -- ;\n, (;)",
            "select 'it''s ;'",
            "select e'\\';'",
            "create or replace function f() returns int begin atomic; select case when true then 1; end; end",
            "select $1; -- only a comment; another\n /* ; */",
        ] {
            assert_eq!(count(text), 1, "{text}");
            assert_eq!(count(&format!("{text};;\n;select 2")), 2, "{text}");
        }
        assert_eq!(count("begin; end; create table a ()"), 3);
        for cut in ["'", "\"", "$$", "$a$", "/*", "/* /* */", "e'\\", "(", "$", "é"] {
            assert_eq!(count(&format!("select {cut}")), 1, "{cut}");
        }
    }

    #[test]
    fn variables_of_queries_are_found() {
        let sql = "-- :a\nselect :b::int, ':c', x::d /* :e */ where \":f\" = :g";
        assert_eq!(variables(sql).collect::<Vec<_>>(), [(13, "b"), (55, "g")]);
    }

    #[test]
    fn a_place_that_means_nothing_is_refused() {
        let check = |text: &str, sets: &[BraceSet], expected: &str| {
            let mut problems = Vec::new();
            parts("schema.sql", text, sets, &mut problems);
            let found: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
            assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
        };
        check("create table t{n} ()", &[], "no [[table]] has a name with braces");
        check("create table c{n} ()", &[set("a", 1), set("b", 1)], "must name one: `a{n}`, `b{n}`");
        check("x a{n} b{n}", &[set("a", 1), set("b", 2)], "numbers differ");
        check("x a{n} b{n} {name}", &[set("a", 1), set("b", 1)], "ambiguous");
        let long = format!("select '{}{{n}}'", "x".repeat(100_000));
        check(&long, &[set("a", 1000)], "64 MiB");
    }
}
