//! The method that a command line and a configuration file describe together.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use ordercal::Method;
use ordercal::select::Search;
use serde_json::{Map, Value, json};

use crate::args::{Common, FitArgs};
use crate::input::at;
use ordercal_io::nearest;

/// What is fitted if nobody says.
const DEFAULT_METHOD: &str = "auto";

/// Puts a method together: defaults, then the file, then the flags.
pub fn method(args: &FitArgs, common: &Common) -> Result<Method> {
    let file = args.config.as_deref().map(read).transpose()?;
    let key = key(args, file.as_ref())?;
    let chosen = args.method.is_some() || file.as_ref().is_some_and(|f| f.contains_key("method"));
    let mut method = Method::from_key(&key).map_err(|e| unknown_method(&key, &e))?;
    if args.keep_order {
        method = method.keep_order();
    }
    let Value::Object(mut table) = serde_json::to_value(&method)? else {
        bail!("the method `{key}` cannot be written as a table");
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
    set("--hidden", args.hidden.as_ref().map(|h| json!(h)))?;
    set("--lambda", args.lambda.map(|l| json!(l)))?;
    // The folds of `auto` are its own; for other methods they are those of the search.
    if defaults.contains_key("folds") {
        set("--folds", args.folds.map(|f| json!(f)))?;
    }
    // Every command takes a seed; a method without chance has no use for it.
    if defaults.contains_key("seed") {
        set("--seed", common.seed.map(|s| json!(s)))?;
    }
    let method = parse(&table)?;
    method.validate()?;
    Ok(method)
}

/// How hyperparameters are looked for, and what becomes of the folds.
pub fn search(args: &FitArgs, common: &Common) -> Search {
    let mut search = Search::default()
        .with_effort(args.search.into())
        .with_stratified(args.stratified);
    search.folds = args.folds;
    match common.seed {
        Some(seed) => search.with_seed(seed),
        None => search,
    }
}

/// The key from the flag or the file; two that differ are a mistake.
fn key(args: &FitArgs, file: Option<&Map<String, Value>>) -> Result<String> {
    let configured = file.and_then(|table| table.get("method"));
    let configured = match (configured, &args.config) {
        (Some(Value::String(key)), _) => Some(key.clone()),
        (Some(_), Some(path)) => return Err(at(path, "`method` must be a text")),
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
    toml::from_str(&text).map_err(|e| {
        let line = e
            .span()
            .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        at(path, format_args!("line {line}: {}", e.message()))
    })
}

fn parse(table: &Map<String, Value>) -> Result<Method> {
    serde_json::from_value(Value::Object(table.clone())).map_err(|e| {
        let message = e.to_string();
        anyhow!("{}", suggest(&message).unwrap_or(message))
    })
}

fn unknown_method(key: &str, error: &ordercal::Error) -> anyhow::Error {
    let all = Method::all();
    match nearest(key, all.iter().map(Method::key)) {
        Some(near) => anyhow!("--method: there is no method `{key}`; did you mean `{near}`?"),
        None => anyhow!("--method: {error}"),
    }
}

/// Turns serde's list of what would have been right into the one that was probably meant.
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
