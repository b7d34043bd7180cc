//! Exponential, logarithm and softplus as branch-free arithmetic, which the compiler vectorises where they are inlined
//! into a [`vectorized`](super::simd::vectorized) loop.

/// The magic number of rounding, 1.5·2²³: adding it rounds an `f32` to an integer and leaves that integer in the low
/// bits; subtracting it again gives the integer as a float.
const ROUND_F32: f32 = 12_582_912.0; // 1.5 * 2^23
/// The same for `f64`, 1.5·2⁵².
const ROUND_F64: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// eˣ to 2 units in the last place, for x ≤ 88; 0 where the result would be below the smallest normal number.
#[inline(always)]
pub(crate) fn exp_f32(x: f32) -> f32 {
    // ln 2 in two parts: the product of the first with a small integer is exact.
    const LN2_HIGH: f32 = 355.0 / 512.0;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = x.clamp(-87.33, 88.0);
    let shifted = clamped.mul_add(std::f32::consts::LOG2_E, ROUND_F32);
    let n = shifted - ROUND_F32;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, clamped));
    // eʳ ≈ 1 + r + r²q(r), where q interpolates at the Chebyshev nodes of |r| ≤ ln 2 / 2. With degree 4 the relative error is
    // at most 1.1e-8.
    let mut q = 1.392_617_6e-3;
    for c in [8.363_173e-3, 4.166_655_5e-2, 1.666_657_7e-1, 0.5] {
        q = r.mul_add(q, c);
    }
    let p = r.mul_add(r.mul_add(q, 1.0), 1.0);
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    if x < -87.33 { 0.0 } else { p * power }
}

/// eˣ to 2 units in the last place, for x ≤ 709; 0 where the result would be below the smallest normal number.
#[inline(always)]
pub(crate) fn exp_f64(x: f64) -> f64 {
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let clamped = x.clamp(-708.39, 709.0);
    let shifted = clamped.mul_add(std::f64::consts::LOG2_E, ROUND_F64);
    let n = shifted - ROUND_F64;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, clamped));
    // As above, with degree 9: the relative error is at most 2e-17.
    let mut q = 2.510_037_583_284_003_4e-8;
    for c in [
        2.762_007_588_034_591e-7,
        2.755_726_848_030_944e-6,
        2.480_152_132_236_793e-5,
        1.984_126_986_304_054_5e-4,
        1.388_888_891_719_671_9e-3,
        8.333_333_333_330_065e-3,
        4.166_666_666_662_416_4e-2,
        1.666_666_666_666_666_9e-1,
        0.500_000_000_000_000_1,
    ] {
        q = r.mul_add(q, c);
    }
    let p = r.mul_add(r.mul_add(q, 1.0), 1.0);
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(0x3ff0_0000_0000_0000));
    if x < -708.39 { 0.0 } else { p * power }
}

/// ln x to 2 units in the last place, for normal x > 0; NaN if x is not finite.
#[inline(always)]
pub(crate) fn ln_f64(x: f64) -> f64 {
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    /// The bits of √½: x = 2ⁿ·m with m from √½ to √2.
    const ROOT: u64 = 0x3fe6_a09e_667f_3bcd;
    let shifted = x.to_bits().wrapping_sub(ROOT);
    let exponent = (shifted as i64 >> 52) as f64;
    let mantissa = f64::from_bits((shifted & ((1 << 52) - 1)).wrapping_add(ROOT));
    // ln m = 2 artanh(t) with t = (m − 1)/(m + 1), |t| ≤ 0.172; the rest of the series after t²¹ is below 1e-18.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let s = t * t;
    let mut p = 1.0 / 21.0;
    for k in [19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        p = s.mul_add(p, 1.0 / k);
    }
    let series = (2.0 * t).mul_add(s * p, 2.0 * t);
    exponent.mul_add(LN2_HIGH, exponent.mul_add(LN2_LOW, series)) + 0.0 * x
}

/// The softplus s⁺(z) = ln(1 + eᶻ) and its derivative, the logistic function.
#[inline(always)]
pub(crate) fn softplus_f32(z: f32) -> (f32, f32) {
    let e = exp_f32(-z.abs());
    // ln(1 + e) = 2 artanh(t) with t = e / (2 + e) ≤ 1/3; the rest of the series after t¹⁵ is below 2e-9 of it.
    let t = e / (2.0 + e);
    let s = t * t;
    let mut p = 1.0 / 15.0;
    for k in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        p = s.mul_add(p, 1.0 / k);
    }
    let value = (2.0 * t).mul_add(p, z.max(0.0));
    let large_side = 1.0 / (1.0 + e);
    (value, if z < 0.0 { e * large_side } else { large_side })
}

/// [`softplus_f32`] in 64 bits.
#[inline(always)]
pub(crate) fn softplus_f64(z: f64) -> (f64, f64) {
    let e = exp_f64(-z.abs());
    // As above; the rest of the series after t³³ is below 1e-17 of it.
    let t = e / (2.0 + e);
    let s = t * t;
    let mut p = 1.0 / 33.0;
    for k in [
        31.0, 29.0, 27.0, 25.0, 23.0, 21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0,
    ] {
        p = s.mul_add(p, 1.0 / k);
    }
    let value = (2.0 * t).mul_add(p, z.max(0.0));
    let large_side = 1.0 / (1.0 + e);
    (value, if z < 0.0 { e * large_side } else { large_side })
}

/// The c with s⁺(c) = 1.
pub(crate) const UNIT: f64 = 0.541_324_854_612_918_1;

/// A positive multiplier, s⁺(z + c), which is 1 at z = 0, and its derivative.
#[inline(always)]
pub(crate) fn multiplier_f32(z: f32) -> (f32, f32) {
    softplus_f32(z + UNIT as f32)
}

/// [`multiplier_f32`] in 64 bits.
#[inline(always)]
pub(crate) fn multiplier_f64(z: f64) -> (f64, f64) {
    softplus_f64(z + UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::simd::vectorized;

    vectorized! {
        fn exp_all(values: &mut [f32]) {
            for value in values {
                *value = exp_f32(*value);
            }
        }
    }

    #[test]
    fn the_wide_softplus_agrees_with_the_standard_library() {
        for i in -4000..4000 {
            let z = f64::from(i) * 0.05;
            let e = (-z.abs()).exp();
            let (value, slope) = softplus_f64(z);
            let exact = z.max(0.0) + e.ln_1p();
            assert!(
                (value - exact).abs() <= 1e-15 * exact,
                "{z}: {value} {exact}"
            );
            let exact = if z < 0.0 {
                e / (1.0 + e)
            } else {
                1.0 / (1.0 + e)
            };
            assert!(
                (slope - exact).abs() <= 1e-15 * exact,
                "{z}: {slope} {exact}"
            );
        }
    }

    #[test]
    fn logarithms_agree_with_the_standard_library() {
        let mut x = 1e-300_f64;
        while x < 1e300 {
            let error = (ln_f64(x) - x.ln()).abs();
            assert!(error <= 4e-16 * x.ln().abs().max(1.0), "{x}: {error}");
            x *= 1.000_37;
        }
        assert_eq!(ln_f64(1.0), 0.0);
        assert!(ln_f64(f64::NAN).is_nan() && ln_f64(-f64::NAN).is_nan());
        assert!(ln_f64(f64::INFINITY).is_nan());
    }

    vectorized! {
        fn exp_all_wide(values: &mut [f64]) {
            for value in values {
                *value = exp_f64(*value);
            }
        }
    }

    #[test]
    fn exponentials_agree_with_the_standard_library() {
        let inputs: Vec<f32> = (0..400_000).map(|i| -87.3 + i as f32 * 4.3e-4).collect();
        let mut outputs = inputs.clone();
        exp_all(&mut outputs);
        for (x, y) in inputs.iter().zip(&outputs) {
            let exact = f64::from(*x).exp();
            assert!(
                (f64::from(*y) / exact - 1.0).abs() < 2.4e-7,
                "exp({x}) = {y}"
            );
        }
        let inputs: Vec<f64> = (0..400_000)
            .map(|i| -708.3 + f64::from(i) * 3.5e-3)
            .collect();
        let mut outputs = inputs.clone();
        exp_all_wide(&mut outputs);
        for (x, y) in inputs.iter().zip(&outputs) {
            assert!((y / x.exp() - 1.0).abs() < 4.5e-16, "exp({x}) = {y}");
        }
    }

    #[test]
    fn exponentials_underflow_to_zero() {
        let mut narrow = [-87.4_f32, -1e30, f32::NEG_INFINITY];
        exp_all(&mut narrow);
        assert_eq!(narrow, [0.0; 3]);
        let mut wide = [-708.4_f64, -1e300, f64::NEG_INFINITY];
        exp_all_wide(&mut wide);
        assert_eq!(wide, [0.0; 3]);
    }

    #[test]
    fn a_multiplier_starts_at_one() {
        assert!((multiplier_f64(0.0).0 - 1.0).abs() < 1e-15);
        assert!((multiplier_f32(0.0).0 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn softplus_agrees_with_the_wide_one() {
        for i in -900..=900 {
            let z = f64::from(i) * 0.1;
            let (narrow, narrow_slope) = softplus_f32(z as f32);
            let (wide, slope) = softplus_f64(f64::from(z as f32));
            assert!(
                (f64::from(narrow) / wide - 1.0).abs() < 1e-6 || wide < 1e-37,
                "softplus({z})"
            );
            assert!(
                (f64::from(narrow_slope) - slope).abs() < 1e-6,
                "logistic({z})"
            );
        }
    }
}
