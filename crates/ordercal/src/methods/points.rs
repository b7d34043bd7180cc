//! The cases of a binary problem, grouped by probability: the input of methods that count.

use super::binary::BinaryCase;
use crate::models::one_vs_rest::logistic;

/// All cases with the same probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    /// The probability.
    pub x: f64,
    /// The total weight of the cases.
    pub weight: f64,
    /// The weight of the positive cases.
    pub positives: f64,
}

/// The cases of a class, grouped by probability in ascending order. A weight of 2 gives the same points as a repeated row.
pub(crate) fn points(cases: &[BinaryCase]) -> Vec<Point> {
    let mut sorted: Vec<Point> = cases
        .iter()
        .map(|case| Point {
            x: logistic(case.log_odds),
            weight: case.weight,
            positives: if case.positive { case.weight } else { 0.0 },
        })
        .collect();
    // Equal probabilities by weight, so that the last digits of the sums do not depend on the order of the rows.
    sorted.sort_by(|a, b| {
        let by_weight = a
            .positives
            .total_cmp(&b.positives)
            .then(a.weight.total_cmp(&b.weight));
        a.x.total_cmp(&b.x).then(by_weight)
    });
    sorted.dedup_by(|next, kept| {
        let same = next.x <= kept.x;
        if same {
            kept.weight += next.weight;
            kept.positives += next.positives;
        }
        same
    });
    sorted
}

/// The midpoint of two probabilities, rounded so that it is less than the upper one.
pub(crate) fn midpoint(low: f64, high: f64) -> f64 {
    let middle = 0.5 * (low + high);
    if middle < high { middle } else { low }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_probabilities_are_one_point() {
        let case = |log_odds, weight, positive| BinaryCase {
            log_odds,
            weight,
            positive,
        };
        let cases = [
            case(0.0, 2.0, true),
            case(-1.0, 1.0, false),
            case(0.0, 1.0, false),
        ];
        let points = points(&cases);
        assert_eq!(points.len(), 2);
        let expected = Point {
            x: 0.5,
            weight: 3.0,
            positives: 2.0,
        };
        assert_eq!(points[1], expected);
    }
}
