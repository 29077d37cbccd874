//! The transactions as PL/pgSQL functions and procedures, one call each.
//!
//! Function and procedure have one body. They differ in how an order with an unused item is undone: a function raises
//! [`UNUSED_ITEM_SQLSTATE`](super::UNUSED_ITEM_SQLSTATE), a procedure rolls its transaction back and returns.

use model::release::{Release, catalogs};

use super::config::Calls;
use super::programs::TransactionProfile;
use crate::objects::schema::Schema;
use crate::objects::signature::Signature;

/// A transaction as a routine.
struct Routine {
    name: &'static str,
    /// The arguments of its call.
    values: &'static str,
    /// Names and types of its arguments.
    takes: &'static str,
    /// Names and types of its results.
    gives: &'static [&'static str],
    declares: &'static str,
    body: &'static str,
}

const NEW_ORDER: Routine = Routine {
    name: "tpcc_new_order",
    values: ":w_id, :d_id, :c_id, :o_all_local, :ol_numbers, :ol_i_ids, :ol_supply_w_ids, :ol_quantities",
    takes: "p_w_id int, p_d_id int, p_c_id int, p_all_local int, p_numbers int[], p_items int[], p_supplies int[], \
            p_quantities int[]",
    gives: &[
        "r_o_id int",
        "r_last text",
        "r_credit text",
        "r_discount numeric",
        "r_w_tax numeric",
        "r_d_tax numeric",
        "r_total numeric",
        "r_names text[]",
        "r_stocks int[]",
        "r_brands text[]",
        "r_prices numeric[]",
        "r_amounts numeric[]",
    ],
    declares: "v_n int := cardinality(p_items); v_done int[]; v_price numeric; v_name text; v_data text; \
               v_stock int; v_stock_data text; v_dist text; v_amount numeric;",
    body: include_str!("sql/new_order.sql"),
};

const PAYMENT: Routine = Routine {
    name: "tpcc_payment",
    values: ":w_id, :d_id, :c_w_id, :c_d_id, :c_id, :c_last, :h_amount",
    takes: "p_w_id int, p_d_id int, p_c_w_id int, p_c_d_id int, p_c_id int, p_c_last text, p_amount numeric",
    gives: &[
        "r_c_id int",
        "r_warehouse text[]",
        "r_district text[]",
        "r_customer text[]",
        "r_since timestamptz",
        "r_credit_lim numeric",
        "r_discount numeric",
        "r_balance numeric",
        "r_data text",
    ],
    declares: "v_ids int[];",
    body: include_str!("sql/payment.sql"),
};

const ORDER_STATUS: Routine = Routine {
    name: "tpcc_order_status",
    values: ":c_w_id, :c_d_id, :c_id, :c_last",
    takes: "p_w_id int, p_d_id int, p_c_id int, p_c_last text",
    gives: &[
        "r_c_id int",
        "r_balance numeric",
        "r_first text",
        "r_middle text",
        "r_last text",
        "r_o_id int",
        "r_entry_d timestamptz",
        "r_carrier_id int",
        "r_items int[]",
        "r_supplies int[]",
        "r_quantities int[]",
        "r_amounts numeric[]",
        "r_delivery_ds timestamptz[]",
    ],
    declares: "v_ids int[];",
    body: include_str!("sql/order_status.sql"),
};

const DELIVERY: Routine = Routine {
    name: "tpcc_delivery",
    values: ":w_id, :o_carrier_id",
    takes: "p_w_id int, p_carrier_id int",
    gives: &["r_delivered int"],
    declares: "v_o_id int; v_c_id int; v_amount numeric;",
    body: include_str!("sql/delivery.sql"),
};

const STOCK_LEVEL: Routine = Routine {
    name: "tpcc_stock_level",
    values: ":w_id, :d_id, :threshold",
    takes: "p_w_id int, p_d_id int, p_threshold int",
    gives: &["r_low int"],
    declares: "v_next int;",
    body: include_str!("sql/stock_level.sql"),
};

const ROUTINES: [&Routine; 5] = [&NEW_ORDER, &PAYMENT, &ORDER_STATUS, &DELIVERY, &STOCK_LEVEL];

/// The placeholder in a body for undoing the transaction.
const UNDO: &str = "@undo@;";
const UNDO_IN_FUNCTION: &str = "raise exception 'item number is not valid' using errcode = 'TPC01';";
const UNDO_IN_PROCEDURE: &str = "rollback; return;";

/// The statements that make all functions, and from PostgreSQL 11 on all procedures.
pub fn create_routines(schema: &Schema, version_num: u32) -> Vec<(Signature, String)> {
    let functions = ROUTINES.iter().map(|routine| routine.function(schema));
    let procedures = ROUTINES
        .iter()
        .filter(|_| Release::new(version_num).has(catalogs::PROCEDURES))
        .map(|routine| routine.procedure(schema));
    functions.chain(procedures).collect()
}

impl Routine {
    fn function(&self, schema: &Schema) -> (Signature, String) {
        let gives: Vec<String> = self.gives.iter().map(|result| format!("out {result}")).collect();
        let body = self.body.replace(UNDO, UNDO_IN_FUNCTION);
        self.create(schema, "function", "", &gives.join(", "), &body)
    }

    fn procedure(&self, schema: &Schema) -> (Signature, String) {
        // Before PostgreSQL 14, procedures have INOUT parameters but no OUT parameters.
        let gives: Vec<String> = self.gives.iter().map(|result| format!("inout {result}")).collect();
        let body = self.body.replace(UNDO, UNDO_IN_PROCEDURE);
        self.create(schema, "procedure", "_p", &gives.join(", "), &body)
    }

    fn create(
        &self,
        schema: &Schema,
        kind: &str,
        suffix: &str,
        gives: &str,
        body: &str,
    ) -> (Signature, String) {
        let Routine { name, takes, declares, .. } = self;
        let (name, arguments) = (format!("{name}{suffix}"), format!("{takes}, {gives}"));
        let sql = schema.fill(&format!(
            "create {kind} @.{name}({arguments}) language plpgsql as $body$\ndeclare {declares}\nbegin\n\
             {body}end $body$"
        ));
        (Signature::new(kind, &name, &arguments), sql)
    }
}

/// The statement that calls a transaction's routine, with `@.` for the schema.
pub(crate) fn call(profile: TransactionProfile, calls: Calls) -> String {
    let Routine { name, values, gives, .. } = match profile {
        TransactionProfile::NewOrder => &NEW_ORDER,
        TransactionProfile::Payment => &PAYMENT,
        TransactionProfile::OrderStatus => &ORDER_STATUS,
        TransactionProfile::Delivery | TransactionProfile::DeferredDelivery => &DELIVERY,
        TransactionProfile::StockLevel => &STOCK_LEVEL,
    };
    if calls == Calls::Procedures {
        // A place for each result.
        format!("call @.{name}_p({values}{})", ", null".repeat(gives.len()))
    } else {
        format!("select * from @.{name}({values})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routines_come_with_their_version() {
        let schema = Schema::searched();
        assert_eq!(create_routines(&schema, 100_000).len(), 5);
        let (signatures, all): (Vec<Signature>, Vec<String>) =
            create_routines(&schema, 150_000).into_iter().unzip();
        assert_eq!(all.len(), 10);
        assert!(all.iter().all(|sql| !sql.contains('@')), "{all:?}");
        assert!(all[5].contains("rollback; return;") && all[0].contains("TPC01"));
        assert_eq!(signatures[4].text(), "tpcc_stock_level(integer, integer, integer)");
        assert_eq!(
            signatures[9].sql(&schema),
            "procedure tpcc_stock_level_p(integer, integer, integer, integer)"
        );
    }

    #[test]
    fn calls_of_procedures_give_a_place_to_each_result() {
        for profile in [
            TransactionProfile::NewOrder,
            TransactionProfile::Payment,
            TransactionProfile::OrderStatus,
            TransactionProfile::Delivery,
        ] {
            let routine = ROUTINES
                .into_iter()
                .find(|routine| call(profile, Calls::Functions).contains(routine.name))
                .unwrap();
            let given = call(profile, Calls::Procedures).matches("null").count();
            assert_eq!(given, routine.gives.len(), "{}", routine.name);
        }
    }
}
