//! Which options of which programs take a secret: one table.

/// What of an option's value is secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
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
    /// `user:VALUE`, `Bearer VALUE`, or a value alone; not the name of a method.
    Credential,
    /// A key; not a number, the name of a file or of a column.
    Key,
    /// `user/VALUE@database`, perhaps after `userid=`.
    Login,
}

/// An option of some programs.
pub(super) struct Row {
    /// Names of the programs, separated by spaces; none means any.
    pub(super) programs: &'static str,
    /// A word between the program and the option, without which the option means something else.
    pub(super) after: &'static str,
    /// None means any word that is no option.
    pub(super) options: &'static str,
    pub(super) part: Part,
    /// A command with the secret `S3cret`, and one in which nothing is hidden.
    #[cfg(test)]
    pub(super) examples: (&'static str, &'static str),
}

macro_rules! rows {
    ($($programs:literal $after:literal $options:literal => $part:expr, $hidden:literal, $kept:literal;)*) => {
        /// The first row that fits decides, so rows of programs come before those of any program.
        pub(super) const ROWS: &[Row] = &[$(Row {
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
    "initdb pg_ctl pg_createcluster pgdyno" "" "-A --auth --auth-local --auth-host" => Part::Nothing,
        "", "initdb --auth=ident -D x --auth-local whatever";
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
    "redis-cli valkey-cli keydb-cli redis-benchmark valkey-benchmark memtier_benchmark" "" "-a" => Part::Whole, "redis-cli -a S3cret flushall", "redis-cli -p 6379 flushall";
    "sqlcmd bcp osql isql tsql ipmitool impitool zip unzip" "" "-P" => Part::Whole, "sqlcmd -S h -U sa -P S3cret", "sqlcmd -S h -U sa -Q x";
    "racadm ilorest perccli twistcli" "" "-p" => Part::Whole, "racadm -r h -u root -p S3cret set BIOS.x 1", "racadm -r h --port 443 get BIOS";
    "usermod useradd chpasswd" "" "-p" => Part::Whole, "usermod -p S3cret bob", "usermod -L bob";
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
    "http https xh xhs" "" "-a --auth" => Part::Credential, "http -A bearer -a S3cret h", "http -A bearer h";
    "http https xh xhs" "" "-A --auth-type" => Part::Nothing, "", "http -A bearer h";
    "ab hey" "" "-a -A -P" => Part::After(':'), "ab -A bob:S3cret http://h/", "ab -n 10 http://h/";
    "kubectl oc" "secret" "--from-literal" => Part::After('='),
        "kubectl create secret generic x --from-literal=db=S3cret", "kubectl create configmap x --from-literal=db=shop";
    "mosquitto_pub mosquitto_sub mosquitto_rr" "" "-P" => Part::Whole, "mosquitto_sub -u bob -P S3cret -t x", "mosquitto_sub -p 1883 -t x";
    "doctl fly flyctl influx" "" "-t" => Part::Whole, "doctl -t S3cret account get", "doctl -o json account get";
    "rabbitmqadmin twine snowsql" "" "-p" => Part::Whole, "rabbitmqadmin -u bob -p S3cret list", "rabbitmqadmin -P 15672 list";
    "ssh-keygen" "" "-N -P" => Part::Whole, "ssh-keygen -N S3cret -f x", "ssh-keygen -t ed25519 -f x";
    "rar unrar" "" "-p -hp" => Part::Attached, "unrar x -pS3cret a.rar", "unrar x a.rar";
    "xfreerdp wlfreerdp" "" "/p" => Part::After(':'), "xfreerdp /u:bob /p:S3cret /v:h", "xfreerdp /v:h";
    "sqlplus sqlcl sqlldr exp imp expdp impdp rman" "" "" => Part::Login, "sqlplus scott/S3cret@db", "sqlplus scott@db @dir/x.sql";
    "mysqlsh" "" "" => Part::BeforeHost, "mysqlsh bob:S3cret@h", "mysqlsh bob@h:3306";
    "sort join aws keytool" "" "--key -key" => Part::Nothing, "", "aws s3api get-object --key run17 out";
    "date docker docker-compose podman chpst setpriv start-stop-daemon ps sort diff cp" "" "-u -U --user" => Part::Nothing,
        "", "docker-compose run --user app:app x";
    "" "" "-u -U --user --username --proxy-user --basic --login --creds" => Part::After(':'),
        "curl -u bob:S3cret https://h", "curl -u bob https://h";
    "" "" "--auth --authorization --http-auth --basic-auth --userpass --psk --otp" => Part::Credential,
        "x --auth S3cret", "x --auth basic --auth-file /etc/auth";
    "" "" "--cookie --cookies" => Part::Cookie, "x --cookie 'token=S3cret; id=S3cret'", "x --cookie jar.txt";
    "" "" "-H --header --proxy-header --http-header" => Part::Header,
        "curl -H 'apikey: S3cret' https://h", "curl -H 'Accept: text/plain' https://h";
}
