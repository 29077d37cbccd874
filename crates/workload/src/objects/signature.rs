//! A routine as the server identifies it: by its name and the types of its arguments.

use crate::objects::schema::Schema;

/// A function or a procedure of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature {
    /// Whether it is called by CALL.
    pub is_procedure: bool,
    /// The routine's name.
    pub name: String,
    /// Types of the input arguments, as `oidvectortypes` writes `pg_proc.proargtypes`.
    pub types: String,
}

impl Signature {
    /// The signature of a routine by the arguments that its CREATE statement has. OUT arguments do not count.
    pub(crate) fn new(kind: &str, name: &str, arguments: &str) -> Signature {
        let types = arguments.split(',').filter_map(|argument| {
            let argument = argument.split(" default ").next().unwrap_or_default();
            let mut words = argument.split_ascii_whitespace();
            if words.next() == Some("out") {
                return None;
            }
            argument.split_ascii_whitespace().last().map(full_name)
        });
        Signature {
            is_procedure: kind == "procedure",
            name: name.to_owned(),
            types: types.collect::<Vec<_>>().join(", "),
        }
    }

    /// Name and types without the schema: `payment(integer, numeric)`.
    pub fn text(&self) -> String {
        format!("{}({})", self.name, self.types)
    }

    /// The routine after COMMENT ON or DROP.
    pub fn sql(&self, schema: &Schema) -> String {
        let kind = if self.is_procedure { "procedure" } else { "function" };
        format!("{kind} {}", schema.sql_name(&self.text()))
    }
}

/// The server's own name of a type.
fn full_name(short: &str) -> String {
    let (base, array) = short.strip_suffix("[]").map_or((short, ""), |base| (base, "[]"));
    let full = match base {
        "int" => "integer",
        "varchar" => "character varying",
        "char" => "character",
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        other => other,
    };
    format!("{full}{array}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_the_servers_and_what_only_comes_out_is_left_out() {
        let check = |arguments: &str, expected: &str| {
            let signature = Signature::new("function", "f", arguments);
            assert_eq!(signature.sql(&Schema::named("s")), format!("function \"s\".f({expected})"));
        };
        check("int, int", "integer, integer");
        check("p_a int[], p_b varchar, out r_c int", "integer[], character varying");
        check(
            "inout a char, inout b text default '', c timestamp",
            "character, text, timestamp without time zone",
        );
    }
}
