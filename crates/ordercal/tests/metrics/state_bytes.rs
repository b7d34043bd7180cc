//! Bytes that are not a state are refused, each for its own reason.

use ordercal::Error;
use ordercal::metrics::{MetricOptions, MetricState, Predictions};

use super::{SplitMix, dataset, overconfident};

/// Where things are in the bytes.
const VERSION: usize = 8;
const FLAGS: usize = 10;
const CLASSES: usize = 12;
const BINS: usize = 16;
const TOP_K: usize = 20;
const NORM: usize = 24;
const ROWS: usize = 40;
const IMPOSSIBLE: usize = 48;
const WEIGHT: usize = 56;
const HITS: usize = 72;
const NLL: usize = 104;
const BRIER: usize = 120;
const EXCESS_VARIANCE: usize = 152;
/// The first table: 15 bits, then the filled bins with rows, weight, confidence and hits.
const TOP: usize = 168;

fn bytes() -> Vec<u8> {
    let (logits, labels) = overconfident(61, 80, 3, 2.0);
    let data = dataset(&logits, &labels);
    let mut state = MetricState::new(3, MetricOptions::default()).expect("options");
    state.update(&Predictions::from(&data)).expect("rows");
    state.to_bytes()
}

#[track_caller]
fn refused(bytes: &[u8], expected: &str) {
    match MetricState::from_bytes(bytes) {
        Err(Error::InvalidState { reason }) => assert_eq!(reason, expected),
        other => panic!("{other:?} instead of: {expected}"),
    }
}

fn changed(place: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = bytes();
    bytes[place..place + with.len()].copy_from_slice(with);
    bytes
}

fn negated(place: usize) -> Vec<u8> {
    let bytes = bytes();
    let sum = i128::from_le_bytes(bytes[place..place + 16].try_into().expect("16 bytes"));
    changed(place, &(-sum).to_le_bytes())
}

#[test]
fn a_state_comes_back_as_it_was() {
    let bytes = bytes();
    let state = MetricState::from_bytes(&bytes).expect("a state");
    assert!(state.to_bytes() == bytes);
    assert_eq!(state.rows(), 80);
}

/// The files were written by ordercal 0.1 from the same rows.
#[test]
fn files_of_the_first_release_are_read() {
    let (logits, labels) = overconfident(61, 80, 3, 2.0);
    let data = dataset(&logits, &labels);
    let empty = || MetricState::new(3, MetricOptions::default()).expect("options");
    let weights = (0..80).map(|row| 0.5 + (row % 4) as f64 * 0.75).collect();
    let mut weighted = empty();
    let rows = Predictions::from(&data).with_weights(weights);
    weighted.update(&rows.expect("weights")).expect("rows");

    let shard = |rows: std::ops::Range<usize>| {
        let mut shard = empty().with_marginal().expect("classes");
        let rows = data.select(&rows.collect::<Vec<_>>());
        shard.update(&Predictions::from(&rows)).expect("rows");
        shard.mark_shard();
        shard
    };
    let mut merged = shard(0..50);
    merged.merge(&shard(50..80)).expect("shards");

    let weighted_bytes = include_bytes!("../../../../tests/data/metrics/version-2-weighted.state");
    let merged_bytes = include_bytes!("../../../../tests/data/metrics/version-2-merged.state");
    for (bytes, state) in [(&weighted_bytes[..], weighted), (merged_bytes, merged)] {
        assert!(MetricState::from_bytes(bytes).expect("a state") == state);
        assert!(state.to_bytes() == bytes);
    }
}

#[test]
fn another_format_is_refused() {
    refused(b"", "it does not begin with `ordcalMS`");
    refused(&changed(0, b"PK"), "it does not begin with `ordcalMS`");
}

#[test]
fn another_version_is_refused() {
    let reason = "its version is not known; it was written by another release";
    refused(&changed(VERSION, &3_u16.to_le_bytes()), reason);
}

#[test]
fn unknown_flags_are_refused() {
    refused(
        &changed(FLAGS, &16_u16.to_le_bytes()),
        "it has flags that are not known",
    );
}

#[test]
fn every_shorter_state_is_refused() {
    let bytes = bytes();
    for length in 8..bytes.len() {
        refused(&bytes[..length], "it is cut short");
    }
}

#[test]
fn a_longer_state_is_refused() {
    let mut bytes = bytes();
    bytes.push(0);
    refused(&bytes, "there are bytes after its end");
}

#[test]
fn options_out_of_range_are_refused() {
    let reason = "its classes or options are out of range";
    refused(&changed(CLASSES, &1_u32.to_le_bytes()), reason);
    refused(&changed(BINS, &0_u32.to_le_bytes()), reason);
    refused(&changed(TOP_K, &0_u32.to_le_bytes()), reason);
    refused(&changed(NORM, &f64::NAN.to_le_bytes()), reason);
}

#[test]
fn a_header_that_promises_more_than_there_is_allocates_nothing() {
    refused(
        &changed(CLASSES, &u32::MAX.to_le_bytes()),
        "it is cut short",
    );
    refused(&changed(BINS, &u32::MAX.to_le_bytes()), "it is cut short");
    // `marginal_ce` said to be kept and not there: other sums are read as its bins.
    let without = MetricState::from_bytes(&changed(FLAGS, &3_u16.to_le_bytes()));
    assert!(matches!(without, Err(Error::InvalidState { .. })));
}

#[test]
fn a_weight_out_of_range_is_refused() {
    refused(
        &changed(WEIGHT, &i128::MAX.to_le_bytes()),
        "its sums contradict each other",
    );
    refused(&negated(WEIGHT), "its sums contradict each other");
}

#[test]
fn scores_that_do_not_fit_the_weight_are_refused() {
    let reason = "its sums contradict each other";
    for place in [HITS, NLL, BRIER, EXCESS_VARIANCE] {
        refused(&negated(place), reason);
        refused(&changed(place, &i128::MAX.to_le_bytes()), reason);
    }
    refused(&changed(IMPOSSIBLE, &81_u64.to_le_bytes()), reason);
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let reason = "its sums contradict each other";
    refused(&changed(ROWS, &79_u64.to_le_bytes()), reason);
    refused(&changed(ROWS, &u64::MAX.to_le_bytes()), reason);
}

#[test]
fn a_bit_beyond_the_last_bin_is_refused() {
    let last = bytes()[TOP + 1];
    refused(
        &changed(TOP + 1, &[last | 0x80]),
        "a bin beyond the last is marked as filled",
    );
}

#[test]
fn a_filled_bin_without_rows_is_refused() {
    refused(
        &changed(TOP + 2, &0_u64.to_le_bytes()),
        "a bin is marked as filled but is empty",
    );
}

#[test]
fn a_bin_whose_sums_contradict_is_refused() {
    let reason = "its sums contradict each other";
    for sum in 0..2 {
        refused(&negated(TOP + 2 + 8 + 16 * sum), reason);
    }
    for sum in 0..3 {
        refused(
            &changed(TOP + 2 + 8 + 16 * sum, &i128::MAX.to_le_bytes()),
            reason,
        );
    }
}

#[test]
fn a_table_without_all_rows_is_refused() {
    let bytes = bytes();
    let place = TOP + 2 + 8;
    let weight = i128::from_le_bytes(bytes[place..place + 16].try_into().expect("16 bytes"));
    let reason = "its sums contradict each other";
    refused(&changed(place, &(weight + 1).to_le_bytes()), reason);
}

#[test]
fn a_grid_that_does_not_fit_is_refused() {
    let bytes = bytes();
    // The last node ends the bytes: 16 of the residual, 16 of the weight.
    let weight = bytes.len() - 16;
    let reason = "its sums contradict each other";
    refused(&negated(weight), reason);
    refused(&changed(weight - 16, &i128::MIN.to_le_bytes()), reason);
    let value = i128::from_le_bytes(bytes[weight..].try_into().expect("16 bytes"));
    let more = value + (1 << 71);
    refused(
        &changed(weight, &more.to_le_bytes()),
        "its sums contradict each other",
    );
}

#[test]
fn random_damage_never_panics_and_what_is_taken_can_be_used() {
    let bytes = bytes();
    let mut random = SplitMix(62);
    for _ in 0..4000 {
        let mut damaged = bytes.clone();
        for _ in 0..=random.below(3) {
            let place = random.below(damaged.len());
            damaged[place] = random.bits() as u8;
        }
        damaged.truncate(damaged.len() - random.below(2) * random.below(40));
        if let Ok(mut state) = MetricState::from_bytes(&damaged) {
            assert!(
                state.to_bytes() == damaged,
                "what is read is what was written"
            );
            let copy = state.clone();
            state.merge(&copy).expect("a state merges with itself");
            assert_eq!(state.rows(), 2 * copy.rows());
            state.finalize().expect("it has rows");
        }
    }
}
