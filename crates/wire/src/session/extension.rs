//! Where the functions of an extension are, and whether they can be called by that name. Whoever owns the schema can rename it and put
//! another one with functions of their own in its place, at any moment: they would run with the rights of whoever calls. From 15 on, `public`
//! belongs to the owner of the database.

use super::{Result, Session, quote_ident, quote_literal};

/// An extension in the session's database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extension {
    /// Only superusers and the session's own role could put something else in place of its functions.
    Safe {
        /// Schema, quoted.
        schema: String,
        /// Version.
        version: String,
    },
    /// Somebody else could.
    Replaceable {
        /// Schema.
        schema: String,
        /// Role that could replace something.
        owner: String,
        /// Whether that role owns the schema, and not the extension or something in it.
        by_schema: bool,
    },
}

impl Extension {
    /// Why it is not used, if it is not.
    pub fn objection(&self, name: &str) -> Option<String> {
        let Extension::Replaceable { schema, owner, by_schema } = self else { return None };
        let (owned, mend) = if *by_schema {
            (
                format!("their schema `{schema}`"),
                format!("move them: create schema NAME; alter extension {name} set schema NAME"),
            )
        } else {
            // ALTER EXTENSION has no OWNER TO.
            (
                "the extension, or functions or views of it".to_string(),
                format!("drop the extension and create it again: create extension {name} schema NAME"),
            )
        };
        Some(format!(
            "the functions of extension {name} are not called, because role `{owner}` owns {owned} and could put others in their place; \
             connect as that role, or let a superuser {mend} (in a schema of a superuser)"
        ))
    }
}

impl Session {
    /// The extension of this name, if the session's database has it. The search path has to be empty or the server's own.
    ///
    /// # Errors
    /// See [`SessionError`](super::SessionError).
    pub fn extension(&mut self, name: &str) -> Result<Option<Extension>> {
        let found = self.query(&sql(name))?;
        Ok(match found.rows.first().map(Vec::as_slice) {
            Some([Some(schema), Some(version), None, ..]) => {
                Some(Extension::Safe { schema: quote_ident(schema), version: version.clone() })
            }
            Some([Some(schema), _, Some(owner), by_schema]) => Some(Extension::Replaceable {
                schema: schema.clone(),
                owner: owner.clone(),
                by_schema: by_schema.as_deref() == Some("t"),
            }),
            _ => None,
        })
    }
}

/// Schema and version, and the first of those who could replace something: the owners of the extension, of its schema and of its
/// functions and views, where `pg_database_owner` stands for the owner of the database.
fn sql(name: &str) -> String {
    format!(
        "with x as (select e.oid, e.extname, e.extversion, e.extowner, n.nspname, n.nspowner from pg_catalog.pg_extension e \
           join pg_catalog.pg_namespace n on n.oid = e.extnamespace where e.extname = {}), \
         owners as (select extowner as oid, 1 as n from x union all select nspowner, 2 from x \
           union all select p.proowner, 3 from x join pg_catalog.pg_depend d on d.refobjid = x.oid \
             and d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass and d.deptype = 'e' \
             join pg_catalog.pg_proc p on p.oid = d.objid and d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass \
           union all select c.relowner, 4 from x join pg_catalog.pg_depend d on d.refobjid = x.oid \
             and d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass and d.deptype = 'e' \
             join pg_catalog.pg_class c on c.oid = d.objid and d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass), \
         true_owners as (select case when r.rolname = 'pg_database_owner' then b.datdba else o.oid end as oid, o.n \
           from owners o join pg_catalog.pg_roles r on r.oid = o.oid, pg_catalog.pg_database b \
           where b.datname = pg_catalog.current_database()), \
         first_of_others as (select pg_catalog.pg_get_userbyid(t.oid) as name, t.n = 2 as by_schema from true_owners t \
           where not exists (select 1 from pg_catalog.pg_roles r where r.oid = t.oid and (r.rolsuper or r.rolname = session_user)) \
           order by t.n limit 1) \
         select x.nspname, x.extversion, o.name, o.by_schema from x left join first_of_others o on true",
        quote_literal(name)
    )
}
