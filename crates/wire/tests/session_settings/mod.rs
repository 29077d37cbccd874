//! What a session begins with: encoding, time zone and more, from connection string, environment and database.

use crate::cluster::Cluster;
use wire::conninfo::Surroundings;
use wire::{Conninfo, Session};

#[test]
fn sessions_have_the_encoding_that_libpq_would_give_them() {
    let cluster = Cluster::shared();
    let mut admin = Session::connect(&cluster.socket("postgres")).unwrap();
    for encoding in ["latin1", "sql_ascii"] {
        let create = format!("create database {encoding} encoding '{encoding}' template template0");
        admin.execute(&create).unwrap();
    }
    let socket_dir = cluster.dir().display().to_string();
    let text_of = |text: &str, environment: &[(&str, &str)]| {
        let around = Surroundings {
            environment: environment
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
            ..Surroundings::default()
        };
        let text = format!("host={socket_dir} port={} user=postgres {text}", cluster.port);
        Conninfo::resolve_in(&text, &around).unwrap()
    };
    let shown = |session: &mut Session| {
        let sql = "select concat_ws(' ', current_setting('client_encoding'), current_setting('timezone'), \
                   current_setting('datestyle'), current_setting('geqo'))";
        session.query(sql).unwrap().scalar().unwrap().to_owned()
    };
    let check = |text: &str, environment: &[(&str, &str)], expected: &str| {
        let mut session = Session::connect_as_libpq(&text_of(text, environment)).unwrap();
        assert_eq!(shown(&mut session).split(' ').next(), Some(expected), "{text} {environment:?}");
    };
    check("dbname=postgres", &[], "UTF8");
    check("dbname=latin1", &[], "LATIN1");
    check("dbname=sql_ascii", &[], "SQL_ASCII");
    admin.execute("alter database latin1 set client_encoding = 'utf8'").unwrap();
    check("dbname=latin1", &[], "UTF8");
    admin.execute("alter database latin1 reset client_encoding").unwrap();
    check("dbname=latin1", &[("PGCLIENTENCODING", "UTF8")], "UTF8");
    check("dbname=postgres client_encoding=latin9", &[("PGCLIENTENCODING", "UTF8")], "LATIN9");
    check("dbname=postgres options='-c client_encoding=latin1'", &[], "LATIN1");

    let environment = [("PGTZ", "Asia/Tokyo"), ("PGDATESTYLE", "German"), ("PGGEQO", "off")];
    let conninfo = text_of("dbname=latin1", &environment);
    let conninfo = Conninfo::from_keywords(&conninfo.keywords(), None).unwrap();
    let mut session = Session::connect_as_libpq(&conninfo).unwrap();
    assert_eq!(shown(&mut session), "LATIN1 Asia/Tokyo German, DMY off");
    // What the server says in another encoding is read as well as it can be.
    session.execute("do $$ begin raise notice '%', chr(233); end $$").unwrap();
    assert_eq!(session.take_notices()[0].message, "\u{fffd}");
    // Our own sessions read any text, and are the same for every user.
    let mut own = Session::connect(&conninfo).unwrap();
    let own = [shown(&mut own), own.query("select chr(233)").unwrap().scalar().unwrap().to_owned()];
    assert!(own[0].starts_with("UTF8") && !own[0].contains("Tokyo") && own[1] == "\u{e9}", "{own:?}");
}
