//! The shares of a mixture, by maximum likelihood on held-out rows.

use rayon::prelude::*;

use super::candidates::Member;
use super::thin::Thinning;
use crate::data::Dataset;

/// Shares below this are not worth a model.
const SMALLEST_SHARE: f64 = 0.01;

/// α − 1 of a Dirichlet prior on the shares, in rows.
const PRIOR: f64 = 0.1;

/// Steps of expectation maximisation from equal shares. The exact maximum lies in a corner more often than not: among
/// members that are nearly alike it picks one by chance. To stop early keeps the average, which does better on new rows.
const STEPS: usize = 500;

/// No share changes by more than this in a step: the end.
const SETTLED: f64 = 1e-6;

/// Rows per partial sum; fixed, so that sums do not depend on the number of threads.
const PIECE: usize = 4096;

/// The shares of all members that maximise the likelihood of the given rows; those that come out small are left
/// out, and those that can be [spared](Thinning).
pub(super) fn shares(members: &[Member], data: &Dataset<'_>, rows: &[usize]) -> Vec<f64> {
    let all: Vec<usize> = (0..members.len()).collect();
    let weights = Likelihoods::new(members, &all, data, rows).solve();
    let kept: Vec<usize> = all
        .into_iter()
        .filter(|&member| weights[member] >= SMALLEST_SHARE)
        .collect();
    let likelihoods = Likelihoods::new(members, &kept, data, rows);
    let weights = likelihoods.solve();
    let thinning = Thinning {
        members,
        kept: &kept,
        shares: &weights,
        products: &likelihoods.products(&weights),
    };
    let mut shares = vec![0.0; members.len()];
    for (&member, weight) in kept.iter().zip(thinning.shares()) {
        shares[member] = weight;
    }
    shares
}

/// The likelihoods of some rows under some members, row by row.
struct Likelihoods {
    values: Vec<f64>,
    row_weights: Vec<f64>,
    members: usize,
}

impl Likelihoods {
    fn new(members: &[Member], kept: &[usize], data: &Dataset<'_>, rows: &[usize]) -> Self {
        // Only ratios within a row matter: the best of each row has likelihood 1, and nothing underflows.
        let values = rows
            .iter()
            .flat_map(|&row| {
                let nlls = kept.iter().map(move |&member| members[member].nlls[row]);
                let best = nlls.clone().fold(f64::INFINITY, f64::min);
                nlls.map(move |nll| (best - nll).exp())
            })
            .collect();
        Self {
            values,
            row_weights: rows.iter().map(|&row| data.weight(row)).collect(),
            members: kept.len(),
        }
    }

    /// Maximises Σ ln Σ w L + (α − 1) Σ ln w by expectation maximisation.
    fn solve(&self) -> Vec<f64> {
        let mut shares = vec![1.0 / self.members as f64; self.members];
        for _ in 0..STEPS {
            let mut next = self.expected(&shares);
            next.iter_mut().for_each(|count| *count += PRIOR);
            let sum: f64 = next.iter().sum();
            next.iter_mut().for_each(|count| *count /= sum);
            let changes = next.iter().zip(&shares).map(|(a, b)| (a - b).abs());
            let change = changes.fold(0.0, f64::max);
            shares = next;
            if change < SETTLED {
                break;
            }
        }
        shares
    }

    /// How many rows each member is expected to account for.
    fn expected(&self, shares: &[f64]) -> Vec<f64> {
        let mut counts = self.sum(self.members, |row, weight, counts| {
            let factor = weight / mixed(row, shares);
            for (count, l) in counts.iter_mut().zip(row) {
                *count += factor * l;
            }
        });
        for (count, share) in counts.iter_mut().zip(shares) {
            *count *= share;
        }
        counts
    }

    /// Σ r_i r_j over the rows for every two members, where r is the likelihood divided by that of the mixture.
    fn products(&self, shares: &[f64]) -> Vec<f64> {
        let members = self.members;
        self.sum(members * members, |row, weight, products| {
            let mixed = mixed(row, shares);
            for (products, l) in products.chunks_exact_mut(members).zip(row) {
                let factor = weight * l / (mixed * mixed);
                for (product, l) in products.iter_mut().zip(row) {
                    *product += factor * l;
                }
            }
        })
    }

    /// Adds up what each row, given with its weight, adds to so many sums.
    fn sum(&self, sums: usize, add: impl Fn(&[f64], f64, &mut [f64]) + Sync) -> Vec<f64> {
        let pieces: Vec<Vec<f64>> = self
            .values
            .par_chunks(PIECE * self.members)
            .zip(self.row_weights.par_chunks(PIECE))
            .map(|(values, row_weights)| {
                let mut part = vec![0.0; sums];
                for (row, weight) in values.chunks_exact(self.members).zip(row_weights) {
                    add(row, *weight, &mut part);
                }
                part
            })
            .collect();
        let mut total = vec![0.0; sums];
        for piece in pieces {
            for (sum, part) in total.iter_mut().zip(piece) {
                *sum += part;
            }
        }
        total
    }
}

/// Σ w L of a row.
fn mixed(row: &[f64], shares: &[f64]) -> f64 {
    let sum: f64 = row.iter().zip(shares).map(|(l, w)| l * w).sum();
    sum.max(f64::MIN_POSITIVE)
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

/// How many members are named.
const NAMED: usize = 5;

/// As in "62% sms, 38% oi (20)", the largest first; small shares of many are not worth a name.
pub(super) fn in_words(shares: &[f64], members: &[Member]) -> String {
    let mut all: Vec<(usize, f64)> = shares.iter().copied().enumerate().collect();
    all.retain(|(_, share)| *share > 0.0);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let percent = |share: f64| format!("{:.0}%", 100.0 * share);
    // One more is as short as the words that it would be replaced by.
    let named = if all.len() > NAMED + 1 {
        NAMED
    } else {
        all.len()
    };
    let mut words: Vec<String> = all[..named]
        .iter()
        .map(|(member, share)| format!("{} {}", percent(*share), members[*member].name))
        .collect();
    if named < all.len() {
        let rest = all[named..].iter().map(|(_, share)| share).sum();
        words.push(format!("{} of {} others", percent(rest), all.len() - named));
    }
    words.join(", ")
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
            cost: 1.0,
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
        let many: Vec<Member> = (0..8).map(|i| member(&format!("m{i}"), even)).collect();
        let words = in_words(&[0.05, 0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05], &many);
        assert_eq!(
            words,
            "30% m1, 20% m2, 15% m3, 10% m4, 10% m5, 15% of 3 others"
        );
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
