//! A small SVG writer.

use ordercal::words::printable;

use crate::theme::Theme;

/// The font families; [`text_width`] is for the first.
const FONTS: &str = "'DejaVu Sans', Verdana, 'Segoe UI', system-ui, sans-serif";

/// The size of ordinary text.
pub(crate) const TEXT: f64 = 13.0;
/// The size of notes and axis labels.
pub(crate) const SMALL: f64 = 11.0;

/// A finished figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Svg {
    text: String,
    width: f64,
    height: f64,
}

impl Svg {
    /// The SVG document.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The width in pixels.
    pub fn width(&self) -> f64 {
        self.width
    }

    /// The height in pixels.
    pub fn height(&self) -> f64 {
        self.height
    }
}

/// An element with its attributes.
pub(crate) struct Tag {
    name: &'static str,
    text: String,
}

impl Tag {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            text: format!("<{name}"),
        }
    }

    pub(crate) fn attr(mut self, name: &str, value: &str) -> Self {
        self.text
            .push_str(&format!(" {name}=\"{}\"", escape(value)));
        self
    }

    pub(crate) fn num(mut self, name: &str, value: f64) -> Self {
        self.text
            .push_str(&format!(" {name}=\"{}\"", number(value)));
        self
    }

    pub(crate) fn nums<const N: usize>(self, attributes: [(&str, f64); N]) -> Self {
        let add = |tag: Self, (name, value)| tag.num(name, value);
        attributes.into_iter().fold(self, add)
    }

    fn empty(self) -> String {
        format!("{}/>\n", self.text)
    }

    fn around(self, content: &str) -> String {
        format!("{}>{content}</{}>\n", self.text, self.name)
    }
}

/// The alignment of text at its point.
pub(crate) const START: &str = "start";
pub(crate) const MIDDLE: &str = "middle";
pub(crate) const END: &str = "end";

/// An unfinished figure.
pub(crate) struct Canvas {
    pub(crate) theme: Theme,
    width: f64,
    height: f64,
    title: String,
    body: String,
}

impl Canvas {
    /// An empty figure; the title is also its accessible name.
    pub(crate) fn new(theme: Theme, width: f64, height: f64, title: &str) -> Self {
        Self {
            theme,
            width,
            height,
            title: title.to_owned(),
            body: String::new(),
        }
    }

    pub(crate) fn add(&mut self, tag: Tag) {
        self.body.push_str(&tag.empty());
    }

    /// Adds an element with a tooltip.
    pub(crate) fn add_with_tooltip(&mut self, tag: Tag, tip: &str) {
        let title = format!("<title>{}</title>", escape(tip));
        self.body.push_str(&tag.around(&title));
    }

    /// Adds an element that says the numbers of a bin: a page shows them when it is pointed at or focused.
    pub(crate) fn add_bin(&mut self, tag: Tag, tip: &str) {
        self.add_with_tooltip(tag.attr("class", "bin"), tip);
    }

    /// Adds what `draw` draws inside an element.
    pub(crate) fn group(&mut self, open: Tag, draw: impl FnOnce(&mut Self)) {
        let outside = std::mem::take(&mut self.body);
        draw(self);
        let inside = std::mem::replace(&mut self.body, outside);
        self.body.push_str(&open.around(&format!("\n{inside}")));
    }

    /// A part of the noise floor.
    pub(crate) fn noise(&mut self, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let tag = rect((x, y), (width, height.max(0.5)))
            .attr("class", "noise")
            .attr("fill", self.theme.muted)
            .attr("fill-opacity", "0.2");
        self.add(tag);
    }

    pub(crate) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
        self.add(rect((x, y), (width, height)).attr("fill", fill));
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        let tag = line(from, to).attr("stroke", stroke);
        self.add(tag.num("stroke-width", width));
    }

    pub(crate) fn text(&mut self, at: (f64, f64), anchor: &str, fill: &str, size: f64, text: &str) {
        let tag = text_tag(at, anchor, fill, size).attr("font-weight", "400");
        self.body.push_str(&tag.around(&escape(text)));
    }

    /// A heading, which begins at a point.
    pub(crate) fn strong(&mut self, at: (f64, f64), text: &str) {
        let tag = text_tag(at, START, self.theme.ink, TEXT).attr("font-weight", "700");
        self.body.push_str(&tag.around(&escape(text)));
    }

    /// Text rotated to read upwards, centred at a point.
    pub(crate) fn upright(&mut self, (x, y): (f64, f64), fill: &str, text: &str) {
        let turn = format!("rotate(-90 {} {})", number(x), number(y));
        let tag = text_tag((x, y), MIDDLE, fill, TEXT).attr("transform", &turn);
        self.body.push_str(&tag.around(&escape(text)));
    }

    pub(crate) fn finish(self) -> Svg {
        let (width, height) = (number(self.width), number(self.height));
        let title = escape(&self.title);
        let behind = rect((0.0, 0.0), (self.width, self.height))
            .attr("fill", self.theme.background)
            .empty();
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\" \
             font-family=\"{FONTS}\">\n<title>{title}</title>\n{behind}{}</svg>\n",
            self.body
        );
        Svg {
            text,
            width: self.width,
            height: self.height,
        }
    }
}

pub(crate) fn rect((x, y): (f64, f64), (width, height): (f64, f64)) -> Tag {
    Tag::new("rect").nums([("x", x), ("y", y), ("width", width), ("height", height)])
}

pub(crate) fn line(from: (f64, f64), to: (f64, f64)) -> Tag {
    Tag::new("line").nums([("x1", from.0), ("y1", from.1), ("x2", to.0), ("y2", to.1)])
}

/// A line through points.
pub(crate) fn path(points: impl IntoIterator<Item = (f64, f64)>) -> Tag {
    let mut d = String::new();
    for (place, (x, y)) in points.into_iter().enumerate() {
        let command = if place == 0 { 'M' } else { 'L' };
        d.push_str(&format!("{command}{} {}", number(x), number(y)));
    }
    Tag::new("path").attr("d", &d)
}

fn text_tag(at: (f64, f64), anchor: &str, fill: &str, size: f64) -> Tag {
    Tag::new("text")
        .nums([("x", at.0), ("y", at.1), ("font-size", size)])
        .attr("fill", fill)
        .attr("text-anchor", anchor)
}

/// An upper estimate of the width of text.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | '|' | '\'' | '.' | ',' | ':' | ';' | ' ' | 'I' => 0.34,
        'f' | 'r' | 't' | '(' | ')' | '-' | '/' => 0.41,
        'm' | 'w' | 'M' | 'W' | '%' | '+' | '=' | '→' => 0.98,
        c if c.is_uppercase() => 0.74,
        _ => 0.645,
    };
    text.chars().map(em).sum::<f64>() * size
}

/// A number with at most two decimals, which are hundredths of a pixel.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".into()
    } else {
        text.into()
    }
}

/// Escapes text for XML, and replaces control characters, which XML does not allow.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c => escaped.push(printable(c)),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_text_is_harmless() {
        assert_eq!(number(1.0), "1");
        assert_eq!(number(-0.001), "0");
        assert_eq!(number(100.0), "100");
        assert_eq!(number(2.346), "2.35");
        assert_eq!(
            escape("a<b & \"c\"\u{1}"),
            "a&lt;b &amp; &quot;c&quot;\u{fffd}"
        );
    }

    #[test]
    fn a_document_carries_its_title_and_its_size() {
        let mut canvas = Canvas::new(Theme::LIGHT, 20.0, 10.5, "a > b");
        canvas.text((1.0, 2.0), END, "#000", TEXT, "x & y");
        let svg = canvas.finish();
        assert!(svg.as_str().starts_with("<svg xmlns="));
        assert!(svg.as_str().contains("viewBox=\"0 0 20 10.5\""));
        assert!(svg.as_str().contains("<title>a &gt; b</title>"));
        assert!(svg.as_str().contains(">x &amp; y</text>"));
        assert!(svg.as_str().ends_with("</svg>\n"));
    }
}
