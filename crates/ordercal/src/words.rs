//! Words of messages.

use std::fmt::Display;

/// A number with its noun: `1 row`, `2 rows`.
///
/// ```
/// use ordercal::words::count;
///
/// assert_eq!(count(1, "class", "classes"), "1 class");
/// assert_eq!(count(0, "class", "classes"), "0 classes");
/// ```
pub fn count<N: Display + PartialEq + From<u8>>(number: N, one: &str, several: &str) -> String {
    let noun = if number == N::from(1) { one } else { several };
    format!("{number} {noun}")
}
