//! Effects of the environment and of connection strings, and messages when a connection fails.

use std::os::unix::fs::PermissionsExt;

use super::cluster::{Cluster, Who};

/// Both programs leave the same session behind, as the server sees it.
pub(crate) fn settings_have_the_same_effect(cluster: &Cluster) {
    cluster.sql("postgres", "create database latin encoding 'LATIN1' template template0 locale 'C'");
    cluster.sql("postgres", "create table seen (who int, what text)");
    cluster.sql("latin", "create table seen (who int, what text)");
    // In UTF-8 the letter is one character, in LATIN1 the same bytes are two.
    let settings = ["client_encoding", "timezone", "datestyle", "geqo", "application_name"];
    let settings = settings.map(|name| format!("current_setting('{name}')")).join(", ");
    let insert = format!("INSERT INTO seen SELECT :who, concat_ws(' ', {settings}, length('\u{e9}'));\n");
    cluster.write("see", &insert);
    for (environment, database) in [
        (&[][..], "latin"),
        (&[("PGCLIENTENCODING", "UTF8")], "latin"),
        (&[("PGCLIENTENCODING", "auto"), ("LC_ALL", "C.UTF-8")], "latin"),
        (&[("PGTZ", "Asia/Tokyo"), ("PGDATESTYLE", "German"), ("PGGEQO", "off")], "postgres"),
        (&[("PGOPTIONS", "-c client_encoding=latin1")], "postgres"),
        (&[("PGAPPNAME", "")], "postgres"),
        (&[("PGAPPNAME", "own")], "postgres"),
        (&[], "postgres://?dbname=postgres&fallback_application_name=zz"),
    ] {
        for who in [Who::Genuine, Who::Ours] {
            let said =
                cluster.run_in(environment, who, &format!("-n -t 1 -f see -D who={} {database}", who as u8));
            assert_eq!(said.code, Some(0), "{environment:?} {database}: {said:?}");
        }
    }
    // An empty name stands for the database of the environment.
    for who in [Who::Genuine, Who::Ours] {
        let mut command = cluster.command(who, &format!("-n -t 1 -f see -D who={}", who as u8));
        command.arg("").env("PGDATABASE", "postgres");
        assert_eq!(cluster.finish(command).code, Some(0), "{who:?}");
    }
    for database in ["postgres", "latin"] {
        let of =
            |who: Who| cluster.sql(database, &format!("select what from seen where who = {}", who as u8));
        let (genuine, ours) = (of(Who::Genuine), of(Who::Ours));
        assert!(!genuine.is_empty());
        assert_eq!(ours, genuine, "{database}");
    }
}

/// Messages about impossible settings, and about passwords.
pub(crate) fn failures_have_the_same_words(cluster: &Cluster) {
    let check = |environment: &[(&str, &str)], arguments: &str| {
        let said = [Who::Genuine, Who::Ours].map(|who| cluster.run_in(environment, who, arguments));
        assert_eq!(
            (&said[1].code, &said[1].stderr),
            (&said[0].code, &said[0].stderr),
            "{environment:?} {arguments}"
        );
    };
    for arguments in [
        "-p x",
        "-p 0",
        "-p 99999",
        "-h a,b -p 1,2,3",
        "hostaddr=nohost",
        "hostaddr=127.0.0.1",
        "sslmode=on",
        "target_session_attrs=x",
        "channel_binding=x",
        "service=nosuch",
        "bogus=1",
        "-i port=0",
    ] {
        check(&[], &format!("-t 1 {arguments}"));
    }
    check(&[("PGSERVICEFILE", "/nowhere")], "-t 1 service=x");

    cluster.sql("postgres", "create role asked login password 'secret'");
    cluster.write("data/pg_hba.conf", "local all asked scram-sha-256\nlocal all all trust\n");
    cluster.sql("postgres", "select pg_reload_conf(), pg_sleep(0.5)");
    cluster.write("passwords", "*:*:*:*:wrong\n");
    let passwords = cluster.dir().join("passwords");
    for mode in [0o644, 0o600] {
        std::fs::set_permissions(&passwords, PermissionsExt::from_mode(mode))
            .expect("the test's own file gets other permissions");
        check(&[("PGPASSFILE", &passwords.display().to_string())], "-n -t 1 -U asked -p 1");
    }
    check(&[("PGPASSFILE", &passwords.display().to_string())], "-n -t 1 -U asked");
    cluster.write("one", "SELECT 1;\n");
    // Options next to a connection string with a password say where the server is.
    let by_options = format!("-n -t 1 -f one -U asked -h {} postgres:///postgres", cluster.dir().display());
    for password in ["secret", "wrong"] {
        check(&[("PGHOST", "/nowhere")], &format!("{by_options}?password={password}"));
    }
    for user in ["postgres", "asked"] {
        check(&[("PGPASSWORD", "secret")], &format!("-n -t 1 -f one -U {user} channel_binding=require"));
    }
    for input in ["secret\n", "wrong\n", ""] {
        let arguments = "-n -t 1 -f one -U asked";
        let said = [Who::Genuine, Who::Ours].map(|who| cluster.answer(input, who, arguments));
        assert_eq!((&said[1].code, &said[1].stderr), (&said[0].code, &said[0].stderr), "{input}");
    }
}

/// Keywords that libpq learned after 15, which is the release of the genuine program here, in libpq 18's words.
pub(crate) fn newer_keywords_are_taken(cluster: &Cluster) {
    cluster.write("one", "SELECT 1;\n");
    cluster.write("services", "[md5]\nrequire_auth=md5\n[typo]\nreqire_auth=md5\n");
    let services = cluster.dir().join("services").display().to_string();
    let check = |environment: &[(&str, &str)], settings: &str, expected: &str| {
        let said = cluster.run_in(environment, Who::Ours, &format!("-n -C -t 5 -f one {settings}"));
        if expected.is_empty() {
            assert_eq!((said.code, &*said.stderr), (Some(0), ""), "{environment:?} {settings}");
            return;
        }
        let socket = format!("{}/.s.PGSQL.5432", cluster.dir().display());
        let expected =
            expected.replace("SERVER", &format!("connection to server on socket \"{socket}\" failed"));
        let stderr =
            format!("pgbench: error: {expected}\npgbench: error: could not create connection for setup\n");
        assert_eq!((said.code, said.stderr), (Some(1), stderr), "{environment:?} {settings}");
    };
    let incomplete =
        "SERVER: authentication method requirement \"md5\" failed: server did not complete authentication";
    check(&[], "require_auth=md5", incomplete);
    check(&[], "postgresql:///postgres?require_auth=md5", incomplete);
    check(&[("PGREQUIREAUTH", "md5")], "", incomplete);
    check(&[("PGSERVICEFILE", &services)], "service=md5", incomplete);
    check(&[("PGREQUIREAUTH", "md5")], "require_auth=none", "");
    check(&[("PGREQUIREAUTH", "mdfive")], "", "invalid require_auth value: \"mdfive\"");
    check(&[], "reqire_auth=md5", "invalid connection option \"reqire_auth\"");
    check(&[], "postgresql:///postgres?reqire_auth=md5", "invalid URI query parameter: \"reqire_auth\"");
    check(&[("PGSERVICEFILE", &services)], "service=typo", "invalid connection option \"reqire_auth\"");
    let too_old =
        "SERVER: server only supports protocol version 3.0, but \"min_protocol_version\" was set to 3.2";
    let version: u32 = cluster.sql("postgres", "show server_version_num").trim().parse().expect("a number");
    let too_old = if version < 180_000 { too_old } else { "" };
    check(&[], "min_protocol_version=3.2", too_old);
    check(&[("PGMINPROTOCOLVERSION", "latest")], "", too_old);
    check(&[("PGMAXPROTOCOLVERSION", "latest")], "", "");
    check(&[("PGMAXPROTOCOLVERSION", "4")], "", "invalid max_protocol_version value: \"4\"");
    let hosts = format!("postgresql:///?host={dir},{dir}&load_balance_hosts", dir = cluster.dir().display());
    check(&[("PGPORT", "5432")], &format!("{hosts}=random"), "");
    check(&[("PGLOADBALANCEHOSTS", "any")], "", "invalid load_balance_hosts value: \"any\"");
}
