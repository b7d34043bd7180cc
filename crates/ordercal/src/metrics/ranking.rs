//! Confidence as a ranking of the rows: right and wrong predictions in order of confidence.
//!
//! Each metric comes with a bound on how much the order of the rows within the groups can change it: in a
//! [`MetricState`](super::MetricState), a group is a fine bin.

use super::binning::Sorted;

/// The share of the rows that `accuracy_at_coverage` keeps.
const COVERAGE: f64 = 0.8;

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

    fn add(&mut self, other: &Self) {
        self.right += other.right;
        self.wrong += other.wrong;
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

fn totals(groups: &[Tied]) -> Tied {
    let mut sum = Tied::default();
    groups.iter().for_each(|group| sum.add(group));
    sum
}

/// The area under the ROC curve, in which a tied pair counts as half; the bound is half the share of such pairs.
pub(crate) fn area(groups: &[Tied]) -> (f64, f64) {
    let total = totals(groups);
    let (mut wrong_above, mut ordered, mut tied) = (0.0, 0.0, 0.0);
    for group in groups {
        ordered += group.right * (total.wrong - wrong_above - 0.5 * group.wrong);
        tied += 0.5 * group.right * group.wrong;
        wrong_above += group.wrong;
    }
    let pairs = total.right * total.wrong;
    (ordered / pairs, tied / pairs)
}

/// The mean over the rows, of which `counted` of each group count, of the error rate among the rows that are at least as
/// confident. Within a group the rate is highest if the wrong rows come first, and lowest if they come last.
pub(crate) fn mean_risk(groups: &[Tied], counted: impl Fn(&Tied) -> f64) -> (f64, f64) {
    let rate = |wrong: f64, of: f64| if wrong > 0.0 { wrong / of } else { 0.0 };
    let mut above = Tied::default();
    let (mut lowest, mut value, mut highest, mut total) = (0.0, 0.0, 0.0, 0.0);
    for group in groups {
        let (before, wrong, count) = (above.weight(), above.wrong, counted(group));
        above.add(group);
        lowest += count * rate(wrong, before + group.right);
        value += count * rate(above.wrong, above.weight());
        highest += count * rate(above.wrong, before + group.wrong);
        total += count;
    }
    let bound = (highest - value).max(value - lowest) / total;
    (value / total, bound)
}

/// The mean risk less that of the best order of the rows, r + (1 − r) ln(1 − r) for the error rate r of many rows.
pub(crate) fn excess_risk(groups: &[Tied]) -> f64 {
    let total = totals(groups);
    let right = 1.0 - total.wrong / total.weight();
    let best = if right > 0.0 {
        1.0 - right + right * right.ln()
    } else {
        1.0
    };
    (mean_risk(groups, Tied::weight).0 - best).max(0.0)
}

/// The accuracy of the most confident rows.
pub(crate) fn accuracy_at_coverage(groups: &[Tied]) -> (f64, f64) {
    let wanted = COVERAGE * totals(groups).weight();
    let mut above = Tied::default();
    for group in groups {
        let part = wanted - above.weight();
        if group.weight() >= part {
            let value = above.right + group.right * (part / group.weight());
            let lowest = above.right + (part - group.wrong).max(0.0);
            let highest = above.right + group.right.min(part);
            return (
                value / wanted,
                (highest - value).max(value - lowest) / wanted,
            );
        }
        above.add(group);
    }
    // Rounding can leave the weight of all rows a little below the weight wanted.
    (above.right / above.weight(), 0.0)
}
