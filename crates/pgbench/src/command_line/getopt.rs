//! The rules of GNU `getopt_long`: abbreviations of long names, clusters of short ones, attached or separate values,
//! and options after arguments. Knows no option's meaning.

/// An option that may be given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec<Id> {
    /// `-x`.
    pub(crate) short: Option<char>,
    /// `--name`; empty if there is none.
    pub(crate) long: &'static str,
    /// Whether a value follows.
    pub(crate) takes_value: bool,
    /// Whether pgdyno adds the option to pgbench's: an abbreviation that pgbench accepts stays unambiguous, so it prefers
    /// pgbench's options.
    pub(crate) is_added: bool,
    pub(crate) id: Id,
}

/// A piece of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandPiece<Id> {
    /// An option and its value.
    Option(Id, String),
    /// An argument that is not an option.
    Argument(String),
    /// The error message of `getopt_long`; nothing follows.
    Bad(String),
}

/// Splits arguments. `program` is the name the program was called by, for messages.
pub(crate) fn split<Id: Copy + PartialEq>(
    specs: &[Spec<Id>],
    program: &str,
    args: &[String],
) -> Vec<CommandPiece<Id>> {
    let mut items = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let parsed = if arg == "--" {
            items.extend(rest.by_ref().cloned().map(CommandPiece::Argument));
            return items;
        } else if let Some(long) = arg.strip_prefix("--") {
            long_option(specs, long, &mut rest).map(|item| vec![item])
        } else if arg.len() > 1 && arg.starts_with('-') {
            cluster(specs, &arg[1..], &mut rest, &mut items).map(|()| Vec::new())
        } else {
            Ok(vec![CommandPiece::Argument(arg.clone())])
        };
        match parsed {
            Ok(more) => items.extend(more),
            Err(message) => {
                items.push(CommandPiece::Bad(format!("{program}: {message}\n")));
                return items;
            }
        }
    }
    items
}

type Rest<'a> = std::slice::Iter<'a, String>;

fn long_option<Id: Copy + PartialEq>(
    specs: &[Spec<Id>],
    text: &str,
    rest: &mut Rest,
) -> Result<CommandPiece<Id>, String> {
    let (name, glued) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_string())),
        None => (text, None),
    };
    let spec = find_long(specs, name, text)?;
    let long = spec.long;
    let value = match (spec.takes_value, glued) {
        (false, None) => String::new(),
        (false, Some(_)) => return Err(format!("option '--{long}' doesn't allow an argument")),
        (true, Some(value)) => value,
        (true, None) => {
            rest.next().cloned().ok_or_else(|| format!("option '--{long}' requires an argument"))?
        }
    };
    Ok(CommandPiece::Option(spec.id, value))
}

/// Finds a long option. `given` is the user's text, with the value.
fn find_long<Id: Copy + PartialEq>(specs: &[Spec<Id>], name: &str, given: &str) -> Result<Spec<Id>, String> {
    let named = specs.iter().filter(|spec| !spec.long.is_empty());
    if let Some(spec) = named.clone().find(|spec| spec.long == name) {
        return Ok(*spec);
    }
    let begins = |added: bool| -> Vec<Spec<Id>> {
        named.clone().filter(|spec| spec.is_added == added && spec.long.starts_with(name)).copied().collect()
    };
    let mut found = begins(false);
    if found.is_empty() {
        found = begins(true);
    }
    match &found[..] {
        [] => Err(format!("unrecognized option '--{given}'")),
        [first, others @ ..] if others.iter().all(|spec| spec.id == first.id) => Ok(*first),
        several => {
            let names: Vec<String> = several.iter().map(|spec| format!(" '--{}'", spec.long)).collect();
            Err(format!("option '--{given}' is ambiguous; possibilities:{}", names.concat()))
        }
    }
}

fn cluster<Id: Copy>(
    specs: &[Spec<Id>],
    letters: &str,
    rest: &mut Rest,
    items: &mut Vec<CommandPiece<Id>>,
) -> Result<(), String> {
    for (at, letter) in letters.char_indices() {
        let spec = specs.iter().find(|spec| spec.short == Some(letter));
        let spec = spec.ok_or_else(|| format!("invalid option -- '{letter}'"))?;
        if !spec.takes_value {
            items.push(CommandPiece::Option(spec.id, String::new()));
            continue;
        }
        let glued = &letters[at + letter.len_utf8()..];
        let value = if glued.is_empty() { rest.next().cloned() } else { Some(glued.to_string()) };
        let value = value.ok_or_else(|| format!("option requires an argument -- '{letter}'"))?;
        items.push(CommandPiece::Option(spec.id, value));
        break;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs() -> Vec<Spec<char>> {
        let spec = |short, long, takes_value, is_added, id| Spec { short, long, takes_value, is_added, id };
        vec![
            spec(Some('i'), "initialize", false, false, 'i'),
            spec(Some('I'), "init-steps", true, false, 'I'),
            spec(Some('j'), "jobs", true, false, 'j'),
            spec(Some('T'), "time", true, false, 'T'),
            spec(Some('S'), "select-only", false, false, 'S'),
            spec(None, "json", true, true, 'J'),
        ]
    }

    #[test]
    fn command_lines_are_split_as_gnu_getopt_splits_them() {
        let check = |line: &str, expected: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_string).collect();
            let text: Vec<String> = split(&specs(), "pgbench", &args)
                .into_iter()
                .map(|item| match item {
                    CommandPiece::Option(id, value) => format!("{id}{value}"),
                    CommandPiece::Argument(text) => format!("[{text}]"),
                    CommandPiece::Bad(message) => message,
                })
                .collect();
            assert_eq!(text.join(" "), expected, "{line}");
        };
        check("-i -I dtg db", "i Idtg [db]");
        check("db -iIdtg -j4", "[db] i Idtg j4");
        check("--jobs=4 --jobs 5 --job 6 --j=7", "j4 j5 j6 j7");
        check("--time= -S", "T S");
        check("--initi --json=- --js x", "i J- Jx");
        check("-- -i -", "[-i] [-]");
        check(
            "--init",
            "pgbench: option '--init' is ambiguous; possibilities: '--initialize' '--init-steps'\n",
        );
        check("-S --bad-option -i", "S pgbench: unrecognized option '--bad-option'\n");
        check("--bad=1", "pgbench: unrecognized option '--bad=1'\n");
        check("--initialize=yes", "pgbench: option '--initialize' doesn't allow an argument\n");
        check("--time", "pgbench: option '--time' requires an argument\n");
        check("-SX", "S pgbench: invalid option -- 'X'\n");
        check("-T", "pgbench: option requires an argument -- 'T'\n");
    }
}
