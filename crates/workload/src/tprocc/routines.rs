//! HammerDB's stored functions, written anew: same names, arguments and results, and the same effects on the tables, the
//! wrong ones included. Each file says which those are.

/// A draw within bounds, which the New-Order makes for each item, warehouse and quantity.
const RANDOM: &str = "create function dbms_random (int, int) returns int language plpgsql strict as \
     'begin return trunc(random() * ($2 - $1 + 1) + $1); end'";

/// Their handler of deadlocks: it costs every call a subtransaction, and fails when it is needed, because a function
/// cannot end a transaction (SQLSTATE 2D000).
const HANDLER: &str =
    "exception when serialization_failure or deadlock_detected or no_data_found then rollback;\n";

const FUNCTIONS: [(&str, &str); 5] = [
    (
        "neword (p_w_id int, p_w_id_max int, p_d_id int, p_c_id int, p_lines int, p_unused int) returns numeric",
        include_str!("sql/neword.sql"),
    ),
    (
        "payment (p_w_id int, p_d_id int, p_c_w_id int, p_c_d_id int, p_c_id int, p_by_name int, p_amount numeric, \
         p_c_last varchar, p_credit varchar, p_balance numeric) returns int",
        include_str!("sql/payment.sql"),
    ),
    ("delivery (p_w_id int, p_carrier_id int) returns int", include_str!("sql/delivery.sql")),
    (
        "ostat (p_w_id int, p_d_id int, p_c_id int, p_by_name int, p_c_last varchar) returns setof record",
        include_str!("sql/ostat.sql"),
    ),
    ("slev (p_w_id int, p_d_id int, p_threshold int) returns int", include_str!("sql/slev.sql")),
];

/// The statements that make the functions.
pub fn create_routines() -> Vec<String> {
    let create = |(signature, body): (&str, &str)| {
        format!("create function {signature} language plpgsql as $body$\n{body}{HANDLER}end $body$")
    };
    std::iter::once(RANDOM.to_owned()).chain(FUNCTIONS.map(create)).collect()
}
