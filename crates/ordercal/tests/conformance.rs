//! Every method through the conformance suite, one test each so that they run side by side.

use ordercal::Method;
use ordercal_testkit::conformance::check_calibrator;

fn check(key: &str) {
    check_calibrator(&Method::from_key(key).unwrap());
}

#[test]
fn uncalibrated() {
    check("uncalibrated");
}

#[test]
fn ts() {
    check("ts");
}

#[test]
fn diag() {
    check("diag");
}

#[test]
fn oi() {
    check("oi");
}

#[test]
fn op() {
    check("op");
}

#[test]
fn unconstrained() {
    check("unconstrained");
}

#[test]
fn no_method_is_left_out() {
    let tested = ["uncalibrated", "ts", "diag", "oi", "op", "unconstrained"];
    let keys: Vec<_> = Method::all().iter().map(Method::key).collect();
    assert_eq!(keys, tested);
}
