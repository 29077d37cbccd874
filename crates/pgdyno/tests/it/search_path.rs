//! A superuser administers a database whose owner has set its search path: nothing of the owner's may run with the
//! superuser's rights.

use testbed::Pg;

use crate::tool::{PACE, Place};

/// A schema with a function for each of PostgreSQL's, an operator for each of its, and a domain for each common type,
/// which are found first. Each does what PostgreSQL's does, and leaves a trace.
const TRAPS: &str = r#"
create table trap.sprung (what text, statement text);
create function trap.spring(what text) returns void language plpgsql as $f$
begin
  insert into trap.sprung values (what, pg_catalog.current_query());
end $f$;
do $do$
declare f record; arguments text; types text;
begin
  for f in select p.proname, p.proargtypes, p.pronargs, pg_catalog.format_type(p.prorettype, null) as result
             from pg_catalog.pg_proc p
            where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and not p.proretset and p.provariadic = 0
              and not exists (select from pg_catalog.pg_type t
                               where t.oid = any (p.proargtypes::oid[] || p.prorettype) and t.typtype = 'p') loop
    select string_agg('pg_catalog.' || quote_ident(t.typname), ', ' order by n), string_agg('$' || n, ', ' order by n)
      into types, arguments
      from unnest(f.proargtypes::oid[]) with ordinality a(type, n) join pg_catalog.pg_type t on t.oid = a.type;
    begin
      execute format('create function trap.%1$I(%2$s) returns %3$s language plpgsql as $f$ begin
        perform trap.spring(%4$L); return pg_catalog.%1$I(%5$s); end $f$',
        f.proname, coalesce(types, ''), f.result, f.proname, coalesce(arguments, ''));
    exception when others then null;
    end;
  end loop;
  for f in select o.oprname, l.typname as l, r.typname as r, p.proname
             from pg_catalog.pg_operator o join pg_catalog.pg_proc p on p.oid = o.oprcode
             join pg_catalog.pg_type l on l.oid = o.oprleft join pg_catalog.pg_type r on r.oid = o.oprright
            where o.oprnamespace = 'pg_catalog'::regnamespace loop
    begin
      execute format('create operator trap.%s (leftarg = pg_catalog.%I, rightarg = pg_catalog.%I, procedure = trap.%I)',
        f.oprname, f.l, f.r, f.proname);
    exception when others then null;
    end;
  end loop;
  create function trap.checked(type text) returns boolean language plpgsql as $f$
    begin perform trap.spring(type); return true; end $f$;
  foreach types in array array['text', 'name', 'oid', 'regclass', 'regnamespace'] loop
    execute format('create domain trap.%1$I as pg_catalog.%1$I check (trap.checked(%1$L))', types);
  end loop;
end $do$;
"#;

#[test]
fn no_function_of_the_databases_owner_runs_with_the_administrators_rights() {
    let (place, pg) = (Place::new(), Pg::start());
    let (database, server) = {
        let database = pg.database();
        let server = pg.admin_target(&database);
        (database, server)
    };
    let mut owner = pg.admin(&database);
    owner.execute("create schema trap").unwrap();
    owner.execute(TRAPS).unwrap();
    let n_traps: u32 = pg
        .ask(&database, "select count(*) from pg_proc where pronamespace = 'trap'::regnamespace")
        .parse()
        .unwrap();
    assert!(n_traps > 1000, "{n_traps}");
    owner
        .execute("grant all on schema trap to public; grant all on all tables in schema trap to public")
        .unwrap();
    owner.execute(&format!("alter database {database} set search_path = trap, pg_catalog, public")).unwrap();
    let expect_untouched = |what: &str| {
        let sql = "select pg_catalog.string_agg(what || ': ' || statement, E'\\n') from trap.sprung";
        assert_eq!(pg.ask(&database, &format!("set search_path = ''; {sql}")), "", "{what}");
    };
    let schema = ["--schema", "public"];
    for args in [
        &["init", "--scale", "1", "--server", &server][..],
        &["check", "--server", &server],
        &["clean", "--server", &server],
        &["plan", "-w", "tpcb", "--scale", "1", "--server", &server],
        &["init", "-w", "tpcc", "--scale", "1", "--server", &server],
        &["check", "-w", "tpcc", "--server", &server],
    ] {
        let args = if ["init", "check", "plan"].contains(&args[0]) {
            [args, &schema].concat()
        } else {
            args.to_vec()
        };
        place.run(&args).expect(0);
        expect_untouched(args[0]);
    }
    // The load's own sessions have the path of their user, as pgbench's do: these call nothing.
    place.write("one.sql", "select 1;\n");
    let run = "run -f one.sql --set workload.data=tpcb --scale 1 -c 1 --ramp-up 0s --measure 2s --repeats 1 --schema public \
               --set prepare.checksums=true --set prepare.settle=false -o out --server";
    place.run(&run.split_whitespace().chain([server.as_str(), PACE]).collect::<Vec<_>>()).expect(0);
    expect_untouched("run");
    place.expect_clean();
}
