//! Tables as Markdown: a row for each method, the best in bold.

use super::{Table, text::subscript};

/// The table as GitHub-flavoured Markdown.
pub fn to_markdown(table: &Table) -> String {
    let mut text = format!("### {}\n\n| method | keeps order |", escape(&table.title));
    for row in table.all_rows() {
        text.push_str(&format!(" {} |", escape(&row.name)));
    }
    text.push_str("\n|---|---|");
    text.push_str(&"--:|".repeat(table.all_rows().count()));
    text.push('\n');
    for method in table.order() {
        let column = &table.columns[method];
        let kept = match column.order_preserving {
            true => "yes",
            false => "**no**",
        };
        text.push_str(&format!("| `{}` | {kept} |", column.method));
        for row in table.all_rows() {
            let cell = &row.cells[method];
            let number = cell.marked(cell.number(row.decimals), ("**", "**"));
            let mark = if cell.close { "\\*" } else { "" };
            let (rank, note) = (subscript(cell.rank), cell.note());
            text.push_str(&format!(" {number}{rank}{mark}{note} |"));
        }
        text.push('\n');
    }
    for note in table.notes() {
        text.push_str(&format!("\n{}\n", escape(note)));
    }
    text
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if matches!(c, '|' | '\\' | '`' | '*' | '_' | '<' | '[' | ']') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::small;
    use ordercal::metrics::Metric;

    #[test]
    fn rows_have_as_many_cells_as_the_head() {
        let text = to_markdown(&Table::of_metric(&small(), Metric::Ece));
        assert!(
            text.contains("| `ts` | yes | 0.0500₂ | **0.0200**₁ | **0.300**₁ |"),
            "{text}"
        );
        assert!(
            text.contains("| `vs` | **no** | **0.0400**₁ (+1.0%) | 0.3000₃ (-1.0%) | 0.950₂ |"),
            "{text}"
        );
        assert!(text.contains("first\\_set"));
        let bars = |line: &&str| line.matches('|').count();
        let lines: Vec<&str> = text.lines().filter(|l| l.starts_with('|')).collect();
        assert!(lines.iter().all(|line| bars(line) == bars(&lines[0])));
    }
}
