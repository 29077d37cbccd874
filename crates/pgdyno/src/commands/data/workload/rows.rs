//! `pgdyno workload rows`: rows of a table as they would be loaded, without a server.

use anyhow::{Result, bail};
use generator::Table;
use model::text::nearest::nearest;
use model::text::prose::grouped;

use crate::commands::data::workload::cells::{self, Cell};
use crate::commands::data::workload::found::FoundDirectory;
use crate::front::cli::data::workloads::RowsArgs;
use crate::{Exit, print, print_exact, say};

/// Size of the blocks of rows.
const BLOCK_BYTES: usize = 1 << 16;
/// Most characters of a value in the table; CSV and JSON have all.
const SHOWN_MAX: usize = 48;

/// Prints the rows that `args` ask for.
pub(super) fn rows(args: &RowsArgs) -> Result<Exit> {
    let instance = FoundDirectory::read(&args.chosen)?.instance(&args.chosen)?;
    let table = find(instance.tables(), &args.table)?;
    let names = table.copy_columns();
    let end = args.from.saturating_add(args.limit).min(table.n_rows);
    let mut made = table.rows(args.from.min(end)..end);
    let mut all: Vec<Vec<Cell>> = Vec::new();
    if args.csv {
        print_exact(&cells::csv(names.iter().map(|name| Some(*name))))?;
    }
    let mut block = Vec::new();
    loop {
        block.clear();
        if made.fill(&mut block, BLOCK_BYTES) == 0 {
            if let Some(fault) = made.fault() {
                bail!("{fault}");
            }
            break;
        }
        let rows = cells::rows(&block);
        if args.csv {
            let lines = rows.iter().map(|row| cells::csv(row.iter().map(Option::as_deref)));
            print_exact(&lines.collect::<String>())?;
        } else if args.json {
            for row in &rows {
                let object =
                    names.iter().zip(row).map(|(name, cell)| (name.to_string(), cell.clone().into()));
                print_exact(&format!("{}\n", serde_json::Value::Object(object.collect())))?;
            }
        } else {
            all.extend(rows);
        }
    }
    if !args.csv && !args.json {
        print(&cells::table(&names, &all, SHOWN_MAX))?;
    }
    say(&format!(
        "{} of {} {}",
        end.saturating_sub(args.from),
        grouped(&table.n_rows.to_string()),
        what(table)
    ));
    Ok(Exit::Done)
}

/// The noun for a number of rows.
fn what(table: &Table) -> String {
    match &table.parent {
        Some(parent) => format!("rows of `{parent}`, each with its rows of `{}`", table.name),
        None => format!("rows of `{}`", table.name),
    }
}

fn find<'a>(tables: &'a [Table], name: &str) -> Result<&'a Table> {
    if let Some(table) = tables.iter().find(|table| table.name == name) {
        return Ok(table);
    }
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    let Some(near) = nearest(name, names.iter().copied()) else {
        bail!("the workload has no table `{name}`; its tables: {}", names.join(", "))
    };
    bail!("the workload has no table `{name}`; did you mean `{near}`? Its tables: {}", names.join(", "))
}
