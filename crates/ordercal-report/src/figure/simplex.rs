//! The probability simplex of three classes: how a map moves distributions.

use super::rows;
use crate::chart::polygon;
use crate::error::{Error, Result};
use crate::svg::{Canvas, END, MIDDLE, SMALL, START, Svg, TEXT, Tag, line};
use crate::theme::Theme;

const WIDTH: f64 = 560.0;
/// The triangle: the x of its left corner, the y of its base, and its side.
const LEFT: f64 = 50.0;
const BASE: f64 = 486.0;
const SIDE: f64 = WIDTH - 2.0 * LEFT;

/// A distribution over three classes before and after a map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrow {
    /// Before.
    pub from: [f64; 3],
    /// After.
    pub to: [f64; 3],
}

/// A map of distributions over three classes as arrows; the background shows the six regions of equal order.
#[derive(Debug, Clone, PartialEq)]
pub struct SimplexFigure {
    /// The title.
    pub title: String,
    /// The names of the three classes.
    pub classes: [String; 3],
    /// The arrows.
    pub arrows: Vec<Arrow>,
    /// The number of rows in each region, in the order of [`region_of`].
    pub counts: Option<[u64; 6]>,
}

/// The orders of three classes, largest first, in their order around the triangle.
const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [1, 0, 2],
    [1, 2, 0],
    [2, 1, 0],
    [2, 0, 1],
    [0, 2, 1],
];

/// The index of the region of a distribution or of logits; of equal values the first counts as larger.
pub fn region_of(values: [f64; 3]) -> usize {
    let mut order = [0, 1, 2];
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    ORDERS
        .iter()
        .position(|o| *o == order)
        .expect("all orders are listed")
}

impl SimplexFigure {
    /// Evenly spaced distributions inside the triangle, `steps` along each side.
    pub fn grid(steps: usize) -> Vec<[f64; 3]> {
        let share = |i: usize| (i as f64 + 1.0 / 3.0) / steps as f64;
        let mut points = Vec::new();
        for i in 0..steps {
            for j in 0..steps - i {
                points.push([share(i), share(j), 1.0 - share(i) - share(j)]);
            }
        }
        points
    }

    /// Draws it.
    ///
    /// # Errors
    /// [`Error::Empty`] if there are no arrows.
    pub fn draw(&self, theme: Theme) -> Result<Svg> {
        if self.arrows.is_empty() {
            return Err(Error::Empty);
        }
        let mut canvas = Canvas::new(theme, WIDTH, BASE + 74.0, &self.title);
        canvas.strong((20.0, 24.0), &self.title);
        for (region, order) in ORDERS.iter().enumerate() {
            let corners = corners_of(order);
            let tag = polygon(&corners).attr("fill", theme.regions[region]);
            let names = order.map(|class| self.classes[class].as_str());
            let mut tip = names.join(" > ");
            if let Some(counts) = &self.counts {
                tip.push_str(&format!(": {}", rows(counts[region])));
            }
            canvas.add_with_tooltip(tag, &tip);
        }
        let whole = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(place);
        let outline = polygon(&whole)
            .attr("fill", "none")
            .attr("stroke", theme.muted);
        canvas.add(outline);
        for arrow in &self.arrows {
            draw_arrow(&mut canvas, arrow);
        }
        if let Some(counts) = &self.counts {
            for (order, count) in ORDERS.iter().zip(counts) {
                number_region(&mut canvas, order, *count);
            }
        }
        let ink = theme.ink;
        let [a, b, c] = &self.classes;
        canvas.text((whole[0].0, whole[0].1 - 9.0), MIDDLE, ink, TEXT, a);
        canvas.text((whole[1].0, BASE + 20.0), MIDDLE, ink, TEXT, b);
        canvas.text((whole[2].0, BASE + 20.0), MIDDLE, ink, TEXT, c);
        let note = match self.counts {
            Some(counts) => format!(
                "each colour is one order of the classes; counts of {}",
                rows(counts.iter().sum())
            ),
            None => {
                "each colour is one order of the classes; arrows point from before to after".into()
            }
        };
        let at = (WIDTH / 2.0, BASE + 52.0);
        canvas.text(at, MIDDLE, theme.muted, SMALL, &note);
        Ok(canvas.finish())
    }
}

/// The position of a distribution: class 0 at the top, 1 on the left, 2 on the right.
fn place(p: [f64; 3]) -> (f64, f64) {
    let height = SIDE * 0.75_f64.sqrt();
    (LEFT + SIDE * (p[2] + p[0] / 2.0), BASE - height * p[0])
}

/// The corners of a region: a corner of the triangle, the middle of a side, and the centre.
fn corners_of(order: &[usize; 3]) -> [(f64, f64); 3] {
    let mut corner = [0.0; 3];
    corner[order[0]] = 1.0;
    let mut side = [0.0; 3];
    side[order[0]] = 0.5;
    side[order[1]] = 0.5;
    [corner, side, [1.0 / 3.0; 3]].map(place)
}

fn number_region(canvas: &mut Canvas, order: &[usize; 3], count: u64) {
    // Outside the triangle, beside the middle of the region's outer edge.
    let mut edge = [0.0; 3];
    edge[order[0]] = 0.74;
    edge[order[1]] = 0.26;
    let (x, y) = place(edge);
    let (cx, cy) = place([1.0 / 3.0; 3]);
    let away = ((x - cx).powi(2) + (y - cy).powi(2)).sqrt();
    let at = (x + 20.0 * (x - cx) / away, y + 16.0 * (y - cy) / away + 4.0);
    let anchor = match (x - cx) / away {
        direction if direction > 0.5 => START,
        direction if direction < -0.5 => END,
        _ => MIDDLE,
    };
    // Below the base the counts are in line with the names of the corners.
    let at = if order[2] == 0 { (x, BASE + 20.0) } else { at };
    let anchor = if order[2] == 0 { MIDDLE } else { anchor };
    let muted = canvas.theme.muted;
    canvas.text(at, anchor, muted, SMALL, &count.to_string());
}

fn draw_arrow(canvas: &mut Canvas, arrow: &Arrow) {
    let ink = canvas.theme.ink;
    let (from, to) = (place(arrow.from), place(arrow.to));
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = (dx * dx + dy * dy).sqrt();
    let shares = |p: [f64; 3]| p.map(|v| format!("{v:.3}")).join(", ");
    let tip = format!("({}) → ({})", shares(arrow.from), shares(arrow.to));
    let dot = Tag::new("circle").nums([("cx", from.0), ("cy", from.1), ("r", 1.6)]);
    canvas.add_with_tooltip(dot.attr("fill", ink), &tip);
    if length < 2.5 {
        return;
    }
    let shaft = line(from, to).attr("stroke", ink).num("stroke-width", 1.1);
    canvas.add_with_tooltip(shaft, &tip);
    let (ux, uy) = (dx / length, dy / length);
    let head = length.min(6.0);
    let back = (to.0 - ux * head, to.1 - uy * head);
    let half = head * 0.42;
    let corners = [
        to,
        (back.0 - uy * half, back.1 + ux * half),
        (back.0 + uy * half, back.1 - ux * half),
    ];
    canvas.add_with_tooltip(polygon(&corners).attr("fill", ink), &tip);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_lies_inside_and_covers_all_regions() {
        let grid = SimplexFigure::grid(12);
        assert_eq!(grid.len(), 78);
        let mut seen = [0; 6];
        for point in grid {
            assert!(point.iter().all(|&p| p > 0.0), "{point:?}");
            assert!((point.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            seen[region_of(point)] += 1;
        }
        assert!(seen.iter().all(|&count| count >= 10), "{seen:?}");
    }

    #[test]
    fn regions_hold_the_points_of_their_order() {
        for (region, order) in ORDERS.iter().enumerate() {
            let mut p = [0.0; 3];
            for (value, &class) in [0.6, 0.3, 0.1].iter().zip(order) {
                p[class] = *value;
            }
            assert_eq!(region_of(p), region);
            // Inside the polygon: on the same side of all three edges.
            let at = place(p);
            let [a, b, c] = corners_of(order);
            let side = |p: (f64, f64), q: (f64, f64)| {
                (q.0 - p.0) * (at.1 - p.1) - (q.1 - p.1) * (at.0 - p.0) > 0.0
            };
            assert!(
                side(a, b) == side(b, c) && side(b, c) == side(c, a),
                "{order:?}"
            );
        }
    }
}
