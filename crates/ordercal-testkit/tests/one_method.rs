//! One method through the conformance suite and the order promise, while it is being written:
//! `ORDERCAL_METHOD=foo cargo test -p ordercal-testkit --test one_method`.

use ordercal::{Method, Rng};
use ordercal_testkit::conformance::check_calibrator;
use ordercal_testkit::{hammer, models};

#[test]
fn the_method_conforms_and_its_projection_keeps_the_order() {
    let key = std::env::var("ORDERCAL_METHOD").unwrap_or_else(|_| "ts".to_owned());
    let method = Method::from_key(&key).unwrap();
    check_calibrator(&method);
    let ordered = method.keep_order();
    check_calibrator(&ordered);
    for classes in [2, 5, 33] {
        let model = models::fit(&ordered, classes, 1);
        let found = hammer::round(2000, classes, &[model], &mut Rng::new(1));
        assert!(found.violations.is_empty(), "{:#?}", found.violations);
    }
}
