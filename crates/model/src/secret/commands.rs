//! Secrets among the words of commands: after an option, within its value, or in a header. Which options take one depends on the
//! program: `-p` of `sshpass` does, `-p` of `psql` is a port.

mod table;
mod value;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use self::table::{Part, ROWS, Row};
pub(super) use self::value::{has_scheme, is_method};
use self::value::{is_key_name, is_no_secret, is_secret_header, part_of, unquoted};
use super::words::{Word, split};
use super::{MARK, Marker, counts_tokens, is_secret_word};

/// What a text without an option has that may have one of the commands below.
const BARE: [&str; 18] = [
    "AUTH",
    "KEY=",
    "sqlplus",
    "userid=",
    "expdp",
    "impdp",
    "rman",
    "mysqlsh",
    "db2",
    "COOKIE=",
    "BINDPW=",
    "add_user",
    "auth ",
    "auth\"",
    "login",
    "password",
    "chpasswd",
    "uthorization",
];

/// Programs that take a secret as their last word: the program, and the word after which it does.
const LAST: [(&str, &str); 10] = [
    ("db2", "using"),
    ("redis-cli valkey-cli keydb-cli", "auth"),
    ("vault cargo", "login"),
    ("mc", "set"),
    ("rabbitmqctl", "add_user"),
    ("rabbitmqctl", "change_password"),
    ("mysqladmin mariadb-admin", "password"),
    ("nmcli", "password"),
    ("htpasswd", "-b"),
    ("htpasswd", "-nb"),
];

/// Words of a command that reads a secret from its input, so that the command before it writes one.
const READS_SECRET: &str = "chpasswd cryptsetup --password-stdin --with-token --passphrase-fd --pass-stdin";
/// Commands that write their words.
const WRITERS: &str = "echo printf";

/// Names of variables whose value is secret, and which elsewhere are words of SQL: in capital letters, before a program.
const VARIABLES: [&str; 4] = ["AUTH", "AUTH_HEADER", "COOKIE", "BINDPW"];

/// Programs of the rows whose names are words of sentences and names of files as often: only the first word of a command is one.
const COMMON: &str = "date ps sort diff cp exp imp join";

/// Programs that take a name, and then its value, as words.
const SETTERS: [&str; 5] = ["setenv", "set", "config", "configure", "export"];

/// Those that are commands of other programs (`git config`, `aws configure set`), and elsewhere words of SQL or names of tables.
const INNER_SETTERS: &str = "set config configure";

/// Words with which a sentence or a statement begins, rather than a command with a setter.
const NO_PROGRAMS: &str = "alter update begin begin; we you they then please";

/// Words that follow the name of an option in a sentence.
const PROSE: &str = "= a and are as by can does for from has if in is it may must of on option or take takes than that the to twice was \
     which will with without";

/// Words that follow `password:` in a message rather than being one.
const SAID: &str = "give use set see too wrong invalid missing expected unexpected required not no must only its your this you we they \
     there what when where how incorrect authentication yes true false null string text varchar char bytea optional";

/// All programs of the rows: a report asks this of hundreds of thousands of words.
static PROGRAMS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| ROWS.iter().flat_map(|row| row.programs.split_ascii_whitespace()).collect());

/// Commands within words of commands: `sh -c '...'` within `ssh host '...'`.
const DEPTH_MAX: usize = 4;

/// Whether `text` may have an option, or a command that sets something that it may name.
fn may_match(text: &str, may_name: bool) -> bool {
    let bytes = text.as_bytes();
    let is_sign = |byte: u8| byte.is_ascii_whitespace() || b"\"'`[(,".contains(&byte);
    bytes.windows(2).enumerate().any(|(at, two)| {
        let opens = matches!(two[0], b'-' | b'/') && (two[1].is_ascii_alphabetic() || two[1] == b'-');
        opens && (at == 0 || is_sign(bytes[at - 1]))
    }) || (may_name && SETTERS.iter().chain(&BARE).any(|word| text.contains(word)))
}

/// `text` without the secrets of the commands in it. `may_name` says whether it may contain the name of a secret.
pub(super) fn hide<'a>(text: &'a str, may_name: bool, mark: Marker) -> Cow<'a, str> {
    if !may_match(text, may_name) {
        return Cow::Borrowed(text);
    }
    let mut found = Vec::new();
    find_in(text, 0, DEPTH_MAX, &mut found);
    found.sort_by_key(|range| range.start);
    let (mut hidden, mut done) = (String::new(), 0);
    for range in found {
        if range.start >= done {
            hidden.push_str(&text[done..range.start]);
            hidden.push_str(&mark(&text[range.clone()]));
            done = range.end;
        }
    }
    if done == 0 { Cow::Borrowed(text) } else { Cow::Owned(hidden + &text[done..]) }
}

/// Whether a text of JSON may have a list of the words of a command with options, or, if it may name a secret, with a setter.
pub(super) fn may_list(text: &str, may_name: bool) -> bool {
    let is_setter = |setter: &str| text.match_indices(setter).any(|(at, _)| text[..at].ends_with(['"', '/']));
    text.contains("\"-")
        || text.contains("\"/p:")
        || (may_name && SETTERS.iter().any(|setter| is_setter(setter)))
        || (may_name && BARE.iter().any(|word| text.contains(word)))
}

/// The words of one command without its secrets; `None` if it has none. Commands within a word are not looked for.
pub(super) fn hide_list(list: &[Cow<'_, str>], mark: Marker) -> Option<Vec<String>> {
    let words: Vec<&str> = list.iter().map(AsRef::as_ref).collect();
    let mut found = secrets_of(&words, true);
    found.extend(last_word(&words, &found));
    let mut hidden: Vec<String> = words.iter().map(|word| word.to_string()).collect();
    for (index, range) in &found {
        let secret = mark(&hidden[*index][range.clone()]);
        hidden[*index].replace_range(range.clone(), &secret);
    }
    (!found.is_empty()).then_some(hidden)
}

fn find_in(text: &str, offset: usize, n_deeper: usize, found: &mut Vec<Range<usize>>) {
    if let Some(at) = value_at(text)
        && n_deeper > 0
    {
        find_in(&text[at..], offset + at, n_deeper - 1, found);
    }
    let words = split(text);
    let commands: Vec<&[Word]> = words.chunk_by(|_, next| !next.is_first).collect();
    for two in commands.windows(2) {
        if let Some(word) = written_secret(text, two[0], two[1]) {
            found.push(offset + word.start..offset + word.start + word.text.len());
        }
    }
    for command in commands {
        let texts: Vec<&str> = command.iter().map(|word| word.text).collect();
        let mut secrets = secrets_of(&texts, false);
        let end = command.last().map_or(0, |word| word.start + word.text.len());
        // What was hidden there was the last word.
        if !text[end..].trim_start_matches(['\'', '"', '\\', ' ']).starts_with(MARK) {
            secrets.extend(last_word(&texts, &secrets));
        }
        for (index, range) in secrets {
            let start = offset + command[index].start;
            found.push(start + range.start..start + range.end);
        }
        let is_command = |word: &&Word| word.text.contains(char::is_whitespace);
        for word in command.iter().filter(is_command).filter(|_| n_deeper > 0) {
            find_in(word.text, offset + word.start, n_deeper - 1, found);
        }
    }
}

/// Where a command begins that is the value of an option: `ProxyCommand=PROGRAM ...`, as `ssh -o` and `git -c` take it.
fn value_at(text: &str) -> Option<usize> {
    let first = text.split(char::is_whitespace).next().filter(|first| first.len() < text.len())?;
    first.find('=').map(|at| at + 1).filter(|at| *at < first.len())
}

/// The last word of a command that writes it into the next one, which reads a secret.
fn written_secret<'a>(text: &str, command: &[Word<'a>], next: &[Word]) -> Option<Word<'a>> {
    let (first, last) = (command.first()?, command.last()?);
    let is_pipe = text[last.start + last.text.len()..next.first()?.start].contains('|');
    let words: Vec<&str> = next.iter().map(|word| word.text).collect();
    let writes = has(WRITERS, first.text) && command.len() > 1 && !is_no_secret(last.text);
    (is_pipe && writes && reads_secret(&words)).then_some(*last)
}

/// Whether a command reads a secret from its input.
fn reads_secret(words: &[&str]) -> bool {
    let reads = |word: &&str| has(READS_SECRET, word.rsplit('/').next().unwrap_or_default());
    words.iter().any(reads) || words.first() == Some(&"sudo") && words.contains(&"-S")
}

/// The secrets in the words of one command: which word, and where in it. A command in a text may be a sentence.
fn secrets_of(words: &[&str], is_list: bool) -> Vec<(usize, Range<usize>)> {
    let mut found = Vec::new();
    // The program whose options come, and where it is.
    let mut program = ("", 0);
    let mut at = 0;
    while at < words.len() {
        let word = words[at];
        let name = word.rsplit('/').next().unwrap_or_default();
        if is_program_at(words, at, name) || is_setter_at(words, at, name) {
            program = (name, at);
        }
        let next = words.get(at + 1).copied();
        let secret = match option_of(word) {
            Some(option) => of_option(option, &words[at + 1..], program.0, &words[program.1..at]),
            None if word == "<<<" && reads_secret(words) => next.map(|value| (1, unquoted(value, 0))),
            None if is_credential_name(word, is_list) => after_scheme(&words[at + 1..], is_list),
            None if is_variable(&words[..=at], is_list) => in_variable(word, Part::Credential),
            None if is_key_variable(&words[..=at], is_list) => in_variable(word, Part::Key),
            None if at > program.1 && bare_part(program.0).is_some() => {
                bare_part(program.0).and_then(|part| part_of(word, part)).map(|range| (0, range))
            }
            None if SETTERS.contains(&program.0) && at > program.1 && is_name_at(words, program, at) => {
                let value = next.filter(|value| !value.starts_with('-') && !counts_tokens(word, value));
                value.map(|value| (1, 0..value.len()))
            }
            None => None,
        };
        let value = |(further, range): &(usize, Range<usize>)| &words[at + further][range.clone()];
        let is_named =
            |found: &(usize, Range<usize>)| is_list || found.1.start > 0 || !has(PROSE, value(found));
        if let Some((further, range)) = secret.filter(|found| !is_no_secret(value(found)) && is_named(found))
        {
            found.push((at + further, range));
            // The value is no option.
            at += further;
        }
        at += 1;
    }
    found
}

/// The place of the last word, where the program takes a secret there.
fn last_word(words: &[&str], found: &[(usize, Range<usize>)]) -> Option<(usize, Range<usize>)> {
    let last = words.len().checked_sub(1)?;
    let is_value = last > 0 && !words[last].starts_with('-') && !words[last - 1].starts_with("--");
    let program = words.iter().position(|word| !word.contains('='))?;
    let name = words[program].rsplit('/').next().unwrap_or_default();
    let is_after = |trigger: &str| {
        let mut between = words.get(program + 1..last).unwrap_or_default().iter();
        between.any(|word| word.eq_ignore_ascii_case(trigger))
    };
    let takes = LAST.iter().any(|(programs, trigger)| has(programs, name) && is_after(trigger));
    let is_new = found.iter().all(|(word, _)| *word != last) && !words[last].contains('=');
    (takes && is_value && is_new && !is_no_secret(words[last])).then(|| (last, unquoted(words[last], 0)))
}

/// Whether a word is the name of a header with a secret whose value is the next word, or the one after that. A sentence has such
/// words, too, but not with a scheme.
fn is_credential_name(word: &str, is_list: bool) -> bool {
    let Some((name, value)) = word.split_once(':') else { return false };
    let is_authorization = name.to_ascii_lowercase().ends_with("authorization");
    let is_bare = value.is_empty() || has_scheme(value);
    let is_header = is_secret_header(name) && name.contains(char::is_uppercase);
    is_bare && if is_list { is_header } else { is_authorization && !value.is_empty() }
}

/// The word after the scheme of a credential, if there is one.
fn after_scheme(rest: &[&str], is_list: bool) -> Option<(usize, Range<usize>)> {
    let n_schemes = rest.iter().take_while(|word| has_scheme(word)).count();
    let value = rest.get(n_schemes)?;
    (is_list || n_schemes > 0 || !has(PROSE, value)).then(|| (n_schemes + 1, unquoted(value, 0)))
}

/// The secret in the value of a variable.
fn in_variable(word: &str, part: Part) -> Option<(usize, Range<usize>)> {
    let from = word.find('=')? + 1;
    part_of(&word[from..], part).map(|range| (0, range.start + from..range.end + from))
}

/// Whether the last of the words sets a variable of the environment that is secret: it stands before the program, or in a list.
fn is_variable(words: &[&str], is_list: bool) -> bool {
    let Some((name, _)) = words.last().and_then(|word| word.split_once('=')) else { return false };
    let is_name =
        |known: &&str| name.strip_suffix(*known).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
    VARIABLES.iter().any(is_name) && (is_list || stands_before_program(words))
}

/// Words of statements of SQL, in which `A_KEY=B` is about columns.
const CLAUSES: &str = "where and or select values having";

/// Whether the last of the words sets a variable that is a key: `KEY=VALUE` stands before the program, as `KEY` is a word of SQL;
/// `FOO_KEY=VALUE` anywhere.
fn is_key_variable(words: &[&str], is_list: bool) -> bool {
    let Some((name, _)) = words.last().and_then(|word| word.split_once('=')) else { return false };
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let is_of_sql = |word: &&str| has(CLAUSES, &word.to_ascii_lowercase());
    name.bytes().all(is_capital)
        && is_key_name(name)
        && (name != "KEY" || is_list || stands_before_program(words))
        && !words.iter().any(is_of_sql)
}

/// Whether only what may set variables stands before the last of the words.
fn stands_before_program(words: &[&str]) -> bool {
    let before = &words[..words.len().saturating_sub(1)];
    let sets = |word: &&str| {
        word.contains('=') || word.starts_with('-') || matches!(*word, "env" | "export" | "sudo")
    };
    before.iter().all(sets) || before.last().is_some_and(|word| word.starts_with('-'))
}

/// What of a program's words is secret that are no options.
fn bare_part(program: &str) -> Option<Part> {
    ROWS.iter().find(|row| row.options.is_empty() && has(row.programs, program)).map(|row| row.part)
}

fn is_program_at(words: &[&str], at: usize, name: &str) -> bool {
    let is_first = || words[..at].iter().all(|before| before.contains('='));
    PROGRAMS.contains(name) && (!has(COMMON, name) || is_first())
}

/// Whether a word takes a name and its value. Only in the shell fish `set` is a command by itself, with options.
fn is_setter_at(words: &[&str], at: usize, name: &str) -> bool {
    let follows_program =
        || words[..at].first().is_some_and(|first| !has(PROSE, first) && !has(NO_PROGRAMS, first));
    let has_option = || name == "set" && words.get(at + 1).is_some_and(|next| next.starts_with('-'));
    SETTERS.contains(&name) && (!has(INNER_SETTERS, name) || follows_program() || has_option())
}

/// Whether the word is the name of a secret that the setter sets: between them are only options and their values.
fn is_name_at(words: &[&str], setter: (&str, usize), at: usize) -> bool {
    let is_of_option = |between: usize| {
        words[between].starts_with('-') || (between > setter.1 + 1 && words[between - 1].starts_with('-'))
    };
    is_secret_word(words[at]) && (!has(INNER_SETTERS, setter.0) || (setter.1 + 1..at).all(is_of_option))
}

/// Whether a word that follows `password:` goes on with a sentence.
pub(super) fn is_prose(word: &str) -> bool {
    // `varchar(64)` in a schema.
    let word = word.split('(').next().unwrap_or_default();
    let word = word.trim_end_matches(['.', ',', ';', ':', ')']).to_ascii_lowercase();
    has(PROSE, &word) || has(SAID, &word)
}

fn has(list: &str, name: &str) -> bool {
    // Nearly every word of a text is in no list at all, and most have no program before them.
    !name.is_empty() && list.contains(name) && list.split_ascii_whitespace().any(|one| one == name)
}

/// An option: its name, and the value in the same word with its place.
#[derive(Debug, Clone, Copy)]
struct Given<'a> {
    word: &'a str,
    name: &'a str,
    value_at: Option<usize>,
}

/// The option that a word is.
fn option_of(word: &str) -> Option<Given<'_>> {
    let is_option = word.len() > 1 && word.starts_with('-') && !word.starts_with("---");
    if word.starts_with("/p:") {
        return Some(Given { word, name: "/p", value_at: Some(0) });
    }
    let name = word.split(['=', ':']).next().unwrap_or_default();
    let is_plain =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if !is_option || (!is_plain(name) && name.starts_with("--")) {
        return None;
    }
    // Java's programs and those of Windows have a colon there.
    let is_long = name.trim_start_matches('-').len() > 2;
    let sign = |sign: char| word[name.len()..].starts_with(sign);
    let has_value = sign('=') || sign(':') && is_long && is_secret_word(name.trim_start_matches('-'));
    let value_at = has_value.then_some(name.len() + 1);
    Some(Given { word, name, value_at })
}

/// The secret in the value of an option: how many words further it is, and where in that word.
fn of_option(given: Given, rest: &[&str], program: &str, before: &[&str]) -> Option<(usize, Range<usize>)> {
    let fits = |row: &&Row| {
        (row.programs.is_empty() || has(row.programs, program))
            && (row.after.is_empty() || before.contains(&row.after))
    };
    let next = rest.first().copied();
    let rows = || ROWS.iter().filter(fits);
    let in_word = |from: usize, part: Part| {
        part_of(&given.word[from..], part).map(|range| (0, range.start + from..range.end + from))
    };
    let in_next = |part: Part| next.and_then(|value| part_of(value, part)).map(|range| (1, range));

    if let Some(row) = rows().find(|row| has(row.options, given.name)) {
        return match (given.value_at, row.part) {
            (_, Part::Attached) => None,
            // `--auth Bearer VALUE`
            (None, Part::Credential) if next.is_some_and(has_scheme) && rest.len() > 1 => {
                after_scheme(rest, false).filter(|(further, _)| !is_option_like(rest[further - 1]))
            }
            (None, Part::Credential | Part::After(_)) if next.is_some_and(is_option_like) => None,
            (Some(from), part) => in_word(from, part),
            (None, part) => in_next(part),
        };
    }
    if let Some(row) = rows().find(|row| is_last_letter(row, given, program)) {
        return in_next(row.part);
    }
    // `-pVALUE`
    let is_attached = |row: &&Row| {
        let mut short = row.options.split_ascii_whitespace().filter(|option| option.len() == 2);
        given.word.len() > 2 && short.any(|option| given.word.starts_with(option))
    };
    if given.name.starts_with('-') && is_key_name(given.name.trim_start_matches('-')) {
        return given.value_at.map_or_else(|| in_next(Part::Key), |from| in_word(from, Part::Key));
    }
    let attached = rows().find(is_attached);
    if let Some(row) = attached.filter(|row| !row.programs.is_empty()) {
        return in_word(2, row.part);
    }
    let bare = given.name.trim_start_matches('-');
    let is_long = given.name.starts_with("--") || bare.len() > 2;
    if is_long && !bare.starts_with("no-") && is_secret_word(bare) {
        // Other values after `=` are found in any text.
        if let Some(from) = given.value_at.filter(|from| given.word[..*from].ends_with(':')) {
            return in_word(from, Part::Whole);
        }
        let is_value = |value: &&str| !is_option_like(value) && !counts_tokens(bare, value);
        let value = next.filter(is_value).filter(|_| given.value_at.is_none());
        return value.map(|value| (1, unquoted(value, 0)));
    }
    attached.and_then(|row| in_word(2, row.part))
}

/// Whether an option of the row is the last of several in one word, as in `curl -su VALUE`.
fn is_last_letter(row: &Row, given: Given, program: &str) -> bool {
    let letters = given.word.strip_prefix('-').unwrap_or_default();
    let are_letters = letters.len() > 1 && letters.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_known = !row.programs.is_empty() || program == "curl";
    let last = letters.char_indices().next_back().map_or("", |(at, _)| &letters[at..]);
    let mut options = row.options.split_ascii_whitespace().filter(|option| option.len() == 2);
    are_letters && is_known && row.part != Part::Attached && options.any(|option| option[1..] == *last)
}

/// Whether a word is rather an option than the value of one.
fn is_option_like(word: &str) -> bool {
    word.starts_with("--") || (word.len() == 2 && word.starts_with('-'))
}

#[cfg(test)]
mod tests;
