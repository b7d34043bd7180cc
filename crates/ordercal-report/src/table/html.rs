//! Tables as plain HTML, for notebooks.

use super::{MARK_NOTE, Table, TableRow};
use crate::svg::escape;

/// The table as one `<table>`: ranks as subscripts, the best in bold, the order-preserving methods first.
pub fn to_html(table: &Table) -> String {
    let order = table.order();
    let mut text = format!(
        "<table>\n<caption>{}</caption>\n<thead><tr><th>{}</th>",
        escape(&table.title),
        escape(table.corner)
    );
    for &method in &order {
        let name = escape(&table.columns[method].method);
        text.push_str(&format!("<th>{name}</th>"));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in table.all_rows() {
        text.push_str(&line(row, &order));
    }
    text.push_str("</tbody>\n</table>\n");
    if table.has_marks() {
        text.push_str(&format!("<p>{}</p>\n", escape(MARK_NOTE)));
    }
    text
}

fn line(row: &TableRow, order: &[usize]) -> String {
    let mut text = format!("<tr><th>{}</th>", escape(&row.name));
    for &method in order {
        let cell = &row.cells[method];
        let number = cell.marked(escape(&cell.number(row.decimals)), ("<b>", "</b>"));
        let mark = if cell.close { "*" } else { "" };
        let (rank, note) = (cell.rank, escape(&cell.note()));
        text.push_str(&format!("<td>{number}<sub>{rank}</sub>{mark}{note}</td>"));
    }
    text.push_str("</tr>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::small;
    use ordercal::metrics::Metric;

    #[test]
    fn cells_have_numbers_ranks_and_notes_and_names_are_escaped() {
        let mut table = Table::of_metric(&small(), Metric::Ece);
        table.columns[2].method = "<vs>".to_owned();
        table.rows[0].cells[1].close = true;
        let text = to_html(&table);
        assert!(
            text.contains("<th>uncalibrated</th><th>ts</th><th>&lt;vs&gt;</th>"),
            "{text}"
        );
        assert!(
            text.contains("<th>first_set</th>") && text.contains("<b>"),
            "{text}"
        );
        assert!(text.contains("<sub>2</sub>*</td>"), "{text}");
        assert!(text.contains("not significantly different"), "{text}");
        assert_eq!(text.matches("<tr>").count(), 4, "{text}");
    }
}
