//! Secrets among the words of commands: after an option, within its value, or in a header. Which options take one depends on the
//! program: `-p` of `sshpass` does, `-p` of `psql` is a port.

use std::borrow::Cow;
use std::ops::Range;

use super::words::{Word, split};
use super::{MARK, Marker, counts_tokens, is_harmless, is_secret_word};

/// What of an option's value is secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Nothing: the option means something else here.
    Nothing,
    /// All of it.
    Whole,
    /// All of it, which stands in the option's own word only: `-pVALUE`.
    Attached,
    /// What follows the first of this sign: `user:VALUE`. A port, or the number of a group, is no secret.
    After(char),
    /// What is between the first colon and the last `@`: `user:VALUE@host`.
    BeforeHost,
    /// What follows `pass:`; other beginnings say where the secret is.
    AfterPass,
    /// The value of a header whose name says that it is secret.
    Header,
    /// The values of cookies, not the name of a file.
    Cookie,
}

/// An option of some programs.
struct Row {
    /// Names of the programs, separated by spaces; none means any.
    programs: &'static str,
    /// A word between the program and the option, without which the option means something else.
    after: &'static str,
    options: &'static str,
    part: Part,
    /// A command with the secret `S3cret`, and one in which nothing is hidden.
    #[cfg(test)]
    examples: (&'static str, &'static str),
}

macro_rules! rows {
    ($($programs:literal $after:literal $options:literal => $part:expr, $hidden:literal, $kept:literal;)*) => {
        /// The first row that fits decides, so rows of programs come before those of any program.
        const ROWS: &[Row] = &[$(Row {
            programs: $programs,
            after: $after,
            options: $options,
            part: $part,
            #[cfg(test)]
            examples: ($hidden, $kept),
        }),*];
    };
}

rows! {
    // PostgreSQL's programs ask for a password; `-p` is the port, `-P` a setting of the output.
    "psql pg_dump pg_dumpall pg_restore pg_basebackup pg_receivewal pg_recvlogical pg_isready pgbench createdb dropdb createuser \
     dropuser vacuumdb reindexdb clusterdb pg_amcheck pgdyno" "" "--password --token -p -u -U --user --username" => Part::Nothing,
        "", "psql --password postgres -p 5432 -U bob:x -h db";
    "ssh scp sftp rsync autossh mosh sudo su doas runuser" "" "-p -P -u -U --user" => Part::Nothing,
        "", "sudo -u bob ssh -p 2222 h";
    "sshpass" "" "-p" => Part::Whole, "sshpass -p S3cret ssh -p 22 h", "sshpass -f /etc/pass ssh -p 22 h";
    "mysql mysqldump mysqladmin mysqlcheck mysqlimport mysqlslap mysqlpump mysqlbinlog mariadb mariadb-dump mariadb-admin" "" "-p" =>
        Part::Attached, "mysql -u root -pS3cret shop", "mysql -u root -p shop";
    "mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat cqlsh" "" "-p" => Part::Whole,
        "mongodump -u bob -p S3cret", "mongodump -u bob --port 27017";
    "docker podman nerdctl buildah skopeo helm oras crane oc az" "login" "-p" => Part::Whole,
        "docker login -u bob -p S3cret registry", "docker run -p 8080:80 image";
    "docker podman nerdctl kubectl crictl systemd-run" "" "-u --user -p" => Part::Nothing, "", "docker exec -u app:app c psql -p 5432";
    "nats nats-server nsc" "" "--creds" => Part::Nothing, "", "nats --creds /etc/bench.creds pub x y";
    "redis-cli valkey-cli keydb-cli" "" "-a" => Part::Whole, "redis-cli -a S3cret flushall", "redis-cli -p 6379 flushall";
    "sqlcmd bcp osql isql tsql ipmitool impitool zip unzip" "" "-P" => Part::Whole, "sqlcmd -S h -U sa -P S3cret", "sqlcmd -S h -U sa -Q x";
    "7z 7za 7zr 7zz" "" "-p" => Part::Attached, "7z x -pS3cret a.7z", "7z x a.7z";
    "ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldappasswd" "" "-w" => Part::Whole, "ldapsearch -D cn=x -w S3cret", "ldapsearch -D cn=x -W";
    "snmpget snmpset snmpwalk snmpbulkwalk" "" "-c -A -X" => Part::Whole, "snmpwalk -c S3cret h", "snmpwalk -v 2c h";
    "smbclient rpcclient net" "" "-U --user" => Part::After('%'), "smbclient -U bob%S3cret //h/s", "smbclient -U bob //h/s";
    "lftp ncftp" "" "-u --user" => Part::After(','), "lftp -u bob,S3cret h", "lftp -u bob h";
    "ncftp ncftpput ncftpget plink pscp" "" "-p -pw" => Part::Whole, "plink -pw S3cret h", "plink -batch h";
    "openssl" "" "-pass -passin -passout" => Part::AfterPass, "openssl enc -pass pass:S3cret", "openssl enc -pass file:/etc/pass";
    "openssl" "" "-k -K" => Part::Whole, "openssl enc -k S3cret", "openssl enc -aes256";
    "curl" "" "-E --cert --proxy-cert" => Part::After(':'), "curl -E /c.pem:S3cret https://h", "curl -E /c.pem https://h";
    "curl" "" "-b --cookie" => Part::Cookie, "curl -b id=S3cret https://h", "curl -b jar.txt https://h";
    "curl" "" "-x --proxy --preproxy --socks5 --socks5-hostname" => Part::BeforeHost,
        "curl -x bob:S3cret@proxy:3128 https://h", "curl -x proxy:3128 https://h";
    "curl" "" "--oauth2-bearer" => Part::Whole, "curl --oauth2-bearer S3cret https://h", "curl -o out https://h";
    "http https xh ab hey" "" "-a -A -P --auth" => Part::After(':'), "http -a bob:S3cret h", "ab -n 10 http://h/";
    "xfreerdp wlfreerdp" "" "/p" => Part::After(':'), "xfreerdp /u:bob /p:S3cret /v:h", "xfreerdp /v:h";
    "date docker docker-compose podman chpst setpriv start-stop-daemon ps sort diff cp" "" "-u -U --user" => Part::Nothing,
        "", "docker-compose run --user app:app x";
    "" "" "-u -U --user --username --proxy-user --auth --basic-auth --login --userpass" => Part::After(':'),
        "curl -u bob:S3cret https://h", "curl -u bob https://h";
    "" "" "-H --header --proxy-header --http-header" => Part::Header,
        "curl -H 'apikey: S3cret' https://h", "curl -H 'Accept: text/plain' https://h";
}

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
    }) || (may_name && SETTERS.iter().any(|setter| text.contains(setter)))
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
}

/// The words of one command without its secrets; `None` if it has none. Commands within a word are not looked for.
pub(super) fn hide_list(list: &[Cow<'_, str>], mark: Marker) -> Option<Vec<String>> {
    let words: Vec<&str> = list.iter().map(AsRef::as_ref).collect();
    let found = secrets_of(&words, true);
    let mut hidden: Vec<String> = words.iter().map(|word| word.to_string()).collect();
    for (index, range) in &found {
        let secret = mark(&hidden[*index][range.clone()]);
        hidden[*index].replace_range(range.clone(), &secret);
    }
    (!found.is_empty()).then_some(hidden)
}

fn find_in(text: &str, offset: usize, n_deeper: usize, found: &mut Vec<Range<usize>>) {
    let words = split(text);
    for command in words.chunk_by(|_, next| !next.is_first) {
        let texts: Vec<&str> = command.iter().map(|word| word.text).collect();
        for (index, range) in secrets_of(&texts, false) {
            let start = offset + command[index].start;
            found.push(start + range.start..start + range.end);
        }
        let is_command = |word: &&Word| word.text.contains(char::is_whitespace);
        for word in command.iter().filter(is_command).filter(|_| n_deeper > 0) {
            find_in(word.text, offset + word.start, n_deeper - 1, found);
        }
    }
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
            Some(option) => of_option(option, next, program.0, &words[program.1..at]),
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
    let value_at = word[name.len()..].starts_with('=').then_some(name.len() + 1);
    Some(Given { word, name, value_at })
}

/// The secret in the value of an option: how many words further it is, and where in that word.
fn of_option(
    given: Given,
    next: Option<&str>,
    program: &str,
    before: &[&str],
) -> Option<(usize, Range<usize>)> {
    let fits = |row: &&Row| {
        (row.programs.is_empty() || has(row.programs, program))
            && (row.after.is_empty() || before.contains(&row.after))
    };
    let rows = || ROWS.iter().filter(fits);
    let in_word = |from: usize, part: Part| {
        part_of(&given.word[from..], part).map(|range| (0, range.start + from..range.end + from))
    };
    let in_next = |part: Part| next.and_then(|value| part_of(value, part)).map(|range| (1, range));

    if let Some(row) = rows().find(|row| has(row.options, given.name)) {
        return match (given.value_at, row.part) {
            (_, Part::Attached) => None,
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

/// Where the secret part of an option's value is.
fn part_of(value: &str, part: Part) -> Option<Range<usize>> {
    let from = match part {
        Part::Nothing => return None,
        Part::Whole | Part::Attached => 0,
        // An address has rules of its own.
        Part::After(_) if value.contains("://") => return None,
        Part::After(sign) => {
            let from = value.find(sign)? + sign.len_utf8();
            let before = &value[..from - sign.len_utf8()];
            let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            // A format of a time, `+%H:%M`, is no user.
            if before.starts_with(['+', '%']) || (is_number(before) && is_number(&value[from..])) {
                return None;
            }
            from
        }
        Part::BeforeHost => {
            let user = value.find(':').filter(|_| !value.contains("://"))?;
            let host = value.rfind('@').filter(|host| *host > user)?;
            return Some(user + 1..host);
        }
        Part::AfterPass => value.find("pass:")? + "pass:".len(),
        Part::Header => {
            let (name, text) = value.split_once(':')?;
            let name = name.trim_start_matches(['\'', '"', '\\']).trim();
            let is_secret =
                is_secret_word(name) || HEADERS.iter().any(|header| header.eq_ignore_ascii_case(name));
            let spaces = text.len() - text.trim_start().len();
            let is_none = counts_tokens(name, text.trim()) || is_hidden_credential(name, text);
            return (is_secret && !is_none).then(|| unquoted(value, value.len() - text.len() + spaces));
        }
        Part::Cookie => value.find('=')? + 1,
    };
    Some(unquoted(value, from))
}

/// Headers whose value is secret although their name does not say so.
const HEADERS: [&str; 5] = ["Cookie", "Set-Cookie", "Authorization", "Proxy-Authorization", "X-Auth"];

/// Whether of the value of a header only its scheme was left: `Authorization: Bearer (hidden 1a2b3c)`. Where more was left, as
/// of several cookies, the rest may be secret, too.
fn is_hidden_credential(name: &str, text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(MARK) else { return false };
    let is_scheme = scheme.trim().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_end = |rest: &str| rest.trim_end_matches(['\'', '"', '\\', ' ']).is_empty();
    name.to_ascii_lowercase().ends_with("authorization")
        && is_scheme
        && rest.split_once(')').is_some_and(|(_, rest)| is_end(rest))
}

/// The rest of a value without the quotes around it.
fn unquoted(value: &str, from: usize) -> Range<usize> {
    let rest = &value[from..];
    let quotes = ['\'', '"', '\\'];
    let start = from + rest.len() - rest.trim_start_matches(quotes).len();
    start..start + value[start..].trim_end_matches(['\'', '"']).len()
}

/// Whether a value is no secret: there is none, it was hidden, or it only says where a secret is.
fn is_no_secret(value: &str) -> bool {
    let is_placeholder =
        value.starts_with('<') && value.trim_end_matches(['.', ',', ';', ':', '\'', '"']).ends_with('>');
    // From another command, or from a file.
    let is_redirected = value.starts_with("$(") || value.starts_with("<(") || value == "<";
    is_harmless(value) || is_placeholder || is_redirected || super::is_environment(value)
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
        ] {
            check(command, false);
        }
        let sentence = "the option --token and the option --password take no value here";
        assert_eq!(hide_text(sentence), sentence);
    }
}
