//! Columns of TPC-H's tables, in dbgen's order: what their values can be (clauses 1.4 and 4.2.3 of the specification).

use crate::expression::Type;
use crate::native::NativeColumn;
use crate::native::tpch::TpchTable;

/// Digits after the point of all amounts.
const CENTS: u8 = 2;
/// Least and greatest balance, in cents.
const BALANCE: (i128, i128) = (-99_999, 999_999);
/// Greatest price of a part, in cents: 90,000 + 20,000 + 100 · 999.
const PRICE_MOST: i128 = 209_900;
const QUANTITY_MOST: i128 = 50;
const LINES_MOST: i128 = 7;
/// Greatest tax on the price of a line, in percent.
const TAX_MOST: i128 = 8;

impl TpchTable {
    /// The columns of its rows at a scale.
    pub(in crate::native) fn columns(self, scale: u32) -> Vec<NativeColumn> {
        let key = |table: TpchTable| (1, i128::from(table.n_rows(scale)));
        let nation = (0, 24);
        match self {
            TpchTable::Region => {
                vec![int("r_regionkey", (0, 4)).unique(), padded("r_name", 25), text("r_comment", 152)]
            }
            TpchTable::Nation => vec![
                int("n_nationkey", nation).unique(),
                padded("n_name", 25),
                int("n_regionkey", (0, 4)),
                text("n_comment", 152),
            ],
            TpchTable::Supplier => vec![
                int("s_suppkey", key(TpchTable::Supplier)).unique(),
                padded("s_name", 25),
                text("s_address", 40),
                int("s_nationkey", nation),
                padded("s_phone", 15),
                amount("s_acctbal", BALANCE),
                text("s_comment", 101),
            ],
            TpchTable::Customer => vec![
                int("c_custkey", key(TpchTable::Customer)).unique(),
                text("c_name", 25),
                text("c_address", 40),
                int("c_nationkey", nation),
                padded("c_phone", 15),
                amount("c_acctbal", BALANCE),
                padded("c_mktsegment", 10),
                text("c_comment", 117),
            ],
            TpchTable::Part => vec![
                int("p_partkey", key(TpchTable::Part)).unique(),
                text("p_name", 55),
                padded("p_mfgr", 25),
                padded("p_brand", 10),
                text("p_type", 25),
                int("p_size", (1, 50)),
                padded("p_container", 10),
                amount("p_retailprice", (90_000, PRICE_MOST)),
                text("p_comment", 23),
            ],
            TpchTable::PartSupp => vec![
                int("ps_partkey", key(TpchTable::Part)),
                int("ps_suppkey", key(TpchTable::Supplier)),
                int("ps_availqty", (1, 9999)),
                amount("ps_supplycost", (100, 100_000)),
                text("ps_comment", 199),
            ],
            TpchTable::Orders => vec![
                int("o_orderkey", (1, TpchTable::last_order_key(scale).into())).unique(),
                int("o_custkey", key(TpchTable::Customer)),
                padded("o_orderstatus", 1),
                amount("o_totalprice", (0, LINES_MOST * QUANTITY_MOST * PRICE_MOST * (100 + TAX_MOST) / 100)),
                date("o_orderdate"),
                padded("o_orderpriority", 15),
                padded("o_clerk", 15),
                int("o_shippriority", (0, 0)),
                text("o_comment", 79),
            ],
            TpchTable::LineItem => lines(scale, key(TpchTable::Part), key(TpchTable::Supplier)),
        }
    }
}

fn lines(scale: u32, part: (i128, i128), supplier: (i128, i128)) -> Vec<NativeColumn> {
    vec![
        int("l_orderkey", (1, TpchTable::last_order_key(scale).into())),
        int("l_partkey", part),
        int("l_suppkey", supplier),
        int("l_linenumber", (1, LINES_MOST)),
        int("l_quantity", (1, QUANTITY_MOST)),
        amount("l_extendedprice", (90_000, QUANTITY_MOST * PRICE_MOST)),
        amount("l_discount", (0, 10)),
        amount("l_tax", (0, TAX_MOST)),
        padded("l_returnflag", 1),
        padded("l_linestatus", 1),
        date("l_shipdate"),
        date("l_commitdate"),
        date("l_receiptdate"),
        padded("l_shipinstruct", 25),
        padded("l_shipmode", 10),
        text("l_comment", 44),
    ]
}

fn column(name: &'static str, kind: Type) -> NativeColumn {
    NativeColumn { name, kind, longest: None, reach: None, is_unique: false, is_padded: false }
}

fn int(name: &'static str, reach: (i128, i128)) -> NativeColumn {
    NativeColumn { reach: Some(reach), ..column(name, Type::Int) }
}

fn amount(name: &'static str, reach: (i128, i128)) -> NativeColumn {
    NativeColumn { reach: Some(reach), ..column(name, Type::Decimal(CENTS)) }
}

fn date(name: &'static str) -> NativeColumn {
    column(name, Type::Date)
}

fn text(name: &'static str, longest: u64) -> NativeColumn {
    NativeColumn { longest: Some(longest), ..column(name, Type::Text) }
}

/// A text of type `char`.
fn padded(name: &'static str, longest: u64) -> NativeColumn {
    NativeColumn { is_padded: true, ..text(name, longest) }
}

impl NativeColumn {
    fn unique(self) -> NativeColumn {
        NativeColumn { is_unique: true, ..self }
    }
}
