//! The method described by the command line and a configuration file.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use ordercal::Method;
use ordercal::select::Search;
use serde_json::{Map, Value, json};

use crate::args::{Common, FitArgs};
use crate::input::at;
use ordercal_io::nearest;

/// The method if none is named.
const DEFAULT_METHOD: &str = "auto";

/// Builds the method: defaults, overridden by the file, overridden by the flags.
pub fn method(args: &FitArgs, common: &Common) -> Result<Method> {
    let file = args.config.as_deref().map(read).transpose()?;
    let key = key(args, file.as_ref())?;
    let chosen = args.method.is_some() || file.as_ref().is_some_and(|f| f.contains_key("method"));
    let mut method = Method::from_key(&key).map_err(|e| unknown_method("--method", &key, &e))?;
    if args.keep_order {
        method = method.keep_order();
    }
    let Value::Object(mut table) = serde_json::to_value(&method)? else {
        bail!("the method `{key}` cannot be serialised");
    };
    let defaults = table.clone();
    if let (Some(path), Some(file)) = (&args.config, file) {
        table.extend(file.into_iter().filter(|(name, _)| name != "method"));
        parse(&table).map_err(|e| at(path, e))?;
    }
    let mut set = |flag: &str, value: Option<Value>| {
        let name = flag.trim_start_matches('-');
        match value {
            Some(_) if !defaults.contains_key(name) => {
                let hint = if chosen {
                    ""
                } else {
                    ", the default; name one with --method"
                };
                Err(anyhow!("{flag} does not apply to the method `{key}`{hint}"))
            }
            Some(value) => {
                table.insert(name.to_owned(), value);
                Ok(())
            }
            None => Ok(()),
        }
    };
    if let Some(lambda) = args.lambda.filter(|lambda| !lambda.is_finite()) {
        bail!("--lambda: {lambda} is not a finite number");
    }
    set("--hidden", args.hidden.as_ref().map(|h| json!(h)))?;
    set("--top", args.top.map(|t| json!(t)))?;
    set("--lambda", args.lambda.map(|l| json!(l)))?;
    set("--effort", args.effort.as_ref().map(|e| json!(e)))?;
    // `auto` has folds of its own; for other methods --folds belongs to the search.
    if defaults.contains_key("folds") {
        set("--folds", args.folds.map(|f| json!(f)))?;
    }
    // Every command has --seed; deterministic methods ignore it.
    if defaults.contains_key("seed") {
        set("--seed", common.seed.map(|s| json!(s)))?;
    }
    let method = parse(&table)?;
    method.validate()?;
    Ok(method)
}

/// The search for hyperparameters.
pub fn search(args: &FitArgs, common: &Common) -> Search {
    let mut search = Search::default()
        .with_effort(args.search)
        .with_stratified(args.stratified);
    search.folds = args.folds;
    match common.seed {
        Some(seed) => search.with_seed(seed),
        None => search,
    }
}

/// The key from the flag or the file; two different keys are an error.
fn key(args: &FitArgs, file: Option<&Map<String, Value>>) -> Result<String> {
    let configured = file.and_then(|table| table.get("method"));
    let configured = match (configured, &args.config) {
        (Some(Value::String(key)), _) => Some(key.clone()),
        (Some(_), Some(path)) => return Err(at(path, "`method` must be a string")),
        _ => None,
    };
    match (&args.method, configured) {
        (Some(flag), Some(file)) if *flag != file => bail!(
            "--method {flag} contradicts `method = \"{file}\"` in {}",
            args.config.as_deref().unwrap_or(Path::new("")).display()
        ),
        (Some(key), _) => Ok(key.clone()),
        (None, Some(key)) => Ok(key),
        (None, None) => Ok(DEFAULT_METHOD.to_owned()),
    }
}

fn read(path: &Path) -> Result<Map<String, Value>> {
    let text = std::fs::read_to_string(path).map_err(|e| at(path, e))?;
    let table: Map<String, Value> = toml::from_str(&text).map_err(|e| {
        let line = e
            .span()
            .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        at(path, format_args!("line {line}: {}", e.message()))
    })?;
    // JSON has no word for nan and inf.
    match table.iter().find(|(_, value)| has_null(value)) {
        Some((key, _)) => Err(at(path, format_args!("`{key}` must be a finite number"))),
        None => Ok(table),
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(values) => values.values().any(has_null),
        _ => false,
    }
}

fn parse(table: &Map<String, Value>) -> Result<Method> {
    serde_json::from_value(Value::Object(table.clone())).map_err(|e| {
        let message = e.to_string();
        anyhow!("{}", suggest(&message).unwrap_or(message))
    })
}

/// The error for an unknown key, with the nearest known one.
pub fn unknown_method(flag: &str, key: &str, error: &ordercal::Error) -> anyhow::Error {
    let all = Method::all();
    match nearest(key, all.iter().map(Method::key)) {
        // In an invalid `KEY+order` the nearest key is the key itself.
        Some(near) if near != key => {
            anyhow!("{flag}: there is no method `{key}`; did you mean `{near}`?")
        }
        _ => anyhow!("{flag}: {error}"),
    }
}

/// The method with the seed of the command line, if it has a seed.
pub fn with_seed(method: Method, common: &Common) -> Result<Method> {
    let mut table = serde_json::to_value(&method)?;
    match (common.seed, table.get("seed")) {
        (Some(seed), Some(_)) => {
            table["seed"] = json!(seed);
            Ok(serde_json::from_value(table)?)
        }
        _ => Ok(method),
    }
}

/// Turns serde's list of known fields into a suggestion of the nearest one.
fn suggest(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown field ")?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let key = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    Some(match nearest(key, known.iter().copied()) {
        Some(near) => format!("there is no key `{key}`; did you mean `{near}`?"),
        None if known.is_empty() => format!("there is no key `{key}`: the method has none"),
        None => format!("there is no key `{key}`; the keys are {}", known.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_answered_with_the_nearest() {
        let near = suggest("unknown field `lamda`, expected one of `hidden`, `lambda`");
        assert_eq!(
            near.unwrap(),
            "there is no key `lamda`; did you mean `lambda`?"
        );
        let far = suggest("unknown field `zzzzzz`, expected `hidden` or `lambda`");
        assert_eq!(
            far.unwrap(),
            "there is no key `zzzzzz`; the keys are hidden, lambda"
        );
        let none = suggest("unknown field `x`, there are no fields");
        assert_eq!(none.unwrap(), "there is no key `x`: the method has none");
        assert_eq!(suggest("invalid type"), None);
    }
}
