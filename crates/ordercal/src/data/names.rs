//! Class names: which column of one side is which class of the other.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::words;

/// For each class of `known`, the column of `columns` with its name; `None` if the two are the same list.
///
/// Position k of the result is the column that holds class k of `known`.
///
/// # Errors
/// [`Error::ClassNamesDiffer`] if the two do not hold the same names; `owner` says whose `known` are, as in
/// "the model". [`Error::InvalidArgument`] if a name repeats.
pub fn match_class_names(
    columns: &[String],
    known: &[String],
    owner: &'static str,
) -> Result<Option<Vec<usize>>> {
    let places = places(columns)?;
    let known_places = self::places(known)?;
    let only_columns: Vec<&String> = (columns.iter())
        .filter(|name| !known_places.contains_key(name.as_str()))
        .collect();
    let only_known: Vec<&String> = (known.iter())
        .filter(|name| !places.contains_key(name.as_str()))
        .collect();
    if !only_columns.is_empty() || !only_known.is_empty() {
        return Err(Error::ClassNamesDiffer {
            owner,
            columns: with_those_alone(columns, &only_columns).into(),
            known: with_those_alone(known, &only_known).into(),
        });
    }
    let order: Vec<usize> = known.iter().map(|name| places[name.as_str()]).collect();
    let same = order.iter().enumerate().all(|(k, &column)| k == column);
    Ok((!same).then_some(order))
}

fn places(names: &[String]) -> Result<HashMap<&str, usize>> {
    let mut places = HashMap::with_capacity(names.len());
    for (place, name) in names.iter().enumerate() {
        if places.insert(name.as_str(), place).is_some() {
            return Err(Error::InvalidArgument {
                argument: "class names",
                found: format!("`{}` twice", printable(name)),
                expected: "a name of its own for each class",
            });
        }
    }
    Ok(places)
}

/// The names, and those of them that the other side does not have.
fn with_those_alone(names: &[String], alone: &[&String]) -> String {
    let all = listed(names.iter());
    match alone.len() {
        0 => all,
        _ => format!("{all} (only there: {})", listed(alone.iter().copied())),
    }
}

fn listed<'a>(mut names: impl ExactSizeIterator<Item = &'a String>) -> String {
    const SHOWN: usize = 8;
    let count = names.len();
    if count == 0 {
        return "none".to_owned();
    }
    let shown: Vec<String> = (names.by_ref().take(SHOWN))
        .map(|name| format!("`{}`", printable(name)))
        .collect();
    match count.saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A name without control characters, and not too long.
fn printable(name: &str) -> String {
    const LONGEST: usize = 60;
    name.chars().take(LONGEST).map(words::printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn different_names_are_an_error_with_both_lists() {
        let (columns, known) = (names(&["a", "b", "c"]), names(&["c", "b", "d"]));
        let error = match_class_names(&columns, &known, "the model").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the classes of the scores are `a`, `b`, `c` (only there: `a`), but those of the model are `c`, `b`, `d` \
             (only there: `d`); rename the columns, or leave their names out to go by position"
        );
        // A name too few.
        assert!(match_class_names(&columns, &names(&["a", "b"]), "the model").is_err());
        let twice = match_class_names(&names(&["a", "a"]), &names(&["a", "b"]), "the model");
        assert!(matches!(twice, Err(Error::InvalidArgument { .. })));
    }

    #[test]
    fn long_lists_and_control_characters_stay_readable() {
        let many: Vec<String> = (0..1000).map(|i| format!("c{i}\n")).collect();
        let error = match_class_names(&many, &names(&["x", "y"]), "the model").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("and 992 more") && !text.contains('\n'),
            "{text}"
        );
    }
}
