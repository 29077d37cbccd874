//! Every function, to the bit: a change here changes the data of everybody's workloads, and needs another `format`.

use super::*;
use crate::random::fnv1a64;

/// FNV-1a of the COPY text of the first 300 rows.
const GOLDEN: &[(&str, u64)] = &[
    ("uniform(1, 1000000)", 0x4a2a_e31f_2259_bb88),
    ("uniform(-1.5, 2)", 0xd502_a3f1_9fb6_22a7),
    ("normal(10, 3, 0, 20)", 0xaf8c_7fb5_918a_6059),
    ("exponential(2.5)", 0x0de9_65ef_932d_547d),
    ("zipf(1000000, 0.99)", 0x3a88_6954_ffc3_13fb),
    ("zipf(1000000, 1)", 0xe2ca_8e9e_6ace_6441),
    ("zipf_ycsb(1000000)", 0xbf51_a3d0_2483_e1f7),
    ("special(1, 1000000)", 0x1f4e_1b39_2d5e_eb40),
    ("hot(1000000, 0.2, 0.8)", 0x92c4_fcef_37db_7233),
    ("chance(0.3)", 0x4c12_56e9_8827_79e7),
    ("permute(row, rows)", 0xae61_67e0_a02b_4f40),
    ("permute(row, 1048576, 42)", 0xecab_1575_81e7_d4b2),
    ("hash(row, 7)", 0x4509_fa16_ba23_e298),
    ("hash(concat('a', row))", 0xa8ce_57db_d51f_040c),
    ("fnv64(row)", 0xa98b_c021_5677_d4ee),
    ("round(decimal(hash(row) % 100000, 4), 2)", 0x65b8_5b44_69bf_e7ef),
    ("floor(normal(0, 100, -1000, 1000))", 0x1cd7_b2e0_8373_7356),
    ("nullable(0.2, pick('a', 'b', 'c'))", 0x35da_50f8_49a7_56df),
    ("pick_weighted('a', 1, 'b', 2, 'c', 7)", 0x2942_9120_842d_da1b),
    ("ascii(100)", 0x1332_f754_3db5_bce9),
    ("letters(2, 20)", 0x4c78_8717_1b48_efa2),
    ("alnum(10, 40)", 0x164c_0f31_56b0_9dff),
    ("pattern('###########-###########-??##')", 0x69ab_487a_7bf6_d7ec),
    ("compressible(200, 3)", 0xd0db_cfd8_9c36_3bfb),
    ("words('lists/words.txt', 2, 5)", 0xd622_2cd3_d927_aac9),
    ("prose('lists/words.txt', 10, 43)", 0xd5a1_25b4_c8f6_d4ca),
    ("prose('lists/umlauts.txt', 3, 9)", 0x3ad8_755b_a9b1_e298),
    ("date('1992-01-01') + uniform(0, 2405)", 0x2318_f0fc_a5bb_ab8c),
    ("timestamp('2024-01-01') + seconds(60.0 * row / 7)", 0x4ec1_8edf_0467_ac54),
    ("json('a', zipf(100, 1.1), 'b', letters(3), 'c', uniform(0.0, 1.0))", 0xf4e7_94d3_6f67_b617),
    ("list(3, item + uniform(0, 9))", 0x233e_a36e_8c46_3d5a),
    ("uuid()", 0xda58_b7f0_3e4f_4428),
    ("uuid7(timestamp('2024-01-01') + days(row))", 0x6553_b231_8440_981b),
    ("vector(9, 4, 0.2)", 0x6c77_ab3d_7161_8cb9),
];

#[test]
fn every_function_makes_the_rows_of_format_1() {
    let mut wrong = Vec::new();
    for (text, expected) in GOLDEN {
        let mut scope = scope();
        let table = add(&mut scope, "t", "1000", &[("x", text)]);
        let mut maker = compiled(scope).rows(table);
        let mut out = Vec::new();
        for at in 0..300 {
            maker.write_row(at, &mut out).unwrap_or_else(|fault| panic!("{fault}"));
        }
        let found = fnv1a64(&out);
        if found != *expected {
            wrong.push(format!("    (\"{text}\", {found:#018x}),"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
