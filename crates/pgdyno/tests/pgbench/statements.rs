//! What reaches the server: for the same seed, the same statements with the same parameters.

use crate::cluster::{Cluster, Who};

pub(crate) fn check(cluster: &Cluster, arguments: &str) {
    let (genuine, expected) = cluster.statements(Who::Genuine, arguments);
    let (ours, got) = cluster.statements(Who::Ours, arguments);
    assert_eq!(genuine.code, ours.code, "{arguments}: {ours:?}");
    assert!(!expected.is_empty(), "{arguments}: {genuine:?}");
    for (expected, got) in expected.iter().zip(&got) {
        for (at, (expected, got)) in expected.iter().zip(got).enumerate() {
            assert_eq!(got, expected, "{arguments}: statement {at}\n{}", ours.stderr);
        }
        assert_eq!(got.len(), expected.len(), "{arguments}: {:?}", ours.stderr);
    }
    assert_eq!(got.len(), expected.len(), "{arguments}: connections");
}

pub(crate) fn tables_are_made_by_the_same_statements(cluster: &Cluster) {
    for arguments in [
        "-i",
        "-i -s 2 -q",
        "-i -n --foreign-keys",
        "-i -I dtGvp -F 70",
        "-i -I dtpfgvv --unlogged-tables",
        "-i --tablespace=space --index-tablespace=space",
        "-i --partitions=3 --unlogged-tables --tablespace=space",
        "-i --partitions=2 --partition-method=HASH -F 90",
        "-i -Idt\u{2002}",
        "-i",
    ] {
        check(cluster, arguments);
    }
}

pub(crate) fn builtin_scripts_send_the_same(cluster: &Cluster) {
    for protocol in ["simple", "extended", "prepared"] {
        for script in ["tpcb-like", "simple-update", "select-only"] {
            check(cluster, &format!("-b {script} -M {protocol} -c 3 -j 2 -t 20 --random-seed=7"));
        }
    }
    check(cluster, "-S -C -t 5 -c 2 -n --random-seed=8");
    check(cluster, "-v -t 1 --random-seed=9");
    check(cluster, "-b se@3 -b si@2 -b tp@0 -c 3 -j 3 -t 20 -n --random-seed=10 -s 3");
    check(cluster, "-t 3 -D scale=5 -n -D client_id=77 -D random_seed=4 --random-seed=11 -M prepared");
}

const FUNCTIONS: &str = "\\set a random(1, 1000000)
\\set b random_gaussian(1, 1000000, 2.5)
\\set c random_exponential(1, 1000000, 3.5)
\\set d random_zipfian(1, 1000000, 1.07)
\\set e permute(:a, 1000000)
\\set f hash(:a) + hash_fnv1a(:b, 5)
\\set g sqrt(:a) * pi() / 3
\\set h case when :a % 2 = 0 then null else true end
SELECT :a, :b, :c, :d, :e, :f, :g::double precision, :h::bool, 1::int, :nosuch::int;
\\if :a > 500000
SELECT 'large' AS size, :client_id::int;
\\else
SELECT 'small' AS size, :scale::int, :default_seed::bigint, :random_seed::bigint;
\\endif
";

const FUNCTIONS_SIMPLE: &str = "\\set a random(1, 1000000)
\\set b random_gaussian(1, 1000000, 2.5)
\\set g sqrt(:a) * pi() / 3
\\set h case when :a % 2 = 0 then null else true end
SELECT :a, :b, :g, :h, ':a' \\; SELECT 2 -- :b
;
";

const GSET: &str = "SELECT 5 AS x, 'it''s' AS y, NULL AS z \\gset p_
SELECT :p_x::int, :p_y::text, :p_z::text;
\\set n :p_x + 1
SELECT :n::int;
";

const ASET: &str = "SELECT 1 AS one \\; SELECT 2 AS two WHERE false \\; SELECT 3 AS three \\aset
SELECT :one, :two, :three;
";

const PIPELINE: &str = "\\set a random(1, 100)
\\startpipeline
BEGIN;
SELECT :a::int;
SELECT :a::int + 1;
COMMIT;
\\endpipeline
SELECT 'after';
";

/// Scripts whose variables have no value: nothing has set them, or what they come from was NULL or had no row. Each is run
/// in each protocol.
const WITHOUT_VALUES: &[(&str, &str)] = &[
    ("unset", "SELECT 1;\nSELECT :nosuch::int, :nosuch::text;\n"),
    ("unset_text", "SELECT 1;\nSELECT ':nosuch', 'HH24:MI';\n"),
    ("unset_branch", "\\if false\n\\set x 1\n\\endif\nSELECT 1;\nSELECT :x::int;\n"),
    ("unset_column", "SELECT 1 AS q \\gset p_\nSELECT :p_q::int;\nSELECT :p_r::int;\n"),
    ("unset_row", "SELECT 1 AS q WHERE false \\aset\nSELECT 2;\nSELECT :q::int;\n"),
    (
        "unset_null",
        "SELECT NULL::int AS q \\gset\n\\set n null\nSELECT 1, ':n';\nSELECT :n::text, :q::text;\n",
    ),
    ("unset_two", "\\set n null\nSELECT 1, :n;\n\\set x :n + 1\nSELECT :x, :y::int;\n"),
];

pub(crate) fn variables_without_a_value_are_sent_the_same(cluster: &Cluster) {
    for (name, text) in WITHOUT_VALUES {
        cluster.write(name, text);
        for protocol in ["simple", "extended", "prepared"] {
            check(cluster, &format!("-f {name} -M {protocol} -t 2 -n"));
        }
    }
}

pub(crate) fn scripts_send_the_same(cluster: &Cluster) {
    for (name, text) in [
        ("functions", FUNCTIONS),
        ("simple", FUNCTIONS_SIMPLE),
        ("gset", GSET),
        ("aset", ASET),
        ("pipeline", PIPELINE),
    ] {
        cluster.write(name, text);
    }
    for arguments in [
        "-f functions -M extended -c 4 -j 2 -t 30 -n --random-seed=1",
        "-f functions -M prepared -c 4 -j 4 -t 30 -n --random-seed=2",
        "-f simple -c 2 -t 30 -n --random-seed=3",
        "-f gset -M extended -t 3 -n",
        "-f gset -M prepared -t 3 -n",
        "-f aset -t 3 -n -s 7",
        "-f pipeline -M extended -t 3 -n --random-seed=4",
        "-f pipeline -M prepared -t 3 -c 2 -n --random-seed=5",
        "-f functions@2 -f gset@5 -f pipeline@1 -M prepared -c 3 -j 3 -t 20 -n --random-seed=6",
        "-f pipeline@1 -S -M extended -t 20 --random-seed=6",
    ] {
        check(cluster, arguments);
    }
}
