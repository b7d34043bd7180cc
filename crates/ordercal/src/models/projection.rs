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
    lanes: [Lane; TOGETHER],
}

/// Rows that are projected side by side. Which classes are pooled cannot be predicted, so that a step has no branches and
/// waits for the one before: steps of other rows fill the time.
const TOGETHER: usize = 4;

impl Projector {
    /// Replaces the K probabilities `probs` by their projection. `order` holds the classes in descending order of `scores`
    /// ([`Sorter`](crate::rank::Sorter)).
    pub fn project(&mut self, scores: &[f32], order: &[u32], probs: &mut [f64]) {
        self.project_rows(scores, order, probs, scores.len());
    }

    /// [`project`](Self::project) for rows of so many classes.
    pub(crate) fn project_rows(
        &mut self,
        scores: &[f32],
        order: &[u32],
        probs: &mut [f64],
        classes: usize,
    ) {
        let several = TOGETHER * classes;
        let rows = scores.chunks(several).zip(order.chunks(several));
        for ((scores, order), probs) in rows.zip(probs.chunks_mut(several)) {
            let count = scores.len() / classes;
            let lanes = &mut self.lanes[..count];
            let row = |lane: usize| lane * classes..(lane + 1) * classes;
            for (at, lane) in lanes.iter_mut().enumerate() {
                lane.start(&scores[row(at)], &order[row(at)], &probs[row(at)]);
            }
            if let [a, b, c, d] = lanes {
                while !(a.done() || b.done() || c.done() || d.done()) {
                    a.step();
                    b.step();
                    c.step();
                    d.step();
                }
            }
            for (at, lane) in lanes.iter_mut().enumerate() {
                while !lane.done() {
                    lane.step();
                }
                lane.finish(&order[row(at)], &mut probs[row(at)]);
            }
        }
    }
}

/// Neighbouring classes of the sorted row with one probability.
#[derive(Debug, Clone, Copy)]
struct PooledClasses {
    sum: f64,
    count: f64,
}

impl PooledClasses {
    fn mean(self) -> f64 {
        self.sum / self.count
    }
}

/// Above every other pool.
const TOP: PooledClasses = PooledClasses {
    sum: f64::INFINITY,
    count: 1.0,
};
/// Below every other pool.
const END: PooledClasses = PooledClasses {
    sum: -1.0,
    count: 1.0,
};

/// One row on its way.
#[derive(Debug, Clone, Default)]
struct Lane {
    /// Tied classes, from the largest score to the smallest, then [`END`].
    groups: Vec<PooledClasses>,
    /// [`TOP`], then pools with falling means, up to `last`.
    pools: Vec<PooledClasses>,
    last: usize,
    /// The sum and the count of the pool that is compared with the last one.
    here: (f64, f64),
    /// The group that comes after it.
    next: usize,
}

impl Lane {
    fn start(&mut self, scores: &[f32], order: &[u32], probs: &[f64]) {
        self.groups.clear();
        let mut above = f32::INFINITY;
        for &class in order {
            let (score, sum) = (scores[class as usize], probs[class as usize]);
            match self.groups.last_mut() {
                Some(group) if score >= above => {
                    group.sum += sum;
                    group.count += 1.0;
                }
                _ => self.groups.push(PooledClasses { sum, count: 1.0 }),
            }
            above = score;
        }
        self.groups.push(END);
        self.pools.clear();
        self.pools.resize(self.groups.len() + 1, TOP);
        self.last = 0;
        self.here = (self.groups[0].sum, self.groups[0].count);
        self.next = 1;
    }

    fn done(&self) -> bool {
        self.next >= self.groups.len()
    }

    /// Either pools `here` with the pool above, or puts it below that one and goes on to the next group.
    #[inline(always)]
    fn step(&mut self) {
        let (sum, count) = self.here;
        let (above, next) = (self.pools[self.last], self.groups[self.next]);
        self.pools[self.last + 1] = PooledClasses { sum, count };
        let wrong = sum * above.count > above.sum * count;
        self.here = (
            either(wrong, sum + above.sum, next.sum),
            either(wrong, count + above.count, next.count),
        );
        self.last = self.last + 1 - 2 * usize::from(wrong);
        self.next += usize::from(!wrong);
    }

    /// Gives every class the mean of its pool.
    fn finish(&mut self, order: &[u32], probs: &mut [f64]) {
        let mut classes = order.iter();
        let mut least = f64::INFINITY;
        for pool in &self.pools[1..=self.last] {
            // Rounding may make a mean larger than the one above.
            let mean = pool.mean();
            least = if mean < least { mean } else { least };
            for &class in classes.by_ref().take(pool.count as usize) {
                probs[class as usize] = least;
            }
        }
    }
}

/// One of two numbers, without a branch.
#[inline(always)]
fn either(first: bool, a: f64, b: f64) -> f64 {
    let mask = u64::from(first).wrapping_neg();
    f64::from_bits((a.to_bits() & mask) | (b.to_bits() & !mask))
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
    fn rows_side_by_side_are_what_the_obvious_algorithm_gives() {
        let mut rng = Rng::new(84);
        for (rows, classes) in [(1, 2), (2, 9), (4, 9), (7, 30), (9, 3), (6, 100)] {
            let mut scores = Vec::new();
            let mut probs = Vec::new();
            let mut order = Vec::new();
            let mut sorter = Sorter::new(classes);
            for place in 0..rows {
                // Many ties, none, masked classes, and rows in which all are pooled.
                let mut scores_here = row(&mut rng, classes);
                let mut q = distribution(&mut rng, classes);
                match place % 4 {
                    1 => scores_here = (0..classes).map(|_| rng.normal() as f32).collect(),
                    2 => {
                        scores_here[1] = f32::NEG_INFINITY;
                        q[1] = 0.0;
                    }
                    3 => scores_here = q.iter().map(|&q| -(q as f32)).collect(),
                    _ => {}
                }
                order.extend_from_slice(sorter.sort(&scores_here));
                scores.extend(scores_here);
                probs.extend(q);
            }
            let given = probs.clone();
            Projector::default().project_rows(&scores, &order, &mut probs, classes);
            for place in 0..rows {
                let row = place * classes..(place + 1) * classes;
                let expected = slow(&scores[row.clone()], &given[row.clone()]);
                let found = &probs[row.clone()];
                assert!(
                    found
                        .iter()
                        .zip(&expected)
                        .all(|(a, b)| (a - b).abs() < 1e-14)
                );
                assert_eq!(found, project(&scores[row.clone()], &given[row]));
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
