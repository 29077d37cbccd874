//! Strings within JSON: replaced in place, so that order, numbers and layout stay as written.

use std::borrow::Cow;
use std::ops::Range;

use super::{Marker, commands, hide_value_by, mark, patterns};

/// JSON, or JSON lines, without the secrets in its strings. The key counts as the name of a setting, and a list of strings may
/// be the words of a command.
pub fn hide_json(text: &str) -> Cow<'_, str> {
    hide_by(text, &mut mark)
}

pub(super) fn hide_by<'a>(text: &'a str, mark: Marker) -> Cow<'a, str> {
    let hidden = map_strings(text, &mut |keys, value| {
        let hidden = match keys.name() {
            Some(name) => hide_value_by(name, value, mark),
            None => patterns::hide(value, mark),
        };
        match hidden {
            Cow::Owned(hidden) => Some(hidden),
            Cow::Borrowed(_) => None,
        }
    });
    match hide_lists(&hidden, mark) {
        Cow::Owned(more) => Cow::Owned(more),
        Cow::Borrowed(_) => hidden,
    }
}

/// Lists with these keys are names, not words of commands.
const LISTS_OF_NAMES: [&str; 3] = ["\"tables\"", "\"written\"", "\"factors\""];

/// JSON without the secrets that only the words before them in the same list show.
fn hide_lists<'a>(text: &'a str, mark: Marker) -> Cow<'a, str> {
    if !commands::may_list(text, patterns::may_be_secret(text)) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let (mut changed, mut done, mut at) = (String::new(), 0, 0);
    // For each open brace or bracket, whether names are listed in it; and the last string, which may be the key of a list.
    let (mut are_names, mut last) = (Vec::new(), 0..0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                last = at..end_of_string(bytes, at);
                at = last.end;
            }
            b'[' => {
                let is_keyed = text[last.end..at].trim() == ":";
                let is_outer = are_names.last() == Some(&true);
                are_names.push(if is_keyed {
                    LISTS_OF_NAMES.contains(&&text[last.clone()])
                } else {
                    is_outer
                });
                let is_list_of_names = are_names.last() == Some(&true);
                let list = if is_list_of_names { Vec::new() } else { strings_of(text, at + 1) };
                let words: Vec<Cow<str>> = list.iter().map(|(_, word)| word.clone()).collect();
                let hidden = commands::hide_list(&words, mark).unwrap_or_default();
                for ((place, _), new) in list.iter().zip(hidden).filter(|((_, word), new)| word != new) {
                    changed.push_str(&text[done..place.start]);
                    changed.push_str(&serde_json::Value::String(new).to_string());
                    done = place.end;
                }
                at = list.last().map_or(at + 1, |(place, _)| place.end);
            }
            byte => {
                match byte {
                    b'{' => are_names.push(false),
                    b'}' | b']' => drop(are_names.pop()),
                    _ => {}
                }
                at += 1;
            }
        }
    }
    if done == 0 { Cow::Borrowed(text) } else { Cow::Owned(changed + &text[done..]) }
}

/// The strings of a list that has at least two and nothing else, with their places.
fn strings_of(text: &str, from: usize) -> Vec<(Range<usize>, Cow<'_, str>)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = from;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        if bytes.get(at) != Some(&b'"') {
            return Vec::new();
        }
        let end = end_of_string(bytes, at);
        let Some(word) = string_of(&text[at..end]) else { return Vec::new() };
        found.push((at..end, word));
        at = end + text[end..].len() - text[end..].trim_start().len();
        match bytes.get(at) {
            Some(b',') => at += 1,
            Some(b']') if found.len() > 1 => return found,
            _ => return Vec::new(),
        }
    }
}

/// The keys above a string, the outermost first; none for an element of a list at the top level.
#[derive(Debug, Default)]
pub(super) struct Keys<'a> {
    /// One entry per open brace or bracket.
    keys: Vec<Option<Cow<'a, str>>>,
    is_key: bool,
}

impl Keys<'_> {
    /// The name of the string's value: its key, or the one above if that is only `value`. A key has none.
    fn name(&self) -> Option<&str> {
        if self.is_key {
            return None;
        }
        let mut names = self.keys.iter().rev().take(DEPTH_MAX).flatten().map(AsRef::as_ref);
        names.find(|name| *name != "value")
    }

    /// Opens a list, whose elements have its name.
    fn open_list(&mut self) {
        let name = self.keys.last().filter(|_| self.keys.len() < DEPTH_MAX).cloned().flatten();
        self.keys.push(name);
    }
}

/// Deepest nesting whose names count: nobody reads JSON that is deeper, and a million brackets are not to take a million times the time or
/// memory.
const DEPTH_MAX: usize = 128;

/// JSON with every string that `change` changes replaced.
pub(super) fn map_strings<'a>(
    text: &'a str,
    change: &mut dyn FnMut(&Keys, &str) -> Option<String>,
) -> Cow<'a, str> {
    let bytes = text.as_bytes();
    let (mut changed, mut done, mut at) = (String::new(), 0, 0);
    let mut keys = Keys::default();
    while at < bytes.len() {
        match bytes[at] {
            b'{' => keys.keys.push(None),
            b'[' => keys.open_list(),
            b'}' | b']' => drop(keys.keys.pop()),
            b'"' => {
                let end = end_of_string(bytes, at);
                keys.is_key = text[end..].trim_start().starts_with(':');
                let Some(value) = string_of(&text[at..end]) else { break };
                if let Some(new) = change(&keys, &value) {
                    changed.push_str(&text[done..at]);
                    changed.push_str(&serde_json::Value::String(new).to_string());
                    done = end;
                }
                if keys.is_key
                    && let Some(last) = keys.keys.last_mut()
                {
                    *last = Some(value);
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    match done {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(changed + &text[done..]),
    }
}

/// The value of a string in its quotes; `None` if it is none.
fn string_of(quoted: &str) -> Option<Cow<'_, str>> {
    let plain = quoted.strip_prefix('"')?.strip_suffix('"')?;
    if plain.bytes().all(|byte| byte != b'\\' && byte >= b' ') {
        Some(Cow::Borrowed(plain))
    } else {
        serde_json::from_str(quoted).ok().map(Cow::Owned)
    }
}

/// The end of the string that begins with the quote at `at`, after its closing quote.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != b'"' {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    (end + 1).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::is_marked;

    fn check(text: &str, expected: &str) {
        let hidden = hide_by(text, &mut |secret| format!("(hidden {})", secret.len()));
        assert_eq!(hidden, expected);
    }

    #[test]
    fn keys_decide_and_everything_else_stays() {
        check(r#"{"z": 1.50, "a": [1, null]}"#, r#"{"z": 1.50, "a": [1, null]}"#);
        check(
            r#"{"primary_conninfo": "host=h", "b": "c"}"#,
            r#"{"primary_conninfo": "(hidden 6)", "b": "c"}"#,
        );
        check(r#"{"restore_command": {"value": "x", "source": "y"}}"#, {
            r#"{"restore_command": {"value": "(hidden 1)", "source": "y"}}"#
        });
        check(
            r#"{"primary_conninfo": ["a", "bb"]}"#,
            r#"{"primary_conninfo": ["(hidden 1)", "(hidden 2)"]}"#,
        );
        check(
            "{\"a\": \"password='x\\\"y\\u0041'\"}\n[\"é\"]\n",
            "{\"a\": \"password='(hidden 4)'\"}\n[\"é\"]\n",
        );
        check(r#"{"a": ["x", "-u", "b:c\nd"], "e": []}"#, r#"{"a": ["x", "-u", "b:(hidden 3)"], "e": []}"#);
        check(
            r#"[["x", "--password", "c"], 1, ["-p", "c"]]"#,
            r#"[["x", "--password", "(hidden 1)"], 1, ["-p", "c"]]"#,
        );
        for names in [
            r#"{"tables": ["config", "password_resets", "users"]}"#,
            r#"{"tables": [["git", "config", "password_resets", "users"]], "written": ["x", "set", "token", "y"]}"#,
            r#"{"a": ["config", "password_resets", "users"]}"#,
        ] {
            check(names, names);
        }
        check(
            r#"{"tables": ["a", "b"], "x": [["git", "config", "token", "c"]]}"#,
            r#"{"tables": ["a", "b"], "x": [["git", "config", "token", "(hidden 1)"]]}"#,
        );
        check(r#"{"host=h password=x": 1}"#, r#"{"host=h password=(hidden 1)": 1}"#);
    }

    #[test]
    fn very_deep_nesting_takes_little_time_and_memory() {
        let key = format!("\\u0041{}", "x".repeat(1_000));
        let deep = |open: &str| open.repeat(1_000_000);
        for text in [deep("[\"a\","), format!("{{\"{key}\": {}", deep("[\"a\","))] {
            let begun = std::time::Instant::now();
            assert!(!is_marked(&hide_json(&text)));
            assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
        }
    }

    #[test]
    fn what_is_not_json_is_left_in_place() {
        for text in ["\"", "{\"a\": \"b", "{\"a\": \"b\\", "]]}", "\"\\x\""] {
            assert!(!is_marked(&hide_json(text)));
        }
    }
}
