//! The functions of the expression language: names and numbers of arguments.

/// A function that evaluates all its arguments first. Operators, CASE and other lazy forms are in `expr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Function {
    Abs,
    Debug,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Mod,
    Permute,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
}

/// How many arguments a function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly this many.
    Exactly(usize),
    /// One argument or more.
    Some,
    /// This many, and a seed that defaults to the variable `default_seed`.
    AndSeed(usize),
}

const FUNCTIONS: [(&str, Arity, Function); 21] = [
    ("abs", Arity::Exactly(1), Function::Abs),
    ("debug", Arity::Exactly(1), Function::Debug),
    ("double", Arity::Exactly(1), Function::Double),
    ("exp", Arity::Exactly(1), Function::Exp),
    ("greatest", Arity::Some, Function::Greatest),
    ("hash", Arity::AndSeed(1), Function::HashMurmur2),
    ("hash_fnv1a", Arity::AndSeed(1), Function::HashFnv1a),
    ("hash_murmur2", Arity::AndSeed(1), Function::HashMurmur2),
    ("int", Arity::Exactly(1), Function::Int),
    ("least", Arity::Some, Function::Least),
    ("ln", Arity::Exactly(1), Function::Ln),
    ("mod", Arity::Exactly(2), Function::Mod),
    ("permute", Arity::AndSeed(2), Function::Permute),
    ("pi", Arity::Exactly(0), Function::Pi),
    ("pow", Arity::Exactly(2), Function::Power),
    ("power", Arity::Exactly(2), Function::Power),
    ("random", Arity::Exactly(2), Function::Random),
    ("random_exponential", Arity::Exactly(3), Function::RandomExponential),
    ("random_gaussian", Arity::Exactly(3), Function::RandomGaussian),
    ("random_zipfian", Arity::Exactly(3), Function::RandomZipfian),
    ("sqrt", Arity::Exactly(1), Function::Sqrt),
];

/// Finds a function by name, in any case; also gives the name as messages spell it.
pub fn find(name: &str) -> Option<(&'static str, Arity, Function)> {
    FUNCTIONS.iter().find(|(known, _, _)| known.eq_ignore_ascii_case(name)).copied()
}
