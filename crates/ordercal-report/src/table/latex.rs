//! Tables as LaTeX, in the paper's layout: a row for each dataset, ranks as subscripts, the best in bold.

use super::{Table, TableRow};

/// The table as a LaTeX `table*` with `booktabs` rules.
pub fn to_latex(table: &Table) -> String {
    // As in the paper, a rule separates the order-preserving methods from the free ones.
    let groups = table.groups().into_iter();
    let columns: Vec<String> = groups.map(|(_, group)| "c".repeat(group.len())).collect();
    let order = table.order();
    let caption = format!(
        "{}. Subscripts are ranks; the best is bold{}; in parentheses the change of accuracy of free methods.",
        escape(&table.title),
        if table.has_marks() {
            ", a star marks values that do not differ significantly from it (paired bootstrap, 95\\%)"
        } else {
            ""
        }
    );
    let mut text = format!(
        "\\begin{{table*}}[t]\n  \\centering\n  \\caption{{{caption}}}\n  \
         \\begin{{tabular}}{{l|{}}}\n    \\toprule\n    {}",
        columns.join("|"),
        escape(&capital(table.corner)),
    );
    for &method in &order {
        text.push_str(&format!(" & {}", escape(&table.columns[method].method)));
    }
    text.push_str(" \\\\\n    \\midrule\n");
    for row in &table.rows {
        text.push_str(&line(row, &order));
    }
    if let Some(average) = &table.average {
        text.push_str("    \\midrule\n");
        text.push_str(&line(average, &order));
    }
    text.push_str("    \\bottomrule\n  \\end{tabular}\n\\end{table*}\n");
    text
}

fn line(row: &TableRow, order: &[usize]) -> String {
    let mut text = format!("    {}", escape(&capital(&row.name)));
    for &method in order {
        let cell = &row.cells[method];
        let number = match cell.number(row.decimals).as_str() {
            "∞" => "\\infty".to_owned(),
            "–" => "\\text{--}".to_owned(),
            number => number.to_owned(),
        };
        let number = cell.marked(number, ("\\mathbf{", "}"));
        let mark = if cell.close { "^{*}" } else { "" };
        let note = cell.note.as_ref().map_or(String::new(), |note| {
            format!("\\,({})", note.replace('%', "\\%").replace('±', "\\pm"))
        });
        text.push_str(&format!(" & ${number}_{{{}}}{mark}{note}$", cell.rank));
    }
    text.push_str(" \\\\\n");
    text
}

/// Capitalises the headings of this crate; names of datasets and metrics are left unchanged.
fn capital(name: &str) -> String {
    let own = ["average relative error", "average relative value"];
    if own.contains(&name) || ["dataset", "metric"].contains(&name) {
        return name[..1].to_ascii_uppercase() + &name[1..];
    }
    name.to_owned()
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '\\' => escaped.push_str("\\textbackslash{}"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::small;
    use ordercal::metrics::Metric;

    #[test]
    fn the_table_is_the_papers() {
        let text = to_latex(&Table::of_metric(&small(), Metric::Ece));
        assert!(text.contains("\\begin{tabular}{l|cc|c}"), "{text}");
        assert!(
            text.contains("    Dataset & uncalibrated & ts & vs \\\\"),
            "{text}"
        );
        let row = "    first\\_set & $0.1000_{3}$ & $0.0500_{2}$ & $\\mathbf{0.0400}_{1}\\,(+1.0\\%)$ \\\\";
        assert!(text.contains(row), "{text}");
        let last =
            "    Average relative error & $1.000_{3}$ & $\\mathbf{0.300}_{1}$ & $0.950_{2}$ \\\\";
        assert!(text.contains(last), "{text}");
        assert_eq!(escape("a_b%\\"), "a\\_b\\%\\textbackslash{}");
        // Every brace is closed, and every row has as many cells as the head.
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        let cells = |l: &&str| l.matches(" & ").count();
        let rows: Vec<&str> = text.lines().filter(|l| l.ends_with("\\\\")).collect();
        assert!(rows.iter().all(|row| cells(row) == cells(&rows[0])));
    }
}
