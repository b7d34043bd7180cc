//! Words of messages.

use std::fmt::Display;

/// A number with its noun: `1 row`, `2 rows`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, one: &str, several: &str) -> String {
    let noun = if number == N::from(1) { one } else { several };
    format!("{number} {noun}")
}

/// A character of a name or text of unknown origin as it is shown: characters that control a terminal, break a line or
/// turn the direction of writing are replaced.
pub fn printable(c: char) -> char {
    let controls = c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{fffe}' | '\u{ffff}');
    if controls { '\u{fffd}' } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_follow_their_number() {
        assert_eq!(count(1, "class", "classes"), "1 class");
        assert_eq!(count(0, "class", "classes"), "0 classes");
    }

    #[test]
    fn what_controls_a_terminal_is_replaced() {
        let shown: String = "cat\u{1b}[31m\u{202e}".chars().map(printable).collect();
        assert_eq!(shown, "cat\u{fffd}[31m\u{fffd}");
    }
}
