//! Numerical kernels: exponentials, softmax, matrix products, integration on a grid.

pub(crate) mod exp;
pub(crate) mod gamma;
pub(crate) mod gemm;
pub(crate) mod grid;
pub(crate) mod lanes;
pub(crate) mod simd;
pub(crate) mod softmax;
pub(crate) mod tile;
