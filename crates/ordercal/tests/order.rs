//! The promise, hammered on a million hostile rows; `cargo measure hammer` goes on from there.

use ordercal_testkit::hammer;

#[test]
fn a_million_hostile_rows_keep_their_order() {
    let findings = hammer::run(1_000_000, 1, &|_| {});
    assert!(findings.rows >= 1_000_000);
    assert!(findings.violations.is_empty(), "{:#?}", findings.violations);
}
