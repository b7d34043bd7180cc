//! Damaged files of every format: thousands of seeded mutations, none of which may panic, hang or make
//! the reader allocate much more than the file is large.

// Measuring allocations takes an allocator, and that is an unsafe trait.
#![allow(unsafe_code)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use common::fixture;
use ordercal::Rng;
use ordercal_io::{DataRef, ReadOptions, inspect, load};

/// The system's allocator, which notes the largest single request while it is told to watch.
struct Watching;

static WATCH: AtomicBool = AtomicBool::new(false);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn note(size: usize) {
    if WATCH.load(Ordering::Relaxed) {
        LARGEST.fetch_max(size, Ordering::Relaxed);
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// Tests that watch the allocator take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Decoders use buffers of a fixed size, up to this, whatever the file.
const FIXED: usize = 4 << 20;

/// Cuts, flips, overwrites with extreme values, repeats or removes some of the bytes.
fn mutate(original: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(7) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = random.below(256) as u8,
            3 => {
                // Lengths and counts are little-endian integers: make one enormous.
                let end = (at + 1 + random.below(8)).min(bytes.len());
                bytes[at..end].fill(0xff);
            }
            4 => {
                let end = (at + 1 + random.below(8)).min(bytes.len());
                bytes[at..end].fill(0);
            }
            5 => {
                let end = (at + random.below(64)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, copy);
            }
            _ => {
                let end = (at + random.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
    bytes
}

/// Reads many mutations of the fixtures. Reading must end in a dataset or in an error that names the file.
fn survive(names: &[&str], per_file: usize) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // `MUTATIONS=50 cargo test --release --test mutations` looks further.
    let times = std::env::var("MUTATIONS").ok().and_then(|n| n.parse().ok());
    let per_file = per_file * times.unwrap_or(1);
    let dir = tempfile::tempdir().unwrap();
    let (mut good, mut bad) = (0, 0);
    let mut failure = None;
    for (index, name) in names.iter().enumerate() {
        let (file, split) = name
            .split_once('#')
            .map_or((*name, None), |(f, s)| (f, Some(s)));
        let original = std::fs::read(fixture(file)).unwrap();
        let mut random = Rng::new(index as u64);
        let path = dir.path().join(file);
        let mut data = DataRef::new(&path);
        if let Some(split) = split {
            data = data.with_split(split);
        }
        for round in 0..per_file {
            let bytes = mutate(&original, &mut random);
            std::fs::write(&path, &bytes).unwrap();
            LARGEST.store(0, Ordering::Relaxed);
            WATCH.store(true, Ordering::Relaxed);
            let outcome = std::panic::catch_unwind(|| {
                let _ = inspect(&path, &ReadOptions::default());
                let loaded = load(&data, None)?;
                if loaded.has_labels() {
                    loaded.dataset()?;
                }
                loaded.scores().map(|scores| scores.rows())
            });
            WATCH.store(false, Ordering::Relaxed);
            let largest = LARGEST.load(Ordering::Relaxed);
            let allowed = FIXED + 1100 * bytes.len();
            match outcome {
                Ok(Ok(_)) => good += 1,
                Ok(Err(error)) => {
                    common::check_message(&error, &path);
                    bad += 1;
                }
                Err(_) => failure = Some(format!("{name}, round {round}: panicked")),
            }
            if largest > allowed {
                failure = Some(format!(
                    "{name}, round {round}: {largest} bytes for {}",
                    bytes.len()
                ));
            }
            if failure.is_some() {
                break;
            }
        }
    }
    assert_eq!(failure, None);
    // A mutation that changes a score is still a good file; one that never fails is no mutation.
    assert!(bad > 100 && good > 0, "{good} good, {bad} bad");
}

#[test]
fn npy() {
    survive(
        &[
            "fine_f4.npy",
            "fine_f8_big_fortran.npy",
            "fine_version2.npy",
        ],
        700,
    );
}

#[test]
fn npz() {
    survive(
        &[
            "fine_stored.npz",
            "fine_fortran_deflated.npz",
            "bundle.npz#test",
        ],
        700,
    );
}

#[test]
fn csv() {
    survive(
        &[
            "fine.csv",
            "fine_quoted.csv",
            "fine_names.csv",
            "fine.csv.gz",
        ],
        500,
    );
}

#[test]
#[cfg(feature = "parquet")]
fn parquet() {
    survive(
        &[
            "fine_snappy.parquet",
            "fine_zstd.parquet",
            "fine_gzip.parquet",
            "fine_lz4.parquet",
            "fine_list.parquet",
            "fine_fixed_names.parquet",
            "fine_brotli.parquet",
            "coarse_decimal.parquet",
        ],
        500,
    );
}

#[test]
#[cfg(feature = "parquet")]
fn arrow() {
    survive(
        &[
            "fine.arrow",
            "fine_stream.arrow",
            "fine_lz4.feather",
            "fine_zstd.feather",
        ],
        500,
    );
}

#[test]
fn safetensors() {
    survive(
        &[
            "fine.safetensors",
            "coarse_bf16.safetensors",
            "coarse_f2.safetensors",
        ],
        700,
    );
}

#[test]
fn pickle() {
    survive(
        &[
            "published_2.p#calib",
            "published_5_old.p#test",
            "published_python2.p#calib",
            "nested.pickle#test",
            "fine_lists.pkl",
            "published_0.p#calib",
            "published_0_python2.p#test",
        ],
        700,
    );
}

#[test]
fn torch() {
    survive(&["fine.pt", "coarse_bf16.pt"], 700);
}
