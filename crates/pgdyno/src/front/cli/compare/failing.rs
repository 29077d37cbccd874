//! What makes a comparison fail: speed, and what a transaction costs.

use std::str::FromStr;

use analysis::cost::{self, COSTS};

use super::{FailOn, share};

/// When a comparison fails: `slower`, `different`, `statement-slower=5%`, `cost:wal=1%,cpu=2%`, or several of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FailTerms {
    /// By speed; `None` if only costs decide.
    pub(crate) speed: Option<FailOn>,
    /// By statements that B must not make slower, and that must not fail with it alone.
    pub(crate) statements: Option<StatementLimit>,
    /// By costs that B must not have more of.
    pub(crate) costs: Vec<CostLimit>,
}

/// The largest difference of a statement that does not matter, a share; `None`: the margin of the comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StatementLimit(pub(crate) Option<f64>);

/// A cost, and the largest difference of it that does not matter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CostLimit {
    /// Name of a row of [`COSTS`].
    pub(crate) id: &'static str,
    /// A share.
    pub(crate) margin: f64,
}

impl FromStr for FailTerms {
    type Err = String;

    fn from_str(text: &str) -> Result<FailTerms, String> {
        let mut terms = FailTerms::default();
        let mut are_costs = false;
        for part in text.split(',').map(str::trim) {
            let speed = match part {
                "slower" => Some(FailOn::Slower),
                "different" => Some(FailOn::Different),
                _ => None,
            };
            if let Some(rest) = part.strip_prefix(STATEMENT) {
                terms.statements = Some(rest.parse()?);
                continue;
            }
            match (speed, part.strip_prefix("cost:")) {
                (Some(_), _) if terms.speed.is_some() => {
                    return Err("name either `slower` or `different`".to_string());
                }
                (Some(speed), _) => terms.speed = Some(speed),
                (None, Some(cost)) => {
                    are_costs = true;
                    terms.costs.push(cost.parse()?);
                }
                (None, None) if are_costs => terms.costs.push(part.parse()?),
                (None, None) => {
                    if let Some((name @ ("slower" | "different"), margin)) = part.split_once('=') {
                        return Err(format!("`{name}` takes no percentage; give it as --margin {margin}"));
                    }
                    return Err(format!(
                        "`{part}` is none of slower, different, statement-slower=PERCENT and cost:NAME=PERCENT"
                    ));
                }
            }
        }
        Ok(terms)
    }
}

const STATEMENT: &str = "statement-slower";

impl FromStr for StatementLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<StatementLimit, String> {
        match text.strip_prefix('=') {
            Some(margin) => share(margin).map(|margin| StatementLimit(Some(margin))),
            None if text.is_empty() => Ok(StatementLimit(None)),
            None => Err(format!("`{STATEMENT}{text}` is none of {STATEMENT} and {STATEMENT}=PERCENT")),
        }
    }
}

impl FromStr for CostLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<CostLimit, String> {
        let (id, margin) = text.split_once('=').map_or((text, None), |(id, margin)| (id, Some(margin)));
        let Some(row) = cost::row(id.trim()) else {
            let known: Vec<&str> = COSTS.iter().map(|row| row.id).collect();
            return Err(format!("there is no cost `{id}`; there are {}", known.join(", ")));
        };
        let margin = margin.map_or(Ok(row.margin), share)?;
        Ok(CostLimit { id: row.id, margin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_and_costs_are_read_together_or_alone() {
        let read = |text: &str| text.parse::<FailTerms>();
        let of = |speed, costs: &[(&'static str, f64)]| {
            let limit = |(id, margin): &(&'static str, f64)| CostLimit { id, margin: *margin };
            FailTerms { speed, statements: None, costs: costs.iter().map(limit).collect() }
        };
        assert_eq!(read("slower"), Ok(of(Some(FailOn::Slower), &[])));
        assert_eq!(read("cost:wal=1%,cpu=2.5%"), Ok(of(None, &[("wal", 0.01), ("cpu", 0.025)])));
        assert_eq!(read("different, cost:blocks"), Ok(of(Some(FailOn::Different), &[("blocks", 0.005)])));
        assert_eq!(
            read("slow"),
            Err("`slow` is none of slower, different, statement-slower=PERCENT and cost:NAME=PERCENT"
                .to_string())
        );
        assert_eq!(
            read("slower=5%"),
            Err("`slower` takes no percentage; give it as --margin 5%".to_string())
        );
        let of_statements = |text: &str| read(text).map(|terms| terms.statements);
        assert_eq!(of_statements("statement-slower"), Ok(Some(StatementLimit(None))));
        assert_eq!(of_statements("slower,statement-slower=5%"), Ok(Some(StatementLimit(Some(0.05)))));
        assert!(of_statements("statement-slower5").unwrap_err().contains("statement-slower=PERCENT"));
        assert!(read("cost:wall=1%").unwrap_err().starts_with("there is no cost `wall`; there are cpu, "));
        assert!(read("cost:wal=200%").unwrap_err().contains("up to 100 %"));
        assert!(read("slower,different").is_err());
        assert!(read("wal=1%").is_err());
    }
}
