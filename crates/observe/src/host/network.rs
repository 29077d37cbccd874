//! Network interfaces: the part of a tick that comes from `/proc/net/dev`.

use std::fs;

use anyhow::{Context, Result};

use crate::gather::Gather;

/// Adds the counters of all interfaces but loopback.
///
/// # Errors
/// When `/proc/net/dev` cannot be read.
pub(crate) fn read(gather: &mut Gather) -> Result<()> {
    let text = fs::read_to_string("/proc/net/dev").context("cannot read `/proc/net/dev`")?;
    put(gather, &text);
    Ok(())
}

/// After two lines of headings, `name: ` and 16 numbers: bytes received are the first, bytes sent the ninth (proc(5)).
fn put(gather: &mut Gather, text: &str) {
    for (name, numbers) in text.lines().skip(2).filter_map(|line| line.split_once(':')) {
        let numbers: Vec<f64> =
            numbers.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        let name = name.trim();
        if let [received, _, _, _, _, _, _, _, sent, ..] = numbers[..]
            && name != "lo"
        {
            gather.put("net.received_bytes", name, received);
            gather.put("net.sent_bytes", name, sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Backwards;

    #[test]
    fn bytes_of_each_interface_are_read_but_not_those_of_loopback() {
        let mut gather = Gather::new(Backwards::Jitter);
        gather.count_new_from_zero();
        let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 97 7 0 0 0 0 0 0 97 7 0 0 0 0 0 0
  eth0:1296 21 0 0 0 0 0 0 8 2 0 0 0 0 0 0
torn0: 1 2
";
        put(&mut gather, text);
        let expected =
            [("net.received_bytes[eth0]".to_string(), 1296.0), ("net.sent_bytes[eth0]".to_string(), 8.0)];
        assert_eq!(gather.take().0, expected.into());
    }
}
