//! Confidence as a ranking of the rows: right and wrong predictions in order of confidence.

use super::binning::Sorted;

/// The weight of the right and of the wrong predictions among rows with one and the same confidence.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tied {
    pub(crate) right: f64,
    pub(crate) wrong: f64,
}

impl Tied {
    pub(crate) fn weight(&self) -> f64 {
        self.right + self.wrong
    }
}

/// The rows from the most to the least confident; rows with equal confidences are one, so their order does not matter.
pub(crate) fn by_descending_confidence(rows: &Sorted<'_>) -> Vec<Tied> {
    let mut groups: Vec<Tied> = Vec::new();
    let mut last = f64::INFINITY;
    for row in (0..rows.confidence.len()).rev() {
        let weight = rows.weight.map_or(1.0, |w| w[row]);
        if weight <= 0.0 {
            continue;
        }
        if rows.confidence[row] < last {
            groups.push(Tied::default());
            last = rows.confidence[row];
        }
        let group = groups.last_mut().expect("one was just added");
        group.right += weight * rows.hit[row];
        group.wrong += weight * (1.0 - rows.hit[row]);
    }
    groups
}

/// The weight of all right and of all wrong predictions.
pub(crate) fn totals(groups: &[Tied]) -> Tied {
    groups.iter().fold(Tied::default(), |sum, group| Tied {
        right: sum.right + group.right,
        wrong: sum.wrong + group.wrong,
    })
}
