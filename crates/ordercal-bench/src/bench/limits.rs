//! Peak throughput of this machine, measured: matrix products and memory bandwidth on all cores.

use std::hint::black_box;
use std::time::Instant;

use ordercal::kernels;
use rayon::prelude::*;

/// The machine's limits.
pub struct Limits {
    /// Multiplications and additions of 32-bit floats in a second.
    pub operations: f64,
    /// Bytes read from memory in a second.
    pub bytes: f64,
}

/// A lower bound on what a workload has to do.
#[derive(Clone, Copy)]
pub enum LowerBound {
    /// Multiplications and additions.
    Operations(f64),
    /// Bytes read from memory by all passes over data larger than the cache.
    Bytes(f64),
    /// None that is known.
    Unknown,
}

impl Limits {
    /// The best of several runs: other load on the machine only makes them slower.
    pub fn measure() -> Self {
        const SIDE: usize = 1024;
        let threads = rayon::current_num_threads();
        let left = vec![1.0_f32; SIDE * SIDE];
        let mut targets = vec![0.0_f32; threads * SIDE * SIDE];
        let products = best(|| {
            targets.par_chunks_mut(SIDE * SIDE).for_each(|target| {
                kernels::multiply(target, &left, &left, (SIDE, SIDE, SIDE));
            });
        });
        // Far larger than any cache.
        let memory = vec![1.0_f32; 1 << 27];
        let reading = best(|| {
            let sums = memory.par_chunks(1 << 16).map(kernels::sum);
            black_box(sums.sum::<f32>());
        });
        Self {
            operations: 2.0 * (threads * SIDE * SIDE * SIDE) as f64 / products,
            bytes: 4.0 * memory.len() as f64 / reading,
        }
    }

    /// The time that the lower bound implies.
    pub fn seconds(&self, bound: LowerBound) -> Option<f64> {
        match bound {
            LowerBound::Operations(count) => Some(count / self.operations),
            LowerBound::Bytes(count) => Some(count / self.bytes),
            LowerBound::Unknown => None,
        }
    }
}

fn best(mut run: impl FnMut()) -> f64 {
    let time = |_| {
        let begin = Instant::now();
        run();
        begin.elapsed().as_secs_f64()
    };
    (0..15).map(time).fold(f64::INFINITY, f64::min)
}
