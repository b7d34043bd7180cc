//! The shares of a mixture, no more of them than the rows can justify.

use super::candidates::Member;
use super::evidence::Rows;
use crate::optim::simplex::mixture;

/// Shares below this are not worth a model.
const SMALLEST_SHARE: f64 = 0.01;

/// Which members are mixed, and how.
pub(super) struct Blend {
    /// A weight per member, most of them 0.
    weights: Vec<f64>,
}

impl Blend {
    /// Maximises the likelihood, then lets members go as long as that costs less than a standard error.
    pub(super) fn learn(members: &[Member], rows: &Rows<'_>) -> Self {
        let all: Vec<usize> = (0..rows.count()).collect();
        Self::learn_on(members, rows, &all)
    }

    fn learn_on(members: &[Member], rows: &Rows<'_>, part: &[usize]) -> Self {
        let mut kept: Vec<usize> = (0..members.len()).collect();
        let mut weights = solve(members, &kept, rows, part);
        // The maximum lies on the boundary: most are at 0 already.
        while weights.iter().any(|&w| w < SMALLEST_SHARE) && kept.len() > 1 {
            kept = keep(&kept, &weights, |_, w| w >= SMALLEST_SHARE);
            weights = solve(members, &kept, rows, part);
        }
        let full = spread(&kept, &weights, members.len());
        let reference = mixed_nlls(members, &full, rows.count());
        while kept.len() > 1 {
            let least = least(&weights);
            let fewer = keep(&kept, &weights, |place, _| place != least);
            let next = solve(members, &fewer, rows, part);
            let now = mixed_nlls(members, &spread(&fewer, &next, members.len()), rows.count());
            if rows.gain_on(&now, &reference, part).exceeds_noise() {
                break;
            }
            (kept, weights) = (fewer, next);
        }
        Self {
            weights: spread(&kept, &weights, members.len()),
        }
    }

    /// The members that are mixed, with their weights.
    pub(super) fn shares(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let all = self.weights.iter().copied().enumerate();
        all.filter(|(_, weight)| *weight > 0.0)
    }

    /// The NLL of each row under weights that were learned without its fold.
    pub(super) fn held_out_nlls(&self, members: &[Member], rows: &Rows<'_>) -> Vec<f64> {
        let mut nlls = vec![0.0; rows.count()];
        for fold in 0..rows.folds.count() {
            let blend = Self::learn_on(members, rows, &rows.folds.kept(fold));
            let mixed = mixed_nlls(members, &blend.weights, rows.count());
            for row in rows.folds.held_out(fold) {
                nlls[row] = mixed[row];
            }
        }
        nlls
    }

    /// As in "62% sms+order, 38% oi".
    pub(super) fn in_words(&self, members: &[Member], folds: usize) -> String {
        let mut shares: Vec<(usize, f64)> = self.shares().collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        let words = shares
            .iter()
            .map(|(member, weight)| format!("{:.0}% {}", 100.0 * weight, members[*member].name));
        format!(
            "a mixture, each part the average of {folds} folds: {}",
            words.collect::<Vec<_>>().join(", ")
        )
    }
}

fn keep(kept: &[usize], weights: &[f64], wanted: impl Fn(usize, f64) -> bool) -> Vec<usize> {
    let all = kept.iter().zip(weights).enumerate();
    let wanted = all.filter(|(place, (_, weight))| wanted(*place, **weight));
    let mut found: Vec<usize> = wanted.map(|(_, (&member, _))| member).collect();
    if found.is_empty() {
        found.push(kept[0]);
    }
    found
}

fn least(weights: &[f64]) -> usize {
    let all = weights.iter().enumerate();
    all.min_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(i, _)| i)
}

fn spread(kept: &[usize], weights: &[f64], members: usize) -> Vec<f64> {
    let mut all = vec![0.0; members];
    for (&member, &weight) in kept.iter().zip(weights) {
        all[member] = weight;
    }
    all
}

fn solve(members: &[Member], kept: &[usize], rows: &Rows<'_>, part: &[usize]) -> Vec<f64> {
    // Only ratios within a row matter: the best of each row has likelihood 1, and nothing underflows.
    let likelihoods: Vec<f64> = part
        .iter()
        .flat_map(|&row| {
            let nlls = kept.iter().map(move |&member| members[member].nlls[row]);
            let best = nlls.clone().fold(f64::INFINITY, f64::min);
            nlls.map(move |nll| (best - nll).exp())
        })
        .collect();
    let start = vec![1.0 / kept.len() as f64; kept.len()];
    mixture(&likelihoods, &start, &|place| rows.weight(part[place])).weights
}

/// −ln Σ w e^(−nll), row by row.
fn mixed_nlls(members: &[Member], weights: &[f64], rows: usize) -> Vec<f64> {
    let mixed: Vec<(usize, f64)> = weights.iter().copied().enumerate().collect();
    (0..rows)
        .map(|row| {
            let parts = mixed.iter().filter(|(_, w)| *w > 0.0);
            let best = parts
                .clone()
                .map(|(m, _)| members[*m].nlls[row])
                .fold(f64::INFINITY, f64::min);
            let sum: f64 = parts
                .map(|(m, w)| w * (best - members[*m].nlls[row]).exp())
                .sum();
            best - sum.ln()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Dataset, Folds, ScoreKind, Scores};
    use crate::rng::Rng;
    use ndarray::Array2;

    const ROWS: usize = 600;

    fn member(name: &str, nll: impl Fn(usize) -> f64) -> Member {
        Member {
            name: name.to_owned(),
            models: Vec::new(),
            nlls: (0..ROWS).map(nll).collect(),
        }
    }

    fn with_rows<T>(run: impl FnOnce(&Rows<'_>) -> T) -> T {
        let scores = Scores::new(ScoreKind::Logits, Array2::<f32>::zeros((ROWS, 2))).unwrap();
        let data = Dataset::new(scores, &vec![0_u32; ROWS]).unwrap();
        let folds = Folds::new(ROWS, 3, 1).unwrap();
        run(&Rows::new(&data, &folds))
    }

    #[test]
    fn members_that_know_different_rows_share() {
        let even = |row: usize| if row.is_multiple_of(2) { 0.1 } else { 2.0 };
        let members = [
            member("even", even),
            member("odd", |row| even(row + 1)),
            member("worse", |row| even(row) + 1.0),
        ];
        with_rows(|rows| {
            let blend = Blend::learn(&members, rows);
            let shares: Vec<_> = blend.shares().collect();
            assert_eq!(shares.len(), 2);
            assert!(
                shares.iter().all(|(_, w)| (w - 0.5).abs() < 1e-6),
                "{shares:?}"
            );
            assert_eq!(
                blend.in_words(&members, 3),
                "a mixture, each part the average of 3 folds: 50% even, 50% odd"
            );
            let held_out = blend.held_out_nlls(&members, rows);
            assert!(rows.mean(&held_out) < 0.7, "{}", rows.mean(&held_out));
        });
    }

    #[test]
    fn a_gain_within_noise_is_not_worth_a_member() {
        let mut rng = Rng::new(3);
        let noise: Vec<f64> = (0..ROWS).map(|_| 0.05 * rng.normal()).collect();
        let members = [
            member("plain", |_| 1.0),
            member("noisy", |row| 1.0 + noise[row]),
        ];
        with_rows(|rows| {
            assert_eq!(Blend::learn(&members, rows).shares().count(), 1);
        });
    }

    #[test]
    fn likelihoods_beyond_the_range_of_floats_are_mixed() {
        let members = [
            member("a", |row| 1e4 + (row % 2) as f64),
            member("b", |row| 1e4 + ((row + 1) % 2) as f64),
        ];
        with_rows(|rows| {
            let nlls = mixed_nlls(&members, &[0.5, 0.5], ROWS);
            let expected = 1e4 - (0.5 * (1.0 + (-1.0_f64).exp())).ln();
            assert!(nlls.iter().all(|nll| (nll - expected).abs() < 1e-9));
            assert_eq!(Blend::learn(&members, rows).shares().count(), 2);
        });
    }
}
