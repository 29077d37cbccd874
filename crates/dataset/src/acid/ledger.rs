//! The ledger of acknowledged orders: what the server has reported as committed, recorded where it survives the server.
//!
//! One line per order, appended and forced to disk before the next order is sent. Afterwards, each order is looked up
//! in the database.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use wire::session::Session;
use workload::Schema;

/// First line of a ledger.
const HEADER: &str = "w_id,d_id,o_id,c_id,ol_cnt,acknowledged_unix_us";
/// Orders looked up per query.
const ORDERS_PER_QUERY: usize = 10_000;

/// An acknowledged order.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AcknowledgedOrder {
    pub w_id: u32,
    pub d_id: u32,
    pub o_id: u32,
    pub c_id: u32,
    pub ol_cnt: u32,
    /// When the answer to COMMIT was read, microseconds since 1970.
    pub acknowledged_unix_us: u64,
}

impl AcknowledgedOrder {
    /// Name for messages.
    pub fn name(&self) -> String {
        format!("order {} of district {} of warehouse {}", self.o_id, self.d_id, self.w_id)
    }

    fn parse(line: &str) -> Option<AcknowledgedOrder> {
        let mut fields = line.split(',');
        let mut next = || fields.next();
        let entry = AcknowledgedOrder {
            w_id: next()?.parse().ok()?,
            d_id: next()?.parse().ok()?,
            o_id: next()?.parse().ok()?,
            c_id: next()?.parse().ok()?,
            ol_cnt: next()?.parse().ok()?,
            acknowledged_unix_us: next()?.parse().ok()?,
        };
        fields.next().is_none().then_some(entry)
    }
}

/// A ledger that several threads write to.
pub(crate) struct Ledger {
    file: Mutex<File>,
}

impl Ledger {
    /// Creates the file.
    ///
    /// # Errors
    /// When the file already exists or cannot be created.
    pub(crate) fn create(path: &Path) -> Result<Ledger> {
        let mut file = OpenOptions::new().append(true).create_new(true).open(path).with_context(|| {
            format!("cannot create ledger `{}`; name a file that does not exist yet", path.display())
        })?;
        writeln!(file, "{HEADER}").with_context(|| format!("write `{}`", path.display()))?;
        Ok(Ledger { file: Mutex::new(file) })
    }

    /// Records an order durably.
    pub(crate) fn add(&self, entry: &AcknowledgedOrder) -> Result<()> {
        let AcknowledgedOrder { w_id, d_id, o_id, c_id, ol_cnt, acknowledged_unix_us } = entry;
        let line = format!("{w_id},{d_id},{o_id},{c_id},{ol_cnt},{acknowledged_unix_us}\n");
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).context("write the ledger")
    }
}

/// Whether a file that begins with these bytes, of which there are enough, is one of our ledgers, or one that a killed process had
/// only begun.
pub fn is_ledger(bytes: &[u8]) -> bool {
    let head = format!("{HEADER}\n");
    bytes.starts_with(head.as_bytes()) || head.as_bytes().starts_with(bytes)
}

/// Reads the orders of a ledger. A torn last line was never acknowledged to anybody.
///
/// # Errors
/// When the file is not readable, or another line is not an order.
pub fn read(path: &Path) -> Result<Vec<AcknowledgedOrder>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read ledger `{}`", path.display()))?;
    let mut lines: Vec<&str> = text.split('\n').collect();
    // The text after the last line end is empty or torn.
    lines.pop();
    ensure!(
        lines.first() == Some(&HEADER),
        "`{}` is not a ledger: its first line is not {HEADER}",
        path.display()
    );
    let entry = |(at, line): (usize, &&str)| {
        let place = || format!("line {} of ledger `{}` is not an order: `{line}`", at + 1, path.display());
        AcknowledgedOrder::parse(line).with_context(place)
    };
    lines.iter().enumerate().skip(1).map(entry).collect()
}

/// Looks up each order in the database, and returns those that differ from what was acknowledged, with the difference.
///
/// # Errors
/// When the server fails.
pub fn find_faults(
    session: &mut Session,
    schema: &Schema,
    entries: &[AcknowledgedOrder],
) -> Result<BTreeMap<AcknowledgedOrder, String>> {
    let mut faults = BTreeMap::new();
    for chunk in entries.chunks(ORDERS_PER_QUERY) {
        let sql = "select w_id, d_id, id as o_id, o_c_id, o_ol_cnt, o_carrier_id is not null as is_delivered, \
                   (select count(*) from @.order_line where ol_w_id = w_id and ol_d_id = d_id and ol_o_id = id) \
                     as n_lines, \
                   (select count(*) from @.new_order where no_w_id = w_id and no_d_id = d_id and no_o_id = id) as n_new \
                   from unnest($1::int[], $2::int[], $3::int[]) as asked (w_id, d_id, id) \
                   left join @.orders on o_w_id = w_id and o_d_id = d_id and o_id = id";
        let list = |of: fn(&AcknowledgedOrder) -> u32| {
            let values: Vec<String> = chunk.iter().map(|entry| of(entry).to_string()).collect();
            format!("{{{}}}", values.join(","))
        };
        let lists = [list(|entry| entry.w_id), list(|entry| entry.d_id), list(|entry| entry.o_id)];
        let rows =
            session.query_params(&schema.fill(sql), &lists.each_ref().map(|list| Some(list.as_str())))?;
        let place = |row: usize| -> Option<[u32; 3]> {
            Some([rows.parse(row, "w_id")?, rows.parse(row, "d_id")?, rows.parse(row, "o_id")?])
        };
        let found: BTreeMap<[u32; 3], usize> =
            (0..rows.len()).filter_map(|row| Some((place(row)?, row))).collect();
        for entry in chunk {
            let row = found.get(&[entry.w_id, entry.d_id, entry.o_id]).context("each order is looked for")?;
            let number = |column: &str| rows.parse::<u32>(*row, column);
            let is_delivered = rows.get(*row, "is_delivered") == Some("t");
            let (n_lines, n_new) = (number("n_lines").unwrap_or(0), number("n_new").unwrap_or(0));
            let fault = match (number("o_c_id"), number("o_ol_cnt")) {
                (None, _) => "is missing".to_string(),
                (Some(c_id), _) if c_id != entry.c_id => {
                    format!("belongs to customer {c_id}, but was acknowledged for customer {}", entry.c_id)
                }
                (_, ol_cnt) if ol_cnt != Some(entry.ol_cnt) || n_lines != entry.ol_cnt => format!(
                    "has {n_lines} lines and O_OL_CNT {}, but was acknowledged with {}",
                    ol_cnt.unwrap_or(0),
                    entry.ol_cnt
                ),
                _ if n_new != u32::from(!is_delivered) => "has lost its row in NEW-ORDER".to_string(),
                _ => continue,
            };
            faults.insert(*entry, fault);
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: AcknowledgedOrder = AcknowledgedOrder {
        w_id: 1,
        d_id: 2,
        o_id: 3001,
        c_id: 77,
        ol_cnt: 9,
        acknowledged_unix_us: 1_700_000_000_000_001,
    };

    #[test]
    fn orders_that_were_written_are_read_and_a_torn_end_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let ledger = Ledger::create(&path).unwrap();
        let other = AcknowledgedOrder { o_id: 3002, ..ORDER };
        ledger.add(&ORDER).unwrap();
        ledger.add(&other).unwrap();
        assert_eq!(read(&path).unwrap(), [ORDER, other]);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 4]).unwrap();
        assert_eq!(read(&path).unwrap(), [ORDER]);
        assert!(Ledger::create(&path).is_err(), "a ledger is never overwritten");
    }

    #[test]
    fn a_damaged_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        for (text, expected) in [
            ("", "is not a ledger"),
            ("w_id,d_id,o_id,c_id,ol_cnt,acknowledged_unix_us\n1,2,3,4,5\n", "line 2"),
            ("w_id,d_id,o_id,c_id,ol_cnt,acknowledged_unix_us\n1,2,3,4,5,6\n1,2,3,4,5,6,7\n", "line 3"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
