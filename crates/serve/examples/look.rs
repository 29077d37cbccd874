//! Takes pictures of a page as a browser shows it, for looking at pages while working on them, and says how long the page took.
//!
//! `cargo run -p serve --example look -- FILE.png ADDRESS [WIDTH] [dark] [EXPRESSION TO WAIT FOR]`

// What fails here has to be seen.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::path::Path;
use std::time::Instant;

use testbed::browser::{Tab, WindowLook};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (file, address) = (&args[0], &args[1]);
    let width = args.get(2).and_then(|text| text.parse().ok()).unwrap_or(1280);
    let is_dark = args.get(3).is_some_and(|word| word == "dark");
    let directory = tempfile::tempdir().unwrap();
    let mut tab = Tab::open(directory.path(), WindowLook { width, height: 900, is_dark });
    for time in ["first", "second"] {
        let begun = Instant::now();
        tab.go(address);
        tab.eval("document.querySelectorAll('tr').length");
        eprintln!("{time} load: {:.3} s", begun.elapsed().as_secs_f64());
    }
    if let Some(expression) = args.get(4) {
        tab.wait_for(expression);
    }
    tab.picture(Path::new(file), true);
}
