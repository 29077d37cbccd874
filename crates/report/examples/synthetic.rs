//! Writes reports of made-up studies into a directory, for looking at the page while working on it.
//!
//! `cargo run -p report --example synthetic -- DIRECTORY`

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::path::PathBuf;

use report::Input;
use synthetic::Shape;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".to_string()));
    let strings = |list: &[&str]| list.iter().map(|item| item.to_string()).collect::<Vec<_>>();
    let shapes = [
        ("clients", Shape { troubled: true, ..Shape::default() }),
        (
            "versions",
            Shape {
                versions: strings(&["14", "16", "18"]),
                clients: vec![1, 8, 32, 128],
                repeats: 5,
                n_cpus: 32,
                title: "Three versions of PostgreSQL".to_string(),
                ..Shape::default()
            },
        ),
        (
            "single",
            Shape {
                clients: vec![8],
                title: "Eight clients on this machine".to_string(),
                ..Shape::default()
            },
        ),
        (
            "outages",
            Shape { clients: vec![8], repeats: 6, title: "A failover".to_string(), ..Shape::default() },
        ),
        (
            "long",
            Shape {
                clients: vec![64],
                window: (120, 7200),
                title: "Two hours".to_string(),
                ..Shape::default()
            },
        ),
    ];
    let compared = Shape {
        versions: strings(&["15", "18"]),
        clients: vec![8],
        repeats: 12,
        window: (5, 20),
        title: "version 18 against version 15".to_string(),
        ..Shape::default()
    };
    let (mut study, data) = synthetic::make(&compared);
    synthetic::add_scripts(&mut study);
    for (name, page) in synthetic::comparisons(&study, &data) {
        std::fs::write(directory.join(format!("{name}.html")), page)?;
    }
    for (name, shape) in shapes {
        let (mut study, data) = synthetic::make(&shape);
        match name {
            "single" => synthetic::add_scripts(&mut study),
            "outages" => synthetic::add_outages(&mut study, true),
            _ => {}
        }
        let commands = strings(&["pgdyno run synthetic.toml --seed 7340125"]);
        let input = Input { study: &study, data: &data, commands: &commands, tool_version: "0.1.0" };
        std::fs::write(directory.join(format!("{name}.html")), report::html(&input))?;
        std::fs::write(directory.join(format!("{name}.md")), report::markdown(&input))?;
        std::fs::write(directory.join(format!("{name}.csv")), report::runs_csv(&study))?;
        std::fs::write(directory.join(format!("{name}.json")), report::json(&study))?;
        std::fs::write(directory.join(format!("{name}.txt")), report::terminal_table(&study, 110, true))?;
    }
    Ok(())
}
