//! Keys of methods and metrics: any text is accepted, and shells offer the known ones.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use ordercal::Method;
use ordercal::metrics::Metric;

/// Accepts any text; a wrong key is refused later, with the nearest right one.
#[derive(Debug, Clone)]
pub struct OfferedKeys(Vec<&'static str>);

impl TypedValueParser for OfferedKeys {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(|key| PossibleValue::new(*key))))
    }
}

/// The keys of methods, and of their projections.
pub fn method_keys() -> OfferedKeys {
    let methods = Method::all().into_iter();
    let keys = methods.flat_map(|method| {
        let projected = (!method.promises_order()).then(|| format!("{}+order", method.key()));
        [Some(method.key().to_owned()), projected]
    });
    // The command line, which wants them for as long as the program runs, is made once.
    OfferedKeys(keys.flatten().map(|key| &*key.leak()).collect())
}

/// The keys of metrics.
pub fn metric_keys() -> OfferedKeys {
    OfferedKeys(Metric::ALL.iter().map(|metric| metric.key()).collect())
}
