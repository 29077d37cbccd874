//! The roles that a file of SQL names and does not create: a dump of one database has none, because roles belong to the whole
//! server.

use std::collections::BTreeSet;

use crate::script::sqlfile::tokens::{DumpToken, DumpTokenKind, tokens};
use crate::script::sqlfile::{self, DumpPart};
use crate::script::sqlscan::leading_words;

/// Names that mean somebody else than a role of that name.
const NO_ROLES: [&str; 8] =
    ["public", "current_user", "session_user", "current_role", "user", "all", "none", "default"];

/// The roles that statements of `source` need and none makes. Names within texts, functions and rows do not count.
pub fn needed(source: &str) -> BTreeSet<String> {
    let (mut named, mut created) = (BTreeSet::new(), BTreeSet::new());
    let statement = |part| match part {
        DumpPart::Statement(step) => Some(step),
        DumpPart::Connect { .. } => None,
    };
    for step in sqlfile::parts(source).map_while(Result::ok).filter_map(statement) {
        let tokens = tokens(&step.text);
        created.extend(made_by(&tokens));
        if tokens.first().is_some_and(|token| token.is("do")) {
            created.extend(made_in_body(&step.text));
        }
        named.extend(of_statement(&tokens));
        named.extend(role_in_quotes(&step.text, &tokens));
    }
    named.retain(|name| !created.contains(name) && !name.starts_with("pg_"));
    named
}

/// The role that a statement makes.
pub fn role_made(statement: &str) -> Option<String> {
    (leading_words(statement, 1) == ["create"]).then(|| made_by(&tokens(statement))).flatten()
}

/// The role that a statement makes, or to whose name it changes another.
fn made_by(tokens: &[DumpToken]) -> Option<String> {
    match tokens {
        [verb, kind, name, ..] if verb.is("create") && kind.is_role_kind() && !name.is("mapping") => {
            name.role()
        }
        [verb, kind, _, rename, to, name, ..]
            if verb.is("alter") && kind.is_role_kind() && rename.is("rename") && to.is("to") =>
        {
            name.role()
        }
        _ => None,
    }
}

/// The roles that a DO statement makes: made before it, they would fail it. Its body is a text, and may have texts to execute.
fn made_in_body(statement: &str) -> Vec<String> {
    let tokens = tokens(&statement.replace(['\'', '$'], " "));
    (0..tokens.len()).filter_map(|at| made_by(&tokens[at..])).collect()
}

/// The role that a statement takes on and names by a text, as `pg_dump --use-set-session-authorization` does.
fn role_in_quotes(statement: &str, tokens: &[DumpToken]) -> Option<String> {
    let is_first = |words: &[&str]| {
        tokens.len() == words.len() && tokens.iter().zip(words).all(|(token, word)| token.is(word))
    };
    let takes_on = is_first(&["set", "session", "authorization"]) || is_first(&["set", "role"]);
    let name = statement.split_once('\'').filter(|_| takes_on)?.1.rsplit_once('\'')?.0;
    Some(name.replace("''", "'"))
}

impl DumpToken {
    pub(super) fn is_role_kind(&self) -> bool {
        ["role", "user", "group"].iter().any(|word| self.is(word))
    }

    /// The role that it names.
    pub(super) fn role(&self) -> Option<String> {
        match self.kind {
            DumpTokenKind::QuotedName => Some(self.text.clone()),
            DumpTokenKind::Word => {
                let is_name = self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
                    && !NO_ROLES.contains(&&*self.text);
                is_name.then(|| self.text.clone())
            }
            DumpTokenKind::Text | DumpTokenKind::Sign => None,
        }
    }
}

fn of_statement(tokens: &[DumpToken]) -> Vec<String> {
    let Some(first) = tokens.first() else { return Vec::new() };
    let second = |word: &str| tokens.get(1).is_some_and(|token| token.is(word));
    let is_membership = !tokens.iter().any(|token| token.is("on"));
    let is_option = tokens.get(2).is_some_and(|token| token.is("option"));
    let after: &[&[&str]] = match first.text.as_str() {
        "alter" if second("default") => &[&["for", "role"], &["for", "user"], &["to"], &["from"]],
        "alter" if second("policy") => &[&["to"]],
        "alter" if second("user") && tokens.get(2).is_some_and(|token| token.is("mapping")) => {
            &[&["mapping", "for"]]
        }
        "alter" if second("role") => &[&["alter", "role"]],
        "alter" if second("user") => &[&["alter", "user"]],
        "alter" if second("group") => &[&["alter", "group"], &["add", "user"], &["drop", "user"]],
        "alter" => &[&["owner", "to"]],
        "create" if second("policy") => &[&["to"]],
        "create" if second("user") => &[&["mapping", "for"], &["not", "exists", "for"]],
        "create" if second("schema") => &[&["authorization"]],
        "grant" if is_membership => &[&["grant"], &["to"], &["by"]],
        "grant" => &[&["to"], &["by"]],
        "revoke" if is_membership && is_option => &[&["option", "for"], &["from"], &["by"]],
        "revoke" if is_membership => &[&["revoke"], &["from"], &["by"]],
        "revoke" => &[&["from"], &["by"]],
        "set" => &[&["authorization"], &["set", "role"]],
        "reassign" => &[&["owned", "by"], &["to"]],
        "drop" if second("owned") => &[&["owned", "by"]],
        "comment" => &[&["on", "role"]],
        _ => &[],
    };
    after.iter().flat_map(|words| lists_after(tokens, words)).collect()
}

/// The names of each list that follows these words.
fn lists_after(tokens: &[DumpToken], words: &[&str]) -> Vec<String> {
    let mut names = Vec::new();
    for at in 0..tokens.len() {
        let Some(found) = tokens.get(at..at + words.len()) else { break };
        if !found.iter().zip(words).all(|(token, word)| token.is(word)) {
            continue;
        }
        let mut list = tokens[at + words.len()..].iter().peekable();
        while let Some(name) = list.next_if(|token| !token.is("group")).or_else(|| list.nth(1)) {
            names.extend(name.role());
            if list.next_if(|token| token.is(",")).is_none() {
                break;
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_found_where_statements_need_them_and_nowhere_else() {
        let check = |source: &str, expected: &[&str]| {
            let found: Vec<String> = needed(source).into_iter().collect();
            assert_eq!(found, expected, "{source}");
        };
        check("alter table public.t owner to app;", &["app"]);
        check("ALTER TABLE \"t to x\" OWNER TO \"App \"\"1\"\"\";", &["App \"1\""]);
        check("GRANT SELECT ON TABLE t TO reader, writer WITH GRANT OPTION;", &["reader", "writer"]);
        check("grant all on schema s to group app; revoke all on t from public;", &["app"]);
        check(
            "create policy p on t as permissive for select to tenant, current_user using ((a = 'to x'));",
            &["tenant"],
        );
        check("create policy p on t using (true);", &[]);
        check("create user mapping for app server s options (user 'to other');", &["app"]);
        check("CREATE USER MAPPING IF NOT EXISTS FOR app SERVER s;", &["app"]);
        check("create user mapping for public server s;", &[]);
        check(
            "alter default privileges for role owner_a in schema s grant select on tables to reader;",
            &["owner_a", "reader"],
        );
        check("create schema s authorization app; set session authorization boss;", &["app", "boss"]);
        check(
            "-- it's\nSET SESSION AUTHORIZATION 'Bob O''Neil'; set role 'web'; set x = 'y';",
            &["Bob O'Neil", "web"],
        );
        check("SET SESSION AUTHORIZATION DEFAULT; reset session authorization;", &[]);
        check("reassign owned by a, b to c; drop owned by d; drop table owned;", &["a", "b", "c", "d"]);
        check("create role app; alter table t owner to app; alter table t owner to other;", &["other"]);
        check("create function f() returns int as $$ grant a to b $$ language sql;", &[]);
        check("insert into t values ('grant x to y'); select 1 /* owner to x */; -- owner to y\n", &[]);
        check("grant pg_monitor to app; alter table t owner to pg_database_owner;", &["app"]);
        check("GRANT app_read, \"Write\" TO app WITH ADMIN OPTION;", &["Write", "app", "app_read"]);
        check("revoke admin option for app_read from app; revoke b from c;", &["app", "app_read", "b", "c"]);
        check(
            "grant select on t to all_readers; revoke grant option for all on t from x;",
            &["all_readers", "x"],
        );
        check("ALTER ROLE app SET search_path = x; alter user \"B\" password 'c';", &["B", "app"]);
        check("alter group g add user u, v;", &["g", "u", "v"]);
        check("alter role all set jit = off; alter role current_user set jit = off; set role none;", &[]);
        check("alter user mapping for app server s options (set user 'x');", &["app"]);
        check("alter role a rename to b; alter table t owner to b;", &["a"]);
        check("DO $$ BEGIN CREATE ROLE app; END $$; ALTER TABLE t OWNER TO app;", &[]);
        check(
            "do language plpgsql $do$begin if not exists (select from pg_roles where rolname = 'app') then \
             -- don't\nexecute 'create user \"App\"'; end if; end$do$; grant app to \"App\", other;",
            &["app", "other"],
        );
        check(
            "create function f() returns void as $$ create role app $$ language sql; grant app to b;",
            &["app", "b"],
        );
        check("alter event trigger e owner to app;\ncopy t from stdin;\ngrant a to b;\n\\.\n", &["app"]);
    }
}
