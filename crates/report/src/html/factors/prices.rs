//! Throughput against price, with the efficient frontier.

use analysis::case::money;
use analysis::summary::Study;
use serde::Serialize;

use super::super::{ChartFigure, table};
use super::cells;
use crate::axis::Axis;
use crate::html::thinning;
use crate::prose::factors as told;

/// The chart's data.
#[derive(Debug, Serialize)]
pub(in crate::html) struct PriceData {
    currency: String,
    points: Vec<PricePoint>,
}

#[derive(Debug, Serialize)]
struct PricePoint {
    label: String,
    colour: String,
    /// Of an hour.
    price: f64,
    tps: f64,
    /// Lowest and highest run.
    range: Option<[f64; 2]>,
    /// Of a million transactions.
    per_million: Option<f64>,
    efficient: bool,
}

/// The data; `None` without at least two prices in one currency.
pub(in crate::html) fn data(study: &Study, axis: &Axis) -> Option<PriceData> {
    let currency = money::currency(study)?.to_string();
    let frontier = money::frontier(study);
    let point = |case: &analysis::summary::CaseSummary| {
        let money = money::of_case(case)?;
        Some(PricePoint {
            label: case.label.clone(),
            colour: axis.class(case.case.id),
            price: money.per_hour,
            tps: thinning::rounded(money.tps)?,
            range: super::super::data::between(&case.tps, 0.0, 1.0),
            per_million: money.per_million(),
            efficient: frontier.contains(&case.case.id),
        })
    };
    let points: Vec<PricePoint> = study.cases.iter().filter_map(point).collect();
    let first = points.first()?.price;
    points.iter().any(|point| point.price != first).then_some(PriceData { currency, points })
}

/// The chart, if there is one, and its table.
pub(super) fn section(study: &Study, axis: &Axis) -> String {
    let rows = told::money(study);
    if rows.is_empty() {
        return String::new();
    }
    let heads = [&["Case"], &told::MONEY_HEADS[..]].concat();
    let table = table("plain", &heads, &cells(axis, &rows));
    let chart = match data(study, axis) {
        Some(data) => ChartFigure {
            id: "prices",
            title: "Throughput against price",
            note: &format!(
                "tps by {} an hour; line: the efficient frontier, beyond which nothing gives more for less",
                data.currency
            ),
            height: "tall",
            table: "",
        }
        .html(),
        None if money::currency(study).is_none() => {
            "<p class=\"quiet\">Prices in several currencies do not compare, so they are not drawn.</p>"
                .to_string()
        }
        None => String::new(),
    };
    format!("<h3>Throughput against price</h3>{chart}{table}\n")
}
