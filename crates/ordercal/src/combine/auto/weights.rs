//! The shares of a mixture, by maximum likelihood on held-out rows.

use super::candidates::Member;
use crate::data::Dataset;
use crate::optim::simplex::mixture;

/// Shares below this are not worth a model.
const SMALLEST_SHARE: f64 = 0.01;

/// The shares of all members that maximise the likelihood of the given rows; those that come out small are left out.
pub(super) fn shares(members: &[Member], data: &Dataset<'_>, rows: &[usize]) -> Vec<f64> {
    let mut kept: Vec<usize> = (0..members.len()).collect();
    let mut weights = solve(members, &kept, data, rows);
    // The maximum lies on the boundary: most are at 0 already.
    if weights.iter().any(|&w| w < SMALLEST_SHARE) {
        let all = kept.iter().zip(&weights);
        kept = all
            .filter(|(_, w)| **w >= SMALLEST_SHARE)
            .map(|(&member, _)| member)
            .collect();
        weights = solve(members, &kept, data, rows);
    }
    let mut shares = vec![0.0; members.len()];
    for (&member, weight) in kept.iter().zip(weights) {
        shares[member] = weight;
    }
    shares
}

fn solve(members: &[Member], kept: &[usize], data: &Dataset<'_>, rows: &[usize]) -> Vec<f64> {
    // Only ratios within a row matter: the best of each row has likelihood 1, and nothing underflows.
    let likelihoods: Vec<f64> = rows
        .iter()
        .flat_map(|&row| {
            let nlls = kept.iter().map(move |&member| members[member].nlls[row]);
            let best = nlls.clone().fold(f64::INFINITY, f64::min);
            nlls.map(move |nll| (best - nll).exp())
        })
        .collect();
    let start = vec![1.0 / kept.len() as f64; kept.len()];
    mixture(&likelihoods, &start, &|place| data.weight(rows[place])).weights
}

/// −ln Σ w e^(−nll) of the given rows.
pub(super) fn mixed_nlls<'a>(
    parts: impl Iterator<Item = (&'a [f64], f64)> + Clone,
    rows: impl Iterator<Item = usize>,
) -> Vec<f64> {
    rows.map(|row| {
        let used = parts.clone().filter(|(_, weight)| *weight > 0.0);
        let nlls = used.clone().map(|(nlls, _)| nlls[row]);
        let best = nlls.fold(f64::INFINITY, f64::min);
        let sum: f64 = used.map(|(nlls, w)| w * (best - nlls[row]).exp()).sum();
        best - sum.ln()
    })
    .collect()
}

/// As in "62% sms, 38% oi (20)", the largest first.
pub(super) fn in_words(shares: &[f64], members: &[Member]) -> String {
    let mut all: Vec<(usize, f64)> = shares.iter().copied().enumerate().collect();
    all.retain(|(_, share)| *share > 0.0);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words = all
        .iter()
        .map(|(member, share)| format!("{:.0}% {}", 100.0 * share, members[*member].name));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ScoreKind, Scores};
    use ndarray::Array2;

    const ROWS: usize = 600;

    fn member(name: &str, nll: impl Fn(usize) -> f64) -> Member {
        Member {
            name: name.to_owned(),
            reads: None,
            models: Vec::new(),
            nlls: (0..ROWS).map(nll).collect(),
        }
    }

    fn data() -> Dataset<'static> {
        let scores = Scores::new(ScoreKind::Logits, Array2::<f32>::zeros((ROWS, 2))).unwrap();
        Dataset::new(scores.into_owned(), &vec![0_u32; ROWS]).unwrap()
    }

    #[test]
    fn members_that_know_different_rows_share() {
        let even = |row: usize| if row.is_multiple_of(2) { 0.1 } else { 2.0 };
        let members = [
            member("even", even),
            member("odd", |row| even(row + 1)),
            member("worse", |row| even(row) + 1.0),
        ];
        let all: Vec<usize> = (0..ROWS).collect();
        let found = shares(&members, &data(), &all);
        assert!(
            (found[0] - 0.5).abs() < 1e-6 && found[2] == 0.0,
            "{found:?}"
        );
        assert_eq!(in_words(&found, &members), "50% even, 50% odd");
        let parts = members.iter().map(|m| &m.nlls[..]).zip(found);
        let nlls = mixed_nlls(parts, 0..ROWS);
        let expected = -(0.5 * ((-0.1_f64).exp() + (-2.0_f64).exp())).ln();
        assert!(nlls.iter().all(|nll| (nll - expected).abs() < 1e-6));
    }

    #[test]
    fn likelihoods_beyond_the_range_of_floats_are_mixed() {
        let members = [
            member("a", |row| 1e4 + (row % 2) as f64),
            member("b", |row| 1e4 + ((row + 1) % 2) as f64),
        ];
        let parts = members.iter().map(|m| (&m.nlls[..], 0.5));
        let nlls = mixed_nlls(parts, 0..ROWS);
        let expected = 1e4 - (0.5 * (1.0 + (-1.0_f64).exp())).ln();
        assert!(nlls.iter().all(|nll| (nll - expected).abs() < 1e-9));
    }
}
