//! Methods as they are given on the command line.

use anyhow::{Context, Result};
use ordercal::Method;

/// A method's key, or its JSON with hyperparameters.
pub fn parse(given: &str) -> Result<Method> {
    if given.starts_with('{') {
        serde_json::from_str(given).with_context(|| format!("{given} is not a method"))
    } else {
        Ok(Method::from_key(given)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_settings_are_read() {
        assert_eq!(parse("ts").unwrap().key(), "ts");
        assert_eq!(parse("sms+order").unwrap().key(), "sms+order");
        let given = r#"{"method": "oi", "hidden": [100, 100]}"#;
        assert_eq!(parse(given).unwrap().key(), "oi");
        assert!(parse("tss").is_err());
        assert!(parse(r#"{"method": "oi", "width": 3}"#).is_err());
    }
}
