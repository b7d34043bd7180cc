//! The binomial distribution: exact tails, and Clopper–Pearson bounds.

/// P(X ≤ k) for X ~ Binomial(n, p).
pub(super) fn cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n || p <= 0.0 {
        return 1.0;
    }
    if p >= 1.0 {
        return 0.0;
    }
    // The smaller of the two tails is summed, from its largest term on.
    if (k as f64) < p * n as f64 {
        lower_tail(k, n, p)
    } else {
        1.0 - lower_tail(n - k - 1, n, 1.0 - p)
    }
}

/// P(X ≤ k) for k below the mean, where the terms decrease with k.
fn lower_tail(k: u64, n: u64, p: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 1.0;
    for i in (1..=k).rev() {
        // P(X = i − 1) / P(X = i).
        term *= i as f64 / (n - i + 1) as f64 * (1.0 - p) / p;
        sum += term;
        if term < 1e-18 * sum {
            break;
        }
    }
    sum * ln_pmf(k, n, p).exp()
}

fn ln_pmf(k: u64, n: u64, p: f64) -> f64 {
    let (k, rest) = (k as f64, (n - k) as f64);
    ln_factorial(n as f64) - ln_factorial(k) - ln_factorial(rest) + k * p.ln() + rest * (-p).ln_1p()
}

/// ln n!: summed for small n, Stirling's series for large ones.
fn ln_factorial(n: f64) -> f64 {
    if n < 20.0 {
        return (2..=n as u32).map(|i| f64::from(i).ln()).sum();
    }
    let series = 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3)) + 1.0 / (1260.0 * n.powi(5))
        - 1.0 / (1680.0 * n.powi(7));
    n * n.ln() - n + 0.5 * (std::f64::consts::TAU * n).ln() + series
}

/// The Clopper–Pearson upper bound: the largest p at which k or fewer of n is not less likely than `tail`.
pub(super) fn upper_bound(k: u64, n: u64, tail: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    let (mut low, mut high) = (k as f64 / n as f64, 1.0);
    while high - low > 1e-15 * high {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if cdf(k, n, middle) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The two-sided Clopper–Pearson interval.
pub(super) fn interval(k: u64, n: u64, confidence: f64) -> (f64, f64) {
    let tail = (1.0 - confidence) / 2.0;
    (1.0 - upper_bound(n - k, n, tail), upper_bound(k, n, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pascal's recursion on the distribution of n trials.
    fn slow_cdf(k: u64, n: u64, p: f64) -> f64 {
        let mut pmf = vec![1.0];
        for _ in 0..n {
            let mut next = vec![0.0; pmf.len() + 1];
            for (i, mass) in pmf.iter().enumerate() {
                next[i] += mass * (1.0 - p);
                next[i + 1] += mass * p;
            }
            pmf = next;
        }
        pmf.iter().take(k as usize + 1).sum()
    }

    #[test]
    fn tails_are_those_of_the_recursion() {
        for n in [1, 2, 7, 40, 300] {
            for k in [0, 1, 2, n / 10, n / 2, n - 1, n] {
                for p in [1e-6, 0.02, 0.3, 0.5, 0.97] {
                    let (ours, slow) = (cdf(k, n, p), slow_cdf(k, n, p));
                    assert!(
                        (ours - slow).abs() < 1e-12 * (1.0 + slow),
                        "{k} of {n} at {p}: {ours} and {slow}"
                    );
                }
            }
        }
    }

    #[test]
    fn bounds_are_those_of_the_literature() {
        // The rule of three, exactly: 1 − 0.05^(1/100).
        let none = upper_bound(0, 100, 0.05);
        assert!((none - (1.0 - 0.05_f64.powf(0.01))).abs() < 1e-12, "{none}");
        // R: binom.test(10, 100)$conf.int.
        let (low, high) = interval(10, 100, 0.95);
        assert!(
            (low - 0.049_004_688_786_4).abs() < 1e-9 && (high - 0.176_222_597_749_9).abs() < 1e-9,
            "{low} {high}"
        );
        assert_eq!(interval(0, 5, 0.9).0, 0.0);
        assert_eq!(interval(5, 5, 0.9).1, 1.0);
    }
}
