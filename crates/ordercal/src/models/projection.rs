//! The projection of a distribution onto those that rank the classes as a row of scores does.

/// Projects a distribution q onto the order of a row of scores x, without allocating per row.
///
/// The projection minimises KL(q‖p) = Σ q_i ln(q_i/p_i) over all p with x_i > x_j ⇒ p_i ≥ p_j and x_i = x_j ⇒ p_i = p_j.
/// It is found by the pool-adjacent-violators algorithm along the sorted row, in O(K): tied classes are pooled, then
/// neighbours in the wrong order, and each pool gets its mean. (The minimiser of the KL divergence is that of least
/// squares: Barlow and Brunk, 1972.) The sum stays the same, and a q that has the right order is not changed.
///
/// ```
/// use ordercal::models::Projector;
/// use ordercal::rank::Sorter;
///
/// let scores = [3.0_f32, 2.0, 1.0];
/// let mut probs = [0.2, 0.5, 0.3];
/// Projector::default().project(&scores, Sorter::new(3).sort(&scores), &mut probs);
/// assert!(probs.iter().zip([0.35, 0.35, 0.3]).all(|(p, q)| (p - q).abs() < 1e-12));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Projector {
    /// Pools with falling means.
    pools: Vec<PooledClasses>,
}

/// Neighbouring classes of the sorted row with one probability.
#[derive(Debug, Clone, Copy)]
struct PooledClasses {
    sum: f64,
    count: usize,
}

impl Projector {
    /// Replaces the K probabilities `probs` by their projection. `order` holds the classes in descending order of `scores`
    /// ([`Sorter`](crate::rank::Sorter)).
    #[allow(clippy::float_cmp)] // Ties are equal to the last bit.
    pub fn project(&mut self, scores: &[f32], order: &[u32], probs: &mut [f64]) {
        self.pools.clear();
        for tied in order.chunk_by(|&a, &b| scores[a as usize] == scores[b as usize]) {
            let mut sum: f64 = tied.iter().map(|&class| probs[class as usize]).sum();
            let mut count = tied.len();
            while let Some(above) = self.pools.last()
                && sum * above.count as f64 > above.sum * count as f64
            {
                sum += above.sum;
                count += above.count;
                self.pools.pop();
            }
            self.pools.push(PooledClasses { sum, count });
        }
        let mut rest = order;
        let mut least = f64::INFINITY;
        for pool in &self.pools {
            // Rounding may make a mean larger than the one above.
            least = least.min(pool.sum / pool.count as f64);
            let (classes, behind) = rest.split_at(pool.count);
            for &class in classes {
                probs[class as usize] = least;
            }
            rest = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::Sorter;
    use crate::rng::Rng;

    fn distribution(rng: &mut Rng, classes: usize) -> Vec<f64> {
        let draws: Vec<f64> = (0..classes).map(|_| -rng.uniform().ln()).collect();
        let sum: f64 = draws.iter().sum();
        draws.iter().map(|d| d / sum).collect()
    }

    fn project(scores: &[f32], probs: &[f64]) -> Vec<f64> {
        let mut result = probs.to_vec();
        let mut sorter = Sorter::new(scores.len());
        Projector::default().project(scores, sorter.sort(scores), &mut result);
        result
    }

    fn kl(q: &[f64], p: &[f64]) -> f64 {
        let terms = q.iter().zip(p).filter(|(q, _)| **q > 0.0);
        terms.map(|(q, p)| q * (q / p).ln()).sum()
    }

    /// Sorts a random distribution into the order of the scores, with ties pooled.
    fn consistent(rng: &mut Rng, scores: &[f32]) -> Vec<f64> {
        let mut draw = distribution(rng, scores.len());
        draw.sort_by(|a, b| b.total_cmp(a));
        let mut sorter = Sorter::new(scores.len());
        let order = sorter.sort(scores).to_vec();
        let mut p = vec![0.0; scores.len()];
        for (&class, value) in order.iter().zip(draw) {
            p[class as usize] = value;
        }
        let mean = |class: usize| {
            let tied = (0..scores.len()).filter(|&c| scores[c] == scores[class]);
            tied.clone().map(|c| p[c]).sum::<f64>() / tied.count() as f64
        };
        (0..scores.len()).map(mean).collect()
    }

    fn row(rng: &mut Rng, classes: usize) -> Vec<f32> {
        // Few values, so that many are tied.
        (0..classes)
            .map(|_| rng.below(classes + 2) as f32)
            .collect()
    }

    /// Pools neighbours in the wrong order until there are none.
    fn slow(scores: &[f32], q: &[f64]) -> Vec<f64> {
        let mut sorter = Sorter::new(scores.len());
        let mut pools: Vec<Vec<usize>> = Vec::new();
        for &class in sorter.sort(scores) {
            match pools.last_mut() {
                Some(pool) if scores[pool[0]] == scores[class as usize] => {
                    pool.push(class as usize)
                }
                _ => pools.push(vec![class as usize]),
            }
        }
        let mean = |pool: &Vec<usize>| pool.iter().map(|&c| q[c]).sum::<f64>() / pool.len() as f64;
        while let Some(at) = (1..pools.len()).find(|&i| mean(&pools[i]) > mean(&pools[i - 1])) {
            let pool = pools.remove(at);
            pools[at - 1].extend(pool);
        }
        let mut p = vec![0.0; q.len()];
        for pool in &pools {
            pool.iter().for_each(|&class| p[class] = mean(pool));
        }
        p
    }

    #[test]
    fn projections_are_what_the_obvious_algorithm_gives() {
        let mut rng = Rng::new(84);
        for classes in [2, 3, 9, 30, 100] {
            for draw in 0..8 {
                // Many ties, none, masked classes, and rows in which all are pooled.
                let mut scores = row(&mut rng, classes);
                let mut q = distribution(&mut rng, classes);
                match draw % 4 {
                    1 => scores = (0..classes).map(|_| rng.normal() as f32).collect(),
                    2 => {
                        scores[1] = f32::NEG_INFINITY;
                        q[1] = 0.0;
                    }
                    3 => scores = q.iter().map(|&q| -(q as f32)).collect(),
                    _ => {}
                }
                let found = project(&scores, &q);
                let mut pairs = found.iter().zip(slow(&scores, &q));
                assert!(pairs.all(|(a, b)| (a - b).abs() < 1e-14));
            }
        }
    }

    #[test]
    fn no_consistent_distribution_is_closer() {
        let mut rng = Rng::new(81);
        for classes in [2, 3, 5, 12] {
            for _ in 0..100 {
                let scores = row(&mut rng, classes);
                let q = distribution(&mut rng, classes);
                let p = project(&scores, &q);
                assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                for i in 0..classes {
                    for j in 0..classes {
                        assert!(scores[i] <= scores[j] || p[i] >= p[j]);
                        assert!(scores[i] != scores[j] || p[i] == p[j]);
                    }
                }
                let best = kl(&q, &p);
                for _ in 0..50 {
                    let other = consistent(&mut rng, &scores);
                    assert!(best <= kl(&q, &other) + 1e-12);
                    // Neither is a small step towards it.
                    let near: Vec<f64> = p
                        .iter()
                        .zip(&other)
                        .map(|(p, o)| 0.999 * p + 0.001 * o)
                        .collect();
                    assert!(best <= kl(&q, &near) + 1e-12);
                }
            }
        }
    }

    #[test]
    fn pools_are_means_and_the_projection_is_idempotent() {
        let mut rng = Rng::new(82);
        for _ in 0..300 {
            let scores = row(&mut rng, 9);
            let q = distribution(&mut rng, 9);
            let p = project(&scores, &q);
            for &level in &p {
                let pool: Vec<usize> = (0..9).filter(|&c| p[c] == level).collect();
                let mean = pool.iter().map(|&c| q[c]).sum::<f64>() / pool.len() as f64;
                assert!((mean - level).abs() < 1e-12, "{q:?} {p:?}");
            }
            let again = project(&scores, &p);
            assert!(p.iter().zip(&again).all(|(a, b)| (a - b).abs() < 1e-15));
        }
    }

    #[test]
    fn a_distribution_in_order_is_not_changed() {
        let mut rng = Rng::new(83);
        for _ in 0..100 {
            let scores: Vec<f32> = (0..7).map(|_| rng.normal() as f32).collect();
            let p = consistent(&mut rng, &scores);
            assert_eq!(project(&scores, &p), p);
        }
    }

    #[test]
    fn masked_classes_stay_at_zero() {
        let scores = [f32::NEG_INFINITY, 1.0, 2.0, f32::NEG_INFINITY];
        assert_eq!(
            project(&scores, &[0.0, 0.75, 0.25, 0.0]),
            [0.0, 0.5, 0.5, 0.0]
        );
    }
}
