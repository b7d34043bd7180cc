//! The cases of a class by probability: what methods that count look at.

use super::binary::Case;
use crate::models::one_vs_rest::logistic;

/// All cases with one probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub x: f64,
    pub weight: f64,
    /// The weight of the hits among them.
    pub hits: f64,
}

/// A class's cases by ascending probability, equal ones together: all that counting methods look at, and
/// it is the same whether a row counts twice or is there twice.
pub(crate) fn points(cases: &[Case]) -> Vec<Point> {
    let mut sorted: Vec<Point> = cases
        .iter()
        .map(|case| Point {
            x: logistic(case.log_odds),
            weight: case.weight,
            hits: if case.hit { case.weight } else { 0.0 },
        })
        .collect();
    // By hits as well: the order of the rows must not show in the last digits of a sum.
    sorted.sort_by(|a, b| {
        let by_weight = a
            .hits
            .total_cmp(&b.hits)
            .then(a.weight.total_cmp(&b.weight));
        a.x.total_cmp(&b.x).then(by_weight)
    });
    sorted.dedup_by(|next, kept| {
        let same = next.x <= kept.x;
        if same {
            kept.weight += next.weight;
            kept.hits += next.hits;
        }
        same
    });
    sorted
}

/// The midpoint between two probabilities, never the upper one.
pub(crate) fn between(low: f64, high: f64) -> f64 {
    let middle = 0.5 * (low + high);
    if middle < high { middle } else { low }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_probabilities_are_one_point() {
        let case = |log_odds, weight, hit| Case {
            log_odds,
            weight,
            hit,
        };
        let cases = [
            case(0.0, 2.0, true),
            case(-1.0, 1.0, false),
            case(0.0, 1.0, false),
        ];
        let points = points(&cases);
        assert_eq!(points.len(), 2);
        let (x, weight, hits) = (0.5, 3.0, 2.0);
        assert_eq!(points[1], Point { x, weight, hits });
    }
}
