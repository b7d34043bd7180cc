//! Line breaks for a terminal.

/// The widest line.
const WIDTH: usize = 80;

/// Breaks lines at spaces so that they have at most 80 columns; continued lines are indented.
pub fn wrap(text: &str, indent: usize) -> String {
    let wrapped = text.split('\n').map(|line| wrap_line(line, indent));
    wrapped.collect::<Vec<_>>().join("\n")
}

fn wrap_line(line: &str, indent: usize) -> String {
    let mut wrapped = String::new();
    let mut width = 0;
    for (place, word) in line.split(' ').enumerate() {
        let length = word.chars().count();
        if place > 0 && width + 1 + length > WIDTH {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            width = indent;
        } else if place > 0 {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(word);
        width += length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn long_lines_are_wrapped_and_short_ones_are_left_alone() {
        assert_eq!(wrap("\na b  c", 3), "\na b  c");
        let long = format!("  {}", "word ".repeat(40).trim_end());
        let wrapped = wrap(&long, 4);
        assert!(
            wrapped.lines().count() == 3 && wrapped.lines().all(|l| l.chars().count() <= 80),
            "{wrapped}"
        );
        assert!(wrapped.starts_with("  word"));
        assert_eq!(wrapped.split_whitespace().count(), 40);
        // A word that is too long stays whole.
        let path = "x".repeat(100);
        assert_eq!(wrap(&path, 3), path);
    }
}
