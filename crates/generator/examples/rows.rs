//! How long the rows of a workload directory take to make, without a server: `cargo run --release -p generator --example rows -- DIR SCALE`.

// What fails here has to be seen.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use generator::{Choice, Directory, Instance};

/// Size of the blocks of rows.
const BLOCK_BYTES: usize = 1 << 16;

fn add(files: &mut BTreeMap<String, String>, dir: &Path, prefix: &str) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            add(files, &path, &format!("{name}/"));
        } else {
            files.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut files = BTreeMap::new();
    add(&mut files, Path::new(&args[0]), "");
    let choice = Choice { scale: args[1].parse().unwrap(), ..Choice::default() };
    let instance = Directory::new(files).and_then(|files| Instance::new(&files, &choice)).unwrap();
    for table in instance.tables() {
        // Whatever is made once.
        table.rows(0..1).fill(&mut Vec::new(), BLOCK_BYTES);
        let (mut rows, mut block) = (table.rows(0..table.n_rows), Vec::new());
        let (mut n_rows, mut n_bytes) = (0, 0);
        let begun = Instant::now();
        loop {
            block.clear();
            let n = rows.fill(&mut block, BLOCK_BYTES);
            n_rows += n;
            n_bytes += block.len();
            if n == 0 {
                break;
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        let (ns, megabytes) = (1e9 * seconds / n_rows as f64, n_bytes as f64 / 1e6 / seconds);
        println!(
            "{:<10} {n_rows:>9} rows {seconds:>7.3} s {ns:>6.0} ns per row {megabytes:>5.0} MB/s",
            table.name
        );
    }
}
