//! Commands with secrets and without, and each row of the table.

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
        "kcadm.sh config credentials --password S3cret",
        "ssh -o 'ProxyCommand=sshpass -p S3cret ssh jump' db1",
        "git -c 'core.sshCommand=sshpass -p S3cret ssh' fetch",
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
fn keys_connection_words_and_what_arguments_say_is_hidden() {
    for command in [
        "x --key S3cret",
        "x --key=S3cret",
        "x -key S3cret",
        "x --api-key S3cret",
        "x --apikey=S3cret",
        "x --app-key 'S3cret'",
        "x --license-key S3cret",
        "x --passcode S3cret",
        "KEY=S3cret x",
        "FOO_KEY=S3cret x",
        "env A=b DD_APP_KEY=S3cret x",
        "export STRIPE_KEY='S3cret'; x",
        "docker run -e FOO_KEY=S3cret image",
        "aws_secret_access_key=S3cret aws s3 ls",
        "PGPASSWORD=S3cret psql",
        "APP_PASSCODE=S3cret x",
        "x 'password: S3cret'",
        "mail -s report -a 'the password: S3cret' bob",
        "notify 'log in as bob, Password: S3cret'",
        "echo 'db_password: S3cret' > secrets.yml",
        "x 'passphrase: S3cret'",
        "x 'token: S3cret'",
        "x 'secret: S3cret'",
        "x 'api key: S3cret'",
        "sqlplus scott/S3cret@db",
        "sqlplus -S scott/S3cret@//h:1521/db @x.sql",
        "sqlplus scott/S3cret",
        "exp userid=scott/S3cret file=x.dmp",
        "mysqlsh bob:S3cret@h:3306",
        "memtier_benchmark -a S3cret",
        "sqlldr userid=scott/S3cret@db control=x.ctl",
        "expdp scott/S3cret@db directory=d",
        "rman target sys/S3cret@db",
        "impdp 'scott/S3cret'",
        "curl -u user:S3cret h",
        "curl -U user:S3cret h",
        "wget --http-password=S3cret h",
        "mysql -pS3cret",
        "mariadb-dump -u root -pS3cret x",
        "redis-cli -a S3cret ping",
        "redis-cli --pass S3cret ping",
        "redis-benchmark -a S3cret",
        "curl -H 'Authorization: Bearer S3cret' h",
        "x 'Authorization: Bearer S3cret'",
        "AWS_SECRET_ACCESS_KEY=S3cret aws s3 ls",
        "AWS_SESSION_TOKEN=S3cret aws s3 ls",
        "pg_restore -d 'host=h user=u password=S3cret' f",
        "psql 'postgresql://h/db?user=u&password=S3cret'",
        "influx -t S3cret write",
        "db2 connect to shop user bob using S3cret",
        "clickhouse-client --password S3cret",
        "mc alias set x https://h bob S3cret",
        "gpg --batch --passphrase S3cret -d f",
        "restic -o x --password-command 'echo S3cret'",
        "ssh h PGPASSWORD=S3cret psql",
        "ssh h FOO_KEY=S3cret x",
        "sh -c 'FOO_KEY=S3cret x'",
        "sudo FOO_KEY=S3cret x",
        "runuser -u bob -- env FOO_KEY=S3cret x",
        "kubectl set env deploy/x FOO_KEY=S3cret",
        "cqlsh -u bob -p S3cret",
        "mongosh mongodb://bob:S3cret@h/x",
        "ftp ftp://bob:S3cret@h/x",
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
        "UPDATE T SET X=1 WHERE ORDER_KEY=:okey",
        "UPDATE T SET USER_KEY=ABS(X) WHERE A_KEY=:a",
        "SELECT * FROM T WHERE A_KEY=:a AND B_KEY=:b",
        "MESH_KEY=$KEY x",
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
        "x --key-column id --key id --key order_id -p 5432",
        "x --key 5 --key-file /etc/key --key-name bench --keyspace shop",
        "aws s3api get-object --bucket b --key results.tar out",
        "x --set KEY=VALUE --where KEY=LEVEL",
        "KEY=VALUE,...[*COUNT]",
        "in pairs: pgdyno compare --a KEY=VALUE --b KEY=VALUE.",
        "x --set KEY=VALUE; x [--set KEY=VALUE]",
        "SORT_KEY=id PRIMARY_KEY=order_id KEY_FILE=/etc/key SSH_KEY=/root/.ssh/id KEY=5 x",
        "KEY=\"$KEY\" x",
        "x 'the password: it is in the file'",
        "sqlplus /nolog",
        "sqlplus / as sysdba",
        "sqlplus scott@db @dir/x.sql",
        "mysql -p -P 3306 -h h",
        "curl -u bob: h",
        "psql -c 'select key from t where key = id'",
        "x 'foreign key: id'",
    ] {
        check(command, false);
    }
    let sentence = "the option --token and the option --password take no value here";
    assert_eq!(hide_text(sentence), sentence);
}
