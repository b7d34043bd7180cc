//! The conformance suite for every method and for every projection.

use ordercal::Method;
use ordercal_testkit::conformance::check_calibrator;
use rayon::prelude::*;

#[test]
fn every_method_conforms() {
    Method::all().par_iter().for_each(check_calibrator);
}

#[test]
fn every_projection_conforms() {
    let free = Method::all().into_iter().filter(|m| !m.promises_order());
    let projected: Vec<Method> = free.map(Method::keep_order).collect();
    assert!(!projected.is_empty());
    projected.par_iter().for_each(check_calibrator);
}

#[test]
fn other_settings_conform() {
    for json in [
        r#"{"method": "histogram", "layout": "equal-width", "bins": 10}"#,
        r#"{"method": "isotonic", "lines": "centres"}"#,
        r#"{"method": "platt", "targets": "labels"}"#,
        r#"{"method": "beta", "targets": "platt"}"#,
        r#"{"method": "vs", "input": "centred"}"#,
        r#"{"method": "ms-odir", "input": "log-softmax", "lambda": 0.0, "mu": 0.0}"#,
    ] {
        check_calibrator(&serde_json::from_str(json).unwrap());
    }
}
