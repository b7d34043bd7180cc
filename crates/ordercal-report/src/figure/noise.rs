//! The noise floor of a reliability diagram: how far accuracy strays from confidence by chance alone.

use ordercal::metrics::ReliabilityBin;

/// The share of calibrated classifiers that stay inside the band of a bin.
const LEVEL: f64 = 0.95;
/// The same as a number of standard deviations of the normal distribution.
const DEVIATIONS: f64 = 1.96;
/// With a larger variance of the number of hits, the normal distribution is as good as the binomial.
const NORMAL_ABOVE: f64 = 200.0;

/// Where the accuracy of a bin lies in 95 of 100 samples if its confidence is right (the consistency bars of Bröcker and
/// Smith, 2007); `None` if it is empty.
pub(super) fn noise_band(bin: &ReliabilityBin) -> Option<(f64, f64)> {
    let confidence = bin.filled?.confidence.clamp(0.0, 1.0);
    let rows = bin.count as f64;
    // Counting what is rarer keeps the sum short and the first probability above 0.
    let rare = confidence.min(1.0 - confidence);
    let variance = rows * rare * (1.0 - rare);
    let (low, high) = if variance > NORMAL_ABOVE {
        let half = DEVIATIONS * variance.sqrt();
        (rows * rare - half, rows * rare + half)
    } else {
        binomial_range(bin.count, rare)
    };
    let (low, high) = (low / rows, high / rows);
    Some(if confidence > 0.5 {
        (1.0 - high, 1.0 - low)
    } else {
        (low, high)
    })
}

/// The quantiles of a binomial distribution between which it lies with a probability of at least [`LEVEL`].
fn binomial_range(trials: u64, p: f64) -> (f64, f64) {
    let tail = (1.0 - LEVEL) / 2.0;
    let mut probability = (trials as f64 * (-p).ln_1p()).exp();
    let mut sum = probability;
    let (mut low, mut count) = (None, 0);
    loop {
        if low.is_none() && sum > tail {
            low = Some(count);
        }
        if sum >= 1.0 - tail || count == trials {
            return (low.unwrap_or(0) as f64, count as f64);
        }
        probability *= (trials - count) as f64 / (count + 1) as f64 * p / (1.0 - p);
        sum += probability;
        count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scipy.stats.binom.ppf([0.025, 0.975], n, p)
    #[test]
    fn ranges_are_those_of_scipy() {
        for (trials, p, range) in [
            (1, 0.3, (0.0, 1.0)),
            (20, 0.1, (0.0, 5.0)),
            (100, 0.5, (40.0, 60.0)),
            (5000, 0.01, (37.0, 64.0)),
            (10, 0.0, (0.0, 0.0)),
        ] {
            assert_eq!(binomial_range(trials, p), range, "{trials} × {p}");
        }
    }

    #[test]
    fn the_two_ways_of_computing_agree() {
        let trials = 900;
        let (low, high) = binomial_range(trials, 0.4);
        let half = DEVIATIONS * (900.0_f64 * 0.24).sqrt();
        assert!((low - (360.0 - half)).abs() < 1.0 && (high - (360.0 + half)).abs() < 1.0);
    }
}
