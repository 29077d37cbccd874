//! The built-in directories of crate `workload`: all of them compile without a warning, and their rows are the same for ever.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::thread;

use generator::{Instance, Table};
use sha2::{Digest, Sha256};

use super::{builtin, builtins, choice, instance, native, of_variant};

/// SHA-256 of the COPY text of each table, by directory and scale. `PGDYNO_BLESS=1` writes it: with another `format`, or never.
const GOLDEN: &str = "tests/directories/golden.txt";
const SCALES: [u32; 2] = [1, 3];

/// The rows of a table, made by so many threads.
fn rows(table: &Table, n_threads: u64) -> Vec<Vec<u8>> {
    let made_by = |at: u64| {
        let end = |at: u64| table.n_rows * at / n_threads;
        let mut rows = table.rows(end(at)..end(at + 1));
        let mut text = Vec::new();
        while rows.fill(&mut text, 1 << 16) > 0 {}
        assert_eq!(rows.fault(), None, "{}", table.name);
        text
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|at| scope.spawn(move || made_by(at))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn checksum(parts: &[Vec<u8>]) -> String {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn every_variant_of_every_built_in_directory_compiles() {
    assert!(builtins().len() >= 9, "{:?}", builtins());
    for name in &builtins() {
        let files = builtin(name);
        let first = instance(&files, &choice(1));
        assert_eq!(&first.manifest().name, name);
        let warnings: Vec<String> = first.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(warnings, [""; 0], "{name}");
        for variant in &first.manifest().variants {
            for scale in [1, 10, 1000] {
                let other = instance(&files, &of_variant(&variant.name, scale));
                draw_parameters(name, &other);
            }
        }
    }
}

/// Parameters of each transaction of a directory without variants, too.
fn draw_parameters(name: &str, instance: &std::sync::Arc<Instance>) {
    let mut client = instance.client(1, 4, 7);
    for (at, transaction) in instance.transactions().iter().enumerate() {
        for _ in 0..20 {
            client.begin(at);
            assert_eq!(client.fault(), None, "{name} {}", transaction.name);
            for parameter in 0..transaction.parameters.len() {
                let mut text = Vec::new();
                assert!(client.write(parameter, &mut text), "{name} {}", transaction.name);
                assert!(!text.is_empty());
            }
            client.committed();
        }
    }
}

#[test]
fn rows_of_built_in_directories_never_change_whatever_threads_make_them() {
    native::keep_text();
    let mut found = String::new();
    for name in &builtins() {
        let files = builtin(name);
        for scale in SCALES {
            for table in instance(&files, &choice(scale)).tables().iter().filter(|table| table.n_rows > 0) {
                let sum = checksum(&rows(table, 1));
                if scale == SCALES[0] {
                    for n_threads in [2, 16] {
                        assert_eq!(
                            checksum(&rows(table, n_threads)),
                            sum,
                            "{name} {} {n_threads}",
                            table.name
                        );
                    }
                }
                writeln!(found, "{name} {scale} {} {sum}", table.name).unwrap();
            }
        }
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    if std::env::var_os("PGDYNO_BLESS").is_some() {
        fs::write(&golden, &found).unwrap();
    }
    assert_eq!(found, fs::read_to_string(&golden).unwrap_or_default());
}
