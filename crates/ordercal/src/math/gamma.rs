//! The logarithm of the gamma function.

/// ln Γ(x) for x > 0, to about 1e-14 relative or absolute, whichever is larger.
///
/// Stirling's series needs a large argument; smaller ones are increased by Γ(x + 1) = xΓ(x).
pub(crate) fn ln_gamma(x: f64) -> f64 {
    const LARGE: f64 = 12.0;
    // ½ ln 2π.
    const OFFSET: f64 = 0.918_938_533_204_672_8;
    let (mut x, mut product) = (x, 1.0);
    while x < LARGE {
        product *= x;
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let mut series = -691.0 / 360_360.0;
    for coefficient in [
        1.0 / 1188.0,
        -1.0 / 1680.0,
        1.0 / 1260.0,
        -1.0 / 360.0,
        1.0 / 12.0,
    ] {
        series = series * square + coefficient;
    }
    (x - 0.5) * x.ln() - x + OFFSET + series * inverse - product.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let half = std::f64::consts::PI.sqrt().ln();
        for (x, exact) in [
            (1.0, 0.0),
            (2.0, 0.0),
            (0.5, half),
            (1.5, half - 2_f64.ln()),
            (11.0, 3_628_800_f64.ln()),
            // SciPy 1.16, scipy.special.gammaln.
            (1e-6, 13.815_509_980_749_432),
            (123.456, 469.605_547_129_929_5),
            (1e6, 12_815_504.569_147_612),
        ] {
            let ours = ln_gamma(x);
            assert!(
                (ours - exact).abs() < 1e-13 * exact.abs().max(1.0),
                "{x}: {ours} {exact}"
            );
        }
    }

    #[test]
    fn one_step_up_multiplies() {
        for i in 1..500 {
            let x = f64::from(i) * 0.037;
            let step = ln_gamma(x + 1.0) - ln_gamma(x) - x.ln();
            assert!(step.abs() < 1e-12, "{x}: {step}");
        }
    }
}
