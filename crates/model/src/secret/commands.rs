//! Secrets among the words of commands: after an option, within its value, or in a header. Which options take one depends on the
//! program: `-p` of `sshpass` does, `-p` of `psql` is a port.

mod table;
mod value;

use std::borrow::Cow;
use std::ops::Range;

use self::table::{Part, ROWS, Row};
pub(super) use self::value::{has_scheme, is_method};
use self::value::{is_no_secret, is_secret_header, part_of, unquoted};
use super::words::{Word, split};
use super::{MARK, Marker, counts_tokens, is_secret_word};

/// What a text without an option has that may have one of the commands below.
const BARE: [&str; 10] = [
    "AUTH",
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
const LAST: [(&str, &str); 9] = [
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
const COMMON: &str = "date ps sort diff cp";

/// Programs that take a name, and then its value, as words.
const SETTERS: [&str; 5] = ["setenv", "set", "config", "configure", "export"];

/// Those that are commands of other programs (`git config`, `aws configure set`), and elsewhere words of SQL or names of tables.
const INNER_SETTERS: &str = "set config configure";

/// Words with which a sentence or a statement begins, rather than a command with a setter.
const NO_PROGRAMS: &str = "alter update begin begin; we you they then please";

/// Words that follow the name of an option in a sentence.
const PROSE: &str = "= a and are as by can does for from has if in is it may must of on option or take takes than that the to twice was \
     which will with without";

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
            None if is_variable(&words[..=at], is_list) => {
                let from = word.find('=').map_or(0, |sign| sign + 1);
                part_of(&word[from..], Part::Credential)
                    .map(|range| (0, range.start + from..range.end + from))
            }
            None if SETTERS.contains(&program.0) && at > program.1 && is_name_at(words, program, at) => {
                let value = next.filter(|value| !counts_tokens(word, value));
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

/// Whether the last of the words sets a variable of the environment that is secret: it stands before the program, or in a list.
fn is_variable(words: &[&str], is_list: bool) -> bool {
    let Some((word, before)) = words.split_last() else { return false };
    let name = word.split('=').next().unwrap_or_default();
    let sets = |word: &&str| {
        word.contains('=') || word.starts_with('-') || matches!(*word, "env" | "export" | "sudo")
    };
    let is_name =
        |known: &&str| name.strip_suffix(*known).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
    word.contains('=')
        && VARIABLES.iter().any(is_name)
        && (is_list || before.iter().all(sets) || before.last().is_some_and(|word| word.starts_with('-')))
}

fn is_program_at(words: &[&str], at: usize, name: &str) -> bool {
    let is_first = || words[..at].iter().all(|before| before.contains('='));
    let is_program = !name.is_empty() && ROWS.iter().any(|row| has(row.programs, name));
    is_program && (!has(COMMON, name) || is_first())
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

fn has(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|one| one == name)
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
mod tests {
    use super::*;
    use crate::secret::hide_text;

    /// The command as a line, as a list and within another command, without its secrets.
    fn hidden(command: &str) -> [String; 3] {
        crate::secret::tests::with_key();
        let words: Vec<String> = split(command).iter().map(|word| word.text.to_string()).collect();
        let list = serde_json::to_string(&words).unwrap();
        let quoted = command.replace('"', "\\\"");
        let within = format!("hooks.before_run: `ssh -p 22 h \"{quoted}\"` failed");
        [
            hide_text(command).into_owned(),
            crate::secret::hide_json(&list).into_owned(),
            hide_text(&within).into_owned(),
        ]
    }

    fn check(command: &str, is_secret: bool) {
        for text in hidden(command) {
            assert_eq!(text.contains("(hidden"), is_secret, "{command}: {text}");
            assert!(!text.contains("S3cret"), "{command}: {text}");
            assert_eq!(hide_text(&text), text, "hiding twice is hiding once");
        }
    }

    #[test]
    fn each_row_hides_its_example_and_nothing_else() {
        for Row { examples: (secret, kept), .. } in ROWS {
            if !secret.is_empty() {
                check(secret, true);
            }
            check(kept, false);
        }
    }

    #[test]
    fn secrets_in_commands_are_hidden() {
        for command in [
            "x --password S3cret",
            "x --password 'a S3cret'",
            "x --password=S3cret",
            "x --db-pass S3cret -v",
            "x --pw S3cret",
            "sshpass -p'a S3cret' ssh h",
            "x --bearer S3cret",
            "echo 'machine h login bob password S3cret' > n",
            "sh -c 'echo h:5432:*:bob:S3cret > .pgpass'",
            "x --api-key S3cret",
            "keytool -storepass S3cret",
            "kubectl --token S3cret get pods",
            "curl -ubob:S3cret https://h",
            "curl -fsSu bob:S3cret https://h",
            "curl --user=bob:S3cret https://h",
            "curl --user 'bob:S3cret x' https://h",
            "sudo -u bob curl -s -u bob:S3cret https://h",
            "/usr/bin/sshpass -pS3cret ssh h",
            "env LANG=C sshpass -p S3cret ssh -p 22 h",
            "curl -H 'X-Api-Key: S3cret' https://h",
            "curl -H X-Api-Key:S3cret https://h",
            "curl --header='PRIVATE-TOKEN: S3cret' https://h",
            "wget --header 'Cookie: id=S3cret; x=S3cret' https://h",
            "curl -H 'Authorization: Bearer S3cret' https://h",
            "curl -H 'Authorization: token S3cret' https://h",
            "DB_PASS=S3cret x",
            "MYSQL_PWD=S3cret mysql",
            "PGPASSWORD=S3cret psql",
            "export TOKEN=S3cret",
            "export DB_PASS='a S3cret'; x",
            "setenv API_TOKEN S3cret",
            "aws configure set aws_secret_access_key S3cret",
            "git config --global http.token S3cret",
            "sh -c 'curl -u bob:S3cret https://h | tee x'",
            "sh -c \"sshpass -p S3cret ssh h 'psql -p 5432'\"",
            "curl https://bob:S3cret@h/x",
            "curl 'https://h/x?a=b&token=S3cret'",
            "curl https://h/x?private_token=S3cret",
            "curl https://h/x?key=S3cret",
            "docker run -e DB_PASS=S3cret -p 8080:80 image",
            "curl -H 'Authorization: Basic S3cret' https://h",
            "curl -H 'Cookie: token=S3cret; id=S3cret' https://h",
            "x --tokens S3cret",
            "REGISTRY_TOKENS=S3cret,Other x",
            "sshpass -p '<S3cret9' ssh h",
            "redis-cli -a S3cret sort x",
            "redis-cli sort -a S3cret x",
            "smbclient -U %S3cret //h/s",
            "tool config set password S3cret",
            "git config --file f http.token S3cret",
            "set -gx TOKEN S3cret",
        ] {
            check(command, true);
        }
    }

    #[test]
    fn credentials_in_options_headers_variables_and_last_words_are_hidden() {
        for command in [
            "x --auth S3cret",
            "x --auth=S3cret",
            "x --auth bob:S3cret",
            "x --auth Bearer S3cret",
            "x --authorization 'Bearer S3cret'",
            "consul --http-auth=bob:S3cret",
            "curl -H Authorization:Bearer S3cret https://h",
            "curl --cookie 'token=S3cret; id=S3cret' https://h",
            "curl -b 'token=S3cret; id=S3cret' https://h",
            "curl -H 'Set-Cookie: token=S3cret; id=S3cret' https://h",
            "http h 'Cookie:token=S3cret; id=S3cret'",
            "curl -H 'X-Vault-Key: S3cret' https://h",
            "curl -H X-Ops-Key:S3cret https://h",
            "curl -H 'DD-APPLICATION-KEY: S3cret' https://h",
            "curl -H 'X-Session: S3cret' https://h",
            "hey -H 'X-Foo-Key: S3cret' http://h",
            "kubectl create secret generic x --from-literal=password=S3cret",
            "kubectl create secret generic x --from-literal user=S3cret",
            "redis-cli -h h AUTH S3cret",
            "redis-cli auth bob S3cret",
            "vault login S3cret",
            "htpasswd -b file bob S3cret",
            "rabbitmqctl add_user bob S3cret",
            "mysqladmin -u root password S3cret",
            "openssl pkcs12 -passin pass:S3cret -passout pass:S3cret",
            "keytool -storepass:S3cret",
            "x --password:S3cret",
            "AUTH=S3cret x",
            "env AUTH_HEADER='Bearer S3cret' x",
            "docker run -e HTTP_AUTH=bob:S3cret image",
            "NPM_CONFIG__AUTH=S3cret npm",
            "nats pub --server nats://S3cret@h:4222 x",
            "AWS_SECRET_ACCESS_KEY=S3cret aws s3 ls",
            "mysql -uroot -pS3cret shop",
        ] {
            check(command, true);
        }
    }

    #[test]
    fn a_secret_that_a_command_writes_into_another_is_hidden() {
        crate::secret::tests::with_key();
        for command in [
            "echo bob:S3cret | chpasswd",
            "echo S3cret | sudo -S ls",
            "printf '%s' S3cret | sudo -S ls",
            "echo S3cret | docker login --password-stdin",
            "sudo -S ls <<< S3cret",
        ] {
            let hidden = hide_text(command);
            assert!(!hidden.contains("S3cret") && hidden.contains("(hidden"), "{command}: {hidden}");
            assert_eq!(hide_text(&hidden), hidden, "hiding twice is hiding once");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for command in [
            "psql -p 5432 -U postgres -d shop",
            "pg_dump --username=postgres --password --port 5432 shop",
            "sudo -u bob ls",
            "docker run -u 1000:1000 -p 5432:5432 image",
            "x -u postgres --user=postgres --user 1000:1000",
            "curl --password-file /etc/pass --token-file /etc/token https://h",
            "x --password \"$PGPASSWORD\" --token ${TOKEN} --secret $(cat /etc/secret)",
            "x --no-password --verbose",
            "x --password --verbose",
            "x --password -v",
            "x --passfile /home/u/.pgpass",
            "x -H 'Content-Type: text/plain' -H 'Accept: */*'",
            "docker login --password-stdin registry",
            "SET password_encryption = 'md5'",
            "rsync -a --bypass x y",
            "PWD=/home/u ls",
            "date -u +%H:%M:%S",
            "x -u +%H:%M:%S",
            "TZ=UTC date -u %H:%M",
            "chpst -u bob:grp x",
            "setpriv --user app:app x",
            "x --max-tokens 4096 --password <password>",
            "x --max-tokens=4096",
            "x config max_tokens 4096",
            "x --password < /etc/pass",
            "set search_path to secrets, public",
            "psql -c 'set search_path to secrets, public'",
            "config password_resets users",
            "x --auth none",
            "psql --auth=md5",
            "x --auth-type basic --auth-file /etc/auth",
            "x --basic --fast",
            "x --key /etc/ssl/key.pem",
            "sort --key 2 x",
            "curl -H 'Idempotency-Key: 1' https://h",
            "kubectl create configmap x --from-literal=mode=fast",
            "vault login",
            "vault login -method=ldap",
            "cargo login --registry x",
            "ssh-keygen -N '' -f x",
            "sudo -S -u postgres psql -c 'select 1'",
            "echo hello | tee x",
            "redis-cli -p 6379 -n 1 get auth",
            "psql -c 'select auth, key from t where auth = mode'",
            "x AUTH in the text",
        ] {
            check(command, false);
        }
        let sentence = "the option --token and the option --password take no value here";
        assert_eq!(hide_text(sentence), sentence);
    }
}
