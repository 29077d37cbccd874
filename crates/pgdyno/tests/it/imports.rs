//! Series that something else measures during a run: from an HTTP server that answers as Prometheus documents it, and from a
//! file.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{SystemTime, UNIX_EPOCH};

use testbed::Pg;

use crate::tool::{Place, expect_sound};

const SECRET: &str = "im-s3cret-port";

/// Answers one range query with a sample in each second of the span that it asks for, if the asker has the token.
fn serve() -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut part) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"\r\n\r\n") {
            let n_bytes = stream.read(&mut part).unwrap();
            request.extend_from_slice(&part[..n_bytes]);
        }
        let request = String::from_utf8(request).unwrap();
        let of = |name: &str| -> f64 {
            let rest = request.split_once(&format!("&{name}=")).unwrap().1;
            rest.split(['&', ' ']).next().unwrap().parse().unwrap()
        };
        let (from_s, to_s) = (of("start"), of("end"));
        let n = (to_s - from_s) as u32;
        let values: Vec<String> =
            (0..=n).map(|i| format!("[{:.3},\"{}\"]", from_s + f64::from(i), (i + 1) << 20)).collect();
        let body = format!(
            "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{{\"metric\":{{\"socket\":\"0\"}},\
             \"values\":[{}]}}]}}}}",
            values.join(",")
        );
        write!(stream, "HTTP/1.0 200 OK\r\n\r\n{body}").unwrap();
        request
    });
    (address, server)
}

#[test]
fn series_that_others_measured_are_stored_and_drawn_with_the_run() {
    let (pg, place) = (Pg::shared(), Place::new());
    let database = pg.database_of("postgres");
    let (address, server) = serve();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    // From before the run until long after it; 2 s ahead of our clock.
    let rows: Vec<String> = (0..300).map(|s| format!("{},{}", now + s, 50 + s % 5)).collect();
    place.write("power.csv", &format!("time,watts\n{}\n", rows.join("\n")));
    place.write("token", &format!("{SECRET}\n"));
    place.write(
        "imports.toml",
        &format!(
            "[experiment]\nname = \"imports\"\nrepeats = 1\n[server]\nurl = \"{}\"\n\
             [workload]\nkind = \"scripts\"\npace = \"100/s\"\nscripts = [{{name = \"one\", text = \"SELECT 1;\"}}]\n\
             [run]\nramp_up = \"0s\"\nmeasure = \"3s\"\n[prepare]\nsettle = false\n\
             [[import]]\nname = \"bandwidth\"\nunit = \"B/s\"\nprometheus = \"{address}\"\nquery = \"rate(bw[5s])\"\n\
             token_file = \"{}\"\n\
             [[import]]\nname = \"power\"\nunit = \"W\"\ncsv = \"power.csv\"\ntime_column = \"time\"\n\
             value_column = \"watts\"\nclock_offset_s = 2\n\
             [[import]]\nname = \"absent\"\ncsv = \"none.csv\"\ntime_column = \"t\"\nvalue_column = \"v\"\n",
            pg.admin_target(&database),
            place.path("token").display()
        ),
    );
    place.run(&["run", "imports.toml", "-o", "out"]).expect(0);
    let request = server.join().unwrap();
    assert!(request.contains(&format!("Authorization: Bearer {SECRET}\r\n")), "{request}");

    let run = place.first_run("out");
    expect_sound(&run);
    let names: Vec<&str> = run.imports.iter().map(|imported| imported.name.as_str()).collect();
    assert_eq!(names, ["bandwidth", "power"]);
    let go = run.record.go_unix_ns.unwrap() as f64 / 1e9;
    for imported in &run.imports {
        let points = &imported.series[0].points;
        let (first, last) = (points[0].0 - go, points[points.len() - 1].0 - go);
        assert!(points.len() >= 3 && first >= -0.01 && last < 5.0, "{imported:?}");
    }
    let missing = &run.record.telemetry_unavailable["import.absent"];
    assert!(missing.contains("none.csv: v: cannot be read: "), "{missing}");

    let page = fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(page.contains("Bandwidth (imported)") && page.contains("Power (imported)"));
    let json = place.run(&["report", "out", "--json"]).expect(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let imported = &json["runs"][0]["imported"];
    assert_eq!(imported[0]["min"], f64::from(1 << 20), "{imported}");
    assert_eq!(imported[1]["unit"], "W");
    for name in ["runs/0001/imports.jsonl", "runs/0001/run.json", "experiment.toml", "plan.json"] {
        assert!(!fs::read_to_string(place.path("out").join(name)).unwrap().contains(SECRET), "{name}");
    }
    place.expect_clean();
}
