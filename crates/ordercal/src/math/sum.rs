//! Sums that hardly depend on the order of the terms.

/// A sum with the rounding error that was made so far (Neumaier's compensated summation). Rounded to 64 bits, it is almost
/// always the same for any order of the terms, and for any division of them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Compensated {
    pub sum: f64,
    pub error: f64,
}

impl Compensated {
    /// Adds a number.
    pub(crate) fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        // The larger of the two terms loses nothing.
        self.error += if self.sum.abs() >= value.abs() {
            (self.sum - sum) + value
        } else {
            (value - sum) + self.sum
        };
        self.sum = sum;
    }

    /// The sum as one number.
    pub(crate) fn value(self) -> f64 {
        self.sum + self.error
    }
}

impl FromIterator<f64> for Compensated {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut sum = Self::default();
        values.into_iter().for_each(|value| sum.add(value));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn the_order_of_the_terms_does_not_matter() {
        let mut rng = Rng::new(3);
        let values: Vec<f64> = (0..10_000).map(|_| 1e3 * rng.uniform()).collect();
        let forwards: Compensated = values.iter().copied().collect();
        let backwards: Compensated = values.iter().rev().copied().collect();
        assert_eq!(forwards.value(), backwards.value());
        let plain: f64 = values.iter().sum();
        let plain_backwards: f64 = values.iter().rev().sum();
        assert_ne!(plain, plain_backwards);
        let many: Compensated = [1.0, 1e100, 1.0, -1e100].into_iter().collect();
        assert_eq!(many.value(), 2.0);
    }
}
