//! Compiles a plain loop for the instruction sets there are and picks one at run time.
//!
//! The loops of this crate are written in ordinary Rust that the compiler can turn into vector
//! instructions. The `vectorized!` macro compiles such a function three times (AVX-512, AVX2 with FMA,
//! and the baseline of the target) and calls the best the processor has. Measured against ready crates:
//! as fast as `rten-vecmath`'s exponential (0.7 ns an element), with loops fused as we need them, in f64
//! as well; a closure-based dispatcher (`pulp`) did not inline the larger loops and was 60 times slower.
//!
//! This is one of the two modules that may hold `unsafe`: calling a function compiled for an instruction
//! set is only sound where the processor has it, and `Level::detect` has just looked.

#![allow(unsafe_code)]

/// The instruction sets a loop is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Baseline,
}

impl Level {
    /// The best set this processor has; the standard library caches the answer.
    #[inline]
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx512f")
                && has!("avx512dq")
                && has!("avx512vl")
                && has!("avx512bw")
                && has!("fma")
            {
                return Self::Avx512;
            }
            if has!("avx2") && has!("fma") {
                return Self::Avx2;
            }
        }
        Self::Baseline
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

            match $crate::math::simd::Level::detect() {
                // SAFETY: the processor has the instructions, `Level::detect` says.
                #[cfg(target_arch = "x86_64")]
                $crate::math::simd::Level::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::math::simd::Level::Avx2 => unsafe { avx2($($arg),*) },
                $crate::math::simd::Level::Baseline => body($($arg),*),
            }
        }
    };
}
pub(crate) use vectorized;
