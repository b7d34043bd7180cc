//! A hash of rows, to recognise them again.

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;

use super::dataset::Dataset;
use crate::error::Error;

/// A hash of scores and labels that depends neither on the order of the rows nor on the format they were read from.
///
/// The hash of a set of rows is the sum of the rows' hashes, so chunks can be [added](Self::add).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fingerprint {
    rows: u64,
    sum: u64,
}

impl Fingerprint {
    /// Adds the rows of another.
    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// The rows of a dataset.
    pub(super) fn of(data: &Dataset<'_>) -> Self {
        let rows = data.scores().as_slice().par_chunks(data.classes());
        let hashes = rows.zip(data.labels()).with_min_len(256);
        Self {
            rows: data.rows() as u64,
            sum: hashes
                .map(|(scores, &label)| hash(scores, label))
                .reduce(|| 0, u64::wrapping_add),
        }
    }
}

/// FNV-1a over the words of a row, then the finaliser of splitmix64, so that sums of hashes are distinctive.
fn hash(scores: &[f32], label: u32) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    // Adding 0 turns -0 into 0.
    let words = scores.iter().map(|score| (score + 0.0).to_bits());
    for word in words.chain([label]) {
        hash = (hash ^ u64::from(word)).wrapping_mul(0x100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}", self.rows, self.sum)
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let (rows, sum) = text.split_once(':')?;
            Some(Self {
                rows: rows.parse().ok()?,
                sum: u64::from_str_radix(sum, 16).ok()?,
            })
        };
        parse().ok_or_else(|| Error::InvalidArgument {
            argument: "fingerprint",
            found: text.chars().take(40).collect(),
            expected: "a number of rows, a colon and 16 hexadecimal digits",
        })
    }
}
