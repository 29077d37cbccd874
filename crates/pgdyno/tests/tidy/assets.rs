//! What others wrote and is committed here is what its description says, and carries its licence.

use sha2::{Digest, Sha256};

use super::assert_one;
use super::tree;

const ECHARTS: &str = "crates/report/assets/echarts";

fn wrong_hash(content: &[u8], description: &str) -> Vec<String> {
    let sum: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    let known = description.contains(&sum);
    (!known).then(|| format!("has SHA-256 {sum}, which its description does not name")).into_iter().collect()
}

#[test]
fn the_chart_library_is_the_one_described_and_licensed() {
    let bundle = std::fs::read(tree::root().join(ECHARTS).join("echarts.min.js")).unwrap();
    super::assert_none(&wrong_hash(&bundle, &tree::file(&format!("{ECHARTS}/README.md")).text));
    assert!(tree::file(&format!("{ECHARTS}/LICENSE")).text.contains("Apache License"));
    assert!(tree::file(&format!("{ECHARTS}/NOTICE")).text.contains("Apache ECharts"));
}

#[test]
fn a_changed_asset_is_found() {
    assert_one(&wrong_hash(b"changed", "761a"), "has SHA-256 d67e");
}
