//! Fixed-point numbers, whose sums do not depend on the order of the terms as floating-point sums do.
//!
//! Every term is rounded once to a multiple of 2⁻⁷² and added in 128 bits, which hold sums below 2⁵⁵.

/// A number in multiples of 2⁻⁷².
pub(super) type Fixed = i128;

/// 1.
pub(super) const ONE: Fixed = 1 << 72;

const SCALE: f64 = (1_u128 << 72) as f64;

/// Probabilities are rounded to multiples of 2^−`UNIT_BITS` first.
const UNIT_BITS: u32 = 51;
const TWO: f64 = 2.0;

/// A number as a multiple of 2⁻⁷², rounded towards 0; exact if it is 0 or at least 2⁻²⁰.
pub(super) fn fixed(value: f64) -> Fixed {
    (value * SCALE) as i128
}

/// The nearest 64-bit number.
pub(super) fn float(value: Fixed) -> f64 {
    value as f64 / SCALE
}

/// A probability in units of 2⁻⁵¹, rounded to nearest: the spacing of the floats between 2 and 4.
#[inline(always)]
pub(super) fn to_units(p: f64) -> u64 {
    (p + TWO).to_bits() - TWO.to_bits()
}

/// A sum of [`to_units`] as a multiple of 2⁻⁷².
pub(super) fn from_units(sum: u64) -> Fixed {
    Fixed::from(sum) << (72 - UNIT_BITS)
}

/// weight · p, with p rounded as in [`to_units`], so that weights of 1 give the same sums as no weights.
pub(super) fn weighted(weight: f64, p: f64) -> Fixed {
    fixed(weight * ((p + TWO) - TWO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn both_ways_of_adding_a_probability_agree() {
        let mut rng = Rng::new(31);
        for _ in 0..10_000 {
            let p = rng.uniform() * 10_f64.powi(-(rng.below(20) as i32));
            assert_eq!(from_units(to_units(p)), weighted(1.0, p));
            assert_eq!(2 * weighted(1.0, p), weighted(2.0, p));
            assert!((float(weighted(1.0, p)) - p).abs() <= 2.3e-16);
        }
        for p in [0.0, 1.0, 1.000_5] {
            assert!((float(from_units(to_units(p))) - p).abs() < 1e-15);
        }
        assert_eq!(fixed(1.0), ONE);
        assert!((float(fixed(745.2) * 1_000_000) - 745.2e6).abs() < 1e-6);
    }
}
