//! A browser without a screen, for tests of pages.

mod tab;
mod usable;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub use tab::{Tab, WindowLook};
pub use usable::TabStop;

/// Options without which a browser needs a screen, or calls its maker.
const OPTIONS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
];

/// Longest time that a page may take.
const LIMIT: Duration = Duration::from_secs(90);

/// The document of a page after its scripts have run. The browser gets `options` too, and keeps its files in `directory`, also
/// temporary ones, which it leaves behind when it is killed.
///
/// # Panics
/// If there is no browser, or it does not end in time.
#[must_use]
pub fn document(page: &Path, directory: &Path, options: &[&str]) -> String {
    let output = directory.join("dom");
    let mut browser = Command::new(chromium())
        .args(OPTIONS)
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .args(["--window-size=1280,2000", "--virtual-time-budget=5000", "--dump-dom"])
        .args(options)
        .arg(format!("file://{}", page.display()))
        .env("TMPDIR", directory)
        .stdin(Stdio::null())
        .stdout(File::create(&output).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while browser.try_wait().unwrap().is_none() {
        if start.elapsed() > LIMIT {
            browser.kill().unwrap();
            browser.wait().unwrap();
            panic!("the browser did not end within {} s", LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::read_to_string(output).unwrap()
}

/// The browser of `PGDYNO_CHROMIUM`, or the first one on the path.
fn chromium() -> PathBuf {
    if let Some(named) = std::env::var_os("PGDYNO_CHROMIUM") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|directory| names.map(|name| directory.join(name)))
        .find(|candidate| candidate.is_file())
        .expect(
            "no chromium on the path: run `./check`, which says what the tests need, or set PGDYNO_CHROMIUM",
        )
}
