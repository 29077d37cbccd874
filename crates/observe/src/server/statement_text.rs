//! The text of a statement without its literals and comments: short, the same for all executions, and free of what users
//! keep in their rows.
//!
//! Pure. It follows the lexical rules of PostgreSQL's manual (4.1). Where it cannot know where a literal ends, it leaves out all
//! that follows: a backslash within a plain string ends it or not, depending on a setting of the session.

/// Longest text of a statement, in characters.
const TEXT_MAX: usize = 240;
/// Characters of a statement that are looked at; the server sends no more.
pub(crate) const LOOKED_AT: usize = 1000;
/// Stands for a literal or a parameter.
const PLACEHOLDER: &str = "?";

/// The text with `?` for each literal and parameter, in one line, cut off where it is long.
pub(crate) fn normalized(statement: &str) -> String {
    let chars: Vec<char> = statement.chars().take(LOOKED_AT).collect();
    let mut text = Text::default();
    let mut rest: &[char] = &chars;
    while let [c, after @ ..] = rest {
        let step = match c {
            _ if c.is_whitespace() || c.is_control() => Some(after).inspect(|_| text.space()),
            '-' if after.first() == Some(&'-') => {
                text.space();
                after.iter().position(|c| *c == '\n').map(|end| &after[end..])
            }
            '/' if after.first() == Some(&'*') => {
                text.space();
                after_comment(&after[1..])
            }
            '\'' => literal(&mut text, after_string(after, false)),
            '"' => after.iter().position(|c| *c == '"').map(|end| {
                text.word(&rest[..end + 2]);
                &after[end + 1..]
            }),
            '$' => literal(&mut text, after_dollar(after)),
            _ if c.is_ascii_digit() || (*c == '.' && after.first().is_some_and(char::is_ascii_digit)) => {
                literal(&mut text, Some(after_number(rest)))
            }
            '-' if after.first().is_some_and(char::is_ascii_digit) && text.is_after_operator() => {
                literal(&mut text, Some(after_number(after)))
            }
            _ if is_of_name(*c) => {
                let end = rest.iter().position(|c| !is_of_name(*c) && *c != '$').unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                match string_with_prefix(name, after) {
                    Some((string, has_escapes)) => literal(&mut text, after_string(string, has_escapes)),
                    None => {
                        text.word(name);
                        Some(after)
                    }
                }
            }
            _ => {
                text.word(&rest[..1]);
                Some(after)
            }
        };
        match step.filter(|_| !text.ends_here()) {
            Some(step) => rest = step,
            None => break,
        }
    }
    text.finished()
}

/// The identifier of a statement of which only the text is known: FNV-1a of 64 bits (Fowler, Noll and Vo).
pub(crate) fn identifier(normalized: &str) -> String {
    let hash = normalized
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("text-{hash:016x}")
}

/// The text so far.
#[derive(Debug, Default)]
struct Text {
    text: String,
    needs_space: bool,
}

impl Text {
    fn space(&mut self) {
        self.needs_space = !self.text.is_empty();
    }

    fn word(&mut self, word: &[char]) {
        if std::mem::take(&mut self.needs_space) {
            self.text.push(' ');
        }
        self.text.extend(word);
    }

    /// Adds a placeholder; of several in a list, the first.
    fn literal(&mut self) {
        let before = self.text.trim_end();
        let list = before.strip_suffix(',').map(str::trim_end).filter(|list| list.ends_with(PLACEHOLDER));
        match list.map(str::len) {
            Some(length) => {
                self.text.truncate(length);
                self.text.push_str(", …");
            }
            None if before.ends_with("?, …,") => self.text.truncate(before.len() - 1),
            None => self.word(&['?']),
        }
        self.needs_space = false;
    }

    /// Whether what follows begins an operand, so that a minus is a sign.
    fn is_after_operator(&self) -> bool {
        self.text.trim_end().chars().next_back().is_none_or(|c| "(,=<>+-*/%^|&!~[:".contains(c))
    }

    /// Whether the text is long enough, or what follows is a value without quotes: `SET name TO value`.
    fn ends_here(&self) -> bool {
        let mut words = self.text.split(' ');
        let is_set = words.next().is_some_and(|word| word.eq_ignore_ascii_case("set"));
        let last = words.next_back().unwrap_or_default();
        let is_value_next = last.ends_with('=') || (last.eq_ignore_ascii_case("to") && self.needs_space);
        self.text.len() > 4 * TEXT_MAX || (is_set && is_value_next)
    }

    fn finished(self) -> String {
        let is_cut_short = self.ends_here() && self.text.len() <= 4 * TEXT_MAX;
        let mut text = self.text.trim_end().trim_end_matches(';').trim_end().to_string();
        if is_cut_short {
            text.push_str(" ?");
        }
        match text.char_indices().nth(TEXT_MAX) {
            Some((end, _)) => format!("{}…", text[..end].trim_end()),
            None => text,
        }
    }
}

/// Adds a placeholder for a literal that ends before `rest`; `None` if its end is not known, and nothing may follow.
fn literal<'a>(text: &mut Text, rest: Option<&'a [char]>) -> Option<&'a [char]> {
    text.literal();
    rest
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || !c.is_ascii()
}

/// What follows the quote if a string begins after this name: `E''`, `B''`, `X''`, `N''`, `U&''`. With `E`, a backslash escapes.
fn string_with_prefix<'a>(name: &[char], after: &'a [char]) -> Option<(&'a [char], bool)> {
    let [prefix] = name else { return None };
    match (prefix.to_ascii_lowercase(), after) {
        (prefix @ ('e' | 'b' | 'x' | 'n'), ['\'', string @ ..]) => Some((string, prefix == 'e')),
        ('u', ['&', '\'', string @ ..]) => Some((string, false)),
        _ => None,
    }
}

/// What follows the string of which this is the inside; `None` if its end is not known.
fn after_string(mut inside: &[char], has_escapes: bool) -> Option<&[char]> {
    loop {
        match inside {
            ['\'', '\'', rest @ ..] => inside = rest,
            ['\'', rest @ ..] => return Some(rest),
            ['\\', _, rest @ ..] if has_escapes => inside = rest,
            ['\\', ..] | [] => return None,
            [_, rest @ ..] => inside = rest,
        }
    }
}

/// What follows a parameter or a string in dollar quotes, of which this follows the first dollar.
fn after_dollar(after: &[char]) -> Option<&[char]> {
    let end = after.iter().position(|c| !is_of_name(*c)).unwrap_or(after.len());
    if after.first().is_some_and(char::is_ascii_digit) {
        return Some(&after[end..]);
    }
    if after.get(end) != Some(&'$') {
        // Cut off within the quote, or no SQL.
        return None;
    }
    let (tag, inside) = (&after[..end], &after[end + 1..]);
    let closing: Vec<char> = ['$'].iter().chain(tag).chain(&['$']).copied().collect();
    let at = inside.windows(closing.len()).position(|window| window == closing)?;
    Some(&inside[at + closing.len()..])
}

/// What follows a number: `1.5e-3`, `0x1F`, `1_000`.
fn after_number(mut rest: &[char]) -> &[char] {
    loop {
        match rest {
            ['e' | 'E', '+' | '-', c, after @ ..] if c.is_ascii_digit() => rest = after,
            [c, after @ ..] if is_of_name(*c) || *c == '.' => rest = after,
            _ => return rest,
        }
    }
}

/// What follows a comment, which may contain others, of which this is the inside.
fn after_comment(mut inside: &[char]) -> Option<&[char]> {
    let mut depth = 1;
    while depth > 0 {
        match inside {
            ['*', '/', rest @ ..] => (depth, inside) = (depth - 1, rest),
            ['/', '*', rest @ ..] => (depth, inside) = (depth + 1, rest),
            [_, rest @ ..] => inside = rest,
            [] => return None,
        }
    }
    Some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_taken_out() {
        for (statement, expected) in [
            ("SELECT abalance FROM t WHERE aid = 4711;", "SELECT abalance FROM t WHERE aid = ?"),
            ("SELECT abalance FROM t WHERE aid = $1", "SELECT abalance FROM t WHERE aid = ?"),
            ("update t set b = b + -5 where c=-1.5e-3", "update t set b = b + ? where c=?"),
            ("select a -5, a-b, t1.x2", "select a -?, a-b, t1.x2"),
            ("values (1, 'a', null), (2, 'b', null)", "values (?, …, null), (?, …, null)"),
            ("select 'it''s', E'a\\'b', x\n  from \"T 1\"", "select ?, …, x from \"T 1\""),
            ("select $$s'e$$, $tag$ $$ $tag$ || u&'x'", "select ?, … || ?"),
            ("-- secret\nselect /* a /* b */ c */ 1", "select ?"),
            ("insert into t values (1,2,3,4)", "insert into t values (?, …)"),
            ("select 0x1F, 1_000 from t", "select ?, … from t"),
            ("alter role r password 'geheim' valid until 'x'", "alter role r password ? valid until ?"),
            ("set app.token = abc123", "set app.token = ?"),
            ("SET LOCAL app.token TO abc123", "SET LOCAL app.token TO ?"),
            ("update t set a = b where c = 'x'", "update t set a = b where c = ?"),
            ("", ""),
        ] {
            assert_eq!(normalized(statement), expected, "{statement}");
        }
    }

    #[test]
    fn nothing_follows_a_literal_whose_end_is_not_known() {
        for statement in [
            "select 'C:\\', 'geheim'",
            "select 'a\\', 'geheim', 'b'",
            "select 'geheim",
            "select E'x\\'geheim",
            "select $a$geheim",
            "select $geheim",
            "select /* 'geheim",
            "select \"geheim",
        ] {
            let text = normalized(statement);
            assert!(!text.contains("geheim") && text.starts_with("select"), "{statement}: {text}");
        }
    }

    #[test]
    fn long_texts_are_cut_off_and_identifiers_follow_the_text() {
        let long = format!("select {}", "größe, ".repeat(100));
        let text = normalized(&long);
        assert!(text.ends_with('…') && text.chars().count() <= TEXT_MAX + 1, "{text}");
        assert_eq!(identifier(&normalized("select 1")), identifier(&normalized("select  2;")));
        assert_ne!(identifier("select ?"), identifier("select ?, …"));
        assert_eq!(identifier(""), "text-cbf29ce484222325");
    }
}
