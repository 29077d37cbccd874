//! HammerDB's stored functions and procedures, rewritten: same names, arguments and results, and the same effects on
//! the tables, the wrong ones included. Each file says which those are.
//!
//! Function and procedure have one body. What the function declares for itself, the procedure takes and gives back.

use model::release::{Release, catalogs};

use crate::objects::schema::Schema;
use crate::objects::signature::Signature;

/// A draw within bounds, which the New-Order makes for each item, warehouse and quantity.
const RANDOM: &str = "create function @.dbms_random (int, int) returns int language plpgsql strict as \
     'begin return trunc(random() * ($2 - $1 + 1) + $1); end'";

/// Their handler of deadlocks: it costs every call a subtransaction. It fails when a function needs it, because a
/// function cannot end a transaction (SQLSTATE 2D000); a procedure returns as if nothing had happened.
const HANDLER: &str =
    "exception when serialization_failure or deadlock_detected or no_data_found then rollback;\n";

/// A transaction as function and procedure.
struct Routine {
    name: &'static str,
    function: Form,
    procedure: Form,
    /// Declarations that both have.
    declares: &'static str,
    body: &'static str,
}

/// What differs between functions and procedures.
struct Form {
    takes: &'static str,
    /// Result type of a function.
    returns: &'static str,
    declares: &'static str,
    /// The text after the body.
    tail: &'static str,
    handler: &'static str,
}

const NEWORD: Routine = Routine {
    name: "neword",
    function: Form {
        takes: "p_w_id int, p_w_id_max int, p_d_id int, p_c_id int, p_lines int, p_unused int",
        returns: "numeric",
        declares: "v_discount numeric; v_last varchar; v_credit varchar; v_w_tax numeric; v_d_tax numeric; v_o_id int;",
        tail: "return v_total;",
        handler: HANDLER,
    },
    procedure: Form {
        takes: "p_w_id int, p_w_id_max int, p_d_id int, p_c_id int, p_lines int, inout v_discount numeric, \
                inout v_last varchar, inout v_credit varchar, inout v_d_tax numeric, inout v_w_tax numeric, \
                inout v_o_id int, p_at timestamp",
        returns: "",
        declares: "",
        tail: "",
        handler: HANDLER,
    },
    declares: "v_all_local smallint := 1; v_undo int := @.dbms_random(1, 100); v_items int[]; v_supplies int[]; \
               v_quantities smallint[]; v_numbers smallint[]; v_prices numeric[]; v_amounts numeric[]; \
               v_dists char(24)[]; v_stocks smallint[]; v_total numeric := 0;",
    body: include_str!("sql/neword.sql"),
};

const PAYMENT: Routine = Routine {
    name: "payment",
    function: Form {
        takes: "p_w_id int, p_d_id int, p_c_w_id int, p_c_d_id int, p_c_id int, p_by_name int, p_amount numeric, \
                p_c_last varchar, p_credit varchar, p_balance numeric",
        returns: "int",
        declares: "v_c_id int := p_c_id; v_credit varchar := p_credit; v_balance numeric := p_balance; \
                   v_last varchar := p_c_last; v_first varchar; v_middle char(2); v_since timestamptz; \
                   v_limit numeric; v_discount numeric; v_phone char(16); v_data varchar;",
        tail: "return v_c_id;",
        handler: HANDLER,
    },
    procedure: Form {
        takes: "p_w_id int, p_d_id int, p_c_w_id int, p_c_d_id int, p_by_name int, p_amount numeric, \
                inout v_credit char, inout v_last varchar, inout v_c_id int, inout r_w_street_1 varchar, \
                inout r_w_street_2 varchar, inout r_w_city varchar, inout r_w_state char, inout r_w_zip char, \
                inout r_d_street_1 varchar, inout r_d_street_2 varchar, inout r_d_city varchar, inout r_d_state char, \
                inout r_d_zip char, inout v_first varchar, inout v_middle char, inout r_c_street_1 varchar, \
                inout r_c_street_2 varchar, inout r_c_city varchar, inout r_c_state char, inout r_c_zip char, \
                inout v_phone char, inout v_since timestamp, inout v_limit numeric, inout v_discount numeric, \
                inout v_balance numeric, inout v_data varchar, p_at timestamp",
        returns: "",
        declares: "",
        tail: "r_w_street_1 := v_w_address[1]; r_w_street_2 := v_w_address[2]; r_w_city := v_w_address[3]; \
               r_w_state := v_w_address[4]; r_w_zip := v_w_address[5]; r_d_street_1 := v_d_address[1]; \
               r_d_street_2 := v_d_address[2]; r_d_city := v_d_address[3]; r_d_state := v_d_address[4]; \
               r_d_zip := v_d_address[5]; r_c_street_1 := v_c_address[1]; r_c_street_2 := v_c_address[2]; \
               r_c_city := v_c_address[3]; r_c_state := v_c_address[4]; r_c_zip := v_c_address[5];",
        handler: HANDLER,
    },
    declares: "v_w_name varchar; v_d_name varchar; v_w_address varchar[]; v_d_address varchar[]; \
               v_c_address varchar[]; v_n int; v_named cursor for select c_first, c_middle, c_id, \
               array[c_street_1, c_street_2, c_city, c_state, c_zip], c_phone, c_credit, c_credit_lim, c_discount, \
               c_balance, c_since from @.customer \
               where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_last = v_last order by c_first;",
    body: include_str!("sql/payment.sql"),
};

const DELIVERY: Routine = Routine {
    name: "delivery",
    function: Form {
        takes: "p_w_id int, p_carrier_id int",
        returns: "int",
        declares: "",
        tail: "return 1;",
        handler: HANDLER,
    },
    procedure: Form {
        takes: "p_w_id int, p_carrier_id int, p_at timestamp",
        returns: "",
        declares: "",
        tail: "",
        handler: HANDLER,
    },
    declares: "v_orders int[]; v_districts smallint[]; v_customers int[]; v_amounts numeric[];",
    body: include_str!("sql/delivery.sql"),
};

const OSTAT: Routine = Routine {
    name: "ostat",
    function: Form {
        takes: "p_w_id int, p_d_id int, p_c_id int, p_by_name int, p_c_last varchar",
        returns: "setof record",
        declares: "v_c_id int := p_c_id; v_last varchar := p_c_last; v_first varchar; v_middle varchar; \
                   v_balance numeric; v_o_id int; v_entered timestamp; v_carrier_id int;",
        tail: "for v_line in select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d, v_none_id, \
               v_none_last, v_first, v_middle, v_balance, v_o_id, v_entered, v_carrier_id from @.order_line \
               where ol_o_id = v_o_id and ol_d_id = p_d_id and ol_w_id = p_w_id loop return next v_line; end loop;",
        handler: HANDLER,
    },
    procedure: Form {
        takes: "p_w_id int, p_d_id int, inout v_c_id int, p_by_name int, inout v_last varchar, \
                inout v_first varchar, inout v_middle varchar, inout v_balance numeric, inout v_o_id int, \
                inout v_entered timestamp, inout v_carrier_id int, inout r_lines text default ''",
        returns: "",
        declares: "",
        tail: "for v_line in select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d, v_none_id, \
               v_none_last, v_first, v_middle, v_balance, v_o_id, v_entered, v_carrier_id from @.order_line \
               where ol_o_id = v_o_id and ol_d_id = p_d_id and ol_w_id = p_w_id loop \
               r_lines := r_lines || ',' || v_line.ol_i_id || ',' || v_line.ol_supply_w_id || ',' || \
               v_line.ol_quantity || ',' || v_line.ol_amount || ',' || v_line.ol_delivery_d; end loop;",
        handler: HANDLER,
    },
    declares: "v_none_id int; v_none_last varchar; v_n int; v_line record; v_named cursor for \
               select c_balance, c_first, c_middle, c_id from @.customer \
               where c_last = v_last and c_d_id = p_d_id and c_w_id = p_w_id order by c_first;",
    body: include_str!("sql/ostat.sql"),
};

const SLEV: Routine = Routine {
    name: "slev",
    function: Form {
        takes: "p_w_id int, p_d_id int, p_threshold int",
        returns: "int",
        declares: "v_low int;",
        tail: "return v_low;",
        handler: HANDLER,
    },
    procedure: Form {
        takes: "p_w_id int, p_d_id int, p_threshold int, inout v_low int",
        returns: "",
        declares: "",
        tail: "",
        handler: "",
    },
    declares: "",
    body: include_str!("sql/slev.sql"),
};

const ROUTINES: [&Routine; 5] = [&NEWORD, &PAYMENT, &DELIVERY, &OSTAT, &SLEV];

/// The statements that make all functions, and from PostgreSQL 11 on all procedures. HammerDB's programs call the
/// kind they are configured for if both exist.
pub fn create_routines(schema: &Schema, version_num: u32) -> Vec<(Signature, String)> {
    let random = (Signature::new("function", "dbms_random", "int, int"), schema.fill(RANDOM));
    let functions = ROUTINES.iter().map(|routine| routine.create(schema, &routine.function));
    let procedures = ROUTINES
        .iter()
        .filter(|_| Release::new(version_num).has(catalogs::PROCEDURES))
        .map(|routine| routine.create(schema, &routine.procedure));
    std::iter::once(random).chain(functions).chain(procedures).collect()
}

impl Routine {
    fn create(&self, schema: &Schema, form: &Form) -> (Signature, String) {
        let Routine { name, declares, body, .. } = self;
        let Form { takes, returns, declares: own, tail, handler } = form;
        let (kind, returns) = if returns.is_empty() {
            ("procedure", "")
        } else {
            ("function", &*format!(" returns {returns}"))
        };
        let sql = schema.fill(&format!(
            "create {kind} @.{name} ({takes}){returns} language plpgsql as $body$\ndeclare {own} {declares}\nbegin\n\
             {body}  {tail}\n{handler}end $body$"
        ));
        (Signature::new(kind, name, takes), sql)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn procedures_come_with_their_version_and_return_nothing() {
        let schema = Schema::searched();
        assert_eq!(create_routines(&schema, 100_000).len(), 6);
        let all = create_routines(&schema, 110_000);
        assert_eq!(all.len(), 11);
        for (at, (signature, sql)) in all.iter().enumerate() {
            assert_eq!(signature.is_procedure, at >= 6, "{sql}");
            assert_eq!(sql.contains("create procedure"), at >= 6, "{sql}");
            assert_eq!(sql.contains("return "), at < 6, "{sql}");
        }
    }
}
