//! Every method through the conformance suite, one test each so that they run side by side.

use ordercal::Method;
use ordercal_testkit::conformance::check_calibrator;

/// A test for each method, and a list of those there are.
macro_rules! check {
    ($($name:ident = $key:literal),* $(,)?) => {
        $(#[test]
        fn $name() {
            check_calibrator(&Method::from_key($key).unwrap());
        })*

        const TESTED: &[&str] = &[$($key),*];
    };
}

check! {
    uncalibrated = "uncalibrated",
    ts = "ts",
    ets = "ets",
    diag = "diag",
    oi = "oi",
    op = "op",
    vs = "vs",
    ms_odir = "ms-odir",
    dir_odir = "dir-odir",
    svs = "svs",
    sms = "sms",
    platt = "platt",
    beta = "beta",
    isotonic = "isotonic",
    histogram = "histogram",
    bbq = "bbq",
    unconstrained = "unconstrained",
    auto = "auto",
    auto_free = "auto-free",
    vs_in_order = "vs+order",
    ms_odir_in_order = "ms-odir+order",
    dir_odir_in_order = "dir-odir+order",
    svs_in_order = "svs+order",
    sms_in_order = "sms+order",
    platt_in_order = "platt+order",
    beta_in_order = "beta+order",
    isotonic_in_order = "isotonic+order",
    histogram_in_order = "histogram+order",
    bbq_in_order = "bbq+order",
    unconstrained_in_order = "unconstrained+order",
    auto_free_in_order = "auto-free+order",
}

#[test]
fn no_method_is_left_out() {
    let all = Method::all();
    let plain = all.iter().map(Method::key);
    let free = all.iter().filter(|method| !method.promises_order());
    let projected: Vec<Method> = free.cloned().map(Method::keep_order).collect();
    let keys: Vec<_> = plain.chain(projected.iter().map(Method::key)).collect();
    assert_eq!(keys, TESTED);
}

#[test]
fn other_layouts_and_settings_conform_too() {
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
