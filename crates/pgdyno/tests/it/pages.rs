//! Pages of results whose every name, label and message is an attack, in a real browser: nothing of it runs, and nothing is fetched,
//! also without the policy that forbids both.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use testbed::{Pg, browser};

use crate::tool::Place;

/// What an attack leaves in the document if it runs.
const TRACE: &str = "data-sprung";
/// Ways out of a text, an attribute, a script; without the slash, which names of files cannot have.
const ATTACK: &str = "'\"><img src=x onerror=document.documentElement.setAttribute('data-sprung','1')>";
/// The same, and a request to another machine.
const LONG_ATTACK: &str = "</script></title></style><script>document.documentElement.setAttribute('data-sprung','2');\
                           fetch('http://elsewhere.invalid/')</script><img src=http://elsewhere.invalid/>\
                           '\" onload=alert(1) javascript:document.documentElement.setAttribute('data-sprung','3')";

/// A proxy through which the browser must go for everything that is no file, and what it was asked for.
struct Outside {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Outside {
    fn watch() -> Outside {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, asked) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<String>>>::default());
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut line = String::new();
                let _ = BufReader::new(&stream).read_line(&mut line);
                log.lock().unwrap().push(line);
                let _ = (&stream).write_all(b"HTTP/1.1 502 no\r\ncontent-length: 0\r\n\r\n");
            }
        });
        Outside { port, asked }
    }

    /// The document of a page after its scripts have run, and what else was asked for that the browser does not ask for by itself.
    fn open(&self, page: &Path) -> (String, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let proxy = format!("--proxy-server=127.0.0.1:{}", self.port);
        let document =
            browser::document(page, directory.path(), &[&proxy, "--proxy-bypass-list=<-loopback>"]);
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.retain(|line| !line.contains("google"));
        (document, asked)
    }
}

/// An experiment on two targets; each text that a person chooses is an attack.
fn write_experiment(place: &Place, targets: [&str; 2]) {
    let script = format!("{ATTACK}.sql");
    // Its statements are in the report, and one of them fails with a message of the server.
    // A colon before a word would make it a variable.
    let message = LONG_ATTACK.replace('\'', "''").replace(':', "'||':'||'");
    place.write(&script, &format!("select '{message}' as \"{}\";\n", ATTACK.replace('"', "\"\"")));
    let raise = format!("do $$ begin raise exception '%', '{message}'; end $$;");
    place.write(
        "fails.sql",
        &format!("\\set n random(1, 9)\n\\if :n = 1\n{raise}\n\\else\nselect 1;\n\\endif\n"),
    );
    let text = |text: &str| toml_text(text);
    let target = |name: &str, url: &str| {
        format!(
            "[[target]]\nname = {}\nurl = {}\nprovider = {}\nregion = {}\nlabels = {{note = {}}}\nprice_per_hour = 1\ncurrency = \"EUR\"\n",
            text(&format!("{name} {ATTACK}")),
            text(url),
            text(LONG_ATTACK),
            text(LONG_ATTACK),
            text(LONG_ATTACK)
        )
    };
    let experiment = format!(
        "[experiment]\nname = \"pages\"\nrepeats = 1\ntitle = {}\ndescription = {}\n{}{}[workload]\nkind = \"scripts\"\ndata = \"none\"\n\
         protocol = \"simple\"\nscripts = [{}, \"fails.sql@1\"]\n[workload.defines]\nx = [{}]\n\
         [run]\nramp_up = \"0s\"\nmeasure = \"2s\"\nmax_failed = \"100%\"\n[prepare]\nsettle = false\n",
        text(LONG_ATTACK),
        text(LONG_ATTACK),
        target("a", targets[0]),
        target("b", targets[1]),
        text(&format!("{script}@9")),
        text(LONG_ATTACK),
    );
    place.write("pages.toml", &experiment);
}

fn toml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Opens a page as it is, and without its policy.
fn expect_harmless(outside: &Outside, page: &Path) {
    let text = fs::read_to_string(page).unwrap();
    assert!(text.contains("data-sprung") && text.contains("elsewhere.invalid"), "the attacks are in it");
    let policy = text.find("<meta http-equiv=\"Content-Security-Policy\"").unwrap();
    let end = policy + text[policy..].find('>').unwrap() + 1;
    let bare = page.with_file_name("bare.html");
    fs::write(&bare, [&text[..policy], &text[end..]].concat()).unwrap();
    for page in [page, &bare] {
        let (document, asked) = outside.open(page);
        let root = document.split("<html").nth(1).unwrap().split('>').next().unwrap();
        assert!(!root.contains(TRACE), "{}: <html{root}>", page.display());
        assert_eq!(asked, Vec::<String>::new(), "{}", page.display());
        let body = document.split("<body").nth(1).unwrap().split('>').next().unwrap();
        assert!(
            !body.contains("data-errors") && body.contains("data-rendered"),
            "{}: {body}",
            page.display()
        );
        for forbidden in ["href=\"javascript:", "<img", "src=\"http"] {
            assert!(!document.contains(forbidden), "{}: {forbidden}", page.display());
        }
    }
}

#[test]
fn nothing_that_users_or_servers_say_runs_in_a_page_or_fetches_anything() {
    let outside = Outside::watch();
    let place = Place::new();
    // What this test would see of a page that is open to attacks.
    let open = place.write("open.html", &format!("<!doctype html><html><body>{LONG_ATTACK}</body></html>"));
    let (document, asked) = outside.open(&open);
    assert!(
        document.contains(TRACE) && asked.iter().any(|line| line.contains("elsewhere.invalid")),
        "{document} {asked:?}"
    );

    let pg = Pg::shared();
    let targets = [pg.admin_target(&pg.database()), pg.admin_target(&pg.database())];
    write_experiment(&place, [&targets[0], &targets[1]]);
    let ended = place.run(&["run", "pages.toml", "-o", "out"]);
    let report = fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(ended.code() == Some(0) && report.contains("P0001"), "{ended:?}");
    expect_harmless(&outside, &place.path("out/report.html"));
    let compared = place.run(&["compare", "out:1", "out:2", "--report", "page.html"]);
    assert!(place.path("page.html").exists(), "{compared:?}");
    expect_harmless(&outside, &place.path("page.html"));
    place.expect_clean();
}
