//! Statements of `pg_dumpall` about roles, for a server of our own: nobody logs in there as one of them, and none rules it.

use std::collections::BTreeSet;

use crate::script::sqlfile::dump::Treatment;
use crate::script::sqlfile::tokens::{DumpToken, DumpTokenKind, begins, tokens, with_texts};

/// The roles of a server of our own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolesHere {
    /// Those that it had before any of the data, which stay as they are.
    pub before: BTreeSet<String>,
    /// Those made for the data.
    pub made: BTreeSet<String>,
}

impl RolesHere {
    fn has(&self, name: &str) -> bool {
        self.before.contains(name) || self.made.contains(name)
    }
}

/// Options that let somebody in or give rights on the whole server, with how many words of a value follow.
const LEFT_OUT: [(&str, usize); 10] = [
    ("login", 0),
    ("superuser", 0),
    ("createrole", 0),
    ("createdb", 0),
    ("createuser", 0),
    ("replication", 0),
    ("encrypted", 0),
    ("unencrypted", 0),
    ("password", 1),
    ("sysid", 1),
];
/// Options that mean nothing for a role that nobody logs in as, or that every role has here.
const SILENT: [&str; 7] =
    ["with", "nologin", "nosuperuser", "nocreaterole", "nocreatedb", "noreplication", "nocreateuser"];
/// Options that queries may notice: of the role alone.
const KEPT: [&str; 4] = ["inherit", "noinherit", "bypassrls", "nobypassrls"];
/// Options that make it a member of others, or others of it: lists of names.
const MEMBERSHIPS: [&str; 5] = ["in", "role", "group", "user", "admin"];

/// How a statement about roles runs on a server of our own.
pub(super) fn treat(statement: &str, roles: &RolesHere) -> Treatment {
    let all = with_texts(statement);
    let kind = all.get(1).filter(|token| token.is_role_kind());
    let name = all.get(2).and_then(DumpToken::role);
    match (kind, name) {
        (Some(_), Some(_)) if begins(&all[2..], &["mapping"]) => Treatment::AsItIs,
        (Some(kind), Some(name)) if all[0].is("create") => create(&all[3..], kind.is("user"), &name, roles),
        (Some(kind), Some(name)) if all[0].is("alter") => alter(&all[3..], kind, &name, roles),
        (Some(_), _) if all[0].is("drop") => drop_role(&all, roles),
        _ if begins(&all, &["grant"]) => grant(statement),
        _ => Treatment::AsItIs,
    }
}

fn create(options: &[DumpToken], is_user: bool, name: &str, roles: &RolesHere) -> Treatment {
    if roles.has(name) {
        return Treatment::LeftOut(format!("CREATE ROLE {name}, which exists"));
    }
    let Some(split) = split(options) else { return Treatment::AsItIs };
    let mut without = split.without;
    if is_user && !without.iter().any(|option| option == "LOGIN") {
        without.insert(0, "LOGIN".to_string());
    }
    Treatment::Instead {
        statement: format!("CREATE ROLE {} NOLOGIN{}", quoted(name), split.kept),
        without: without.into_iter().map(|option| format!("{option} of {name}")).collect(),
    }
}

fn alter(options: &[DumpToken], kind: &DumpToken, name: &str, roles: &RolesHere) -> Treatment {
    let is_setting = ["set", "reset", "in"].iter().any(|word| begins(options, &[word]));
    let is_group = kind.is("group") && ["add", "drop"].iter().any(|word| begins(options, &[word]));
    if is_setting || is_group {
        return Treatment::AsItIs;
    }
    if roles.before.contains(name) {
        return Treatment::LeftOut(format!("ALTER ROLE {name}, which stays as it is"));
    }
    let Some(split) = split(options) else { return Treatment::AsItIs };
    let without = split.without.into_iter().map(|option| format!("{option} of {name}")).collect();
    Treatment::Instead { statement: format!("ALTER ROLE {} NOLOGIN{}", quoted(name), split.kept), without }
}

/// `DROP ROLE` of `pg_dumpall --clean`, whose roles a new server has not.
fn drop_role(all: &[DumpToken], roles: &RolesHere) -> Treatment {
    let is_guarded = begins(&all[2..], &["if", "exists"]);
    let [name, end] = &all[if is_guarded { 4 } else { 2 }..] else { return Treatment::AsItIs };
    match name.role() {
        Some(name) if end.is(";") && !roles.made.contains(&name) => {
            Treatment::LeftOut(format!("DROP ROLE {name}"))
        }
        _ => Treatment::AsItIs,
    }
}

/// Membership in a role. Who granted it has no right here to do so.
fn grant(statement: &str) -> Treatment {
    let tokens = tokens(statement);
    let by = tokens.windows(2).position(|pair| pair[0].is("granted") && pair[1].is("by"));
    match by {
        Some(at) if !tokens.iter().any(|token| token.is("on")) => Treatment::Instead {
            statement: statement[..tokens[at].at].trim_end().to_string(),
            without: Vec::new(),
        },
        _ => Treatment::AsItIs,
    }
}

/// Options of a role, as far as they are kept.
struct Split {
    /// As they are written, each after a blank.
    kept: String,
    /// Those that are left out, without their values.
    without: Vec<String>,
}

/// Splits options; `None` if one is not known.
fn split(options: &[DumpToken]) -> Option<Split> {
    let mut split = Split { kept: String::new(), without: Vec::new() };
    let mut at = 0;
    while let Some(option) = options.get(at).filter(|option| !option.is(";")) {
        at += 1;
        let word = &*option.text;
        if option.kind != DumpTokenKind::Word {
            return None;
        } else if let Some((_, n_values)) = LEFT_OUT.iter().find(|(known, _)| *known == word) {
            at += n_values;
            if !word.ends_with("encrypted") {
                split.without.push(word.to_uppercase());
            }
        } else if begins(&options[at - 1..], &["valid", "until"]) {
            at += 2;
            split.without.push("VALID UNTIL".to_string());
        } else if begins(&options[at - 1..], &["connection", "limit"]) {
            // The number may have a sign.
            at += if options.get(at + 1).is_some_and(|token| token.is("-")) { 3 } else { 2 };
            split.without.push("CONNECTION LIMIT".to_string());
        } else if KEPT.contains(&word) {
            split.kept += &format!(" {word}");
        } else if MEMBERSHIPS.contains(&word) {
            let n = names(&options[at..])?;
            split.kept += &format!(" {word}");
            split.kept.extend(options[at..at + n].iter().map(|token| format!(" {}", written(token))));
            at += n;
        } else if !SILENT.contains(&word) {
            return None;
        }
    }
    Some(split)
}

/// How many tokens a list of names has, with the kind of role before it.
fn names(tokens: &[DumpToken]) -> Option<usize> {
    let mut at = usize::from(tokens.first()?.is_role_kind());
    loop {
        tokens.get(at)?.role()?;
        at += 1;
        if !tokens.get(at).is_some_and(|token| token.is(",")) {
            return Some(at);
        }
        at += 1;
    }
}

fn written(token: &DumpToken) -> String {
    if token.kind == DumpTokenKind::QuotedName { quoted(&token.text) } else { token.text.clone() }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_of_a_server_of_our_own_neither_log_in_nor_rule_it() {
        let of = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let roles = RolesHere { before: of(&["postgres"]), made: of(&["seller"]) };
        let check = |statement: &str, expected: &str| {
            let found = match treat(statement, &roles) {
                Treatment::AsItIs => "as it is".to_string(),
                Treatment::Instead { statement, without } => {
                    format!("{statement} without {}", without.join(", "))
                }
                Treatment::LeftOut(what) => format!("left out: {what}"),
            };
            assert_eq!(found, expected, "{statement}");
        };
        check("CREATE ROLE app;", "CREATE ROLE \"app\" NOLOGIN without ");
        check("CREATE ROLE postgres;", "left out: CREATE ROLE postgres, which exists");
        check("create role seller login;", "left out: CREATE ROLE seller, which exists");
        check(
            "CREATE USER \"Web\" PASSWORD 'it''s' IN ROLE a, \"B\" ADMIN c;",
            "CREATE ROLE \"Web\" NOLOGIN in role a , \"B\" admin c without LOGIN of Web, PASSWORD of Web",
        );
        check(
            "ALTER ROLE app WITH SUPERUSER NOINHERIT CREATEROLE CREATEDB LOGIN REPLICATION BYPASSRLS CONNECTION LIMIT -1 \
             PASSWORD 'SCRAM-SHA-256$4096:x' VALID UNTIL '2030-01-01';",
            "ALTER ROLE \"app\" NOLOGIN noinherit bypassrls without SUPERUSER of app, CREATEROLE of app, CREATEDB of app, LOGIN of app, \
             REPLICATION of app, CONNECTION LIMIT of app, PASSWORD of app, VALID UNTIL of app",
        );
        check(
            "alter user app encrypted password null;",
            "ALTER ROLE \"app\" NOLOGIN without PASSWORD of app",
        );
        check("ALTER ROLE postgres WITH NOSUPERUSER;", "left out: ALTER ROLE postgres, which stays as it is");
        check("ALTER ROLE postgres SET search_path TO 'a';", "as it is");
        check("alter group g add user u;", "as it is");
        check("alter role app rename to web;", "as it is");
        check("create role app with a_new_option;", "as it is");
        check("create user mapping for app server s;", "as it is");
        check("DROP ROLE IF EXISTS app;", "left out: DROP ROLE app");
        check("DROP ROLE postgres;", "left out: DROP ROLE postgres");
        check("drop role seller;", "as it is");
        check("GRANT app TO \"My Ro\" GRANTED BY postgres;", "GRANT app TO \"My Ro\" without ");
        check("GRANT a TO b WITH INHERIT TRUE GRANTED BY admin;", "GRANT a TO b WITH INHERIT TRUE without ");
        check("grant select on t to b granted by current_user;", "as it is");
        check("grant a to b;", "as it is");
    }
}
