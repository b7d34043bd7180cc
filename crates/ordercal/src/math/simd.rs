//! Function multiversioning: a plain loop is compiled for several instruction sets, and one is picked at run time.
//!
//! The loops of this crate are ordinary Rust that the compiler vectorises. The [`vectorized`] macro compiles such a
//! function three times: for AVX-512, for AVX2 with FMA, and for the baseline of the target. Measured against ready
//! crates, it is as fast as `rten-vecmath`'s exponential (0.7 ns an element), it lets us fuse loops, and it works for f64.
//! A closure-based dispatcher (`pulp`) did not inline the larger loops and was 60 times slower.
//!
//! All versions give the same bits: Rust never contracts or reorders floating-point operations, fused multiply-adds are
//! written as such, and sums are taken in lanes whose number is part of the source. `tests/simd_levels.rs` compares
//! whole fits. Matrix products are the exception, see [`gemm`](super::gemm).
//!
//! The environment variable `ORDERCAL_SIMD` limits the choice: `portable`, `avx2` or `avx512`. It is read once. A level
//! that the processor lacks means the best one that it has. Any other value is reported as an error by
//! [`Scores::new`](crate::Scores::new), and ignored otherwise.
//!
//! This is one of the two modules with `unsafe` code: a function compiled for an instruction set may only be called if
//! the processor has it, which [`Level::current`] has verified.

#![allow(unsafe_code)]

use std::sync::OnceLock;

use crate::error::{Error, Result};

/// The environment variable that limits the [`Level`].
const VARIABLE: &str = "ORDERCAL_SIMD";

/// The instruction sets that loops are compiled for, from the least to the most capable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    Portable,
    Avx2,
    Avx512,
}

/// The level in use, and the value of the variable if it is not a level.
struct Choice {
    level: Level,
    unknown: Option<String>,
}

static CHOICE: OnceLock<Choice> = OnceLock::new();

impl Level {
    const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The level in use: what the processor has, limited by the environment variable.
    #[inline]
    pub(crate) fn current() -> Self {
        choice().level
    }

    /// The best level of this processor.
    fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma");
            let avx512 =
                has!("avx512f") && has!("avx512dq") && has!("avx512vl") && has!("avx512bw");
            if avx2 && avx512 {
                return Self::Avx512;
            }
            if avx2 {
                return Self::Avx2;
            }
        }
        Self::Portable
    }
}

#[inline]
fn choice() -> &'static Choice {
    CHOICE.get_or_init(|| choose(std::env::var(VARIABLE).ok().as_deref(), Level::detect()))
}

fn choose(value: Option<&str>, best: Level) -> Choice {
    let asked = Level::ALL.into_iter().find(|l| Some(l.key()) == value);
    Choice {
        level: asked.map_or(best, |level| level.min(best)),
        unknown: value.filter(|_| asked.is_none()).map(str::to_owned),
    }
}

/// # Errors
/// [`Error::InvalidParameter`] if the environment variable is set to something else than a level.
pub(crate) fn check_environment() -> Result<()> {
    match &choice().unknown {
        None => Ok(()),
        Some(value) => Err(Error::invalid(VARIABLE, value, "portable, avx2 or avx512")),
    }
}

/// Defines a function whose body is compiled for every [`Level`] and dispatched at run time.
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(unsafe_code)]
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
            fn avx512($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }

            match $crate::math::simd::Level::current() {
                // SAFETY: `Level::current` is never above what the processor has.
                #[cfg(target_arch = "x86_64")]
                $crate::math::simd::Level::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::math::simd::Level::Avx2 => unsafe { avx2($($arg),*) },
                _ => body($($arg),*),
            }
        }
    };
}
pub(crate) use vectorized;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_limits_the_level_and_never_raises_it() {
        for best in Level::ALL {
            assert_eq!(choose(None, best).level, best);
            for level in Level::ALL {
                let choice = choose(Some(level.key()), best);
                assert_eq!(choice.level, level.min(best));
                assert_eq!(choice.unknown, None);
            }
            let choice = choose(Some("sse9"), best);
            assert_eq!(choice.level, best);
            assert_eq!(choice.unknown.as_deref(), Some("sse9"));
        }
    }
}
