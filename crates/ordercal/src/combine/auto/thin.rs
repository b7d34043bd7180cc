//! Members that a mixture can spare: fewer that say nearly the same are applied in less time.

use super::candidates::Member;

/// How much evidence all rows together may give against the thinner mixture, in nats: a likelihood ratio of 1.2, which no
/// one would call evidence.
const MOST_LOST: f64 = 0.2;

/// What passing log-probabilities on costs, in nanoseconds per score.
const PASSED_ON: f64 = 2.0;

/// Steps that would gain less than this many nats are not taken.
const ENOUGH: f64 = 1e-4;
/// The most steps of a search.
const STEPS: usize = 500;

/// A mixture of some members, and what it is to be like.
pub(super) struct Thinning<'a> {
    pub(super) members: &'a [Member],
    /// The places of those that have a share.
    pub(super) kept: &'a [usize],
    /// Their shares, which are the target.
    pub(super) shares: &'a [f64],
    /// Σ r_i r_j over the rows, where r_i is the likelihood of a row under a member divided by that under the target.
    pub(super) products: &'a [f64],
}

impl Thinning<'_> {
    /// The shares that are left, with zeros for members that can be spared.
    ///
    /// One member after another goes: the one whose removal, with its share given to others, loses least for the time
    /// that it saves. The loss is ½ Σ (q/p − 1)² over the labels of held-out rows, for the likelihood p under the target and
    /// q without the member: to second order the Kullback–Leibler divergence. The labels do not decide in which direction
    /// the mixture moves, so that nothing is learned from them twice: shares that were re-learned for
    /// few members were worse on other rows than the many were.
    pub(super) fn shares(&self) -> Vec<f64> {
        let mut current = self.shares.to_vec();
        let mut lost = 0.0;
        loop {
            let before = self.cost(&current);
            let mut best: Option<(f64, f64, Vec<f64>)> = None;
            for place in 0..current.len() {
                let Some(fewer) = self.without(&current, place) else {
                    continue;
                };
                let loss = self.loss(&fewer);
                let rate = (loss - lost).max(ENOUGH) / (before - self.cost(&fewer));
                if loss <= MOST_LOST && best.as_ref().is_none_or(|(least, ..)| rate < *least) {
                    best = Some((rate, loss, fewer));
                }
            }
            let Some((_, loss, fewer)) = best else {
                return current;
            };
            (lost, current) = (loss, fewer);
        }
    }

    /// ½ (v − w)ᵀ G (v − w) for shares v, the target w and the products G.
    fn loss(&self, shares: &[f64]) -> f64 {
        let gradient = self.gradient(shares);
        let moved = shares.iter().zip(self.shares).map(|(v, w)| v - w);
        0.5 * moved.zip(gradient).map(|(m, g)| m * g).sum::<f64>()
    }

    fn gradient(&self, shares: &[f64]) -> Vec<f64> {
        let rows = self.products.chunks_exact(shares.len());
        rows.map(|row| {
            let moved = shares.iter().zip(self.shares).map(|(v, w)| v - w);
            moved.zip(row).map(|(m, product)| m * product).sum()
        })
        .collect()
    }

    /// The shares closest to the target without one of the members; nothing if it has no share, or all of it.
    fn without(&self, current: &[f64], place: usize) -> Option<Vec<f64>> {
        let mut shares = current.to_vec();
        let gone = std::mem::take(&mut shares[place]);
        let rest: f64 = shares.iter().sum();
        if gone <= 0.0 || rest <= 0.0 {
            return None;
        }
        shares
            .iter_mut()
            .for_each(|share| *share *= (rest + gone) / rest);
        let open: Vec<usize> = (0..shares.len()).filter(|&i| shares[i] > 0.0).collect();
        let mut gradient = self.gradient(&shares);
        let count = shares.len();
        // From the member that should have less to the one that should have more, a pair at a time.
        for _ in 0..STEPS {
            let by_slope = |a: &&usize, b: &&usize| gradient[**a].total_cmp(&gradient[**b]);
            let to = *open.iter().min_by(by_slope)?;
            let with_share = open.iter().filter(|&&i| shares[i] > 0.0);
            let from = *with_share.max_by(by_slope)?;
            let slope = gradient[from] - gradient[to];
            let product = |i: usize, j: usize| self.products[i * count + j];
            let curvature = product(from, from) + product(to, to) - 2.0 * product(from, to);
            let best = slope / curvature.max(f64::MIN_POSITIVE);
            let step = best.min(shares[from]);
            if step * slope < 2.0 * ENOUGH {
                break;
            }
            shares[to] += step;
            shares[from] = if best < shares[from] {
                shares[from] - step
            } else {
                0.0
            };
            for (k, gradient) in gradient.iter_mut().enumerate() {
                *gradient += step * (product(k, to) - product(k, from));
            }
        }
        Some(shares)
    }

    /// What applying the mixture costs, in nanoseconds per score.
    fn cost(&self, shares: &[f64]) -> f64 {
        let used = || {
            let pairs = self.kept.iter().zip(shares);
            pairs
                .filter(|(_, share)| **share > 0.0)
                .map(|(&member, _)| member)
        };
        let own: f64 = used().map(|member| self.members[member].cost).sum();
        let read = |place: usize| used().any(|member| self.members[member].reads == Some(place));
        let sources = (0..self.members.len()).filter(|&place| read(place));
        let read: f64 = sources
            .map(|place| {
                let itself = used().any(|member| member == place);
                PASSED_ON
                    + if itself {
                        0.0
                    } else {
                        self.members[place].cost
                    }
            })
            .sum();
        own + read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(reads: Option<usize>, cost: f64) -> Member {
        Member {
            name: String::new(),
            reads,
            models: Vec::new(),
            nlls: Vec::new(),
            cost,
        }
    }

    /// Σ r_i r_j of likelihoods relative to their mixture.
    fn products(rows: &[[f64; 3]], shares: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; 9];
        for row in rows {
            let mixed: f64 = row.iter().zip(shares).map(|(l, w)| l * w).sum();
            for i in 0..3 {
                for j in 0..3 {
                    sums[3 * i + j] += row[i] * row[j] / (mixed * mixed);
                }
            }
        }
        sums
    }

    fn thinned(rows: &[[f64; 3]], members: &[Member]) -> Vec<f64> {
        let shares = [0.4, 0.3, 0.3];
        let products = products(rows, &shares);
        let thinning = Thinning {
            members,
            kept: &[0, 1, 2],
            shares: &shares,
            products: &products,
        };
        let found = thinning.shares();
        assert!(
            (found.iter().sum::<f64>() - 1.0).abs() < 1e-12 && thinning.loss(&found) <= MOST_LOST
        );
        found
    }

    #[test]
    fn of_members_that_are_alike_the_cheapest_stays() {
        // The last two say the same, and the first something else.
        let row = |i: usize| {
            if i.is_multiple_of(2) {
                [0.9, 0.2, 0.2]
            } else {
                [0.2, 0.9, 0.9]
            }
        };
        let rows: Vec<[f64; 3]> = (0..1000).map(row).collect();
        let costs = |b: f64, c: f64| [member(None, 1.0), member(None, b), member(None, c)];
        for (members, stays) in [(costs(1.0, 8.0), 1), (costs(8.0, 1.0), 2)] {
            let found = thinned(&rows, &members);
            assert!((found[0] - 0.4).abs() < 0.02, "{found:?}");
            assert!(
                (found[stays] - 0.6).abs() < 0.02 && found[3 - stays] == 0.0,
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_member_that_says_something_of_its_own_stays() {
        let row = |i: usize| std::array::from_fn(|member| if i % 3 == member { 0.9 } else { 0.1 });
        let rows: Vec<[f64; 3]> = (0..1000).map(row).collect();
        let members = [member(None, 1.0), member(None, 9.0), member(None, 9.0)];
        assert_eq!(thinned(&rows, &members), [0.4, 0.3, 0.3]);
        // A single row says too little.
        let few = thinned(&rows[..1], &members);
        assert!(few.contains(&0.0), "{few:?}");
    }

    #[test]
    fn a_source_that_only_one_member_reads_is_part_of_its_cost() {
        let members = [member(None, 5.0), member(Some(0), 1.0), member(None, 1.0)];
        let thinning = |shares: &[f64]| {
            let products = vec![0.0; 9];
            let all = Thinning {
                members: &members,
                kept: &[0, 1, 2],
                shares,
                products: &products,
            };
            all.cost(shares)
        };
        assert!((thinning(&[0.5, 0.0, 0.5]) - 6.0).abs() < 1e-12);
        assert!((thinning(&[0.0, 0.5, 0.5]) - (5.0 + PASSED_ON + 2.0)).abs() < 1e-12);
        assert!((thinning(&[0.3, 0.3, 0.4]) - (5.0 + PASSED_ON + 2.0)).abs() < 1e-12);
    }
}
