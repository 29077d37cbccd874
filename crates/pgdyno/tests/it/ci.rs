//! `deploy/ci/compare.sh`, as a job calls it: from a package, on real servers, to each of its ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testbed::bin_dir;

use crate::tool::{Ended, Place, Running, wait_until};

/// A second of load is ample for a table scan against an index.
const SHORT: &str = "-f read.sql -c 2 --duet --rounds 1 --slice 150 --guard 15 --measure 3s --ramp-up 0s \
                     --set prepare.settle=false --set prepare.prewarm=false --set prepare.snapshot=false --set prepare.restore=false";

/// The script with a job's environment. pgdyno is only in its package, as on a runner.
fn job(place: &Place, args: &[&str], environment: &[(&str, &str)]) -> Ended {
    start(place, args, environment).wait()
}

fn start(place: &Place, args: &[&str], environment: &[(&str, &str)]) -> Running {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/ci/compare.sh");
    let mut command = place.command_of(&script, args);
    command.envs(environment.iter().copied()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("GITHUB_STEP_SUMMARY", place.path("summary.md"));
    place.start(command)
}

fn schemas(place: &Place, sides: [&str; 2], environment: &[(&str, &str)]) -> Ended {
    let server = format!("server.bin_dir={}", bin_dir().display());
    let options = SHORT.split(' ').filter(|word| !word.is_empty()).chain(["--set", &server]);
    let args: Vec<&str> = ["schemas", sides[0], sides[1], "--"].into_iter().chain(options).collect();
    job(place, &args, environment)
}

/// A package whose program is the one under test.
fn package(place: &Place) -> PathBuf {
    let program = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_pgdyno"));
    fs::create_dir_all(place.path("pgdyno-x/bin")).unwrap();
    let path = place.write("pgdyno-x/bin/pgdyno", &program);
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["-czf", "pgdyno-x.tar.gz", "pgdyno-x"]).current_dir(place.path(""));
    assert!(tar.status().unwrap().success());
    place.path("pgdyno-x.tar.gz")
}

#[test]
fn a_job_of_ci_passes_without_a_difference_and_fails_without_an_index() {
    let place = Place::new();
    let package = package(&place).display().to_string();
    let table = "CREATE TABLE orders (id int PRIMARY KEY, customer int, total int);\n\
                 INSERT INTO orders SELECT n, n % 5000, n % 97 FROM generate_series(1, 50000) n;\n";
    fs::create_dir(place.path("base")).unwrap();
    place.write("base/001-table.sql", table);
    place.write("base/002-index.sql", "CREATE INDEX ON orders (customer);\n");
    place.write("same.sql", &format!("{table}-- The same.\nCREATE INDEX ON orders (customer);\n"));
    place.write("without.sql", table);
    let read = "\\set customer random(0, 4999)\nSELECT sum(total) FROM orders WHERE customer = :customer;\n";
    place.write("read.sql", read);

    // By chance, one of forty such comparisons says slower; two in a row do not happen.
    let again = [("PGDYNO_PACKAGE", package.as_str()), ("PGDYNO_AGAIN", "1")];
    schemas(&place, ["base", "same.sql"], &again).expect(0);
    let results = fs::read_dir(place.path("comparison")).unwrap();
    let mut kept: Vec<_> = results.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    kept.retain(|name| !name.starts_with("again"));
    kept.sort();
    let expected =
        ["comparison-report.html", "comparison-report.md", "comparison-runs.csv", "comparison.tar.gz"];
    assert_eq!(kept, expected);

    let slower = [("PGDYNO_PACKAGE", package.as_str()), ("PGDYNO_RESULTS", "slower")];
    let ended = schemas(&place, ["base", "without.sql"], &slower).expect(4);
    assert!(ended.stdout.contains("B: data without.sql\n\nB is "), "{}", ended.stdout);
    assert!(!ended.stdout.contains("undeclared"), "another schema has another size: {}", ended.stdout);
    let summary = fs::read_to_string(place.path("summary.md")).unwrap();
    assert!(summary.contains("% slower (95 % interval") && summary.contains("| throughput |"), "{summary}");
    let unpacked = place.run(&["unpack", "slower/comparison.tar.gz", "-o", "unpacked"]).expect(0);
    assert!(unpacked.stderr.contains("pgdyno report unpacked"), "{}", unpacked.stderr);
    place.run(&["compare", "unpacked", "--fail-on", "slower"]).expect(4);
    place.expect_clean();
}

#[test]
fn a_job_of_ci_that_cannot_compare_says_why() {
    let place = Place::new();
    let package = package(&place).display().to_string();
    place.write("a.sql", "SELECT 1;\n");
    let refused = |args: &[&str], environment: &[(&str, &str)], expected: &str| {
        let ended = job(&place, args, environment).expect(1);
        assert!(ended.stderr.contains(expected), "{args:?} {}", ended.stderr);
        let summary = fs::read_to_string(place.path("summary.md")).unwrap();
        assert!(summary.trim_end().lines().last().unwrap().starts_with("**No comparison:** "), "{summary}");
        fs::remove_file(place.path("summary.md")).unwrap();
    };
    let ours = [("PGDYNO_PACKAGE", package.as_str())];
    refused(&["schemas", "a.sql"], &ours, "usage: compare.sh builds|schemas BASE HEAD");
    refused(&["schemas", "a.sql", "none.sql"], &ours, "there is no file `none.sql` with SQL");
    refused(&["builds", "18", "/nowhere"], &ours, "is neither a directory with the program postgres nor a");
    refused(&["schemas", "a.sql", "a.sql", "-c", "1"], &ours, "options of pgdyno come after --");
    if !Path::new("/usr/bin/pgdyno").exists() {
        refused(&["schemas", "a.sql", "a.sql"], &[], "there is no pgdyno; name its package");
    }
    refused(
        &["schemas", "a.sql", "a.sql"],
        &[("PGDYNO_PACKAGE", "none.deb")],
        "there is no package `none.deb`",
    );
    let address = [("PGDYNO_PACKAGE", "https://localhost:1/pgdyno.deb")];
    refused(&["schemas", "a.sql", "a.sql"], &address, "PGDYNO_SHA256 must hold the hash");
    let hash = [ours[0], ("PGDYNO_SHA256", "0000")];
    refused(&["schemas", "a.sql", "a.sql"], &hash, "is not what PGDYNO_SHA256 says");
    // Both sides are the same: pgdyno refuses, and the script says so.
    refused(&["builds", "18", "18"], &ours, "did you mean --aa?");
}

const TOKEN: &str = "S3cretToken";

/// A server with TLS that notes what it is asked for, and answers when the file `go` is there: with the package, or for a
/// repository that there is none.
const SERVER: &str = r#"
import http.server, os, ssl, time
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open("asked", "a") as asked:
            asked.write(self.path + " " + self.headers.get("Authorization", "") + "\n")
        while not os.path.exists("go"):
            time.sleep(0.05)
        if "service=git" in self.path:
            self.send_response(401 if "Authorization" not in self.headers else 404)
            self.send_header("WWW-Authenticate", "Basic realm=x")
            self.end_headers()
            return
        body = open("pgdyno-x.tar.gz", "rb").read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
with open("port.new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename("port.new", "port")
server.serve_forever()
"#;

/// Ends with what it runs in.
struct Server(Child);

impl Server {
    fn start(place: &Place) -> (Server, String) {
        let mut openssl = Command::new("openssl");
        let make = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem -addext \
                    subjectAltName=DNS:localhost,IP:127.0.0.1";
        openssl.args(make.split_whitespace()).current_dir(place.path("")).stderr(Stdio::null());
        assert!(openssl.status().unwrap().success());
        let python = std::env::var("PGDYNO_PYTHON").unwrap_or_else(|_| "python3".to_string());
        let mut command = Command::new(python);
        let child = command.args(["-c", SERVER]).current_dir(place.path("")).spawn().unwrap();
        let server = Server(child);
        wait_until("the server listens", || place.path("port").exists());
        let port = fs::read_to_string(place.path("port")).unwrap();
        (server, format!("localhost:{port}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// What the processes below a job have as arguments, as everybody may read it.
fn arguments(running: &Running) -> String {
    let of = |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let pids = running.descendants().into_iter().chain([running.pid()]);
    pids.map(|pid| String::from_utf8_lossy(&of(pid)).replace('\0', " ") + "\n").collect()
}

#[test]
fn an_address_with_a_token_is_neither_in_the_log_nor_in_arguments() {
    let place = Place::new();
    package(&place);
    place.write("a.sql", "SELECT 1;\n");
    let (server, host) = Server::start(&place);
    let asked = || fs::read_to_string(place.path("asked")).unwrap_or_default();
    let package = format!("https://bob:{TOKEN}@{host}/x/pgdyno-x.tar.gz?private_token={TOKEN}");
    let source = format!("https://bob:{TOKEN}@{host}/postgres.git");
    let certificate = place.path("cert.pem").display().to_string();
    let hash = files::sha256(&place.path("pgdyno-x.tar.gz")).unwrap();
    let ours = [
        ("CURL_CA_BUNDLE", certificate.as_str()),
        ("GIT_SSL_CAINFO", &certificate),
        ("PGDYNO_PACKAGE", &package),
        ("PGDYNO_SHA256", &hash),
        ("PGDYNO_SOURCE", &source),
        // As of a job whose shell traces what it does.
        ("SHELLOPTS", "xtrace"),
    ];
    let expect_quiet = |what: &str, text: &str| assert!(!text.contains(TOKEN), "{what}: {text}");
    // curl takes brackets for a pattern, and quotes an address in its errors.
    for sign in ["{", "["] {
        let package = format!("https://{host}/x/pgdyno-x.tar.gz?private_token={sign}{TOKEN}");
        let more =
            [("PGDYNO_PACKAGE", package.as_str()), ("PGDYNO_SHA256", &hash), ("PGDYNO_SOURCE", &source)];
        let ended = job(&place, &["builds", "REL_18_0", "REL_18_1"], &more).expect(1);
        assert!(ended.stderr.contains("curl ended with exit code"), "{}", ended.stderr);
        expect_quiet("its words", &(ended.stdout + &ended.stderr));
    }

    let running = start(&place, &["builds", "REL_18_0", "REL_18_1"], &ours);
    wait_until("the package is asked for", || asked().contains("/x/pgdyno-x.tar.gz"));
    assert!(asked().contains(&format!("?private_token={TOKEN} Basic ")), "{}", asked());
    let shown = arguments(&running);
    assert!(shown.contains("curl"), "{shown}");
    expect_quiet("arguments of curl", &shown);
    place.write("go", "");
    wait_until("the package is there", || {
        running.descendants().is_empty() || asked().contains("service=git")
    });
    let ended = running.wait().expect(1);
    // With the user that the address has, the server says that there is no such repository.
    assert!(
        asked().lines().any(|line| line.contains("service=git") && line.contains("Basic ")),
        "{}",
        asked()
    );
    let told = format!("cannot clone `https://{host}/postgres.git` (PGDYNO_SOURCE)");
    assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    expect_quiet("log", &format!("{}{}", ended.stdout, ended.stderr));

    // Whatever goes wrong with it.
    let wrong = package.replace(&host, "localhost:1");
    let missing = package.replace("https:", "http:");
    let odd = format!("https://bob:{TOKEN}/x@{host}/x.deb");
    for (package, hash) in [(&wrong, "0"), (&package, "0"), (&missing, "0"), (&odd, "0"), (&package, "")] {
        let ours = [ours[0], ours[1], ("PGDYNO_PACKAGE", package.as_str()), ("PGDYNO_SHA256", hash)];
        let ended = job(&place, &["schemas", "a.sql", "a.sql"], &ours).expect(1);
        assert!(ended.stderr.contains("compare: "), "{}", ended.stderr);
        expect_quiet(package, &ended.stderr);
    }
    expect_quiet("the page of the job", &fs::read_to_string(place.path("summary.md")).unwrap());
    drop(server);
    place.expect_clean();
}
