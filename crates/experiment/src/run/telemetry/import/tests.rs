//! Tests of imports: answers as Prometheus documents them, files, and a server on this machine.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use super::*;

static GO_ON: AtomicBool = AtomicBool::new(false);

const SPAN: LoadSpan = LoadSpan { from_s: 1_764_000_000.0, to_s: 1_764_000_010.0 };

/// A server that gives `answers` in turn; returns its address, and later what it was asked for.
fn serve(answers: Vec<String>) -> (String, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut part) = (Vec::new(), [0; 4096]);
            while !request.ends_with(b"\r\n\r\n") {
                let n_bytes = stream.read(&mut part).unwrap();
                request.extend_from_slice(&part[..n_bytes]);
            }
            asked.push(String::from_utf8(request).unwrap());
            stream.write_all(answer.as_bytes()).unwrap();
        }
        asked
    });
    (address, server)
}

fn answer(status: u16, body: &str) -> String {
    format!("HTTP/1.0 {status} x\r\nContent-Type: application/json\r\n\r\n{body}")
}

/// The documented form of an answer, with a sample before the load, one that is no number, and one of another series.
const MATRIX: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
    {"metric":{"__name__":"bw","job":"pcm","socket":"1"},"values":[[1764000001,"5"],[1764000002.5,"NaN"]]},
    {"metric":{"__name__":"bw","job":"pcm","socket":"0"},"values":[[1763999999,"1"],[1764000001,"2e3"],[1764000004,"3"]]}
]}}"#;

#[test]
fn series_of_a_prometheus_server_are_those_of_the_load_by_our_clock() {
    let (address, server) = serve(vec![answer(200, MATRIX), answer(200, MATRIX)]);
    let import = Import {
        name: "bandwidth".to_string(),
        prometheus: Some(address.clone()),
        query: Some("sum by (socket) (rate(bw[5s]))".to_string()),
        ..Import::default()
    };
    let given = taken(&import, SPAN, &GO_ON).unwrap();
    let series = |name: &str, points: &[(f64, f64)]| ImportedSeries {
        name: name.to_string(),
        points: points.iter().map(|(t_s, value)| (SPAN.from_s + t_s, *value)).collect(),
    };
    assert_eq!(given.series, [series("0", &[(1.0, 2000.0), (4.0, 3.0)]), series("1", &[(1.0, 5.0)])]);
    // Its clock is 2 s ahead: what it has at 1 and 4 was at -1 and 2.
    let ahead = Import { clock_offset_s: 2.0, ..import };
    assert_eq!(taken(&ahead, SPAN, &GO_ON).unwrap().series, [series("0", &[(2.0, 3.0)])]);
    let asked = server.join().unwrap();
    let expected = "GET /api/v1/query_range?query=sum%20by%20%28socket%29%20%28rate%28bw%5B5s%5D%29%29\
                    &start=1764000000.000&end=1764000010.000&step=1 HTTP/1.0\r\n";
    assert!(asked[0].starts_with(expected), "{}", asked[0]);
    assert!(asked[1].contains("&start=1764000002.000&end=1764000012.000&"), "{}", asked[1]);
}

#[test]
fn what_cannot_be_had_says_why_and_shows_no_secret() {
    let error =
        r#"{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": parse error"}"#;
    let vector = r#"{"status":"success","data":{"resultType":"scalar","result":[]}}"#;
    let empty = r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;
    let rows = [
        (answer(400, error), "the answer has status 400: invalid parameter \"query\": parse error"),
        (answer(200, vector), "it is a scalar, not a series over time"),
        (answer(200, empty), "no sample between 2025-11-24T16:00:00Z and 2025-11-24T16:00:10Z"),
        (answer(401, "no"), "status 401; it wants another user, password or token"),
        (answer(404, "<html>"), "without /api"),
        ("SSH-2.0\n".to_string(), "does not answer with HTTP"),
    ];
    let (address, server) = serve(rows.iter().map(|(answer, _)| answer.clone()).collect());
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "s3cret-t0ken\n").unwrap();
    let import = Import {
        name: "x".to_string(),
        prometheus: Some(address),
        query: Some("up".to_string()),
        token_file: Some(token.path().to_path_buf()),
        ..Import::default()
    };
    for (_, expected) in &rows {
        let message = format!("{:#}", taken(&import, SPAN, &GO_ON).unwrap_err());
        assert!(message.contains(expected) && !message.contains("s3cret"), "{expected}\n{message}");
    }
    assert!(server.join().unwrap()[0].contains("Authorization: Bearer s3cret-t0ken\r\n"));
    // Nobody listens any more.
    let message = format!("{:#}", taken(&import, SPAN, &GO_ON).unwrap_err());
    assert!(message.contains("cannot connect"), "{message}");
}

#[test]
fn answers_are_bounded_in_series_and_points() {
    let one = |n: usize| format!(r#"{{"metric":{{"n":"{n:03}"}},"values":[[1,"1"]]}}"#);
    let all: Vec<String> = (0..50).map(one).collect();
    let body = |result: &str| {
        format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{result}]}}}}"#)
    };
    let given = prometheus::read(&body(&all.join(","))).unwrap();
    assert_eq!((given.series.len(), given.n_left_out, given.series[19].name.as_str()), (20, 30, "019"));
    let day = LoadSpan { from_s: 0.0, to_s: 86_400.0 };
    assert!(prometheus::path("up", day).ends_with("&step=8"), "{}", prometheus::path("up", day));
    assert!(prometheus::read("<html>").unwrap_err().contains("is not an answer of Prometheus"));
}

#[test]
fn times_of_files_are_unix_seconds_or_rfc_3339() {
    let check = |text: &str, expected: Result<&[(f64, f64)], &str>| match (
        csv::read(text, ["time", "watts"], SPAN),
        expected,
    ) {
        (Ok(points), Ok(expected)) => {
            let from_go: Vec<(f64, f64)> =
                points.iter().map(|(t_s, value)| (t_s - SPAN.from_s, *value)).collect();
            assert_eq!(from_go, expected, "{text}");
        }
        (Err(message), Err(expected)) => assert!(message.contains(expected), "{message}"),
        (got, _) => panic!("{text}: {got:?}"),
    };
    check("time,watts\n1764000001.5,90\n1764000999,7\n1764000003, 95.5 \n", Ok(&[(1.5, 90.0), (3.0, 95.5)]));
    check("\u{feff}host;time;watts\r\na;2025-11-24T17:00:02+01:00;1e2\r\n\r\n", Ok(&[(2.0, 100.0)]));
    check("\"time\",\"note, \"\"x\"\"\",watts\n2025-11-24T16:00:00.250Z,\"a,b\",1\n", Ok(&[(0.25, 1.0)]));
    check("time,watts\n1764000001,\n", Ok(&[]));
    check("", Err("is empty"));
    check("time,power\n", Err("has no column `watts`; its columns: time, power"));
    check("time,watts\n24.11.2025,1\n", Err("line 2: `24.11.2025` is not a time"));
    check("time,watts\n1764000001,x\n", Err("line 2: `x` is not a number"));
    let long: String =
        (0..30_000).map(|n| format!("{},{n}\n", SPAN.from_s + f64::from(n) / 10_000.0)).collect();
    let points = csv::read(&format!("time,watts\n{long}"), ["time", "watts"], SPAN).unwrap();
    assert_eq!(points.len(), 10_000);
}
